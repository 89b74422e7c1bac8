"""Compiled loops that look up where rows are after a rewrite."""

from numba import njit, types

from lance_ops.encoding.kernels.words import load_u64

_ROWS = types.Array(types.uint64, 1, "C", readonly=True)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_SHORT_NUMBERS = types.Array(types.uint32, 1, "C", readonly=True)
_OFFSETS = 0xFFFF_FFFF
_WORD_ROWS = 64


@njit(cache=True, nogil=True)
def _place(values, start, stop, wanted):  # type: ignore[no-untyped-def]
    """The first place in a part of ascending values whose value is not below one."""
    while start < stop:
        middle = (start + stop) >> 1
        if values[middle] < wanted:
            start = middle + 1
        else:
            stop = middle
    return start


@njit(cache=True, nogil=True)
def _owner(starts, rank):  # type: ignore[no-untyped-def]
    """The last place of ascending values whose value is not above one; without a branch on what they are."""
    place, count = types.int64(0), len(starts)
    while count > 1:
        half = count >> 1
        place += half if starts[place + half] <= rank else 0
        count -= half
    return place


@njit(types.int64(types.uint64), cache=True, nogil=True, inline="always")
def _ones(word):  # type: ignore[no-untyped-def]
    """Return how many bits of a word are set."""
    word -= (word >> types.uint64(1)) & types.uint64(0x5555_5555_5555_5555)
    pairs = types.uint64(0x3333_3333_3333_3333)
    word = (word & pairs) + ((word >> types.uint64(2)) & pairs)
    word = (word + (word >> types.uint64(4))) & types.uint64(0x0F0F_0F0F_0F0F_0F0F)
    return types.int64((word * types.uint64(0x0101_0101_0101_0101)) >> types.uint64(56))


@njit(
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
    ),
    cache=True,
    nogil=True,
)
def follow(  # type: ignore[no-untyped-def]
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
    """Where rows are; returns the position of an address behind the last row of its fragment, else -1.

    Where addresses come in order, neighbours stay so unless one of them is deleted or another fragment
    begins: what is found for one holds for all within `low` and `high`. Where they do not, as in an index by
    value, each is looked up in its block, and the neighbours are not worth it.
    """
    one, bits = types.uint64(1), types.uint64(_WORD_ROWS - 1)
    first_id = old_ids[0] if len(old_ids) else types.uint64(0)
    low, high, shift, before = one, types.uint64(0), types.uint64(0), types.uint64(0)
    for number in range(len(addresses)):
        address = load_u64(addresses, number)
        kept[number] = True
        if address < low or address > high:
            is_near = address - before < types.uint64(_WORD_ROWS)
            before = address
            low, high, shift = one, types.uint64(0), types.uint64(0)
            owner = address >> types.uint64(32)
            # Ids mostly follow each other.
            place = types.int64(owner - first_id)
            if place < 0 or place >= len(old_ids) or old_ids[place] != owner:
                place = _place(old_ids, 0, len(old_ids), owner)
            if place < len(old_ids) and old_ids[place] == owner:
                offset = types.int64(address & types.uint64(_OFFSETS))
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
                    is_gone = gone < blocks[block + 1] and types.int64(deleted[gone]) == offset
                if is_gone:
                    kept[number] = False
                    mapped[number] = address
                    continue
                begin = deleted_stops[place - 1] if place else 0
                stop = deleted_stops[place]
                rank = first_rank[place] + offset - (gone - begin)
                target = _owner(new_start, rank)
                into = rank - new_start[target]
                shift = (new_ids[target] << types.uint64(32) | types.uint64(into)) - address
                if is_near:
                    # As far as the deleted rows on both sides, the fragment, and the one that takes them.
                    low = owner << types.uint64(32)
                    if len(words):
                        # Where many are deleted, no neighbour lies far away: those behind, in the block.
                        first, last = offset, min(offset | (_WORD_ROWS - 1), old_rows[place] - 1)
                        above = words[block] >> bit
                        if above:
                            last = offset + _ones((above & (~above + one)) - one) - 1
                    else:
                        first = types.int64(deleted[gone - 1]) + 1 if gone > begin else 0
                        last = (types.int64(deleted[gone]) if gone < stop else old_rows[place]) - 1
                    if target + 1 < len(new_start):
                        last = min(last, offset + new_start[target + 1] - rank - 1)
                    high = low | types.uint64(last)
                    low |= types.uint64(max(first, offset - into))
        mapped[number] = address + shift
    return -1


@njit(types.int64(_ROWS, _NUMBERS), cache=True, nogil=True)
def find_outside(addresses, limits):  # type: ignore[no-untyped-def]
    """Position of the first address whose fragment has no limit, or not as many rows; -1 if there is none."""
    known = types.int64(-1)
    limit = types.int64(0)
    for number in range(len(addresses)):
        address = load_u64(addresses, number)
        owner = types.int64(address >> types.uint64(32))
        if owner != known:
            known = owner
            if owner == _OFFSETS:
                limit = types.int64(1) << 32
            elif owner < len(limits):
                limit = limits[owner]
            else:
                limit = 0
        if types.int64(address & types.uint64(_OFFSETS)) >= limit:
            return number
    return -1
