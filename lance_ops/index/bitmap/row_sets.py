"""Columns of row sets: build, map and merge many sets at once.

The bitmaps of a column with many values are mostly sets of a single row, whose bytes have a fixed format:
these are written and read without parsing each.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lance_ops.index.moved_sets import move_sets
from lance_ops.index.row_bounds import RowBounds
from lance_ops.table.manifest.row_set import Addresses, RowSet

Sizes = npt.NDArray[np.int64]
Locate = Callable[[Addresses], tuple[Addresses, npt.NDArray[np.bool_]]]
"""Function from row addresses to current addresses and a mask of valid rows."""

_AT_ONCE = 1 << 20
"""Maximum rows of sets expanded at once."""

# One row: one fragment with one bitmap (portable Roaring, no runs) of one container with one value.
_SINGLE = np.dtype(
    [
        ("fragments", "<u4"),
        ("owner", "<u4"),
        ("length", "<u4"),
        ("cookie", "<u4"),
        ("containers", "<u4"),
        ("key", "<u2"),
        ("rows", "<u2"),
        ("offset", "<u4"),
        ("value", "<u2"),
    ]
)
_SHAPE = {
    "fragments": 1,
    "length": _SINGLE.itemsize - 12,
    "cookie": 12346,
    "containers": 1,
    "rows": 0,
    "offset": 16,
}


def encode_row_sets(addresses: Addresses, sizes: Sizes) -> pa.Array:
    """Row sets as a column of binary.

    Args:
        addresses: The rows of all sets, one set behind the other; those of one in any order.
        sizes: Rows of each set. A row that is in a set twice counts twice.
    """
    stops = np.cumsum(sizes)
    single = np.flatnonzero(sizes == 1)
    others = {
        int(place): RowSet.of(addresses[stops[place] - sizes[place] : stops[place]]).serialize()
        for place in np.flatnonzero(sizes != 1)
    }
    return _assemble(len(sizes), single, addresses[stops[single] - 1], others)


def move_row_sets(
    column: pa.Array, bounds: RowBounds, locate: Locate
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Return the same sets with their rows where they are now.

    Returns:
        The sets that are not empty then, and for each set of `column` whether it is one of these.

    Raises:
        CorruptFileError: A set cannot be read, or names rows that cannot be.
    """

    def move(rows: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
        there = bounds.there(rows)
        if there.all():
            return locate(rows)
        moved, kept = rows.copy(), there.copy()
        moved[there], kept[there] = locate(rows[there])
        return moved, kept

    parts = [
        _move_apart(column[part], bounds, locate) if found is None else found
        for part, found in move_sets(column, move, framed=True)
    ]
    return pa.concat_arrays([sets for _, sets in parts]), np.concatenate([filled for filled, _ in parts])


def _move_apart(
    column: pa.Array, bounds: RowBounds, locate: Locate
) -> tuple[npt.NDArray[np.bool_], pa.Array]:
    single, found, others = _split(column, bounds)
    addresses, kept = locate(found)
    single, addresses = single[kept], addresses[kept]
    moved = {place: rows for place, rows in _moved(others, locate) if rows}
    filled = np.zeros(len(column), np.bool_)
    filled[single] = True
    filled[list(moved)] = True
    place_of = np.cumsum(filled) - 1
    encoded = {int(place_of[place]): rows.serialize() for place, rows in moved.items()}
    return filled, _assemble(int(filled.sum()), place_of[single], addresses, encoded)


def restrict_row_sets(
    column: pa.Array, bounds: RowBounds, fragments: frozenset[int]
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Return the same sets without the rows of other fragments; see `move_row_sets`.

    Sets that keep all of their rows are taken over as they are.

    Raises:
        CorruptFileError: A set cannot be read, or names rows that cannot be.
    """
    single, found, others = _split(column, bounds)
    filled = np.ones(len(column), np.bool_)
    filled[single] = np.isin(found >> np.uint64(32), np.array(sorted(fragments), np.uint64))
    changed: list[int] = []
    encoded: list[bytes] = []
    for place, rows in others:
        if rows.fragment_ids <= fragments and rows:
            continue
        kept = rows.restrict(fragments)
        filled[place] = bool(kept)
        if kept:
            changed.append(place)
            encoded.append(kept.serialize())
    if changed:
        mask = np.zeros(len(column), np.bool_)
        mask[changed] = True
        column = pc.replace_with_mask(column, pa.array(mask), pa.array(encoded, pa.binary()))
    return (column if filled.all() else column.filter(pa.array(filled))), filled


def check_row_sets(column: pa.Array, bounds: RowBounds) -> None:
    """Validate all sets.

    Raises:
        CorruptFileError: A set cannot be read, or has impossible rows.
    """
    _split(column, bounds)


def move_row_set(rows: RowSet, locate: Locate) -> RowSet:
    """Map the rows of one set; memory is bounded by the rows of a fragment."""
    return union(
        [_located(rows.restrict([owner]).addresses(), locate) for owner in sorted(rows.fragment_ids)]
    )


def addresses_of_row_sets(column: pa.Array, bounds: RowBounds) -> Iterator[Addresses]:
    """Yield all rows of all sets, a part at a time.

    Raises:
        CorruptFileError: A set cannot be read, or names rows that cannot be.
    """
    _, found, others = _split(column, bounds)
    yield found
    for _, rows in others:
        yield from addresses_of(rows)


def addresses_of(rows: RowSet) -> Iterator[Addresses]:
    """Yield all rows of a set, a fragment at a time."""
    for owner in sorted(rows.fragment_ids):
        yield rows.restrict([owner]).addresses()


def union_of_row_sets(column: pa.Array, bounds: RowBounds) -> RowSet:
    """Return the union of all sets, without rows of removed fragments.

    Raises:
        CorruptFileError: A set cannot be read, or has impossible rows.
    """
    _, found, others = _split(column, bounds)
    return union([RowSet.of(found), *(rows for _, rows in others)])


def union(sets: Sequence[RowSet]) -> RowSet:
    """Return all rows of some sets, which is quicker than one `|` after the other."""
    if len(sets) == 1:
        return sets[0]
    bitmaps: dict[int, list[BitMap]] = {}
    for rows in sets:
        for owner in rows.fragment_ids:
            bitmaps.setdefault(owner, []).append(rows.offsets_in(owner))
    return RowSet({owner: BitMap.union(*parts) for owner, parts in bitmaps.items()})


def _moved(sets: Sequence[tuple[int, RowSet]], locate: Locate) -> Iterator[tuple[int, RowSet]]:
    """Small sets are located together, each of the others alone."""
    small: list[tuple[int, RowSet]] = []
    waiting = 0
    for place, rows in sets:
        size = len(rows)
        if size > _AT_ONCE:
            yield place, move_row_set(rows, locate)
            continue
        if waiting + size > _AT_ONCE:
            yield from _moved_together(small, locate)
            small, waiting = [], 0
        small.append((place, rows))
        waiting += size
    yield from _moved_together(small, locate)


def _moved_together(sets: Sequence[tuple[int, RowSet]], locate: Locate) -> Iterator[tuple[int, RowSet]]:
    if not sets:
        return
    addresses = np.concatenate([rows.addresses() for _, rows in sets])
    moved, kept = locate(addresses)
    stays = kept & (moved == addresses)
    start = 0
    for place, rows in sets:
        part = slice(start, start + len(rows))
        start = part.stop
        yield place, rows if stays[part].all() else RowSet.of(moved[part][kept[part]])


def _located(addresses: Addresses, locate: Locate) -> RowSet:
    moved, kept = locate(addresses)
    return RowSet.of(moved[kept])


def _assemble(
    count: int, single: npt.NDArray[np.int64], addresses: Addresses, others: Mapping[int, bytes]
) -> pa.Array:
    """Return a column of sets: those of one row by position, and the bytes of the others by position."""
    lengths = np.full(count, _SINGLE.itemsize, np.int64)
    lengths[list(others)] = [len(data) for data in others.values()]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    data = np.empty(int(offsets[-1]), np.uint8)
    data[_bytes_of(offsets[single])] = _encode_singles(addresses)
    for place, serialized in others.items():
        data[offsets[place] : offsets[place + 1]] = np.frombuffer(serialized, np.uint8)
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _split(
    column: pa.Array, bounds: RowBounds
) -> tuple[npt.NDArray[np.int64], Addresses, list[tuple[int, RowSet]]]:
    """Places of sets of a single row that is there, their rows, and all other sets by place."""
    _, offset_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[column.offset : column.offset + len(column) + 1].astype(
        np.int64
    )
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    candidates = np.flatnonzero(np.diff(offsets) == _SINGLE.itemsize)
    records = data[_bytes_of(offsets[candidates])].reshape(-1).view(_SINGLE)
    fits = np.ones(len(candidates), np.bool_)
    for name, value in _SHAPE.items():
        fits &= records[name] == value
    records, singles = records[fits], candidates[fits]
    rows = records["key"].astype(np.uint64) << np.uint64(16) | records["value"]
    owners, inverse = np.unique(records["owner"], return_inverse=True)
    limits = np.array([bounds.rows_of(int(owner)) for owner in owners], np.uint64)[inverse]
    there = rows < limits
    # Other damage is reported when the sets are read one by one.
    looked_at = np.ones(len(column), np.bool_)
    looked_at[singles[there]] = False
    others = [
        (int(place), bounds.read(data[offsets[place] : offsets[place + 1]].tobytes()))
        for place in np.flatnonzero(looked_at)
    ]
    addresses = records["owner"][there].astype(np.uint64) << np.uint64(32) | rows[there]
    return singles[there], addresses, others


def _bytes_of(starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return positions of the bytes of sets of one row that start somewhere, a line each."""
    return starts[:, None] + np.arange(_SINGLE.itemsize)


def _encode_singles(addresses: Addresses) -> npt.NDArray[np.uint8]:
    records = np.zeros(len(addresses), _SINGLE)
    for name, value in _SHAPE.items():
        records[name] = value
    records["owner"] = addresses >> np.uint64(32)
    records["key"] = (addresses >> np.uint64(16)) & np.uint64(0xFFFF)
    records["value"] = addresses & np.uint64(0xFFFF)
    return records.view(np.uint8).reshape(-1, _SINGLE.itemsize)
