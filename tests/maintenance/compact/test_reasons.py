"""A run that does nothing, or leaves something alone, says why: in the result, as text and as JSON."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import lance_ops as lo
from lance_ops.maintenance.compact.plan import CompactionPlan
from lance_ops.maintenance.index.plan import IndexPlan
from lance_ops.maintenance.results import CompactResult
from lance_ops.table.transaction.operations import CreateIndex
from tests.support.commands import lance_ops, lance_ops_json
from tests.support.interop import our_dataset, peer_dataset, rows
from tests.support.table_actions import commit
from tests.support.unknown_index import add_unknown_index


def compacted(path: Path, **options: object) -> CompactResult:
    """Compact; what a dry run says must be what the run says, as text and as JSON."""
    plan = lo.compact(path, dry_run=True, **options)
    result = lo.compact(path, **options)
    assert isinstance(plan, CompactionPlan)
    assert isinstance(result, CompactResult)
    assert result.notes == plan.notes
    for note in result.notes:
        assert f"note: {note}" in str(result)
        assert f"note: {note}" in str(plan)
    assert json.loads(json.dumps(result.to_dict()))["notes"] == list(plan.notes)
    return result


@pytest.mark.parametrize(
    ("sizes", "options", "reason"),
    [
        ([], {}, "there are no rows"),
        ([50], {}, "fragment 0: .* no small neighbour"),
        ([50, 150, 50], {"target_rows_per_fragment": 100}, "fragments 0, 2: .* no small neighbour"),
        (
            [100, 150],
            {"target_rows_per_fragment": 100},
            "has 100 rows or 384 MB or more, and none has more",
        ),
        (
            [100, 150],
            {"target_rows_per_fragment": 100, "materialize_deletions": False},
            "deleted rows are not purged by these options",
        ),
        ([50, 50], {"exclude_fragments": [0, 1]}, "fragments 0-1: excluded"),
        ([50, 50], {"max_source_rows": 10}, "1 more group left for later runs by the budget"),
    ],
)
def test_a_compaction_of_nothing_says_why(
    tmp_path: Path, sizes: list[int], options: dict[str, object], reason: str
) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, sizes or [10])
    if not sizes:
        lo.delete(path, "true")
    result = compacted(path, **options)
    assert not result.changed
    assert [note for note in result.notes if re.search(reason, note)]


@pytest.mark.peer
def test_fragments_under_an_index_that_cannot_be_moved_are_named_with_it(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    peer_dataset(path, [50, 50])
    add_unknown_index(path, "s", "s_idx")
    reason = "fragments 0-1 are not rewritten because of index 's_idx' (strangeindexdetails): its row"
    assert compacted(path).notes[0].startswith(reason)
    assert reason in lance_ops("compact", path).stdout
    assert lance_ops_json("compact", path)["notes"][0].startswith(reason)
    lo.append(path, rows(100, 110))
    lo.append(path, rows(110, 120))
    result = compacted(path)
    assert result.groups == 1
    assert result.notes[0].startswith(reason)


@pytest.mark.peer
def test_upkeep_names_each_index_that_it_keeps_with_its_coverage(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    peer_dataset(path, [844])
    add_unknown_index(path, "s", "s_idx")
    lo.create_index(path, "x")
    assert str(lo.optimize_indices(path)).startswith("index: every index covers all rows (")
    lo.append(path, rows(844, 1000))
    refreshed = lo.optimize_indices(path)
    reason = (
        "s_idx covers 84.4% of rows and is left unchanged: lance_ops cannot build an index of kind strange"
    )
    assert refreshed.indices == ("x_idx",)
    assert refreshed.skipped[0].startswith(reason)
    assert f"skipped: {reason}" in str(refreshed)
    for names, share in ((None, (1 + 0.844) / 2), (["s_idx"], 0.844)):
        nothing = lo.optimize_indices(path, names)
        plan = lo.optimize_indices(path, names, dry_run=True)
        assert isinstance(plan, IndexPlan)
        assert nothing.skipped == plan.skipped == refreshed.skipped
        assert plan.coverage_before == pytest.approx(share)
        assert (nothing.coverage_before, nothing.coverage_after) == pytest.approx((share, share))
        assert "every index covers all rows" not in str(nothing)
        assert f"skipped: {reason}" in str(nothing)
        assert f"skipped: {reason}" in str(plan)
    assert reason in lance_ops("index", path).stdout
    assert lance_ops_json("index", path)["skipped"][0].startswith(reason)


def test_almost_all_is_not_all(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    peer_dataset(path, [9999])
    add_unknown_index(path, "s", "s_idx")
    lo.append(path, rows(9999, 10_000))
    result = lo.optimize_indices(path)
    assert "coverage 99.9%" in str(result)
    assert "covers 99.9% of rows" in result.skipped[0]


def test_an_index_whose_writer_recorded_no_kind_is_named_with_the_way_out(tmp_path: Path) -> None:
    """As of pylance up to 0.19."""
    path = tmp_path / "t.lance"
    our_dataset(path, [50, 50])
    lo.create_index(path, "x")
    dataset = lo.dataset(path)
    (known,) = dataset.indices
    commit(dataset, CreateIndex((), (known,)))
    commit(lo.dataset(path), CreateIndex((replace(known, type_url=None, details=b""),)))
    assert "did not record its kind; rebuild it" in compacted(path).notes[0]
    assert "did not record its kind; rebuild it" in lo.optimize_indices(path).skipped[0]
    lo.create_index(path, "x", replace=True)
    assert compacted(path).groups == 1
    assert lo.optimize_indices(path).skipped == ()
