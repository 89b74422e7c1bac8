"""Size tiers, targets in bytes, and how often a byte is written."""

import math
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.maintenance.compact.groups import find_groups
from lance_ops.maintenance.compact.options import CompactionOptions
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
    written, most, left = trickle(appends, every, CompactionOptions(tier_growth=growth))
    stored = BYTES_PER_ROW * ROWS * appends
    tiers = math.ceil(math.log(target / ROWS, growth))
    assert most <= tiers
    # The first merge of 100 climbs three tiers at once, so fewer are passed one by one.
    assert written <= 6 * stored
    assert left <= (growth - 1) * tiers + every


def test_merging_whatever_is_small_writes_young_bytes_again_each_time():
    appends, every = 10_000, 100
    stored = BYTES_PER_ROW * ROWS * appends
    written, most, _ = trickle(appends, every, CompactionOptions())
    assert most == appends // every
    assert written > 50 * stored
    tiered, least, _ = trickle(appends, every, CompactionOptions(tier_growth=4))
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

    tiered, _, fragments = run("tiered", tier_growth=4)
    always, largest, one = run("always")
    assert (largest, one) == (1500, 1)
    assert always == sum(range(250, 1501, 250))
    assert tiered < 0.7 * always
    assert fragments <= 9


def test_a_large_neighbour_waits_until_enough_small_ones_are_there():
    options = {"target_rows_per_fragment": 1024, "tier_growth": 4}
    # Tiers begin at 1, 4, 16, 64, 256 and 1024 rows.
    assert groups(300, 10, 10, **options) == [[1, 2]]
    assert groups(300, 10, 5, **options) == []
    assert groups(300, 300, 300, 10, **options) == []
    assert groups(300, 300, 300, 100, 30, **options) == [[0, 1, 2, 3, 4]]
    assert groups(900, 20, 20, 20, 20, 900, **options) == [[0, 1, 2, 3, 4, 5]]
    assert groups(300, 20, 20, 20, 20, 300, **options) == [[1, 2, 3, 4]]


def test_what_is_rewritten_anyway_takes_small_neighbours_along_and_no_larger_ones():
    fragments = [sized(0, 300), sized(1, 20, deleted=8), sized(2, 5), sized(3, 2000, deleted=1000)]
    options = {"target_rows_per_fragment": 1024, "tier_growth": 4}
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
    done = lo.compact(tmp_path / "t", target_bytes_per_fragment=size // 4, method="copy")
    assert done.fragments_added in (3, 4)
    assert xs(tmp_path / "t") == rows(0, 2400)["x"].to_pylist()
    assert not lo.compact(tmp_path / "t", target_bytes_per_fragment=size // 4, dry_run=True).groups


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
