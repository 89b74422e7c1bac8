"""Tables whose manifests give wrong numbers or none, as releases before 0.8.15 left them."""

import json
import struct
from pathlib import Path

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError, TaskFailedError, UnsupportedError, UnsupportedVersionError
from tests.support.commands import lance_ops
from tests.support.interop import rows
from tests.support.wire import manifest_position, manifests

pytestmark = pytest.mark.peer


def age(uri, *, counts, release="0.8.0"):
    """Make all manifests of a dataset such as old releases wrote them.

    Args:
        uri: The dataset.
        counts: What becomes of numbers of rows: "wrong", "missing" or "right".
        release: Of the writer; None for one that named none.
    """
    for path, message in manifests(Path(uri)).items():
        message.ClearField("data_format")
        message.ClearField("writer_version")
        if release is not None:
            message.writer_version.library, message.writer_version.version = "lance", release
        for fragment in message.fragments:
            if counts == "wrong":
                fragment.physical_rows -= 10
            if counts == "missing":
                fragment.physical_rows = 0
                fragment.deletion_file.num_deleted_rows = 0
                if not fragment.deletion_file.id:
                    fragment.ClearField("deletion_file")
        data = path.read_bytes()
        body = message.SerializeToString()
        start = manifest_position(data)
        path.write_bytes(data[:start] + struct.pack("<I", len(body)) + body + data[-16:])


@pytest.fixture
def uri(tmp_path):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 100), uri, data_storage_version="0.1", max_rows_per_file=50)
    lance.dataset(uri).delete("x % 25 < 2")
    return uri


STATES = pytest.mark.parametrize(
    ("counts", "release"), [("wrong", "0.8.0"), ("wrong", None), ("missing", "0.7.5"), ("missing", None)]
)


@STATES
def test_counts_are_those_of_the_files(uri, counts, release):
    age(uri, counts=counts, release=release)
    dataset = lo.dataset(uri)
    assert dataset.count_rows() == 92
    if (counts, release) != ("wrong", "0.8.0"):
        # The peer takes the number of any release that names itself.
        assert lance.dataset(uri).count_rows() == 92
    assert dataset.to_table().num_rows == 92
    assert dataset.to_table(columns=["x"]).equals(lance.dataset(uri).to_table(columns=["x"]))
    assert dataset.take([91], ["x"])["x"].to_pylist() == [99]
    assert dataset.to_table(columns=["x"], offset=90)["x"].to_pylist() == [98, 99]
    assert [(e.size.rows, e.size.deleted_rows) for e in dataset.history()] == [(92, 8), (100, 0)]
    assert [fragment.num_rows for fragment in dataset.fragments] == [46, 46]


@STATES
def test_fsck_holds_the_manifest_against_the_files_without_being_asked_to_be_thorough(uri, counts, release):
    age(uri, counts=counts, release=release)
    found = lo.fsck(uri)
    assert "rows_match" in found.checks
    assert found.ok is (counts == "missing")
    if counts == "wrong":
        assert "the manifest records 40 rows for fragment 0 instead of 50" in str(found)
        assert "dataset.delete('false')" in str(found)


def test_sound_counts_of_that_age_are_sound(uri):
    age(uri, counts="right")
    assert lo.fsck(uri, deep=True).ok


@STATES
def test_what_cannot_be_counted_is_said_and_not_made_up(uri, counts, release):
    age(uri, counts=counts, release=release)
    (path, *_) = Path(uri, "data").iterdir()
    path.unlink()
    assert [(e.size.rows, e.size.deleted_rows) for e in lo.dataset(uri).history()] == [(None, None)] * 2
    assert "unknown" in lance_ops("history", uri).output
    assert json.loads(lance_ops("history", uri, "--json").output)["versions"][0]["size"]["rows"] is None
    with pytest.raises(LanceOpsError):
        lo.dataset(uri).count_rows()
    for deep in (False, True):
        found = lo.fsck(uri, deep=deep)
        assert not found.ok
        assert path.name in str(found)


@STATES
@pytest.mark.parametrize(
    "change",
    [
        lambda uri: lo.delete(uri, "x = 30"),
        lambda uri: lo.delete(uri, "x = 30", dry_run=True),
        lambda uri: lo.create_index(uri, "x"),
        lo.optimize_indices,
        lo.compact,
        lambda uri: lo.append(uri, rows(0, 1)),
    ],
    ids=["delete", "delete dry", "index", "optimize", "compact", "append"],
)
def test_refusals_come_before_any_task_runs(uri, counts, release, change):
    age(uri, counts=counts, release=release)
    before = {path for path in Path(uri).rglob("*") if path.is_file()}

    with pytest.raises(UnsupportedError, match=r"older than 0\.8\.15") as caught:
        change(uri)
    assert not isinstance(caught.value, TaskFailedError)
    assert caught.value.hint
    assert {path for path in Path(uri).rglob("*") if path.is_file()} == before


def test_the_way_out_that_the_error_names_works(uri):
    age(uri, counts="wrong", release=None)
    lance.dataset(uri).delete("false")
    assert lo.fsck(uri, deep=True).ok
    lo.delete(uri, "x = 30")
    assert lo.dataset(uri).count_rows() == lance.dataset(uri).count_rows() == 91


def test_the_storage_version_is_never_empty(uri):
    age(uri, counts="right", release="0.9.0")
    assert lo.dataset(uri).data_storage_version == lance.dataset(uri).data_storage_version == "0.1"
    with pytest.raises(UnsupportedVersionError, match=r"storage version 0\.1"):
        lo.append(uri, rows(0, 1))


def test_a_version_that_contradicts_all_files_is_that_of_the_files(tmp_path):
    """Release 0.16 called tables of 2.0 such of 0.1."""
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 10), uri, data_storage_version="2.0")
    for path, message in manifests(Path(uri)).items():
        message.data_format.version = "0.1"
        data, body = path.read_bytes(), message.SerializeToString()
        start = manifest_position(data)
        path.write_bytes(data[:start] + struct.pack("<I", len(body)) + body + data[-16:])
    assert lo.dataset(uri).data_storage_version == "2.0"
    lo.append(uri, rows(10, 12))
    assert lance.dataset(uri).data_storage_version == "2.0"
    assert lance.dataset(uri).to_table()["x"].to_pylist() == list(range(12))
