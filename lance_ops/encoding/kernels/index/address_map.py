"""Row addresses (fragment id << 32 | row offset): where rows are after a rewrite, and which there can be."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers, Words64
from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.kernels.words import load_u64
from lance_ops.encoding.row_blocks import RowBlocks

_ROWS = types.Array(types.uint64, 1, "C", readonly=True)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_SHORT_NUMBERS = types.Array(types.uint32, 1, "C", readonly=True)
_OFFSETS = 0xFFFF_FFFF
_WORD_ROWS = 64


@inner
def _place(values, start, stop, wanted):
    """The first place in a part of ascending values whose value is not below one."""
    while start < stop:
        middle = (start + stop) >> 1
        if values[middle] < wanted:
            start = middle + 1
        else:
            stop = middle
    return start


@inner
def _owner(starts, rank):
    """The last place of ascending values whose value is not above one; without a branch on what they are."""
    place, count = np.int64(0), len(starts)
    while count > 1:
        half = count >> 1
        place += half if starts[place + half] <= rank else 0
        count -= half
    return place


@inner(types.int64(types.uint64), inline="always")
def _ones(word):
    """Return how many bits of a word are set."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555_5555_5555_5555)
    pairs = np.uint64(0x3333_3333_3333_3333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F_0F0F_0F0F_0F0F)
    return np.int64((word * np.uint64(0x0101_0101_0101_0101)) >> np.uint64(56))


@loop(
    types.int64(
        _ROWS,
        _ROWS,
        _NUMBERS,
        _NUMBERS,
        _SHORT_NUMBERS,
        _NUMBERS,
        _NUMBERS,
        _NUMBERS,
        types.int64,
        _ROWS,
        _NUMBERS,
        _ROWS,
        types.uint64[::1],
        types.boolean[::1],
    )
)
def _follow(
    addresses,
    old_ids,
    old_rows,
    first_rank,
    deleted,
    deleted_stops,
    first_block,
    blocks,
    block_bits,
    words,
    new_start,
    new_ids,
    mapped,
    kept,
):
    one, bits = np.uint64(1), np.uint64(_WORD_ROWS - 1)
    first_id = old_ids[0] if len(old_ids) else np.uint64(0)
    low, high, shift, before = one, np.uint64(0), np.uint64(0), np.uint64(0)
    for number in range(len(addresses)):
        address = load_u64(addresses, number)
        kept[number] = True
        if address < low or address > high:
            is_near = address - before < np.uint64(_WORD_ROWS)
            before = address
            low, high, shift = one, np.uint64(0), np.uint64(0)
            owner = address >> np.uint64(32)
            # Ids mostly follow each other.
            place = np.int64(owner - first_id)
            if place < 0 or place >= len(old_ids) or old_ids[place] != owner:
                place = _place(old_ids, 0, len(old_ids), owner)
            if place < len(old_ids) and old_ids[place] == owner:
                offset = np.int64(address & np.uint64(_OFFSETS))
                if offset >= old_rows[place]:
                    return number
                block = first_block[place] + (offset >> block_bits)
                gone = blocks[block]
                if len(words):
                    bit = address & bits
                    is_gone = (words[block] >> bit) & one == one
                    gone += _ones(words[block] & ((one << bit) - one))
                else:
                    gone = _place(deleted, gone, blocks[block + 1], offset)
                    is_gone = gone < blocks[block + 1] and np.int64(deleted[gone]) == offset
                if is_gone:
                    kept[number] = False
                    mapped[number] = address
                    continue
                begin = deleted_stops[place - 1] if place else 0
                stop = deleted_stops[place]
                rank = first_rank[place] + offset - (gone - begin)
                target = _owner(new_start, rank)
                into = rank - new_start[target]
                shift = (new_ids[target] << np.uint64(32) | np.uint64(into)) - address
                if is_near:
                    # As far as the deleted rows on both sides, the fragment, and the one that takes them.
                    low = owner << np.uint64(32)
                    if len(words):
                        # Where many are deleted, no neighbour lies far away: those behind, in the block.
                        first, last = offset, min(offset | (_WORD_ROWS - 1), old_rows[place] - 1)
                        above = words[block] >> bit
                        if above:
                            last = offset + _ones((above & (~above + one)) - one) - 1
                    else:
                        first = np.int64(deleted[gone - 1]) + 1 if gone > begin else 0
                        last = (np.int64(deleted[gone]) if gone < stop else old_rows[place]) - 1
                    if target + 1 < len(new_start):
                        last = min(last, offset + new_start[target + 1] - rank - 1)
                    high = low | np.uint64(last)
                    low |= np.uint64(max(first, offset - into))
        mapped[number] = address + shift
    return -1


@loop(types.int64(_ROWS, _NUMBERS))
def _find_outside(addresses, limits):
    known = np.int64(-1)
    limit = np.int64(0)
    for number in range(len(addresses)):
        address = load_u64(addresses, number)
        owner = np.int64(address >> np.uint64(32))
        if owner != known:
            known = owner
            if owner == _OFFSETS:
                limit = np.int64(1) << 32
            elif owner < len(limits):
                limit = limits[owner]
            else:
                limit = 0
        if np.int64(address & np.uint64(_OFFSETS)) >= limit:
            return number
    return -1


def follow(
    *,
    addresses: Words64,
    old_ids: Words64,
    old_rows: Integers,
    first_rank: Integers,
    deleted_stops: Integers,
    blocks: RowBlocks,
    new_start: Integers,
    new_ids: Words64,
    mapped: Words64,
    kept: npt.NDArray[np.bool_],
) -> int:
    """Map row addresses of rewritten fragments.

    Args:
        addresses: Before the rewrite, in any order.
        old_ids: Shape (old,): ids of the rewritten fragments, ascending.
        old_rows: Shape (old,): their rows, deleted ones included.
        first_rank: Shape (old,): rank of the first surviving row of each among all survivors.
        deleted_stops: Shape (old,): how many deleted rows there are up to the end of each.
        blocks: Of these fragments and their deleted rows, see `RowBlocks`.
        new_start: Shape (new,): rank of the first row of each new fragment that has rows, ascending from 0;
            they have as many rows as survive.
        new_ids: Shape (new,): their ids.
        mapped: Shape of `addresses`: gets where they are. Those of other fragments stay; those of deleted
            rows, too.
        kept: Shape of `addresses`: gets whether a row is there.

    Returns:
        The position of an address behind the last row of its fragment; -1 if there is none.
    """
    return int(
        _follow(
            addresses,
            old_ids,
            old_rows,
            first_rank,
            blocks.deleted,
            deleted_stops,
            blocks.first,
            blocks.starts,
            blocks.bits,
            blocks.words,
            new_start,
            new_ids,
            mapped,
            kept,
        )
    )


def find_outside(*, addresses: Words64, limits: Integers) -> int:
    """Return the first address that no row can have.

    Args:
        addresses: In any order.
        limits: Rows that each fragment has at most, by its id. Fragment 0xFFFF_FFFF has any.

    Returns:
        Its position; -1 if there is none.
    """
    return int(_find_outside(addresses, limits))
