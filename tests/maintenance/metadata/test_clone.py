"""Shallow clones: both libraries read and write them, and no cleanup of the source takes their files."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import DatasetExistsError, InvalidArgumentError, LanceOpsError, VersionNotFoundError
from lance_ops.maintenance.metadata.clone import CLONE_TAG, pin_clone, shallow_clone
from lance_ops.storage.memory import MemoryStore
from lance_ops.table.history.refs import list_tags
from tests.support.commands import lance_ops, lance_ops_json
from tests.support.faulty_store import FaultyStore
from tests.support.interop import our_dataset, rows, xs


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Version 5: three fragments, deleted rows, an index."""
    path = tmp_path / "source.lance"
    our_dataset(path, [10, 10, 10])
    lo.delete(path, "x % 10 = 3")
    lo.create_index(path, "x")
    return path


def expected(last: int = 30) -> list[int]:
    return [x for x in range(last) if x % 10 != 3]


def wreck(path: Path) -> None:
    """All that the source goes through later: nothing of the cloned version is left in the newest."""
    lo.write_dataset(rows(1000, 1010), path, mode="overwrite")


@pytest.mark.peer
def test_both_libraries_read_write_and_compact_a_clone(source: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone.lance"
    made = lo.shallow_clone(source, clone)
    assert made.version == 5
    assert xs(clone) == expected()
    assert made.count_rows("x = 14") == 1
    assert lo.fsck(clone, deep=True).ok
    lo.append(clone, rows(30, 40))
    lance.write_dataset(rows(40, 45), str(clone), mode="append")
    assert xs(clone) == [*expected(), *range(30, 45)]
    lo.delete(clone, "x = 0")
    lance.dataset(str(clone)).delete("x = 1")
    assert xs(clone) == [*expected()[2:], *range(30, 45)]
    lance.dataset(str(clone)).optimize.compact_files()
    assert sorted(xs(clone)) == [*expected()[2:], *range(30, 45)]
    assert xs(source) == expected()


@pytest.mark.peer
def test_it_is_what_the_peer_writes(source: Path, tmp_path: Path) -> None:
    lance.dataset(str(source)).shallow_clone(str(tmp_path / "theirs.lance"), 5)
    theirs = lo.dataset(tmp_path / "theirs.lance").manifest
    ours = lo.shallow_clone(source, tmp_path / "ours.lance").manifest
    assert ours.fragments == theirs.fragments
    assert ours.base_paths == theirs.base_paths
    assert (ours.version, ours.reader_flags, ours.writer_flags) == (
        theirs.version,
        theirs.reader_flags,
        theirs.writer_flags,
    )
    assert [index.base_id for index in ours.indices] == [index.base_id for index in theirs.indices]
    done = lo.dataset(tmp_path / "ours.lance").read_transaction().operation
    assert done == lo.dataset(tmp_path / "theirs.lance").read_transaction().operation


@pytest.mark.peer
@pytest.mark.parametrize("cleaner", ["ours", "peer"])
def test_no_cleanup_of_the_source_takes_its_files(source: Path, tmp_path: Path, cleaner: str) -> None:
    clone = tmp_path / "clone.lance"
    lo.shallow_clone(source, clone)
    wreck(source)
    if cleaner == "ours":
        assert lo.cleanup(source, retain_versions=1).versions_removed == 4
    else:
        lance.dataset(str(source)).cleanup_old_versions(
            older_than=timedelta(0), error_if_tagged_old_versions=False
        )
    assert xs(clone) == expected()
    (tag,) = list_tags(lo.dataset(source).store).values()
    assert tag.version == 5
    assert tag.metadata == {CLONE_TAG: str(clone)}
    lo.delete_tag(source, tag.name)
    lo.cleanup(source, retain_versions=1)
    with pytest.raises(LanceOpsError):
        lo.dataset(clone).to_table()


@pytest.mark.peer
@pytest.mark.parametrize("named_as", ["path", "uri", "link"])
def test_clones_of_others_keep_their_files_when_they_are_named(
    source: Path, tmp_path: Path, named_as: str
) -> None:
    clone = tmp_path / "clone.lance"
    origin = source
    if named_as == "link":
        (tmp_path / "link.lance").symlink_to(source)
        origin = tmp_path / "link.lance"
    lance.dataset(f"file://{origin}" if named_as == "uri" else str(origin)).shallow_clone(str(clone), 5)
    lo.delete(clone, "x = 0")
    second = tmp_path / "second.lance"
    lance.dataset(str(source)).shallow_clone(str(second), 2)
    wreck(source)
    plan = lo.cleanup(source, retain_versions=1, clones=[clone, second], dry_run=True)
    assert f"used by the clone {clone}" in plan.to_text(limit=None)
    lo.cleanup(source, retain_versions=1, clones=[clone, second])
    assert xs(clone) == expected()[1:]
    assert lo.fsck(clone, deep=True).ok
    assert xs(second) == list(range(20))


@pytest.mark.peer
def test_a_clone_of_a_clone_refers_to_both(source: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.lance", tmp_path / "second.lance"
    lo.shallow_clone(source, first)
    lo.append(first, rows(30, 40))
    lo.shallow_clone(first, second)
    assert xs(second) == [*expected(), *range(30, 40)]
    wreck(source)
    lo.cleanup(source, retain_versions=1)
    assert xs(second) == [*expected(), *range(30, 40)]


def test_the_plan_says_that_clones_cannot_be_seen(source: Path) -> None:
    plan = lo.cleanup(source, retain_versions=1, dry_run=True)
    assert "clones of this dataset cannot be found" in str(plan)
    assert "cannot be found" in str(plan.to_dict()["note"])


def test_a_named_clone_that_is_not_there_stops_the_cleanup(source: Path, tmp_path: Path) -> None:
    with pytest.raises(LanceOpsError, match="no dataset here"):
        lo.cleanup(source, retain_versions=1, clones=[tmp_path / "typo.lance"])
    assert len(lo.dataset(source).versions()) == 5


def test_a_version_or_tag_is_cloned_and_a_place_is_used_once(source: Path, tmp_path: Path) -> None:
    lo.create_tag(source, "two", 2)
    clone = tmp_path / "clone.lance"
    assert lo.shallow_clone(source, clone, "two").count_rows() == 20
    before = list_tags(lo.dataset(source).store)
    with pytest.raises(DatasetExistsError):
        lo.shallow_clone(source, clone, 3)
    with pytest.raises(DatasetExistsError):
        lo.shallow_clone(source, source)
    with pytest.raises(VersionNotFoundError):
        lo.shallow_clone(source, tmp_path / "other.lance", 99)
    assert list_tags(lo.dataset(source).store) == before
    assert not (tmp_path / "other.lance").exists()


def test_a_place_that_was_cleared_is_pinned_anew(source: Path) -> None:
    dataset = lo.dataset(source)
    name = pin_clone(dataset.checkout_version(2), "memory://gone")
    assert pin_clone(dataset, "memory://gone") == name
    assert dataset.tags[name].version == 5


def test_a_clone_that_fails_leaves_no_pin(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = FaultyStore(
        MemoryStore("memory://clones/failing"), lambda call: call.name == "put", mode="error", times=1
    )
    monkeypatch.setattr("lance_ops.maintenance.metadata.clone.open_store", lambda uri, options: failing)
    with pytest.raises(LanceOpsError, match="injected"):
        shallow_clone(str(source), "memory://clones/failing")
    assert list_tags(lo.dataset(source).store) == {}


def test_the_command(source: Path, tmp_path: Path) -> None:
    values = lance_ops_json("clone", source, tmp_path / "clone.lance", "--version", "2")
    assert values == {"operation": "clone", "uri": str(tmp_path / "clone.lance"), "version": 2}
    assert "starts as version 5" in lance_ops("clone", source, tmp_path / "newest.lance").output
    wreck(source)
    lance_ops("cleanup", source, "--retain", "1", "--clones", tmp_path / "clone.lance")
    assert (
        lo.dataset(tmp_path / "newest.lance")
        .to_table(columns=["x"])
        .equals(pa.table({"x": pa.array(expected(), pa.int64())}))
    )


@pytest.mark.parametrize("folder", ["data", "_indices/x", "_fri", "tree", "_refs/tags/x", "_lance_ops"])
@pytest.mark.parametrize("make", [lo.shallow_clone, lo.deep_clone])
@pytest.mark.parametrize("by_link", [False, True])
def test_a_clone_within_the_folders_of_its_source_is_refused(
    tmp_path: Path, folder: str, make: Callable[[Path, Path], object], by_link: bool
) -> None:
    source = tmp_path / "source.lance"
    lo.write_dataset(pa.table({"x": [1]}), source)
    place = source / folder
    if by_link:
        (tmp_path / "link").symlink_to(source, target_is_directory=True)
        place = tmp_path / "link" / folder
    before = sorted(source.rglob("*"))
    with pytest.raises(InvalidArgumentError, match="within the files of its source"):
        make(source, place)
    assert sorted(source.rglob("*")) == before
    assert lo.dataset(source).tags == {}
