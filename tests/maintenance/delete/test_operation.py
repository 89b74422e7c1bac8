import pickle
from datetime import timedelta

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import (
    IncompatibleCommitConflictError,
    InvalidArgumentError,
    PredicateError,
    RetryableCommitConflictError,
    TaskFailedError,
)
from lance_ops.index.search.pruner import IndexPruner
from lance_ops.maintenance.delete.operation import find_matches
from lance_ops.maintenance.delete.plan import find_rows, plan_delete
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan.pruner import Pruning
from tests.support.engine import delete_planned
from tests.support.interop import (
    data_files,
    fragment_sizes,
    our_dataset,
    peer_dataset,
    peer_table,
    rows,
    xs,
)

MAKERS = pytest.mark.parametrize("make", [our_dataset, peer_dataset], ids=["ours", "peers"])


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


def peer_delete(uri, predicate):
    lance.dataset(str(uri)).delete(predicate)


def search(uri, predicate, **options):
    ds = lo.dataset(uri)
    return ds, find_matches(plan_delete(ds, predicate, **options), lo.LocalRunner(1))


@pytest.mark.peer
@MAKERS
def test_matching_rows_are_gone_for_both_sides(uri, make):
    make(uri, [5, 5, 5])
    result = lo.delete(uri, "x >= 3 and x < 11")
    assert (result.rows_deleted, result.fragments_updated, result.fragments_removed) == (8, 2, 1)
    assert (result.read_version, result.version, result.predicate) == (3, 4, "x >= 3 and x < 11")
    assert xs(uri) == [0, 1, 2, 11, 12, 13, 14]
    assert fragment_sizes(uri) == {0: 3, 2: 4}
    assert lance.dataset(uri).read_transaction(4).operation.predicate == "x >= 3 and x < 11"


@pytest.mark.peer
def test_deletion_vectors_of_both_sides_merge_in_turn(uri):
    peer_dataset(uri, [10])
    peer_delete(uri, "x in (1, 2)")
    assert lo.delete(uri, "x in (2, 3, 4)").rows_deleted == 2
    peer_delete(uri, "x = 5")
    assert lo.delete(uri, "x < 3 or x = 9").rows_deleted == 2
    assert xs(uri) == [6, 7, 8]
    lo.delete(uri, "x > 0")
    assert (xs(uri), fragment_sizes(uri)) == ([], {})
    lo.append(uri, rows(10, 12))
    assert xs(uri) == [10, 11]


@pytest.mark.peer
@pytest.mark.parametrize("deleted", [4999, 5000, 20_000])
def test_both_kinds_of_deletion_files_are_read_by_the_peer(uri, deleted):
    lo.write_dataset(pa.table({"x": np.arange(30_000)}), uri)
    lo.delete(uri, f"x < {deleted}")
    assert peer_table(uri)["x"].to_pylist() == list(range(deleted, 30_000))
    lo.delete(uri, "x % 2 = 0")
    assert peer_table(uri)["x"].to_pylist() == [x for x in range(deleted, 30_000) if x % 2]


def test_no_match_commits_nothing(uri):
    our_dataset(uri, [5])
    before = data_files(uri)
    result = lo.delete(uri, "x > 100")
    assert (result.changed, result.version, result.rows_deleted) == (False, 1, 0)
    assert str(result).startswith("delete: no rows match")
    assert data_files(uri) == before


@pytest.mark.peer
def test_rows_for_which_the_predicate_is_null_stay(uri):
    peer_dataset(uri, [15])
    lo.delete(uri, "f < 100")
    assert xs(uri) == [4, 9, 14]
    lo.delete(uri, "not (f >= 0)")
    assert xs(uri) == [4, 9, 14]
    lo.delete(uri, "f is null and x > 4")
    assert xs(uri) == [4]


def test_a_predicate_without_columns_deletes_all_or_nothing(uri):
    our_dataset(uri, [5, 5])
    assert not lo.delete(uri, "false").changed
    assert not lo.delete(uri, "1 > 2").changed
    result = lo.delete(uri, "true")
    assert (result.rows_deleted, result.fragments_removed) == (10, 2)
    assert xs(uri) == []


@pytest.mark.parametrize("predicate", ["", "   "])
def test_an_empty_predicate_is_refused(uri, predicate):
    our_dataset(uri, [5])
    with pytest.raises(InvalidArgumentError, match="predicate is empty"):
        lo.delete(uri, predicate)


@pytest.mark.parametrize("predicate", ["x >", "nope = 1", "x = 'a' and", "x; drop table t"])
def test_a_predicate_that_makes_no_sense_changes_nothing(uri, predicate):
    our_dataset(uri, [5])
    with pytest.raises(PredicateError):
        lo.delete(uri, predicate)
    assert lo.dataset(uri).version == 1


def test_a_dry_run_counts_rows_by_fragment_and_changes_nothing(uri):
    our_dataset(uri, [5, 5, 5])
    lo.delete(uri, "x = 4")
    before = data_files(uri)
    plan = lo.delete(uri, "x in (3, 4) or x >= 10", dry_run=True)
    assert plan.to_dict()["fragments"] == [
        {"fragment": 0, "live_rows": 4, "rows_matched": 1, "removed": False},
        {"fragment": 2, "live_rows": 5, "rows_matched": 5, "removed": True},
    ]
    assert (plan.rows_matched, plan.total_rows, plan.columns) == (6, 14, ("x",))
    text = str(plan)
    assert "6 rows of 14" in text
    assert "is emptied" in text
    assert "keeps 3" in text
    assert data_files(uri) == before
    assert lo.dataset(uri).version == 4
    assert str(lo.delete(uri, "x > 99", dry_run=True)).endswith("no rows match")


def test_only_the_columns_of_the_predicate_are_planned_to_be_read(uri):
    our_dataset(uri, [5])
    plan = plan_delete(lo.dataset(uri), "f > 1 and x < 3")
    assert plan.columns == ("f", "x")
    assert [field.name for field in plan.tasks[0].schema.fields] == ["f", "x"]
    assert "reading f, x" in str(plan)


def test_a_delete_of_too_much_is_refused(uri):
    our_dataset(uri, [10])
    before = data_files(uri)
    with pytest.raises(InvalidArgumentError, match="6 of 10 rows match") as caught:
        lo.delete(uri, "x < 6", max_fraction=0.5)
    assert caught.value.field == "max_fraction"
    assert data_files(uri) == before
    assert lo.delete(uri, "x < 5", max_fraction=0.5).rows_deleted == 5
    with pytest.raises(InvalidArgumentError, match="between 0 and 1"):
        lo.delete(uri, "x < 5", max_fraction=50)


@pytest.mark.peer
def test_nested_columns_can_be_asked_for(uri):
    points = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": None, "b": "z"}]
    table = pa.table({"p": points, "l": [[1], [2, 3], None]})
    lo.write_dataset(table, uri)
    lo.delete(uri, "p.a = 2")
    assert peer_table(uri).to_pylist() == [table.to_pylist()[0], table.to_pylist()[2]]


@pytest.mark.peer
def test_deletes_of_different_rows_of_a_fragment_merge_at_the_commit(uri):
    peer_dataset(uri, [10])
    ds, plan = search(uri, "x in (1, 2)")
    peer_delete(uri, "x in (5, 6)")
    lo.delete(uri, "x = 7")
    result = delete_planned(ds, plan)
    assert (result.rows_deleted, len(result.conflicts)) == (2, 2)
    assert xs(uri) == [0, 3, 4, 8, 9]


@pytest.mark.peer
def test_a_fragment_emptied_by_two_deletes_together_is_removed(uri):
    peer_dataset(uri, [4, 4])
    ds, plan = search(uri, "x < 2")
    peer_delete(uri, "x in (2, 3)")
    delete_planned(ds, plan)
    assert xs(uri) == [4, 5, 6, 7]
    assert list(fragment_sizes(uri)) == [1]


@pytest.mark.peer
def test_the_same_row_deleted_twice_at_once_is_a_conflict_that_searching_again_solves(uri):
    peer_dataset(uri, [10])
    before = data_files(uri)
    ds, plan = search(uri, "x in (1, 2)")
    peer_delete(uri, "x in (2, 3)")
    theirs = data_files(uri)
    with pytest.raises(RetryableCommitConflictError):
        delete_planned(ds, plan)
    assert data_files(uri) == theirs
    assert len(theirs - before) == 1
    assert lo.delete(uri, "x in (1, 2)").rows_deleted == 1
    assert xs(uri) == [0, *range(4, 10)]


class Meddler:
    def __init__(self, *actions):
        self.actions = list(actions)

    def map(self, function, tasks, *, on_done=None):
        results = lo.LocalRunner(1).map(function, tasks, on_done=on_done)
        if self.actions:
            self.actions.pop(0)()
        return results


@pytest.mark.peer
def test_rows_are_deleted_where_a_compaction_in_between_put_them(uri):
    peer_dataset(uri, [5, 5])
    compaction = Meddler(lambda: lance.dataset(uri).optimize.compact_files())
    result = lo.delete(uri, "x in (3, 7)", runner=compaction, max_replans=0)
    assert (result.rows_deleted, len(result.conflicts)) == (2, 2)
    assert xs(uri) == [0, 1, 2, 4, 5, 6, 8, 9]


@pytest.mark.peer
def test_the_same_row_deleted_in_between_makes_it_search_again(uri):
    peer_dataset(uri, [5, 5])
    events = []
    other = Meddler(lambda: peer_delete(uri, "x = 3"))
    result = lo.delete(uri, "x in (3, 7)", runner=other, progress=events.append)
    assert result.rows_deleted == 1
    assert any("planned again after" in line and "Delete" in line for line in result.conflicts)
    assert any("searching again" in event.message for event in events)
    assert xs(uri) == [0, 1, 2, 4, 5, 6, 8, 9]
    with pytest.raises(RetryableCommitConflictError):
        lo.delete(uri, "x = 9", runner=Meddler(lambda: peer_delete(uri, "x = 9")), max_replans=0)


@pytest.mark.peer
def test_an_overwrite_in_between_ends_it(uri):
    peer_dataset(uri, [5])

    def overwrite():
        lance.write_dataset(rows(50, 52), uri, mode="overwrite", data_storage_version="2.0")

    with pytest.raises(IncompatibleCommitConflictError, match="Overwrite"):
        lo.delete(uri, "x = 3", runner=Meddler(overwrite))
    assert xs(uri) == [50, 51]


@pytest.mark.peer
def test_a_stale_delete_after_a_cleanup_is_a_conflict_and_nothing_returns(uri):
    peer_dataset(uri, [5, 5])
    ds, plan = search(uri, "x = 1")
    peer_delete(uri, "x >= 5")
    peer_delete(uri, "x = 4")
    lance.write_dataset(rows(20, 21), uri, mode="append")
    lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0))
    with pytest.raises(RetryableCommitConflictError):
        delete_planned(ds, plan)
    assert xs(uri) == [0, 1, 2, 3, 20]
    assert lo.delete(uri, "x = 1").rows_deleted == 1
    assert xs(uri) == [0, 2, 3, 20]


def test_a_job_is_done_once(uri):
    our_dataset(uri, [10])
    first = lo.delete(uri, "x = 1", job_key="trim", properties={"run": "7"})
    lo.append(uri, pa.table({"x": [1], "s": ["again"], "f": [0.0]}))
    second = lo.delete(uri, "x = 1", job_key="trim")
    assert (second.already_committed, second.version, second.rows_deleted) == (True, first.version, 0)
    assert xs(uri) == [0, *range(2, 10), 1]
    assert lo.dataset(uri).read_transaction(first.version).properties["run"] == "7"


def test_a_job_that_runs_twice_at_once_deletes_once_and_leaves_no_files(uri):
    our_dataset(uri, [10])
    ds, plan = search(uri, "x = 1")
    first = delete_planned(ds, plan, job_key="trim")
    before = data_files(uri)
    second = delete_planned(ds, plan, job_key="trim")
    assert (first.already_committed, second.already_committed) == (False, True)
    assert data_files(uri) == before


def test_a_missing_file_fails_the_search_and_names_it(uri, tmp_path):
    our_dataset(uri, [5, 5])
    (tmp_path / "t.lance" / "data" / lo.dataset(uri).fragments[1].files[0].path).unlink()
    with pytest.raises(TaskFailedError, match=r"FileMissingError"):
        lo.delete(uri, "x = 7")
    assert lo.dataset(uri).version == 2


class KnowsRows:
    """An index over some fragments, as a list of addresses."""

    def __init__(self, covered, addresses, exact):
        fragments = frozenset(covered)
        self.pruning = Pruning(fragments, RowSet.of(list(addresses)), fragments if exact else frozenset())

    def prune(self, dataset, expression):
        return self.pruning


def test_an_index_narrows_the_search_and_uncovered_fragments_are_searched_whole(uri):
    our_dataset(uri, [5, 20, 5, 5])
    lo.delete(uri, "x = 6")
    ds = lo.dataset(uri)
    candidates = [1 << 32 | 1, 1 << 32 | 2, 1 << 32 | 4]
    for exact, matched in ((False, [7]), (True, [7, 9])):
        plan = plan_delete(ds, "x in (7, 27, 3)", pruners=[KnowsRows([0, 1], candidates, exact)])
        # Fragment 0 has no candidate at all: it is not looked at, even for x = 3.
        assert [f.id for task in plan.tasks for f in task.fragments] == [1, 2, 3]
        found = [match for task in plan.tasks for match in find_rows(pickle.loads(pickle.dumps(task)))]
        assert {match.fragment.id: match.matched.offsets().tolist() for match in found} == {
            1: [x - 5 for x in matched],
            2: [2],
        }


def test_the_best_of_several_indices_is_used(uri):
    our_dataset(uri, [20])
    ds = lo.dataset(uri)
    (task,) = plan_delete(ds, "x = 2", pruners=[KnowsRows([0], range(6), False)]).tasks
    assert task.candidates == (None,)
    pruners = [KnowsRows([0], [0, 1, 2], False), KnowsRows([0], [1, 2], False), KnowsRows([7], [], True)]
    (task,) = plan_delete(ds, "x = 2", pruners=pruners).tasks
    assert task.candidates[0].offsets.tolist() == [1, 2]
    (task,) = plan_delete(ds, "x = 2", pruners=[*pruners, KnowsRows([0], [0, 1, 2, 3], True)]).tasks
    assert task.candidates[0].exact


@pytest.mark.peer
def test_the_indices_of_the_table_find_the_same_rows(uri):
    peer_dataset(uri, [50, 50])
    lance.dataset(uri).create_scalar_index("x", "BTREE")
    lance.write_dataset(rows(100, 110), uri, mode="append")
    for predicate in ("x in (3, 55, 105)", "x >= 97", "x = 20 and s is null", "x > 10 and x < 12 or x = 60"):
        expected = lo.delete(uri, predicate, dry_run=True).to_dict()["fragments"]
        assert (
            lo.delete(uri, predicate, pruners=[IndexPruner()], dry_run=True).to_dict()["fragments"]
            == expected
        )
        lo.delete(uri, predicate, pruners=[IndexPruner()])
    assert xs(uri) == [*range(3), *range(4, 11), *range(12, 55), *range(56, 60), *range(61, 97)]


@pytest.mark.peer
@settings(max_examples=20)
@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=4),
    st.lists(
        st.sampled_from(
            ["x % 3 = 0", "s like 'row 1%'", "f > 1.5", "s is null", "x between 2 and 9", "f + x > 6"]
        ),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    st.booleans(),
)
def test_deletes_equal_those_of_the_peer(tmp_path_factory, sizes, predicates, peer_starts):
    folder = tmp_path_factory.mktemp("delete")
    ours, theirs = folder / "ours.lance", folder / "theirs.lance"
    (peer_dataset if peer_starts else our_dataset)(ours, sizes)
    peer_dataset(theirs, sizes)
    for predicate in predicates:
        result = lo.delete(ours, predicate)
        before = lance.dataset(str(theirs)).count_rows()
        peer_delete(theirs, predicate)
        assert result.rows_deleted == before - lance.dataset(str(theirs)).count_rows()
    assert peer_table(ours) == peer_table(theirs)
    assert lo.dataset(ours).to_table() == peer_table(theirs)
    assert fragment_sizes(ours) == fragment_sizes(theirs)
