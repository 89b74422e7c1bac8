"""Tables with the flag of managed blobs: read and written as by pylance 14, which keeps the flag."""

import contextlib
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CleanupRefusedError, LanceOpsError, UnsupportedError
from lance_ops.file.v2_1.blob import write_v2
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
    assert lance.dataset(str(uri)).to_table(["i"])["i"].to_pylist() == numbers
    # pylance 14 looks for managed objects below the root of the dataset, whatever base they name.
    if not (uri.parent / "other").exists():
        theirs = lance.dataset(str(uri)).to_table(blob_handling="all_binary")
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


@pytest.mark.parametrize("managed_clone", [False, True])
def test_cleanup_keeps_every_side_file_that_a_managed_blob_of_a_clone_may_name(
    tmp_path: Path, managed_clone: bool
) -> None:
    source, clone = tmp_path / "s.lance", tmp_path / "c.lance"
    lo.write_dataset(blobs(0, 3), source, data_storage_version="2.2")
    lo.append(source, blobs(3, 2))
    lo.compact(source)
    lo.shallow_clone(source, clone)
    if managed_clone:
        set_flag(clone)
    sides = sorted((source / "data").rglob("*.blob"))
    options = {"older_than": timedelta(0), "retain_versions": 1, "delete_unverified": True}
    lo.cleanup(source, clones=[str(clone)], **options)
    assert (sorted((source / "data").rglob("*.blob")) == sides) == managed_clone


@pytest.fixture(params=[("root", 1), ("root", 0), ("flat", 7), ("elsewhere", 3)], ids=str)
def managed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two fragments of managed blobs, which pylance 14 reads and does not write."""
    place, base_id = request.param
    uri = tmp_path / "t.lance"
    base = tmp_path / "other" if place == "elsewhere" else uri
    write = write_v2.BlobV2Writer.write
    names = iter(["_blobs/a.blob", "_blobs/b.blob"])

    def rewritten(self, array):
        found, name = write(self, array), next(names)
        columns = [
            pa.array([4] * len(found), pa.uint8()),
            found.field(1),
            found.field(2),
            pa.array([base_id] * len(found), pa.uint32()),
            pa.array([name] * len(found)),
        ]
        return pa.StructArray.from_arrays(columns, fields=list(found.type), mask=found.is_null())

    monkeypatch.setattr(write_v2.BlobV2Writer, "write", rewritten)
    for start, mode, name in ((0, "create", "a"), (3, "append", "b")):
        lo.write_dataset(blobs(start, 3), uri, mode=mode, data_storage_version="2.2")
        (side,) = (uri / "data").rglob("*.blob")
        (base / "_blobs").mkdir(parents=True, exist_ok=True)
        side.rename(base / "_blobs" / f"{name}.blob")
    monkeypatch.undo()
    set_flag(uri)

    def bind(manifest):
        manifest.base_paths.add(id=base_id, path=str(base), is_dataset_root=place != "flat")
        manifest.reader_feature_flags |= 16
        manifest.writer_feature_flags |= 16

    edit_manifest(uri, bind)
    return uri


def test_managed_blobs_are_read_and_rewritten_by_value(managed: Path) -> None:
    check(managed, [0, 1, 2, 3, 4, 5])
    dataset = lo.dataset(managed)
    assert dataset.to_table(filter="i = 4")["b"].to_pylist()[0]["data"] == bytes([4]) * SIZE
    assert dataset.take([5, 1])["b"].to_pylist()[1]["data"] == bytes([1]) * SIZE
    assert dataset.count_rows("b IS NULL") == 1
    batches = list(dataset.to_batches(["b"], batch_size=2))
    assert sum(batch.num_rows for batch in batches) == 6
    assert lo.fsck(managed, deep=True).findings == ()
    lo.delete(managed, "i = 0")
    lo.append(managed, blobs(6, 1))
    check(managed, [1, 2, 3, 4, 5, 6])
    lo.compact(managed)
    check(managed, [1, 2, 3, 4, 5, 6])
    lance.dataset(str(managed)).update({"i": "i + 0"}, where="i = 3")
    assert lo.fsck(managed, deep=True).findings == ()


@pytest.mark.parametrize("damage", ["gone", "cut", "outside", "unbound"])
def test_damage_of_managed_blobs_is_an_error_and_found(managed: Path, damage: str) -> None:
    (file,) = managed.parent.rglob("b.blob")
    if damage == "gone":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "outside":
        data = b"_blobs/b.blob"
        for path in (managed / "data").glob("*.lance"):
            path.write_bytes(path.read_bytes().replace(data, b"../lobs/b.blo"))
    else:
        edit_manifest(managed, lambda manifest: manifest.ClearField("base_paths"))
    assert not lo.fsck(managed).ok
    with pytest.raises(LanceOpsError):
        lo.dataset(managed).to_table()
    assert lo.dataset(managed).to_table(["i"]).num_rows == 6


def test_no_cleanup_or_copy_loses_managed_objects(managed: Path, tmp_path: Path) -> None:
    objects = set(tmp_path.rglob("*.blob"))
    with pytest.raises(UnsupportedError, match="managed blobs"):
        lo.deep_clone(managed, tmp_path / "c.lance")
    lo.append(managed, blobs(6, 1))
    with contextlib.suppress(CleanupRefusedError):
        lo.cleanup(managed, older_than=timedelta(0), retain_versions=1, delete_unverified=True)
    assert objects <= set(tmp_path.rglob("*.blob"))
    check(managed, [0, 1, 2, 3, 4, 5, 6])
