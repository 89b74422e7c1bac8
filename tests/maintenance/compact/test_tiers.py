"""Size tiers, targets in bytes, and how often a byte is written."""

import math
import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.maintenance.compact.groups import find_groups
from lance_ops.maintenance.compact.options import TARGET_BYTES, TIER_GROWTH, CompactionOptions
from tests.support.commands import lance_ops
from tests.support.interop import our_dataset, rows, xs
from tests.support.layouts import BYTES_PER_ROW, Layout, merged, planned, sized
from tests.support.table_values import index

ROWS = 10
"""Of an append."""


def groups(*sizes: int, **options: object) -> list[list[int]]:
    fragments = [sized(number, count) for number, count in enumerate(sizes)]
    return [list(group.fragment_ids) for group in planned(fragments, **options).groups]


def trickle(appends: int, every: int, options: CompactionOptions) -> tuple[int, int, int]:
    """Append small fragments, compact after each few; (bytes written, most writes of a byte, fragments)."""
    fragments, writes = [], {}
    written = 0
    for number in range(appends // every):
        first = max((item.id for item in fragments), default=-1) + 1
        fragments += [sized(first + position, ROWS) for position in range(every)]
        del number
        found = find_groups(Layout(fragments), options, frozenset())
        after = merged(found, fragments)
        new = [item for item in after if item.id > fragments[-1].id]
        for group in found:
            written += BYTES_PER_ROW * group.live_rows
            most = 1 + max(writes.get(item, 0) for item in group.fragment_ids)
            for item in new[: group.files]:
                writes[item.id] = most
            del new[: group.files]
        fragments = after
    return written, max(writes.values()), len(fragments)


def test_trickle_appends_write_every_byte_a_logarithmic_number_of_times():
    appends, every, growth = 100_000, 100, 4
    target = 1 << 20
    options = CompactionOptions(tier_growth=growth, target_bytes_per_fragment=BYTES_PER_ROW * target)
    written, most, left = trickle(appends, every, options)
    stored = BYTES_PER_ROW * ROWS * appends
    tiers = math.ceil(math.log(target / ROWS, growth))
    assert most <= tiers
    # The first merge of 100 climbs three tiers at once, so fewer are passed one by one.
    assert written <= 6 * stored
    assert left <= (growth - 1) * tiers + every


def test_merging_whatever_is_small_writes_young_bytes_again_each_time():
    appends, every = 10_000, 100
    stored = BYTES_PER_ROW * ROWS * appends
    written, most, _ = trickle(appends, every, CompactionOptions(strategy="rows"))
    assert most == appends // every
    assert written > 50 * stored
    tiers = CompactionOptions(tier_growth=4, target_bytes_per_fragment=BYTES_PER_ROW << 20)
    tiered, least, _ = trickle(appends, every, tiers)
    assert tiered < 6 * stored
    assert least <= 6


def test_a_real_table_under_trickle_appends_writes_few_bytes_and_keeps_its_order(tmp_path: Path):
    def run(name: str, **options: object) -> tuple[int, int, int]:
        uri, written, largest = tmp_path / name, 0, 0
        for number in range(30):
            table = pa.table({"x": pa.array(range(50 * number, 50 * number + 50), pa.int64())})
            lo.write_dataset(table, uri, mode="append" if number else "create")
            if number % 5 == 4:
                done = lo.compact(uri, target_rows_per_fragment=10_000, **options)
                written += done.rows_written
                largest = max(largest, done.rows_written)
        assert xs(uri) == list(range(1500))
        return written, largest, len(lo.dataset(uri).fragments)

    tiered, _, fragments = run("tiered", tier_growth=4, target_bytes_per_fragment=80_000)
    always, largest, one = run("always", strategy="rows")
    assert (largest, one) == (1500, 1)
    assert always == sum(range(250, 1501, 250))
    assert tiered < 0.7 * always
    assert fragments <= 9


def test_a_large_neighbour_waits_until_enough_small_ones_are_there():
    options = {"target_rows_per_fragment": 1024, "target_bytes_per_fragment": 1 << 16, "tier_growth": 4}
    # Tiers begin at 1, 4, 16, 64, 256 and 1024 rows.
    assert groups(300, 10, 10, **options) == [[1, 2]]
    assert groups(300, 10, 5, **options) == []
    assert groups(300, 300, 300, 10, **options) == []
    assert groups(300, 300, 300, 100, 30, **options) == [[0, 1, 2, 3, 4]]
    assert groups(900, 20, 20, 20, 20, 900, **options) == [[0, 1, 2, 3, 4, 5]]
    assert groups(300, 20, 20, 20, 20, 300, **options) == [[1, 2, 3, 4]]


def test_what_is_rewritten_anyway_takes_small_neighbours_along_and_no_larger_ones():
    fragments = [sized(0, 300), sized(1, 20, deleted=8), sized(2, 5), sized(3, 2000, deleted=1000)]
    options = {"target_rows_per_fragment": 1024, "target_bytes_per_fragment": 1 << 16, "tier_growth": 4}
    assert [group.fragment_ids for group in planned(fragments, **options).groups] == [(0, 1, 2, 3)]
    assert [group.fragment_ids for group in planned(fragments[:3], **options).groups] == [(1, 2)]
    fewer = [*fragments[:2], sized(2, 14), sized(3, 300)]
    assert [group.fragment_ids for group in planned(fewer, **options).groups] == [(1, 2)]


def test_a_minimum_of_inputs_holds_unless_a_fragment_is_filled_or_rewritten_anyway():
    options = {"target_rows_per_fragment": 100, "min_source_fragments": 4}
    assert groups(10, 10, 10, **options) == []
    assert groups(10, 10, 10, 10, **options) == [[0, 1, 2, 3]]
    assert groups(60, 50, **options) == [[0, 1]]
    due = planned([sized(0, 10, deleted=5), sized(1, 10)], **options).groups
    assert [group.fragment_ids for group in due] == [(0, 1)]


def test_a_target_in_bytes_chooses_cuts_and_counts_files():
    wide = [sized(number, 10, size=1000) for number in range(6)]
    (one,) = planned(wide).groups
    assert (one.fragment_ids, one.files) == ((0, 1, 2, 3, 4, 5), 1)
    cut = planned(wide, target_bytes_per_fragment=2500).groups
    assert [(group.fragment_ids, group.files) for group in cut] == [((0, 1, 2), 1), ((3, 4, 5), 1)]
    (many,) = planned([sized(0, 10, size=1000, deleted=2)], target_bytes_per_fragment=300).groups
    assert many.files == 2
    # Three quarters of the target are enough: what is written may be smaller than what was read.
    assert planned(wide, target_bytes_per_fragment=1333).groups == ()
    assert len(planned(wide, target_bytes_per_fragment=1334).groups) == 3


def test_a_compaction_to_bytes_leaves_nothing_for_the_next(tmp_path: Path):
    our_dataset(tmp_path / "t", [200] * 12)
    size = sum(item.data_bytes for item in lo.dataset(tmp_path / "t").fragments)
    options = {"strategy": "rows", "target_bytes_per_fragment": size // 4}
    done = lo.compact(tmp_path / "t", method="copy", **options)
    assert done.fragments_added in (3, 4)
    assert xs(tmp_path / "t") == rows(0, 2400)["x"].to_pylist()
    assert not lo.compact(tmp_path / "t", dry_run=True, **options).groups


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.booleans()), max_size=24),
    st.integers(1, 80),
    st.none() | st.integers(1, 400),
    st.none() | st.integers(2, 5),
    st.integers(2, 4),
)
def test_whatever_the_options_groups_are_neighbours_under_the_same_indices(
    shape, target, target_bytes, growth, least
):
    fragments = [
        sized(number, count, deleted=min(gone, count)) for number, (count, gone, _) in enumerate(shape)
    ]
    covered = frozenset(number for number, (_, _, indexed) in enumerate(shape) if indexed)
    options = CompactionOptions(
        target_rows_per_fragment=target,
        target_bytes_per_fragment=target_bytes,
        tier_growth=growth,
        min_source_fragments=least,
        materialize_deletions_threshold=0.5,
    )
    found = find_groups(Layout(fragments, [index("x_idx", covered)]), options, frozenset())
    taken = [number for group in found for number in group.fragment_ids]
    assert taken == sorted(set(taken))
    for group in found:
        ids = group.fragment_ids
        assert ids == tuple(range(ids[0], ids[0] + len(ids)))
        assert len({number in covered for number in ids}) == 1
        assert (group.files == 0) == (group.live_rows == 0)
        assert group.files <= max(1, group.live_rows)
        due = any(item.num_deleted_rows > item.physical_rows / 2 for item in group.fragments)
        assert due or len(ids) > 1


@settings(max_examples=100)
@given(st.lists(st.integers(1, 3000), min_size=1, max_size=30), st.integers(2, 6))
def test_no_run_that_would_climb_is_overlooked(shape, growth):
    target = 2048
    fragments = [sized(number, count) for number, count in enumerate(shape)]
    options = CompactionOptions(target_rows_per_fragment=target, tier_growth=growth)
    taken = {
        number
        for group in find_groups(Layout(fragments), options, frozenset())
        for number in group.fragment_ids
    }

    def tier(count: int) -> int:
        return 0 if count >= target else min(-1, math.floor(math.log(count / target, growth)))

    for start in range(len(shape)):
        for stop in range(start + 2, len(shape) + 1):
            run = shape[start:stop]
            if max(run) < target and tier(sum(run)) > max(map(tier, run)):
                assert taken.issuperset(range(start, stop))


@pytest.mark.parametrize(
    "options", [{"tier_growth": 1}, {"min_source_fragments": 1}, {"target_bytes_per_fragment": 0}], ids=str
)
def test_options_without_sense_are_refused(options):
    with pytest.raises(lo.errors.InvalidArgumentError, match=next(iter(options))):
        CompactionOptions(**options)


ROW = 2_000_000
"""Bytes of a large row; 40 of them are appended at a time."""


def large_rows(rounds: int, *, scale: int = 1, **options: object) -> tuple[int, int]:
    """Append 40 large rows, and compact after each append; (bytes written by compactions, most fragments)."""
    chosen = CompactionOptions(**options)
    written, most, fragments = 0, 0, []
    for _ in range(rounds):
        number = max((item.id for item in fragments), default=-1) + 1
        fragments.append(sized(number, 40, size=40 * ROW // scale))
        groups = find_groups(Layout(fragments), chosen, frozenset())
        written += sum(group.data_bytes for group in groups)
        gone = {item for group in groups for item in group.fragment_ids}
        # Rewritten rows keep their size.
        new = [
            sized(number + 1 + position, group.live_rows, size=group.data_bytes)
            for position, group in enumerate(groups)
        ]
        fragments = [item for item in fragments if item.id not in gone] + new
        small = [item for item in fragments if item.data_bytes < 0.75 * (chosen.target_bytes or math.inf)]
        most = max(most, len(small))
    return written, most


@pytest.mark.parametrize("rounds", [8, 32, 64, 512, 1024])
def test_large_rows_are_written_a_few_times_by_default(rounds: int) -> None:
    appended = rounds * 40 * ROW
    written, most = large_rows(rounds)
    assert written <= 1.1 * appended
    assert most <= 2 * (TIER_GROWTH - 1)
    # As pylance does it: each compaction writes the whole table.
    if rounds <= 64:
        assert large_rows(rounds, strategy="rows")[0] == sum(range(2, rounds + 1)) * 40 * ROW


@pytest.mark.parametrize("scale", [1, 3, 10, 40, 128, 500])
def test_appends_of_any_size_are_written_at_most_two_and_a_half_times_over_64_rounds(scale: int) -> None:
    written, most = large_rows(64, scale=scale)
    assert written <= 2.5 * 64 * 40 * ROW // scale
    assert most <= 2 * (TIER_GROWTH - 1)


def test_contents_of_a_few_kilobytes_are_always_merged() -> None:
    assert groups(10, 10) == [[0, 1]]
    assert groups(100, 1, 1, 7000) == [[0, 1, 2, 3]]
    # Above 62.5 kB merges wait for a larger tier.
    assert groups(10_000, 10) == []
    assert groups(10_000, 10, 10) == [[1, 2]]
    # Rows of unknown size may be large.
    unknown = [sized(number, 1, size=0) for number in range(2)]
    assert planned(unknown).groups == ()
    assert len(planned(unknown, strategy="rows").groups) == 1


def test_a_plan_says_what_it_leaves_alone_and_why() -> None:
    fragments = [
        sized(0, 20, size=600_000_000),
        sized(1, 20, size=70_000_000),
        sized(2, 2, size=1_000),
        sized(3, 2, size=1_000),
        sized(4, 2, size=1_000),
    ]
    plan = planned(fragments, exclude_fragments={4})
    assert [group.fragment_ids for group in plan.groups] == [(2, 3)]
    assert [(item.fragment_ids, item.fragments) for item in plan.left_alone] == [
        ((4,), 1),
        ((1,), 1),
        ((), 1),
    ]
    text = str(plan)
    assert "by size tiers of 8, up to 1,048,576 rows or 512 MB" in text
    assert "left alone: fragment 1: merging them would not reach a larger size tier yet" in text
    assert "left alone: 1 fragment: each has 1,048,576 rows or 384 MB or more" in text
    assert plan.to_dict()["left_alone"][1]["fragment_ids"] == [1]


def test_deleted_rows_are_purged_at_their_threshold_in_every_tier() -> None:
    for size in (1_000, 1_000_000, 100_000_000, 10**9):
        worn = [sized(0, 100, size=size), sized(1, 100, size=size, deleted=11), sized(2, 100, size=10**9)]
        assert 1 in {number for group in planned(worn).groups for number in group.fragment_ids}
        worn[1] = sized(1, 100, size=size, deleted=10)
        assert all(len(group.fragments) > 1 for group in planned(worn).groups)


def test_a_real_table_of_large_rows_is_not_rewritten_for_a_few(tmp_path: Path) -> None:
    """A thousandth of rows of 2 MB under a thousandth of the target."""
    uri, appended, written, history = tmp_path / "t", 0, 0, []
    for number in range(64):
        batch = pa.table(
            {"n": range(40 * number, 40 * number + 40), "v": [os.urandom(2000) for _ in range(40)]}
        )
        lo.append(uri, batch)
        appended += lo.dataset(uri).fragments[-1].data_bytes
        done = lo.compact(uri, target_bytes_per_fragment=TARGET_BYTES // 1000)
        written += done.bytes_written
        history.append(len(lo.dataset(uri).fragments))
    assert written <= 2.5 * appended
    assert max(history) <= 64 * 80_000 / (0.75 * TARGET_BYTES / 1000) + 2 * (TIER_GROWTH - 1)
    assert lo.dataset(uri).to_table(["n"])["n"].to_pylist() == list(range(64 * 40))
    assert "by size tiers of 8, up to 1,048,576 rows or 512 kB" in lance_ops("history", uri).stdout
