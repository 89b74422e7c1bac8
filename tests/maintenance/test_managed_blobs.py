"""Tables with the flag of managed blobs: read and written as by pylance 14, which keeps the flag."""

from pathlib import Path

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError
from tests.support.managed_blobs import FLAG, SIZE, blobs, set_flag, write_managed
from tests.support.wire import edit_manifest, manifests

pytestmark = pytest.mark.peer


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
    lo.compact(uri, strategy="rows")
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


@pytest.fixture(params=[("root", 1), ("root", 0), ("flat", 7), ("elsewhere", 3)], ids=str)
def managed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Two fragments of managed blobs, which pylance 14 reads and does not write."""
    place, base_id = request.param
    uri = tmp_path / "t.lance"
    base = tmp_path / "other" if place == "elsewhere" else uri
    for start, name in ((0, "a"), (3, "b")):
        options = {"base": base, "base_id": base_id, "is_root": place != "flat"}
        write_managed(uri, blobs(start, 3), f"_blobs/{name}.blob", **options)
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
    lo.compact(managed, strategy="rows")
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
