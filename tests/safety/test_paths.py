"""Paths in the metadata that leave the dataset: refused before any I/O, and never a reason to delete."""

import uuid
from datetime import timedelta

import pytest

import lance_ops as lo
from lance_ops.errors import (
    CorruptManifestError,
    FormatError,
    LanceOpsError,
    PathEscapeError,
    UnreadableIndexWarning,
)
from lance_ops.index.search.pruner import IndexPruner
from lance_ops.maintenance.metadata.actions import restore
from lance_ops.storage import open_store
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.fragment import ExternalFile
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.model import BasePath
from tests.safety.actions import Append, Compact, Create, CreateIndex, Delete, OptimizeIndices
from tests.safety.rows import make_rows, remainder
from tests.safety.states import read_rows

CLIMBING = (
    "../../victim/precious",
    "/etc/passwd",
    "a/../../../victim/precious",
    "..\\..\\victim",
    "x\0y",
    "",
)


@pytest.fixture
def table(tmp_path):
    """A dataset, and beside it a folder that is none of its business."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("do not touch")
    (victim / "precious.lance").write_text("do not touch")
    store = open_store(str(tmp_path / "nest" / "t.lance"), {"fsync": "false"})
    for action in (Create(count=8, rows_per_file=4), CreateIndex("id"), Delete(remainder(4, 1)), Append()):
        action.run(store)
    yield store
    assert {path.name: path.read_text() for path in victim.iterdir()} == {
        "precious": "do not touch",
        "precious.lance": "do not touch",
    }


def forge(store, **changes) -> None:
    """Change the newest manifest in place."""
    dataset = lo.Dataset.open(store)
    store.put(dataset.location.path, encode_manifest(dataset.manifest.replace(**changes)))


def with_first_file(store, **changes):
    dataset = lo.Dataset.open(store)
    first, *others = dataset.fragments
    (file,) = first.files
    values = {name: getattr(file, name) for name in file.__dataclass_fields__} | changes
    return (first.replace(files=(type(file)(**values),)), *others)


def compact_all(store) -> None:
    """Raise what kept a group from being compacted: others are committed all the same."""
    for failure in Compact(threshold=0.0).run(store).failed:
        raise LanceOpsError(str(failure))


def everything_that_reads(store):
    yield "read", lambda: lo.Dataset.open(store).to_table()
    yield "delete", lambda: lo.delete(store, "k = 1")
    yield "compact", lambda: compact_all(store)
    yield "rebuild", lambda: OptimizeIndices(rebuild=True).run(store)
    yield "index", lambda: CreateIndex("k").run(store)


@pytest.mark.parametrize("path", CLIMBING)
def test_a_data_file_outside_is_refused(table, path):
    forge(table, fragments=with_first_file(table, path=path))
    for name, operation in everything_that_reads(table):
        with pytest.raises(LanceOpsError) as caught:
            operation()
        assert "escape" in type(caught.value).__name__.lower() or "PathEscape" in str(caught.value), name
    assert not lo.fsck(table).ok
    check_cleanup_keeps_live_files(table)


@pytest.mark.parametrize("alias", ["./{}", "x/../{}", "//{}", "sub//../{}", "../data/{}", "{}/."])
def test_another_spelling_of_a_live_file_is_no_reason_to_remove_it(table, alias):
    live = lo.Dataset.open(table).fragments[0].files[0].path
    forge(table, fragments=with_first_file(table, path=alias.format(live)))
    with pytest.raises(PathEscapeError):
        lo.Dataset.open(table).to_table()
    check_cleanup_keeps_live_files(table)


def check_cleanup_keeps_live_files(store) -> None:
    """Cleanup refuses, as nobody can tell which file is meant."""
    before = {info.path for info in store.list("data")}
    with pytest.raises(FormatError):
        lo.cleanup(store, older_than=timedelta(0), delete_unverified=True)
    assert {info.path for info in store.list("data")} == before


@pytest.mark.parametrize("path", CLIMBING)
@pytest.mark.parametrize("name", ["row_ids", "created_at_versions", "last_updated_at_versions"])
def test_an_external_file_outside_is_refused(tmp_path, path, name):
    store = open_store(str(tmp_path / "t.lance"), {"fsync": "false"})
    Create(count=8, rows_per_file=4, stable_row_ids=True).run(store)
    first, *others = lo.Dataset.open(store).fragments
    forge(store, fragments=(first.replace(**{name: ExternalFile(path, 0, 100)}), *others))
    columns = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    with pytest.raises(LanceOpsError) as caught:
        lo.Dataset.open(store).to_table(columns)
    assert isinstance(caught.value, PathEscapeError)
    with pytest.raises(LanceOpsError, match="PathEscape"):
        Compact().run(store)


@pytest.mark.parametrize("path", ["../victim", "victim/..", "..", "relative/path", "../../etc"])
@pytest.mark.parametrize("is_root", [False, True])
def test_a_base_that_is_no_absolute_path_is_refused(table, path, is_root):
    bases = (BasePath(id=7, path=path, is_dataset_root=is_root),)
    forge(table, base_paths=bases, fragments=with_first_file(table, base_id=7))
    for name, operation in everything_that_reads(table):
        with pytest.raises(LanceOpsError) as caught:
            operation()
        assert "PathEscape" in f"{type(caught.value).__name__}: {caught.value}", name
    before = {info.path for info in table.list("")}
    with pytest.raises(LanceOpsError):
        lo.cleanup(table, older_than=timedelta(0), delete_unverified=True)
    assert {info.path for info in table.list("")} == before


def test_a_file_that_climbs_out_of_a_declared_base_is_refused(table, tmp_path):
    bases = (BasePath(id=7, path=str(tmp_path / "base"), is_dataset_root=True),)
    forge(
        table,
        base_paths=bases,
        fragments=with_first_file(table, base_id=7, path="../../victim/precious.lance"),
    )
    with pytest.raises(PathEscapeError):
        lo.Dataset.open(table).to_table()


def test_a_base_that_nobody_declared_is_an_error(table):
    forge(table, fragments=with_first_file(table, base_id=7))
    with pytest.raises(CorruptManifestError, match="7"):
        lo.Dataset.open(table).to_table()


@pytest.mark.parametrize("name", ["../../victim/precious", "/etc/passwd", "a/../../x.txn", "..", "x\0y"])
def test_a_transaction_file_outside_is_refused(table, name):
    expected = read_rows(lo.Dataset.open(table))
    forge(table, transaction=None, transaction_file=name)
    base = lo.Dataset.open(table).checkout_version(3)
    assert read_rows(lo.Dataset.open(table)) == expected
    for operation in (
        lambda: lo.Dataset.open(table).data_version,
        lambda: lo.Dataset.open(table).read_transaction(),
        lambda: restore(base, 1),
    ):
        with pytest.raises(LanceOpsError):
            operation()
    assert [entry.version for entry in lo.Dataset.open(table).history() if entry.damage] == [
        lo.Dataset.open(table).version
    ]
    before = {info.path for info in table.list("")}
    with pytest.raises(FormatError):
        lo.cleanup(table, older_than=timedelta(0))
    assert {info.path for info in table.list("")} == before
    # A version whose transaction is not to be had can still be built on: nothing has to be judged.
    Append(first=70, count=2).run(table)
    assert read_rows(lo.Dataset.open(table)) == expected + make_rows(70, 2)


@pytest.mark.parametrize("raw", [b"../../../victim/", b"", b"../x", b"\x00" * 17])
def test_an_index_whose_uuid_is_none_is_refused_or_is_no_path(table, monkeypatch, raw):
    """A UUID is 16 bytes that are written as hexadecimal digits, whatever text they spell."""
    real = IndexMetadata.to_proto

    def forged(self):
        message = real(self)
        message.uuid.uuid = raw
        return message

    with monkeypatch.context() as patch:
        patch.setattr(IndexMetadata, "to_proto", forged)
        forge(table)
    if len(raw) != 16:
        with pytest.raises(CorruptManifestError, match=r"(?i)uuid"):
            lo.Dataset.open(table)
        return
    dataset = lo.Dataset.open(table)
    assert dataset.indices[0].directory == f"_indices/{uuid.UUID(bytes=raw)}"
    # Without its files the index is of no use, and the rows are found by a scan.
    with pytest.warns(UnreadableIndexWarning):
        found = dataset.to_table(["id"], "id < 3", pruners=[IndexPruner()])["id"].to_pylist()
    assert found == [0, 2]
    assert not lo.fsck(table).ok
