"""Tables with the flag of managed blobs: read and written as by pylance 14, which keeps the flag."""

from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import UnsupportedError
from lance_ops.file.v2_1.blob import write_v2
from lance_ops.maintenance.fsck.findings import Severity
from tests.support.wire import edit_manifest, manifests

pytestmark = pytest.mark.peer

FLAG = 16384
SIZE = 100_000


def blobs(start: int, count: int) -> pa.Table:
    schema = pa.schema([pa.field("i", pa.int64()), lance.blob_field("b")])
    values = [None if number == 2 else bytes([number]) * SIZE for number in range(start, start + count)]
    return pa.table({"i": range(start, start + count), "b": lance.blob_array(values)}, schema=schema)


def set_flag(uri: Path) -> None:
    def change(manifest):
        manifest.reader_feature_flags |= FLAG
        manifest.writer_feature_flags |= FLAG

    edit_manifest(uri, change)


def check(uri: Path, numbers: list[int]) -> None:
    """Both libraries read these rows, and the flag is set for readers and writers alike."""
    expected = [None if number == 2 else bytes([number]) * SIZE for number in numbers]
    ours = lo.dataset(uri).to_table()
    assert ours["i"].to_pylist() == numbers
    assert [None if row is None else row["data"] for row in ours["b"].to_pylist()] == expected
    theirs = lance.dataset(str(uri)).to_table(blob_handling="all_binary")
    assert theirs["i"].to_pylist() == numbers
    assert theirs["b"].to_pylist() == expected
    assert lo.dataset(uri).count_rows() == len(numbers)
    newest = max(manifests(uri).values(), key=lambda manifest: manifest.version)
    assert newest.reader_feature_flags & FLAG == newest.writer_feature_flags & FLAG == FLAG


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    """Made by the peer; the second version has the flag, the first has not."""
    uri = tmp_path / "t.lance"
    lance.write_dataset(blobs(0, 3), str(uri), data_storage_version="2.2")
    lance.write_dataset(blobs(3, 2), str(uri), mode="append")
    set_flag(uri)
    return uri


def test_both_libraries_write_in_turns_and_the_flag_stays(uri: Path) -> None:
    check(uri, [0, 1, 2, 3, 4])
    lo.append(uri, blobs(5, 2))
    check(uri, [0, 1, 2, 3, 4, 5, 6])
    lance.dataset(str(uri)).delete("i = 1")
    lo.delete(uri, "i = 5")
    check(uri, [0, 2, 3, 4, 6])
    lo.compact(uri)
    check(uri, [0, 2, 3, 4, 6])
    lance.write_dataset(blobs(7, 2), str(uri), mode="append")
    lance.dataset(str(uri)).optimize.compact_files()
    lo.create_index(uri, "i")
    check(uri, [0, 2, 3, 4, 6, 7, 8])
    assert lo.measure_health(lo.dataset(uri)).rows == 7
    assert len(lo.dataset(uri).history()) == lo.dataset(uri).version
    assert lo.fsck(uri, deep=True).findings == ()
    # Also over a version from before the flag, and where no blob is left.
    lo.restore(uri, 1)
    check(uri, [0, 1, 2])
    lo.write_dataset(blobs(9, 1), uri, mode="overwrite")
    check(uri, [9])


@pytest.mark.parametrize("unverified", [False, True])
def test_cleanup_keeps_every_side_file_that_a_managed_blob_may_name(uri: Path, unverified: bool) -> None:
    lo.compact(uri)
    sides = sorted((uri / "data").rglob("*.blob"))
    result = lo.cleanup(uri, older_than=timedelta(0), retain_versions=1, delete_unverified=unverified)
    assert result.data_files_removed == 2
    assert sorted((uri / "data").rglob("*.blob")) == sides
    check(uri, [0, 1, 2, 3, 4])


def test_a_managed_blob_is_refused_by_name_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No library that is installed writes one, so a descriptor is made to say that it is one."""
    uri = tmp_path / "t.lance"
    monkeypatch.setattr(write_v2, "PACKED", 4)
    for number in range(2):
        lo.write_dataset(
            blobs(number, 1), uri, mode="append" if number else "create", data_storage_version="2.2"
        )
    monkeypatch.undo()
    set_flag(uri)
    files = sorted(path for path in (uri / "data").rglob("*") if path.is_file())
    dataset = lo.dataset(uri)
    assert dataset.count_rows() == 2
    assert dataset.to_table(["i"])["i"].to_pylist() == [0, 1]
    assert lo.measure_health(dataset).rows == 2
    for read in (dataset.to_table, lambda: lo.compact(uri), lambda: lo.deep_clone(uri, tmp_path / "c.lance")):
        with pytest.raises(UnsupportedError, match="managed blobs"):
            read()
    findings = lo.fsck(uri).findings
    assert {finding.severity for finding in findings} == {Severity.WARNING}
    assert "managed blobs" in findings[0].message
    lo.delete(uri, "i = 0")
    lo.cleanup(uri, older_than=timedelta(0), retain_versions=1, delete_unverified=True)
    assert [path for path in files if path.suffix == ".blob"] == sorted((uri / "data").rglob("*.blob"))
    assert lo.dataset(uri).to_table(["i"])["i"].to_pylist() == [1]
