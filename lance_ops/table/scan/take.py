"""Take: single rows, by their place in the dataset, their address or their id."""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.values.fixed_size_list import rearrange_rows
from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.storage.prefetch import has_latency, read_small
from lance_ops.table.assemble import empty_table
from lance_ops.table.joined_fragments import MOST_FRAGMENTS, file_kind
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.scan.plan import FragmentPlan
from lance_ops.table.scan.projection import Projection, rows_without_columns
from lance_ops.table.scan.row_columns import ROW_ID, Offsets
from lance_ops.table.scan.sparse_rows import SparseRows
from lance_ops.table.snapshot import Snapshot

_OFFSET_BITS, _OFFSET_MASK = np.uint64(32), np.uint64(0xFFFF_FFFF)
_SHOWN = 5
_FEW_ROWS = 1 << 12
"""Rows that are read together at most: what they take in memory is not looked at before."""

Wanted = npt.NDArray[np.uint64]
Places = npt.NDArray[np.intp]


class RowKey(Enum):
    """What numbers name rows.

    `OFFSET` counts live rows in the order of the dataset; `ADDRESS` is `_rowaddr`; `ID` is `_rowid`.
    """

    OFFSET = "offset"
    ADDRESS = "address"
    ID = "id"


def take_rows(
    snapshot: Snapshot,
    projection: Projection,
    rows: npt.ArrayLike,
    key: RowKey,
) -> pa.Table:
    """Fetch rows in the order asked for, repeated ones as often as asked for.

    Args:
        snapshot: The version.
        projection: Columns of the result.
        rows: Numbers that name the rows.
        key: What they are.

    Raises:
        InvalidArgumentError: There is no live row of some number.
    """
    asked = np.asarray(rows)
    if asked.size and (not np.issubdtype(asked.dtype, np.integer) or int(asked.min()) < 0):
        raise InvalidArgumentError("rows must be whole numbers, not negative", field="rows")
    wanted, inverse = _sort(asked.reshape(-1).astype(np.uint64))
    if key is RowKey.ID and not snapshot.uses_stable_row_ids:
        key = RowKey.ADDRESS
    found_together = _take_together(snapshot, projection, wanted, key)
    if found_together is not None:
        return found_together if inverse is None else rearrange_rows(found_together, pa.array(inverse))
    shares = _share_out(snapshot, projection, wanted, key)
    # Fragments are read side by side where requests take long.
    taken = [some for some in read_small(snapshot.bases.root, shares) if some is not None]
    tables, found = [table for _, table in taken], [positions for positions, _ in taken]
    order = _order(found, wanted, key)
    if not projection.outputs:
        return rows_without_columns(asked.size, projection.arrow_schema)
    if not tables:
        return empty_table(projection.arrow_schema)
    table = pa.concat_tables(tables)
    if order is not None:
        inverse = order if inverse is None else order[inverse]
    return table if inverse is None else rearrange_rows(table, pa.array(inverse))


def _take_together(
    snapshot: Snapshot, projection: Projection, wanted: Wanted, key: RowKey
) -> pa.Table | None:
    """A few rows of several fragments, read as if these were one; None where that cannot be done.

    Nor where some row is not there: whoever reads fragment by fragment says which.
    """
    if key is RowKey.ID or not 1 < len(wanted) <= _FEW_ROWS or not projection.schema.fields:
        return None
    if has_latency(snapshot.bases.root) or has_blobs(projection.schema):
        return None
    fragments, starts = snapshot.fragments, snapshot.first_rows
    plans: list[FragmentPlan] = []
    for number, first, last in _find_shares(snapshot, wanted, key):
        fragment, before = fragments[number], int(starts[number])
        kind = file_kind(fragment)
        if kind is None or len(plans) == MOST_FRAGMENTS or (plans and kind != file_kind(plans[0].fragment)):
            return None
        if key is RowKey.OFFSET and fragment.deletion_file is not None:
            return None
        offsets = wanted[first:last] - np.uint64(before) if key is RowKey.OFFSET else wanted[first:last]
        plans.append(FragmentPlan(fragment, before, (offsets & _OFFSET_MASK).astype(np.uint32)))
    if len(plans) < 2:
        return None
    source = SparseRows(snapshot, plans)
    rows = source.live_rows()
    if len(rows) < len(wanted):
        return None
    return projection.build([source.fetch(projection.schema, rows)], source.columns, rows)


def _sort(asked: Wanted) -> tuple[Wanted, Places | None]:
    """The numbers, ascending and each once, and where each asked for is among them if they were not so."""
    if bool((asked[1:] > asked[:-1]).all()):
        return asked, None
    wanted, inverse = np.unique(asked, return_inverse=True)
    return wanted, inverse


def _order(found: Sequence[Places], wanted: Wanted, key: RowKey) -> Places | None:
    """Where each wanted row is among those that were found; None where it is in its place.

    Raises:
        InvalidArgumentError: One was not found.
    """
    positions = np.concatenate(found) if found else np.zeros(0, dtype=np.intp)
    if len(positions) == len(wanted) and bool((positions[1:] > positions[:-1]).all()):
        return None
    order = np.full(len(wanted), -1, dtype=np.intp)
    order[positions] = np.arange(len(positions))
    missing = wanted[order < 0]
    if len(missing):
        listed = ", ".join(str(number) for number in missing[:_SHOWN])
        raise InvalidArgumentError(f"no live row has the {key.value} {listed}", field="rows")
    return order


def _share_out(
    snapshot: Snapshot, projection: Projection, wanted: Wanted, key: RowKey
) -> Iterator[Callable[[], tuple[Places, pa.Table] | None]]:
    """Per fragment: what finds which of the wanted rows it has, and reads them; None of one that has none."""
    fragments, starts = snapshot.fragments, snapshot.first_rows

    def take(number: int, first: int, last: int) -> tuple[Places, pa.Table] | None:
        before = int(starts[number])
        rows = FragmentRows(snapshot, fragments[number], before)
        # Offsets ascend.
        positions, offsets = _offsets(rows, wanted[first:last], key, before)
        if not len(positions):
            return None
        read = [rows.fetch(projection.schema, offsets)] if projection.schema.fields else []
        return positions + first, projection.build(read, rows.columns, offsets)

    return (partial(take, *share) for share in _find_shares(snapshot, wanted, key))


def _find_shares(snapshot: Snapshot, wanted: Wanted, key: RowKey) -> Iterator[tuple[int, int, int]]:
    """Numbers of the fragments that may have some of the rows, and which rows these are: first and end."""
    if key is RowKey.ID:
        yield from ((number, 0, len(wanted)) for number in range(len(snapshot.fragments)) if len(wanted))
        return
    if key is RowKey.OFFSET:
        parts = np.searchsorted(snapshot.first_rows.astype(np.uint64), wanted, side="right") - 1
        by_id = None
    else:
        parts = (wanted >> _OFFSET_BITS).astype(np.intp)
        by_id = snapshot.fragment_numbers
    count = len(snapshot.fragments)
    cuts = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(parts)]
    for first, last in pairwise(cuts):
        if first < last:
            number = int(parts[first])
            number = by_id.get(number, count) if by_id is not None else number
            if number < count:
                yield number, first, last


def _offsets(rows: FragmentRows, wanted: Wanted, key: RowKey, before: int) -> tuple[Places, Offsets]:
    if key is RowKey.OFFSET and rows.deletions is None:
        return np.arange(len(wanted)), (wanted - np.uint64(before)).astype(np.int64)
    if key is RowKey.OFFSET:
        live = rows.live_offsets(0, rows.fragment.physical_rows)
        return np.arange(len(wanted)), live[(wanted - np.uint64(before)).astype(np.int64)]
    if key is RowKey.ADDRESS:
        offsets = (wanted & _OFFSET_MASK).astype(np.int64)
        found = np.flatnonzero(rows.is_live(offsets))
        return found, offsets[found]
    live = rows.live_offsets(0, rows.fragment.physical_rows)
    ids = rows.columns.values(ROW_ID, live)
    hits = np.flatnonzero(np.isin(ids, wanted))
    return np.searchsorted(wanted, ids[hits]), live[hits]
