"""Deep clones need nothing but themselves, and are what the peer makes."""

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import DatasetExistsError, FileMissingError, VersionNotFoundError
from lance_ops.storage import open_store
from lance_ops.table.history.pins import list_pins


def rows(start: int, stop: int) -> pa.Table:
    blobs = pa.array([bytes([n]) * 200_000 for n in range(start, stop)], pa.large_binary())
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    return pa.table(
        [pa.array(range(start, stop), pa.int64()), blobs],
        schema=pa.schema([pa.field("x", pa.int64()), field]),
    )


def xs(dataset: Path) -> list[int]:
    found = lo.dataset(dataset).to_table(["x"])["x"].to_pylist()
    theirs = lance.dataset(str(dataset))
    theirs.validate()
    assert found == theirs.to_table(["x"])["x"].to_pylist()
    return sorted(found)


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def source(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A shallow clone with files of its own and of its source, deleted rows in both, and an index."""
    origin, path = tmp_path / "origin.lance", tmp_path / "source.lance"
    lo.write_dataset(rows(0, 6), origin, max_rows_per_file=3, enable_stable_row_ids=request.param)
    lo.delete(origin, "x = 1")
    lo.create_index(origin, "x", "BTREE")
    lo.shallow_clone(origin, path)
    lo.append(path, rows(6, 9))
    lo.delete(path, "x in (4, 7)")
    return path


@pytest.mark.peer
def test_a_clone_stands_when_its_source_is_gone(source: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone.lance"
    made = lo.deep_clone(source, clone)
    assert (made.version, made.manifest.base_paths) == (lo.dataset(source).version, ())
    shutil.rmtree(source)
    shutil.rmtree(tmp_path / "origin.lance")
    assert xs(clone) == [0, 2, 3, 5, 6, 8]
    assert lo.fsck(clone, deep=True).ok
    assert "BTREE" in str(lo.dataset(clone).explain(filter="x = 3"))
    assert lo.dataset(clone).count_rows("x = 3") == lance.dataset(str(clone)).count_rows("x = 3") == 1
    lo.append(clone, rows(9, 10))
    lance.dataset(str(clone)).delete("x = 0")
    lo.compact(clone)
    assert lo.cleanup(clone, retain_versions=1).complete
    assert xs(clone) == [2, 3, 5, 6, 8, 9]


@pytest.mark.peer
def test_it_is_what_the_peer_makes(source: Path, tmp_path: Path) -> None:
    version = lo.dataset(source).version
    lance.dataset(str(source)).deep_clone(str(tmp_path / "theirs.lance"), version)
    ours = lo.deep_clone(source, tmp_path / "ours.lance", version)
    theirs = lo.dataset(tmp_path / "theirs.lance")

    def files(path: Path) -> set[str]:
        folders = ("data", "_deletions", "_indices")
        return {
            str(file.relative_to(path))
            for folder in folders
            for file in (path / folder).rglob("*")
            if file.is_file()
        }

    assert files(tmp_path / "ours.lance") == files(tmp_path / "theirs.lance")
    assert ours.manifest.fragments == theirs.manifest.fragments
    assert [index.base_id for index in ours.indices] == [index.base_id for index in theirs.indices]
    assert ours.read_transaction().operation == theirs.read_transaction().operation


def test_a_branch_becomes_a_dataset(source: Path, tmp_path: Path) -> None:
    branch = lo.create_branch(source, "side")
    lo.append(branch, rows(20, 21))
    made = lo.deep_clone(source, tmp_path / "clone.lance", ("side", None))
    assert made.branch is None
    assert 20 in xs(tmp_path / "clone.lance")


def test_refusals_leave_nothing_behind(source: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetExistsError):
        lo.deep_clone(source, tmp_path / "origin.lance")
    with pytest.raises(VersionNotFoundError):
        lo.deep_clone(source, tmp_path / "clone.lance", 99)
    next((source / "data").glob("*.lance")).unlink()
    with pytest.raises(FileMissingError):
        lo.deep_clone(source, tmp_path / "clone.lance")
    assert list_pins(open_store(source)) == []
    assert not (tmp_path / "clone.lance" / "_versions").exists()
