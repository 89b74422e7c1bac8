"""Deleting rows that are named by their ids, addresses or versions."""

from pathlib import Path

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import CommitConflictError, PredicateError, RetryableCommitConflictError
from lance_ops.maintenance.delete.operation import find_matches
from lance_ops.maintenance.delete.plan import plan_delete
from lance_ops.maintenance.runner import LocalRunner
from tests.support.engine import delete_planned
from tests.support.interop import rows


def make(path: Path, *, stable: bool) -> Path:
    lo.write_dataset(rows(0, 5), path, enable_stable_row_ids=stable)
    lo.append(path, rows(5, 10))
    lo.append(path, rows(10, 15))
    lo.delete(path, "x = 1")
    return path


def xs(path: Path) -> list[int]:
    return lo.dataset(path).to_table()["x"].to_pylist()


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize(
    "predicate",
    [
        "_rowid = 3",
        "_rowaddr = 3",
        "_rowid IN (0, 1, 7, 4294967298)",
        "_rowaddr = 4294967297 AND x > 0",
        "_rowid >= 4294967296 OR x = 0",
        "_rowaddr < 4294967300 AND _rowid % 2 = 0",
        "_rowid IS NULL",
    ],
)
def test_rows_go_that_the_peer_would_delete(tmp_path: Path, predicate: str, stable: bool) -> None:
    ours, theirs = make(tmp_path / "ours", stable=stable), make(tmp_path / "theirs", stable=stable)
    if stable:
        # Ids and addresses part ways.
        for path in (ours, theirs):
            lo.compact(path, max_source_fragments=2)
    lance.dataset(theirs).delete(predicate)
    found = lo.dataset(ours).count_rows(predicate)
    plan = lo.delete(ours, predicate, dry_run=True)
    assert plan.rows_matched == found
    assert lo.delete(ours, predicate).rows_deleted == found
    assert sorted(xs(ours)) == sorted(lance.dataset(theirs).to_table()["x"].to_pylist())
    lance.dataset(ours).validate()


@pytest.mark.peer
def test_rows_are_deleted_by_their_versions_where_these_are_recorded(tmp_path: Path) -> None:
    path = make(tmp_path / "t", stable=True)
    lo.delete(path, "_row_created_at_version = 2")
    assert xs(path) == [0, 2, 3, 4, *range(10, 15)]


@pytest.mark.parametrize("name", ["_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"])
def test_columns_that_say_nothing_lasting_of_a_row_are_refused(tmp_path: Path, name: str) -> None:
    path = make(tmp_path / "t", stable=False)
    with pytest.raises(PredicateError, match=name):
        lo.delete(path, f"{name} = 1")


@pytest.mark.parametrize("also_deleted", [False, True])
def test_a_delete_by_address_does_not_lose_its_row_to_a_compaction(
    tmp_path: Path, also_deleted: bool
) -> None:
    path = make(tmp_path / "t", stable=False)
    (x,) = lo.dataset(path).to_table(["x"], filter="_rowid = 3")["x"].to_pylist()
    done = []

    class Compacting(LocalRunner):
        def map(self, function, tasks, **options):
            found = super().map(function, tasks, **options)
            if not done:
                done.append(lo.delete(path, f"x = {x}") if also_deleted else None)
                done.append(lo.compact(path))
            return found

    if not also_deleted:
        # It is found where the compaction put it.
        assert lo.delete(path, "_rowid = 3", runner=Compacting(1)).rows_deleted == 1
    else:
        # It is gone, and the address may be that of another row now.
        with pytest.raises(CommitConflictError, match="may have moved") as raised:
            lo.delete(path, "_rowid = 3", runner=Compacting(1))
        assert not isinstance(raised.value, RetryableCommitConflictError)
    assert xs(path) == [item for item in [0, 2, 3, 4, *range(5, 15)] if item != x]


def test_deletes_by_stable_id_find_their_rows_after_a_compaction(tmp_path: Path) -> None:
    path = make(tmp_path / "t", stable=True)
    done = []

    class Compacting(LocalRunner):
        def map(self, function, tasks, **options):
            found = super().map(function, tasks, **options)
            if not done:
                done.append(lo.compact(path))
            return found

    assert lo.delete(path, "_rowid = 3", runner=Compacting(1)).rows_deleted == 1
    assert 3 not in xs(path)


def test_deletes_by_address_merge_with_others_of_the_same_fragment(tmp_path: Path) -> None:
    path = make(tmp_path / "t", stable=False)
    dataset = lo.dataset(path)
    plan = find_matches(plan_delete(dataset, "_rowaddr = 3"), LocalRunner(1))
    lo.delete(path, "x = 4")
    assert delete_planned(dataset, plan).rows_deleted == 1
    assert xs(path) == [0, 2, *range(5, 15)]
