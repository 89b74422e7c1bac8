"""Fetching single rows, by their place in the dataset, their address or their id."""

from collections.abc import Iterator, Sequence
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import InvalidArgumentError
from lance_ops.table.fragment import Fragment
from lance_ops.table.fragment_rows import FragmentRows, Offsets, ScanSource
from lance_ops.table.projection import Projection, rows_without_columns
from lance_ops.table.row_columns import ROW_ID

_OFFSET_MASK = np.uint64(0xFFFF_FFFF)
_SHOWN = 5

Wanted = npt.NDArray[np.uint64]


class RowKey(Enum):
    """What numbers name rows.

    `OFFSET` counts live rows in the order of the dataset; `ADDRESS` is `_rowaddr`; `ID` is `_rowid`.
    """

    OFFSET = "offset"
    ADDRESS = "address"
    ID = "id"


def take_rows(
    source: ScanSource,
    fragments: Sequence[Fragment],
    projection: Projection,
    rows: npt.ArrayLike,
    key: RowKey,
) -> pa.Table:
    """Fetch rows in the order asked for, repeated ones as often as asked for.

    Args:
        source: The dataset.
        fragments: All of its fragments, in order.
        projection: Columns of the result.
        rows: Numbers that name the rows.
        key: What they are.

    Raises:
        InvalidArgumentError: There is no live row of some number.
    """
    asked = np.asarray(rows)
    if asked.size and (not np.issubdtype(asked.dtype, np.integer) or int(asked.min()) < 0):
        raise InvalidArgumentError("rows must be whole numbers, not negative", field="rows")
    wanted, inverse = np.unique(asked.astype(np.uint64), return_inverse=True)
    if key is RowKey.ID and not source.stable_row_ids:
        key = RowKey.ADDRESS
    place = np.full(len(wanted), -1, dtype=np.int64)
    tables = []
    count = 0
    for fragment, positions, offsets in _locate(source, fragments, wanted, key):
        place[positions] = np.arange(count, count + len(positions))
        count += len(positions)
        read = [fragment.fetch(projection.schema, offsets)] if projection.schema.fields else []
        tables.append(projection.build(read, fragment.columns, offsets))
    missing = wanted[place < 0]
    if len(missing):
        listed = ", ".join(str(number) for number in missing[:_SHOWN])
        raise InvalidArgumentError(f"no live row has the {key.value} {listed}", field="rows")
    if not projection.outputs:
        return rows_without_columns(asked.size, projection.arrow_schema)
    if not tables:
        return projection.arrow_schema.empty_table()
    return pa.concat_tables(tables).take(pa.array(place[inverse.reshape(-1)]))


def _locate(
    source: ScanSource, fragments: Sequence[Fragment], wanted: Wanted, key: RowKey
) -> Iterator[tuple[FragmentRows, npt.NDArray[np.intp], Offsets]]:
    """Per fragment: which of the wanted rows it has, and where; offsets ascend."""
    before = 0
    for fragment in fragments:
        bounds = {
            RowKey.OFFSET: (before, before + fragment.num_rows),
            RowKey.ADDRESS: (fragment.id << 32, (fragment.id + 1) << 32),
            RowKey.ID: (0, 1 << 64),
        }[key]
        first = int(np.searchsorted(wanted, np.uint64(bounds[0])))
        last = len(wanted) if bounds[1] >= 1 << 64 else int(np.searchsorted(wanted, np.uint64(bounds[1])))
        if first < last:
            rows = FragmentRows(source, fragment, before)
            positions, offsets = _offsets(rows, wanted[first:last], key, before)
            if len(positions):
                yield rows, positions + first, offsets
        before += fragment.num_rows


def _offsets(
    rows: FragmentRows, wanted: Wanted, key: RowKey, before: int
) -> tuple[npt.NDArray[np.intp], Offsets]:
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
