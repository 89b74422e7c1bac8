"""Budgets by estimates, and the estimates themselves."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.compact.estimate import makespan
from lance_ops.maintenance.compact.options import CompactionOptions, resolve_options
from lance_ops.maintenance.compact.plan import plan_compaction
from tests.support.interop import our_dataset
from tests.support.layouts import Layout, planned, sized
from tests.support.table_values import index

BUDGETS = ("budget_seconds", "budget_bytes", "budget_fragments", "budget_requests")


def used(plan) -> dict[str, float]:
    known = plan.estimate
    return {
        "budget_seconds": known.seconds,
        "budget_bytes": known.bytes_read + known.bytes_written,
        "budget_fragments": plan.source_fragments,
        "budget_requests": known.requests,
    }


def three_groups():
    """Two large neighbours, thirty tiny ones, two middling ones, full fragments between them."""
    sizes = [5000, 5000, 10_000, *[1] * 30, 10_000, 500, 500]
    return [sized(number, count) for number, count in enumerate(sizes)]


def test_a_budget_takes_what_speeds_scans_up_most_for_its_time():
    options = {"target_rows_per_fragment": 10_000}
    everything = planned(three_groups(), **options)
    assert [len(group.fragments) for group in everything.groups] == [2, 30, 2]
    tiny = planned(three_groups(), budget_fragments=31, **options)
    assert [len(group.fragments) for group in tiny.groups] == [30]
    assert tiny.notes == ("2 more groups left for later runs by the budget",)
    most = planned(three_groups(), budget_fragments=33, **options)
    assert [len(group.fragments) for group in most.groups] == [30, 2]
    ids = [number for group in most.groups for number in group.fragment_ids]
    assert ids == sorted(ids)


def test_a_group_that_exceeds_the_budget_alone_is_cut():
    plan = planned(three_groups(), target_rows_per_fragment=10_000, budget_fragments=8)
    assert [len(group.fragments) for group in plan.groups] == [8]
    assert plan.notes == ("5 more groups left for later runs by the budget",)
    (pair,) = planned(three_groups(), target_rows_per_fragment=10_000, budget_bytes=40_000).groups[:1]
    assert pair.live_rows < 10_000


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.integers(1, 99), st.integers(0, 99)), min_size=1, max_size=25),
    st.sampled_from(BUDGETS),
    st.floats(0.01, 1.2),
    st.integers(1, 4),
)
def test_no_budget_is_ever_exceeded(shape, name, share, slots):
    fragments = [sized(number, count, deleted=min(gone, count)) for number, (count, gone) in enumerate(shape)]
    layout = Layout(fragments, [index("x_idx", frozenset(range(0, len(shape), 3)))])
    target = {"target_rows_per_fragment": 70}
    everything = plan_compaction(layout, CompactionOptions(**target), slots=slots)
    whole = used(everything)[name]
    bound = share * whole
    if name not in ("budget_seconds"):
        bound = int(bound)
    if not bound:
        return
    plan = plan_compaction(layout, CompactionOptions(**{name: bound}, **target), slots=slots)
    assert not plan.groups or used(plan)[name] <= bound
    whole_groups = [set(group.fragment_ids) for group in everything.groups]
    taken = [number for group in plan.groups for number in group.fragment_ids]
    assert taken == sorted(set(taken))
    for group in plan.groups:
        assert any(members.issuperset(group.fragment_ids) for members in whole_groups)
    if share >= 1.1 and bound >= whole:
        assert plan.groups == everything.groups


@pytest.mark.parametrize("name", BUDGETS)
def test_a_budget_is_above_nothing(name):
    with pytest.raises(InvalidArgumentError, match=name):
        CompactionOptions(**{name: 0})


def test_a_plan_carries_what_it_takes_and_saves():
    plan = planned(three_groups(), [index("x_idx", frozenset(range(40)))], target_rows_per_fragment=10_000)
    assert len(plan.estimates) == len(plan.groups)
    told = plan.to_dict()
    assert told["estimate"]["seconds"] == pytest.approx(plan.estimate.seconds, abs=1e-6)
    assert told["groups"][1]["estimate"]["fragments_saved"] == 29
    assert plan.estimate.bytes_read == plan.data_bytes
    assert plan.estimate.fragments_saved == plan.source_fragments - plan.expected_fragments
    assert plan.estimate.seconds > plan.estimate.task_seconds
    text = str(plan)
    assert "expected: " in text
    assert "which pays after" in text
    assert "takes" in text


def test_what_is_deleted_is_saved_and_an_index_takes_its_time():
    fragments = [sized(0, 1000, deleted=500), sized(1, 1000)]
    bare = planned(fragments)
    indexed = planned(fragments, [index("x_idx", frozenset({0, 1}))])
    assert bare.estimate.bytes_saved == 4000
    assert bare.estimate.bytes_written == 12_000
    assert indexed.estimate.seconds > bare.estimate.seconds
    assert indexed.estimate.index_seconds == pytest.approx(indexed.estimates[0].index_seconds)
    assert indexed.estimate.index_seconds == pytest.approx(indexed.index_seconds)


def test_more_slots_share_the_tasks_and_none_is_faster_than_the_longest():
    assert makespan([1.0, 1.0], 1, 0.5) == 2.0
    assert makespan([1.0, 1.0], 2, 1.0) == 1.0
    assert makespan([1.0, 1.0], 2, 0.5) == pytest.approx(2 / 1.5)
    assert makespan([3.0, 0.1], 8, 1.0) == 3.0
    assert makespan([], 4, 1.0) == 0.0


@pytest.mark.parametrize("removed", [{"budget_money": 1.0}, {"costs": object()}])
def test_removed_arguments_name_what_replaces_them(tmp_path: Path, removed):
    our_dataset(tmp_path / "t", [4, 4])
    with pytest.raises(InvalidArgumentError, match=r"budget_requests|ledger"):
        lo.compact(tmp_path / "t", **removed)


def test_removed_names_say_what_replaces_them():
    for name in ("calibrate", "Calibration", "CostModel"):
        with pytest.raises(AttributeError, match="ledger"):
            getattr(lo, name)
    with pytest.raises(InvalidArgumentError, match="budget_requests"):
        CompactionOptions(budget_money=1.0)


def test_a_run_stays_within_its_budget_and_the_next_takes_the_rest(tmp_path: Path):
    our_dataset(tmp_path / "t", [4, 4, 30, 4, 4, 30, 4, 4])
    options = {"target_rows_per_fragment": 20, "budget_fragments": 2}
    done = [lo.compact(tmp_path / "t", **options) for _ in range(4)]
    assert [result.fragments_removed for result in done] == [2, 2, 2, 2]
    assert lo.dataset(tmp_path / "t").count_rows() == 84


def test_targets_and_tiers_may_stand_in_the_config_of_the_table():
    options, warnings = resolve_options(
        {
            "lance.compaction.target_bytes_per_fragment": "1000000",
            "lance.compaction.tier_growth": "4",
            "lance.compaction.min_source_fragments": "5",
        }
    )
    assert warnings == ()
    assert (options.target_bytes_per_fragment, options.tier_growth) == (1_000_000, 4)
    assert options.min_source_fragments == 5
