"""Plans are made from numbers of fragments and one fragment of each kind: as from every fragment apart."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.maintenance.compact.estimate import PART_BYTES, RowShape, estimate_group, task_work
from lance_ops.maintenance.compact.groups import Coverage, find_groups, make_group
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.plan import plan_compaction
from lance_ops.pb import summary_pb2
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import DeletionFile, DeletionFileType, Fragment
from lance_ops.table.manifest.fragments.fragment_list import FragmentList, read_list
from lance_ops.table.manifest.fragments.totals import examples, kinds_of, running_totals
from tests.maintenance.compact.test_plan import Snapshot
from tests.support.table_values import index

SHAPES = [
    ((0,), (0,), 2, 1),
    ((0, 1), (0, 1), 2, 1),
    ((0, 1), (1, 0), 2, 1),
    ((0, 1), (0, 1), 2, 0),
    ((1,), (0,), 2, 1),
    ((0, -2), (0, 1), 2, 1),
]
FILES = st.builds(
    lambda shape, path, size, base: DataFile(path, *shape, size_bytes=size, base_id=base),
    st.sampled_from(SHAPES),
    st.text("ab", min_size=1, max_size=3).map(lambda name: f"{name}.lance"),
    st.sampled_from([0, 1, 400, 100_000, PART_BYTES - 1, PART_BYTES, 5 * PART_BYTES, 1 << 60]),
    st.sampled_from([None, 0, 3]),
)


@st.composite
def fragments(draw) -> list[Fragment]:
    # Few shapes in long runs, as in tables, with others in between.
    usual = draw(st.lists(FILES, min_size=1, max_size=2))
    found = []
    for number in range(draw(st.integers(0, 24))):
        files = draw(st.one_of(st.just(usual), st.lists(FILES, min_size=1, max_size=2)))
        rows = draw(st.sampled_from([1, 7, 10, 50, 100, 1 << 31]))
        gone = draw(st.sampled_from([0, 0, 0, 1, min(rows, 6)]))
        deletion = DeletionFile(DeletionFileType.BITMAP, 1, number, gone) if gone else None
        found.append(Fragment(number * 3, tuple(files), rows, deletion))
    return found


OPTIONS = st.builds(
    CompactionOptions,
    target_rows_per_fragment=st.sampled_from([1, 20, 100, 1 << 70]),
    strategy=st.sampled_from(["tiers", "rows"]),
    target_bytes_per_fragment=st.sampled_from([None, 300, 1 << 40, 1 << 70]),
    exclude_fragments=st.frozensets(st.integers(0, 60), max_size=3),
    materialize_deletions=st.booleans(),
    tier_growth=st.sampled_from([None, None, 4]),
    max_bytes_per_file=st.sampled_from([None, 1_000]),
    budget_fragments=st.sampled_from([None, None, 5]),
)


def lazily(found: list[Fragment]) -> FragmentList:
    frames = summary_pb2.ManifestView(fragments=[item.to_bytes() for item in found]).SerializeToString()
    listed = read_list(frames)
    if listed is None:
        pytest.fail("the kernels of the wire are needed here")
    return listed[0]


def plain_parts(part, options):
    """The same cut, one fragment after the other."""
    amounts = []
    for item in part:
        live = item.num_rows
        worn = item.deletion_file is not None and item.physical_rows
        amounts.append((live, item.data_bytes * live // item.physical_rows if worn else item.data_bytes))

    def is_full(rows, size):
        by_bytes = options.target_bytes_per_fragment
        return rows >= options.target_rows_per_fragment or (by_bytes is not None and size >= by_bytes)

    left_rows, left_size = sum(rows for rows, _ in amounts), sum(size for _, size in amounts)
    parts, current, rows, size = [], [], 0, 0
    for item, (own_rows, own_size) in zip(part, amounts, strict=True):
        current.append(item.id)
        rows, size = rows + own_rows, size + own_size
        left_rows, left_size = left_rows - own_rows, left_size - own_size
        if is_full(rows, size) and is_full(left_rows, left_size):
            parts.append(current)
            current, rows, size = [], 0, 0
    return [*parts, current]


def plain_groups(snapshot, options, pinned):
    """The rules of the module, one fragment after the other."""
    coverage = Coverage(snapshot)
    bins, current, covering = [], [], None

    def alone(item):
        share = item.num_deleted_rows / item.physical_rows if item.physical_rows else 0
        return options.purges_deletions and share > options.materialize_deletions_threshold

    for item in snapshot.fragments:
        by_bytes = options.target_bytes_per_fragment
        small = item.physical_rows < options.target_rows_per_fragment and (
            by_bytes is None or item.data_bytes < 0.75 * by_bytes
        )
        left = item.id in pinned or item.id in options.exclude_fragments
        candidate = not left and (small or alone(item))
        over = coverage.of(item) if candidate else None
        if current and (not candidate or over != covering):
            bins.append(current)
            current = []
        if candidate:
            current.append(item)
            covering = over
    worth = [some for some in [*bins, current] if len(some) > 1 or any(map(alone, some))]
    return [part for some in worth for part in plain_parts(some, options)]


@settings(max_examples=150, deadline=None)
@given(fragments(), OPTIONS, st.frozensets(st.integers(0, 60), max_size=30))
def test_a_plan_from_a_lazy_list_is_that_from_objects(found, options, covered):
    indices = (index("x_idx", fragment_ids=covered),)
    plans = [
        plan_compaction(Snapshot(some, indices), options, slots=2) for some in (tuple(found), lazily(found))
    ]
    assert plans[0].to_dict() == plans[1].to_dict()
    assert str(plans[0]) == str(plans[1])
    assert plans[0] == plans[1] or [tuple(group.fragments) for group in plans[0].groups] == [
        tuple(group.fragments) for group in plans[1].groups
    ]


@settings(max_examples=150, deadline=None)
@given(fragments(), OPTIONS, st.frozensets(st.integers(0, 60), max_size=9), st.frozensets(st.integers(0, 60)))
def test_groups_are_those_of_one_fragment_after_the_other(found, options, pinned, covered):
    options = replace(options, strategy="rows", tier_growth=None)
    snapshot = Snapshot(lazily(found), (index("x_idx", fragment_ids=covered),))
    groups = [list(group.fragment_ids) for group in find_groups(snapshot, options, pinned)]
    assert groups == plain_groups(snapshot, options, pinned)


@settings(max_examples=100, deadline=None)
@given(fragments())
def test_a_fragment_stands_for_those_with_the_same_columns_in_the_same_files(found):
    kinds = {
        some: [
            tuple((file.fields, file.column_indices, file.major, file.minor) for file in found[place].files)
            for place in kinds_of(listed).tolist()
        ]
        for some, listed in enumerate((tuple(found), lazily(found)))
    }
    own = [tuple((f.fields, f.column_indices, f.major, f.minor) for f in item.files) for item in found]
    assert kinds == {0: own, 1: own}
    assert sum(count for _, count in examples(lazily(found))) == len(found)


def test_a_thousand_fragments_of_two_shapes_are_told_by_few_of_them():
    found = [
        Fragment(n, (DataFile(f"{n}.lance", *SHAPES[n % 2], size_bytes=n + 1),), 10) for n in range(1000)
    ]
    assert [(item.id, count) for item, count in examples(lazily(found))] == [(0, 500), (1, 500)]


def test_more_shapes_than_are_kept_in_mind_are_all_told():
    found = [
        Fragment(n, (DataFile(f"{n}.lance", tuple(range(1 + n % 40)), (), 2, 1, size_bytes=9),), 10)
        for n in range(200)
    ]
    listed = lazily(found)
    told = examples(listed)
    assert sum(count for _, count in told) == 200
    assert {len(item.files[0].fields) for item, _ in told} == set(range(1, 41))


@settings(max_examples=100, deadline=None)
@given(fragments())
def test_estimates_are_sums_over_the_fragments(found):
    if not found:
        return
    snapshot = Snapshot(lazily(found))
    group = make_group(snapshot, snapshot.fragments, CompactionOptions())
    estimate = estimate_group(group, RowShape.of(snapshot.lance_schema))
    files = [file for item in found for file in item.files]
    outputs = group.files * max(len(item.files) for item in found)
    worn = sum(item.deletion_file is not None for item in found)
    fetches = sum(2 + file.size_bytes // PART_BYTES for file in files) + worn
    assert estimate.bytes_read == sum(item.data_bytes for item in found)
    assert estimate.bytes_written == sum(
        item.data_bytes * item.num_rows // item.physical_rows for item in found
    )
    assert estimate.reads == fetches + 2 * outputs
    work = task_work(group, RowShape.of(snapshot.lance_schema))
    assert work.file == len(files)
    assert work.filtered_byte == float(sum(item.data_bytes for item in found if item.num_deleted_rows))


def test_parts_of_a_list_are_lists_that_know_their_objects():
    found = [Fragment(n, (DataFile(f"{n}.lance", *SHAPES[0], size_bytes=9),), 10) for n in range(9)]
    listed = lazily(found)
    third = listed[3]
    part = listed[2:7]
    assert part[1] is third
    assert tuple(part) == tuple(found[2:7]) == tuple(pickle.loads(pickle.dumps(part)))
    assert len(listed[7:2]) == 0
    assert tuple(listed[6:1:-2]) == tuple(found[6:1:-2])
    assert part.framed() == b"".join(
        summary_pb2.ManifestView(fragments=[item.to_bytes()]).SerializeToString() for item in found[2:7]
    )


def test_sums_that_do_not_fit_into_64_bits_are_exact():
    most = (1 << 63) - 1
    assert list(running_totals(np.array([most, most, 1]))) == [0, most, 2 * most, 2 * most + 1]
    assert list(running_totals(np.array([1, 2]))) == [0, 1, 3]
