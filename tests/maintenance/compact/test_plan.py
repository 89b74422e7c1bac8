import lance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.optimize import Compaction

import lance_ops as lo
from lance_ops.errors import CorruptManifestError, InvalidArgumentError
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.plan import plan_compaction, valid_groups
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragment_reuse.read import FragmentReuse
from lance_ops.table.manifest.index_metadata import IndexMetadata
from tests.support.interop import peer_dataset
from tests.support.table_values import fragment, index, manifest


class Snapshot:
    """The part of a dataset that planning looks at: metadata only, so no store."""

    def __init__(self, fragments, indices=(), reuse=None):
        self.manifest = manifest(*fragments, indices=tuple(indices))
        self.uri, self.version = "memory://t", self.manifest.version
        self.fragments, self.indices = self.manifest.fragments, self.manifest.indices
        self.lance_schema = self.manifest.schema
        self.fragment_reuse = reuse
        self.data_storage_version = self.manifest.storage_version

    def with_side_sizes(self) -> "Snapshot":
        return self


def sizes(*rows, deleted=None) -> list[Fragment]:
    gone = deleted or {}
    return [fragment(number, count, deleted=gone.get(number, 0)) for number, count in enumerate(rows)]


def plan(fragments, indices=(), **options):
    return plan_compaction(Snapshot(fragments, indices), CompactionOptions(**options))


def groups(fragments, indices=(), **options) -> list[list[int]]:
    return [list(group.fragment_ids) for group in plan(fragments, indices, **options).groups]


def btree(*fragment_ids: int, name: str = "x_idx") -> IndexMetadata:
    return index(name, fragment_ids=frozenset(fragment_ids))


def test_small_neighbours_are_merged_and_a_lonely_one_is_left():
    assert groups(sizes(10, 10, 100, 10, 100, 10, 10, 10), target_rows_per_fragment=100) == [
        [0, 1],
        [5, 6, 7],
    ]


def test_nothing_to_do_is_an_empty_plan():
    result = plan(sizes(100, 100), target_rows_per_fragment=100)
    assert result.groups == ()
    assert str(result).endswith(
        "nothing to compact\n"
        "note: 2 fragments: each has 100 rows or 384 MB or more, and none has more than 10% deleted"
    )


def test_many_deleted_rows_are_reason_enough_for_one_fragment():
    fragments = sizes(100, 100, 100, deleted={0: 10, 1: 11})
    assert groups(fragments, target_rows_per_fragment=100) == [[1]]
    assert groups(fragments, target_rows_per_fragment=100, materialize_deletions_threshold=0.2) == []
    assert groups(fragments, target_rows_per_fragment=100, materialize_deletions=False) == []


def test_a_bin_is_cut_at_the_target_and_a_short_rest_stays_with_the_last_part():
    assert groups(sizes(*[30] * 7), target_rows_per_fragment=90) == [[0, 1, 2], [3, 4, 5, 6]]
    assert groups(sizes(*[30] * 6), target_rows_per_fragment=90) == [[0, 1, 2], [3, 4, 5]]
    assert groups(sizes(*[40] * 5), target_rows_per_fragment=90) == [[0, 1, 2, 3, 4]]


def test_the_expected_fragments_hold_the_target_or_more():
    (group,) = plan(sizes(*[40] * 5), target_rows_per_fragment=90).groups
    assert (group.live_rows, group.files) == (200, 2)
    (group,) = plan(sizes(5, 5), target_rows_per_fragment=90).groups
    assert group.files == 1


def test_a_group_without_live_rows_becomes_nothing():
    (group,) = plan(sizes(5, 100, deleted={0: 5}), target_rows_per_fragment=100).groups
    assert (group.fragment_ids, group.files) == ((0,), 0)


def test_fragments_covered_by_different_indices_are_not_mixed():
    fragments = sizes(10, 10, 10, 10)
    assert groups(fragments, [btree(0, 1)], target_rows_per_fragment=100) == [[0, 1], [2, 3]]
    assert groups(fragments, [btree(0, 1, 2), btree(1, 2, 3, name="s_idx")]) == [[1, 2]]
    assert groups(fragments, [btree(0, 1, 2, 3)]) == [[0, 1, 2, 3]]


def test_an_excluded_fragment_ends_a_bin():
    assert groups(sizes(1, 1, 1, 1, 1), exclude_fragments={2}) == [[0, 1], [3, 4]]


def test_fragments_under_an_index_that_cannot_follow_are_left_and_the_plan_says_so():
    foreign = index("v_idx", fragment_ids=frozenset({0, 1}), type_url="/lance.table.StrangeIndexDetails")
    result = plan(sizes(1, 1, 1, 1), [foreign])
    assert [group.fragment_ids for group in result.groups] == [(2, 3)]
    assert "fragments 0-1 are not rewritten" in str(result)
    unknown_coverage = index("v_idx", fragment_ids=None)
    assert plan(sizes(1, 1), [unknown_coverage]).groups == ()


def test_a_remap_that_cannot_be_followed_pins_everything_that_an_index_could_cover():
    pending = index("__lance_frag_reuse", fragment_ids=frozenset({1}))
    unknown = FragmentReuse(pending, problem=CorruptManifestError("no addresses"))
    snapshot = Snapshot(sizes(1, 1, 1), [btree(0), pending], reuse=unknown)
    result = plan_compaction(snapshot)
    assert result.groups == ()
    assert "have a deferred index remap" in str(result)
    assert "no addresses" in str(result)
    alone = plan_compaction(Snapshot(sizes(1, 1, 1), [pending], reuse=unknown))
    assert [group.fragment_ids for group in alone.groups] == [(0, 1, 2)]
    readable = plan_compaction(Snapshot(sizes(1, 1, 1), [btree(0, 1, 2), pending], FragmentReuse(pending)))
    assert [group.fragment_ids for group in readable.groups] == [(0, 1, 2)]


def test_budgets_cut_the_list_at_the_first_group_that_would_exceed_them():
    fragments = sizes(10, 10, 100, 50, 50, 100, 10, 10)
    options = {"target_rows_per_fragment": 100}
    assert groups(fragments, **options) == [[0, 1], [3, 4], [6, 7]]
    assert groups(fragments, max_source_rows=110, **options) == [[0, 1]]
    assert groups(fragments, max_source_rows=120, **options) == [[0, 1], [3, 4]]
    assert groups(fragments, max_source_fragments=3, **options) == [[0, 1]]
    assert groups(fragments, max_source_fragments=1, **options) == []
    size = fragments[0].data_bytes
    result = plan(fragments, max_source_bytes=4 * size, **options)
    assert [group.fragment_ids for group in result.groups] == [(0, 1), (3, 4)]
    assert result.notes == ("1 more group left for later runs by the budget",)


def test_a_budget_of_bytes_needs_recorded_sizes():
    unknown = fragment(0).replace(files=(DataFile("a.lance", (0,), (0,), 2, 0),))
    with pytest.raises(InvalidArgumentError, match="max_source_bytes"):
        plan([unknown, fragment(1)], max_source_bytes=100, strategy="rows")


def test_a_plan_says_what_it_costs():
    result = plan(sizes(10, 20, 30, deleted={1: 5}), target_rows_per_fragment=100)
    assert (result.source_fragments, result.expected_fragments) == (3, 1)
    assert (result.live_rows, result.deleted_rows) == (55, 5)
    assert result.to_dict()["groups"][0]["fragments"] == [0, 1, 2]
    text = str(result)
    assert "3 fragments -> 1, 55 rows" in text
    assert "5 deleted rows to purge" in text
    assert "0-2" in text


def test_a_group_stays_valid_while_nothing_touches_its_fragments_and_its_coverage():
    before = Snapshot(sizes(1, 1, 50, 1, 1), [btree(0, 1)])
    planned = plan_compaction(before, CompactionOptions(target_rows_per_fragment=20)).groups
    assert [group.fragment_ids for group in planned] == [(0, 1), (3, 4)]

    def valid(head: Snapshot, **more):
        return valid_groups(before, head, planned, CompactionOptions(), **more)

    changed = [*sizes(1, 1, 50, 1), fragment(4, 2), fragment(5, 7)]
    assert valid(Snapshot(changed, [btree(0, 1)])) == planned[:1]
    assert valid(Snapshot(sizes(1, 1, 50, 1), [btree(0, 1)])) == planned[:1]
    # Rows that were deleted meanwhile are deleted in the new fragments.
    assert valid(Snapshot(sizes(1, 1, 50, 1), [btree(0, 1)]), emptied=frozenset({4})) == planned
    deleted = Snapshot([*sizes(1, 1, 50), fragment(3, 1, deleted=1), fragment(4, 1)], [btree(0, 1)])
    assert valid(deleted) == planned
    assert valid(Snapshot(sizes(1, 1, 50), [btree(0, 1)]), emptied=frozenset({3, 4})) == planned[:1]
    assert valid(Snapshot(sizes(1, 1, 50, 1, 1), [btree(0, 1, 3)])) == planned[:1]
    assert valid(Snapshot(sizes(1, 1, 50, 1, 1), [btree(*range(5))])) == planned
    other = Snapshot(sizes(1, 1, 50, 1, 1))
    other.lance_schema = other.lance_schema.project([other.lance_schema.names[0]])
    assert valid(other) == ()


@pytest.mark.peer
@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12)), min_size=1, max_size=9),
    st.integers(1, 14),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.none() | st.integers(1, 9),
)
def test_the_peer_plans_the_same_groups(tmp_path_factory, shape, target, threshold, budget):
    uri = tmp_path_factory.mktemp("plan") / "t.lance"
    peer_dataset(uri, [size for size, _ in shape])
    starts = [sum(size for size, _ in shape[:number]) for number in range(len(shape))]
    ranges = [
        f"(x >= {start} and x < {start + min(gone, size)})"
        for start, (size, gone) in zip(starts, shape, strict=True)
        if gone
    ]
    if ranges:
        lance.dataset(str(uri)).delete(" or ".join(ranges))
    options = {"target_rows_per_fragment": target, "materialize_deletions_threshold": threshold}
    if budget is not None:
        options["max_source_fragments"] = budget
    theirs = Compaction.plan(lance.dataset(str(uri)), options)
    ours = plan_compaction(lo.dataset(uri), CompactionOptions(**options))
    assert [list(group.fragment_ids) for group in ours.groups] == [
        [item.id for item in task.fragments] for task in theirs.tasks
    ]
    assert ours.version == theirs.read_version
