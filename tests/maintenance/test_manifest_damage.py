"""Manifests that contradict themselves or their files: fsck names it, reads refuse it, commits keep it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import (
    CleanupRefusedError,
    CorruptManifestError,
    InvalidArgumentError,
    LanceOpsError,
)
from lance_ops.maintenance.metadata.actions import restore
from lance_ops.table.manifest.listing import is_detached
from lance_ops.table.manifest.row_ids import encode_row_ids
from tests.support.interop import rows, xs
from tests.support.wire import edit_manifest

pytestmark = pytest.mark.peer


@dataclass(frozen=True)
class Damage:
    """One field of a manifest that says something else than it did.

    Attributes:
        name: What fsck has to call it.
        change: Makes it.
        lost: Columns that cannot be read any more; empty when the table cannot be opened.
        is_stable: Of a table with stable row ids.
        deep: Only a deep check finds it.
    """

    name: str
    change: Callable
    lost: tuple[str, ...] = ()
    is_stable: bool = False
    deep: bool = False


def first_file(change):
    return lambda manifest: change(manifest.fragments[0].files[0])


def set_item(attribute, position, value):
    return first_file(lambda file: getattr(file, attribute).__setitem__(position, value))


def shorter(file):
    del file.column_indices[-1]


def without_ids(manifest):
    manifest.fragments[0].ClearField("inline_row_ids")


def external_ids(size, name="row_ids"):
    def change(manifest):
        external = getattr(manifest.fragments[0], f"external_{name}")
        external.path, external.offset, external.size = "gone.bin", 0, size

    return change


def of_version(major, minor, flags=0):
    def change(manifest):
        manifest.fragments[0].files[0].file_major_version = major
        manifest.fragments[0].files[0].file_minor_version = minor
        manifest.reader_feature_flags = manifest.writer_feature_flags = flags

    return change


def spilled(*files):
    """Row ids that lie in some of the data files, or say so."""

    def change(manifest):
        fragment = manifest.fragments[0]
        fragment.spilled_row_ids.SetInParent()
        for column in files:
            fragment.files[0].fields.append(-3)
            fragment.files[0].column_indices.append(column)

    return change


EVERY = ("x", "s", "f", "_rowid")

DAMAGES = {
    "two fields on one column": Damage("column 0", set_item("column_indices", 1, 0), ("x", "s", "f")),
    "one field twice": Damage("field 0 of the file twice", set_item("fields", 1, 0), ("x", "s", "f")),
    "no field id": Damage("unknown field", set_item("fields", 1, -1), ("s",)),
    "fewer columns than fields": Damage("3 fields and 2 columns", first_file(shorter), ("x", "s", "f")),
    "more columns than fields": Damage(
        "3 fields and 4 columns", first_file(lambda file: file.column_indices.append(3)), ("x", "s", "f")
    ),
    "a file of another version": Damage("has version 2.1", of_version(2, 1)),
    "a legacy file among others": Damage("has version 0.1", of_version(0, 2, flags=256)),
    "stable ids and a fragment without": Damage("no row ids", without_ids, is_stable=True),
    "ids in a file that is gone": Damage("row_ids", external_ids(9), ("_rowid",), is_stable=True),
    "versions in a file that is gone": Damage(
        "created_at_versions",
        external_ids(9, "created_at_versions"),
        ("_row_created_at_version",),
        is_stable=True,
    ),
    "spilled ids that no file has": Damage("no data files", spilled(), ("_rowid",), is_stable=True),
    "spilled ids in a column twice": Damage("column 0", spilled(0), EVERY, is_stable=True),
}


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


def make(uri, damage):
    lo.write_dataset(
        rows(0, 40),
        uri,
        data_storage_version="2.2",
        max_rows_per_file=20,
        enable_stable_row_ids=damage.is_stable,
    )
    edit_manifest(uri, damage.change)


def findings(uri, **options):
    """What fsck says, also of a head that does not open."""
    found = lo.fsck(uri, **options)
    assert not found.ok
    return str(found)


@pytest.mark.parametrize("name", DAMAGES)
def test_fsck_names_it(uri, name):
    damage = DAMAGES[name]
    make(uri, damage)
    for deep in (False, True):
        found = findings(uri, deep=deep)
        assert damage.name in found
        assert "is sound" not in found


@pytest.mark.parametrize("name", DAMAGES)
def test_reads_refuse_what_is_lost_and_only_that(uri, name):
    damage = DAMAGES[name]
    make(uri, damage)
    if not damage.lost:
        with pytest.raises(CorruptManifestError, match="manifest"):
            lo.dataset(uri)
        return
    dataset = lo.dataset(uri)
    expected = rows(0, 40)
    for column in (*expected.column_names, "_rowid", "_row_created_at_version"):
        if column in damage.lost:
            with pytest.raises(LanceOpsError) as caught:
                dataset.to_table(columns=[column])
            assert caught.value.path
            with pytest.raises(LanceOpsError):
                dataset.take([0], [column])
            # The other fragment has nothing wrong with it.
            assert dataset.to_table(columns=[column], fragments=[1]).num_rows == 20
        elif column in expected.column_names:
            assert dataset.to_table(columns=[column])[column].to_pylist() == expected[column].to_pylist()


@pytest.mark.parametrize("name", DAMAGES)
def test_commits_refuse_it_or_leave_it_as_it_is(uri, name):
    """Nothing that was there before is lost or becomes readable as something else."""
    damage = DAMAGES[name]
    make(uri, damage)
    files = {path.name for path in Path(uri, "data").iterdir()}
    for attempt in (
        lambda: lo.append(uri, rows(40, 45)),
        lambda: lo.delete(uri, "x = 25"),
        lambda: lo.delete(uri, "x = 5"),
        lambda: lo.compact(uri),
        lambda: lo.update_config(uri, {"a": "b"}),
    ):
        try:
            attempt()
        except LanceOpsError:
            continue
        assert damage.lost, "a table that cannot be opened was changed"
        dataset = lo.dataset(uri)
        assert damage.name in findings(uri)
        for column in damage.lost:
            with pytest.raises(LanceOpsError):
                dataset.to_table(columns=[column], fragments=[0])
    assert files <= {path.name for path in Path(uri, "data").iterdir()}


@pytest.mark.parametrize("name", ["a file of another version", "stable ids and a fragment without"])
def test_the_peer_refuses_what_we_do_not_open(uri, name):
    make(uri, DAMAGES[name])
    with pytest.raises(ValueError, match=r"version 2\.1|row ids"):
        lance.dataset(uri)


def test_the_writer_flag_alone_does_not_make_row_ids_stable(uri):
    """As with the peer, which drops it. New rows with ids beside old ones without would close the table."""
    lo.write_dataset(rows(0, 20), uri)
    edit_manifest(uri, lambda manifest: setattr(manifest, "writer_feature_flags", 2))
    lo.append(uri, rows(20, 30))
    manifest = lo.dataset(uri).manifest
    assert (manifest.reader_flags, manifest.writer_flags) == (0, 0)
    assert lance.dataset(uri).to_table(with_row_id=True).equals(lo.dataset(uri).to_table(with_row_id=True))


def test_row_ids_without_the_flag_are_not_carried_into_a_version_that_nobody_opens(uri):
    lo.write_dataset(rows(0, 20), uri, enable_stable_row_ids=True)

    def unflag(manifest):
        manifest.reader_feature_flags = manifest.writer_feature_flags = 0

    edit_manifest(uri, unflag)
    with pytest.raises(CorruptManifestError, match="no row ids"):
        lo.append(uri, rows(20, 30))
    assert lo.dataset(uri).count_rows() == lance.dataset(uri).count_rows() == 20


@pytest.mark.parametrize(("real", "said"), [("2.0", 2), ("2.1", 0), ("2.2", 1)])
def test_a_deep_check_notes_files_of_another_version_than_recorded(uri, real, said):
    """Both sides believe the footers, so that no row is lost; a migration goes by what is recorded."""
    lo.write_dataset(rows(0, 20), uri, data_storage_version=real)
    assert not lo.fsck(uri, deep=True).findings
    edit_manifest(uri, of_version(2, said, flags=256))
    (finding,) = lo.fsck(uri, deep=True).findings
    assert f"a file has version {real}, the manifest records 2.{said}" in finding.message
    assert lo.dataset(uri).to_table()["x"].to_pylist() == list(range(20))


def test_external_row_ids_that_are_there_are_sound_until_the_file_is_cut(uri):
    lo.write_dataset(rows(0, 20), uri, enable_stable_row_ids=True)
    ids = encode_row_ids(range(100, 120))
    edit_manifest(uri, external_ids(len(ids)))
    edit_manifest(uri, lambda manifest: setattr(manifest, "next_row_id", 120))
    Path(uri, "gone.bin").write_bytes(ids)
    assert lo.fsck(uri, deep=True).ok
    assert lo.dataset(uri).to_table(["_rowid"])["_rowid"].to_pylist() == list(range(100, 120))
    Path(uri, "gone.bin").write_bytes(ids[:-1])
    assert "expected at least" in str(lo.fsck(uri))


def test_a_detached_version_is_not_restored(uri):
    lo.write_dataset(rows(0, 5), uri)
    more = lance.write_dataset(rows(5, 9), uri, mode="append")
    detached = lance.LanceDataset.commit(
        more, lance.LanceOperation.Delete([], [1], "x >= 5"), read_version=2, detached=True
    )
    assert is_detached(detached.version)
    with pytest.raises(InvalidArgumentError, match="detached"):
        restore(uri, detached.version)
    assert lo.dataset(uri).version == 2


@pytest.mark.parametrize("name", DAMAGES)
def test_the_version_before_is_not_cleaned_away_and_can_be_restored(uri, name):
    damage = DAMAGES[name]
    lo.write_dataset(rows(0, 40), uri, max_rows_per_file=20, enable_stable_row_ids=damage.is_stable)
    lo.update_config(uri, {"a": "b"})
    edit_manifest(uri, damage.change)
    with pytest.raises(CleanupRefusedError):
        lo.cleanup(uri, older_than=timedelta(0), retain_versions=1)
    restore(uri, 1)
    assert lo.fsck(uri, deep=True).ok
    assert xs(uri) == list(range(40))
