"""Folders of a table that are symbolic links out of it: nothing behind them is deleted, and results tell."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError, PathEscapeError
from lance_ops.storage import leads_out, open_store
from tests.support.faulty_store import FaultyStore

FOLDERS = ["data", "_indices", "_deletions", "_transactions", "_versions", "_refs", "tree", "_lance_ops"]


def make(path: Path) -> Path:
    """A table with files of all kinds, all of them older than the grace period of unused files."""
    uri = str(path)
    for number in range(3):
        lo.append(uri, pa.table({"x": range(10 * number, 10 * number + 10)}), job_key=f"job {number}")
    lo.create_index(uri, "x", "BTREE")
    lo.delete(uri, "x % 10 = 3")
    lo.create_tag(uri, "kept", 2)
    lo.create_branch(uri, "side")
    lo.delete(lo.dataset(uri, ("side", None)), "x = 7")
    lo.update(uri, {"x": "x"}, where="x = 1")
    old = time.time() - 30 * 86_400
    for file in files(path):
        os.utime(path / file, (old, old))
    return path


def files(path: Path) -> dict[str, int]:
    found = (file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.stat().st_size for file in found}


def link(mine: Path, victim: Path, folder: str) -> Path:
    """Replace a folder of a table by a link out of it, and return what it leads to.

    That is the same folder of another table, which gets the files of both; versions cannot be mixed.
    """
    moved = mine.parent / "moved"
    (mine / folder).rename(moved)
    target = moved if folder == "_versions" else victim / folder
    for file in files(moved) if target != moved else ():
        if not (target / file).exists():
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            (moved / file).rename(target / file)
    (mine / folder).symlink_to(target, target_is_directory=True)
    return target


OPERATIONS: dict[str, Callable[[str], object]] = {
    "cleanup": lambda uri: lo.cleanup(uri, retain_versions=1),
    "cleanup of all that is unused": lambda uri: lo.cleanup(uri, retain_versions=1, delete_unverified=True),
    "cleanup of a branch": lambda uri: lo.cleanup(
        lo.dataset(uri, ("side", None)), retain_versions=1, delete_unverified=True
    ),
    "automatic cleanup": lambda uri: lo.update_config(
        uri, {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}
    ),
    "compact": lambda uri: lo.compact(uri, job_key="compaction"),
    "restore": lambda uri: lo.restore(uri, 1),
    "delete a branch": lambda uri: lo.delete_branch(uri, "side"),
    "a failed append": lambda uri: lo.append(
        FaultyStore(open_store(uri), lambda call: call.path.endswith(".manifest"), mode="error", times=99),
        pa.table({"x": [1]}),
    ),
}


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_behind_a_link_that_leads_out_is_deleted(folder: str, tmp_path: Path) -> None:
    victim, mine = make(tmp_path / "victim.lance"), make(tmp_path / "mine.lance")
    target = link(mine, victim, folder)
    before = files(target)
    for name, operation in OPERATIONS.items():
        with contextlib.suppress(LanceOpsError):
            operation(str(mine))
        assert before.keys() <= files(target).keys(), name
        assert lo.dataset(str(mine)).count_rows() >= 0, name
    assert leads_out(open_store(mine), folder)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_cleanup_says_behind_which_folders_it_removes_nothing(
    folder: str, dry_run: bool, tmp_path: Path
) -> None:
    victim, mine = make(tmp_path / "victim.lance"), make(tmp_path / "mine.lance")
    rows = lo.dataset(str(mine)).count_rows()
    target = link(mine, victim, folder)
    before = files(target)
    result = lo.cleanup(str(mine), retain_versions=1, dry_run=dry_run)
    assert any("symbolic link" in note and note.startswith(folder) for note in result.notes)
    assert "symbolic link" in str(result)
    assert result.to_dict()["notes"] == list(result.notes)
    assert files(target) == before
    assert lo.dataset(str(mine)).to_table().num_rows == rows


def test_a_link_inside_the_table_is_cleaned_up_as_a_folder(tmp_path: Path) -> None:
    plain, linked = make(tmp_path / "plain.lance"), make(tmp_path / "linked.lance")
    for folder in ("data", "_indices", "_deletions", "_transactions", "_versions"):
        (linked / folder).rename(linked / f"own{folder}")
        (linked / folder).symlink_to(f"own{folder}", target_is_directory=True)
    results = [lo.cleanup(str(path), retain_versions=1) for path in (plain, linked)]
    assert results[0].transaction_files_removed == results[1].transaction_files_removed > 0
    assert results[0].versions_removed == results[1].versions_removed > 0
    assert results[1].notes == ()
    # A table may be reached by a link itself.
    (tmp_path / "again.lance").symlink_to(plain, target_is_directory=True)
    assert lo.cleanup(str(tmp_path / "again.lance")).notes == ()


@pytest.mark.parametrize("chain", [False, True])
def test_a_file_that_another_one_is_a_link_to_stays_as_long_as_that(chain: bool, tmp_path: Path) -> None:
    mine = tmp_path / "t.lance"
    table = pa.table({"x": range(100)})
    lo.write_dataset(table, mine)
    (file,) = (mine / "data").glob("*.lance")
    moved = file.with_name("moved.lance")
    file.rename(moved)
    if chain:
        file.with_name("between.lance").symlink_to(moved.name)
    file.symlink_to("between.lance" if chain else moved.name)
    kept = {path.name for path in (mine / "data").iterdir()}
    lo.cleanup(mine, retain_versions=1, delete_unverified=True)
    assert {path.name for path in (mine / "data").iterdir()} == kept
    assert lo.dataset(mine).to_table().equals(table)
    lo.write_dataset(table, mine, mode="overwrite")
    lo.cleanup(mine, retain_versions=1, delete_unverified=True)
    assert len(list((mine / "data").iterdir())) == 1
    assert lo.dataset(mine).to_table().equals(table)


def test_a_link_to_a_file_outside_stays_and_so_does_the_file(tmp_path: Path) -> None:
    mine, other = tmp_path / "t.lance", tmp_path / "other.lance"
    lo.write_dataset(pa.table({"x": [1]}), mine)
    (file,) = (mine / "data").glob("*.lance")
    file.rename(other)
    file.symlink_to(other)
    lo.write_dataset(pa.table({"x": [2]}), mine, mode="overwrite")
    lo.cleanup(mine, retain_versions=1, delete_unverified=True)
    assert other.exists()


def test_a_dataset_among_the_files_of_another_keeps_its_own(tmp_path: Path) -> None:
    inner = make(tmp_path / "data" / "inner.lance")
    before = files(inner)
    lo.write_dataset(pa.table({"x": [1]}), tmp_path)
    lo.write_dataset(pa.table({"x": [2]}), tmp_path, mode="overwrite")
    lo.cleanup(tmp_path, retain_versions=1)
    lo.cleanup(tmp_path, retain_versions=1, delete_unverified=True)
    assert files(inner) == before
    # Its own cleanup is free to.
    lo.cleanup(inner, retain_versions=1)
    assert len(files(inner)) < len(before)


@pytest.mark.parametrize("folder", ["data", "_versions", "_transactions", ""])
def test_a_branch_behind_a_link_is_not_deleted(folder: str, tmp_path: Path) -> None:
    victim, mine = make(tmp_path / "victim.lance"), make(tmp_path / "mine.lance")
    place = mine / "tree" / "side" / folder
    if place.exists():
        place.rename(tmp_path / "moved")
    place.symlink_to(victim / folder, target_is_directory=True)
    before = files(victim)
    with pytest.raises(PathEscapeError, match="symbolic links"):
        lo.delete_branch(str(mine), "side")
    assert files(victim) == before
    assert "side" in lo.dataset(str(mine)).branches
