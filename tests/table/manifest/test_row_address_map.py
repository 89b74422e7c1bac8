import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import CorruptFileError, InvalidArgumentError
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.row_address_map import AddressMap, MovedGroup, build_address_map, row_addresses


def fragment(fragment_id: int, rows: int) -> Fragment:
    return Fragment(id=fragment_id, files=(), physical_rows=rows)


def deleted(*offsets: int) -> DeletionVector:
    return DeletionVector.from_offsets(np.array(offsets, dtype=np.uint32))


def address(fragment_id: int, offset: int) -> int:
    return fragment_id << 32 | offset


def group(old, new) -> MovedGroup:
    return MovedGroup(
        tuple(fragment(i, rows) for i, rows, _ in old),
        tuple(deleted(*offsets) for _, _, offsets in old),
        tuple(fragment(i, rows) for i, rows in new),
    )


def test_survivors_keep_their_order_across_old_and_new_fragments():
    moves = AddressMap([group([(1, 3, [1]), (2, 4, [0, 3])], [(9, 3), (10, 1)])])
    old = [address(1, 0), address(1, 1), address(1, 2), address(2, 0), address(2, 1), address(2, 2)]
    new, kept = moves.map(old)
    assert kept.tolist() == [True, False, True, False, True, True]
    assert new[kept].tolist() == [address(9, 0), address(9, 1), address(9, 2), address(10, 0)]


def test_rows_of_other_fragments_stay_where_they_are():
    moves = AddressMap([group([(5, 2, [])], [(8, 2)])])
    new, kept = moves.map([address(0, 7), address(6, 0), address(5, 1), address(99, 3)])
    assert kept.all()
    assert new.tolist() == [address(0, 7), address(6, 0), address(8, 1), address(99, 3)]


def test_a_group_may_lose_all_its_rows():
    moves = AddressMap([group([(1, 2, [0, 1])], [(7, 0)]), group([(2, 1, [])], [(8, 1)])])
    new, kept = moves.map([address(1, 0), address(1, 1), address(2, 0)])
    assert kept.tolist() == [False, False, True]
    assert new[2] == address(8, 0)


def test_a_group_without_new_fragments_maps_every_row_to_nothing():
    _, kept = AddressMap([group([(1, 2, [0, 1])], [])]).map([address(1, 0), address(1, 1)])
    assert not kept.any()


def test_an_address_behind_the_fragment_is_an_error():
    with pytest.raises(CorruptFileError, match="row 3 of fragment 1, which has 3 rows"):
        AddressMap([group([(1, 3, [])], [(2, 3)])]).map([address(1, 3)])


def test_counts_that_do_not_agree_are_refused():
    with pytest.raises(InvalidArgumentError, match="3 live rows, but 2"):
        AddressMap([group([(1, 3, [])], [(2, 2)])])


def test_a_fragment_in_two_groups_is_refused():
    with pytest.raises(InvalidArgumentError, match="two groups"):
        AddressMap([group([(1, 1, [])], [(2, 1)]), group([(1, 1, [])], [(3, 1)])])


@st.composite
def rewrites(draw):
    """Groups of old fragments with deletions, their survivors cut into new fragments; ids in any order."""
    ids = draw(st.permutations(range(12)))
    position, fresh, groups = 0, 100, []
    for size in draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)):
        old, survivors = [], 0
        for old_id in ids[position : position + size]:
            mask = draw(st.lists(st.booleans(), max_size=12))
            old.append((old_id, len(mask), [i for i, gone in enumerate(mask) if gone]))
            survivors += mask.count(False)
        position += size
        cuts = sorted(draw(st.lists(st.integers(0, survivors), max_size=3)))
        sizes = np.diff([0, *cuts, survivors]).tolist()
        groups.append((old, [(fresh + i, int(rows)) for i, rows in enumerate(sizes)]))
        fresh += len(sizes)
    return groups


@given(rewrites(), st.randoms(use_true_random=False))
def test_the_map_agrees_with_a_dictionary_built_row_by_row(groups, random):
    expected: dict[int, int | None] = {}
    for old, new in groups:
        targets = iter([address(i, offset) for i, rows in new for offset in range(rows)])
        for old_id, rows, gone in old:
            for offset in range(rows):
                expected[address(old_id, offset)] = None if offset in gone else next(targets)
    asked = [*expected, address(50, 1)]
    expected[address(50, 1)] = address(50, 1)
    random.shuffle(asked)
    new, kept = AddressMap([group(old, new) for old, new in groups]).map(asked)
    assert [int(n) if k else None for n, k in zip(new, kept, strict=True)] == [expected[a] for a in asked]


@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(0, 700), min_size=1, max_size=4),
    gone=st.sampled_from([0.0, 0.004, 0.02, 0.2, 0.9, 1.0]),
    in_order=st.booleans(),
)
def test_rows_are_found_in_large_fragments_however_many_are_deleted(seed, sizes, gone, in_order):
    rng = np.random.default_rng(seed)
    ids = rng.permutation(40)[: len(sizes)].tolist()
    masks = [rng.random(size) < gone for size in sizes]
    old = [(i, len(mask), np.flatnonzero(mask)) for i, mask in zip(ids, masks, strict=True)]
    survivors = int(sum(np.count_nonzero(~mask) for mask in masks))
    new = [(50, survivors // 3), (51, survivors - survivors // 3)]
    target = np.concatenate([row_addresses(i, np.arange(rows)) for i, rows in new])
    pairs = list(zip(ids, masks, strict=True))
    live, dead = (
        np.concatenate([row_addresses(i, np.flatnonzero(mask == is_gone)) for i, mask in pairs])
        for is_gone in (False, True)
    )
    asked = np.concatenate([live, dead])
    order = np.argsort(asked) if in_order else rng.permutation(len(asked))
    mapped, kept = AddressMap([group(old, new)]).map(asked[order])
    assert (kept == (order < len(live))).all()
    assert (mapped[kept] == target[order[kept]]).all()


def test_what_is_said_to_be_deleted_behind_the_last_row_deletes_no_row():
    moves = AddressMap([group([(1, 5, [1, 2, 64, 65])], [(2, 1)])])
    _, kept = moves.map([address(1, offset) for offset in range(5)])
    assert kept.tolist() == [True, False, False, True, True]


def test_the_map_is_built_from_fragments_and_their_deletions():
    old, new = fragment(3, 4), fragment(4, 3)
    moves = build_address_map([((old,), (new,))], lambda f: deleted(2))
    assert moves.old_fragment_ids == {3}
    mapped, kept = moves.map(row_addresses(3, [0, 1, 2, 3]))
    assert mapped[kept].tolist() == row_addresses(4, [0, 1, 2]).tolist()


@pytest.mark.parametrize("share", [0.01, 0.03, 0.15, 0.6])
def test_a_map_takes_half_a_byte_a_row_at_most_and_not_more_while_it_is_made(share: float) -> None:
    rng = np.random.default_rng(1)
    rows, fragments = 20_000, 100
    old = [fragment(number, rows) for number in range(fragments)]
    gone = {
        number: DeletionVector.from_offsets(np.flatnonzero(rng.random(rows) < share).astype(np.uint32))
        for number in range(fragments)
    }
    left = fragments * rows - sum(map(len, gone.values()))
    asked = row_addresses(7, np.arange(rows))
    build_address_map([((old[0],), (fragment(900, rows - len(gone[0])),))], lambda item: gone[item.id])
    tracemalloc.start()
    try:
        moves = build_address_map([(old, [fragment(900, left)])], lambda item: gone[item.id])
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held <= 0.5 * fragments * rows
    # One fragment at a time is unpacked: a few bytes for each of its rows.
    assert peak <= held + 16 * rows + 50_000
    _, kept = moves.map(asked)
    assert np.flatnonzero(~kept).tolist() == gone[7].offsets().tolist()
