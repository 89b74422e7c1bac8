"""Compiled loops that look up where rows are after a rewrite."""

from numba import njit, types

from lance_ops.encoding.kernels.words import load_u64

_ROWS = types.Array(types.uint64, 1, "C", readonly=True)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_OFFSETS = 0xFFFF_FFFF


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


@njit(
    types.int64(
        _ROWS,
        _ROWS,
        _NUMBERS,
        _NUMBERS,
        _ROWS,
        _NUMBERS,
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
    new_start,
    new_ids,
    mapped,
    kept,
):
    """Where rows are; returns the position of an address behind the last row of its fragment, else -1.

    Addresses come mostly in order, and neighbours stay so unless one of them is deleted or another fragment
    begins: what is found for one holds for all within `low` and `high`.
    """
    low = types.uint64(1)
    high = types.uint64(0)
    shift = types.uint64(0)
    for number in range(len(addresses)):
        address = load_u64(addresses, number)
        kept[number] = True
        if address < low or address > high:
            owner = address >> types.uint64(32)
            low = owner << types.uint64(32)
            high = low | types.uint64(_OFFSETS)
            shift = types.uint64(0)
            place = _place(old_ids, 0, len(old_ids), owner)
            if place < len(old_ids) and old_ids[place] == owner:
                offset = types.int64(address & types.uint64(_OFFSETS))
                if offset >= old_rows[place]:
                    return number
                begin = deleted_stops[place - 1] if place else 0
                stop = deleted_stops[place]
                gone = _place(deleted, begin, stop, address)
                if gone < stop and deleted[gone] == address:
                    kept[number] = False
                    mapped[number] = address
                    low, high = types.uint64(1), types.uint64(0)
                    continue
                rank = first_rank[place] + offset - (gone - begin)
                target = _place(new_start, 0, len(new_start), rank + 1) - 1
                into = rank - new_start[target]
                shift = (new_ids[target] << types.uint64(32) | types.uint64(into)) - address
                # As far as the deleted rows on both sides, the fragment, and the one that takes them.
                first = types.int64(deleted[gone - 1] - low) + 1 if gone > begin else 0
                last = (types.int64(deleted[gone] - low) if gone < stop else old_rows[place]) - 1
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
