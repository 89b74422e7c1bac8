"""Take: single rows by offset in the dataset, address or id."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.values.fixed_size_list import rearrange_rows
from lance_ops.errors import CorruptFileError, InvalidArgumentError, UnsupportedError
from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.storage.prefetch import has_latency, read_small
from lance_ops.table.assemble import empty_table
from lance_ops.table.joined_fragments import MOST_FRAGMENTS, JoinedFragments, file_kind
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.scan.projection import Projection, rows_without_columns
from lance_ops.table.scan.row_columns import ROW_ID, Offsets, Rows
from lance_ops.table.scan.sparse_rows import take_joined
from lance_ops.table.snapshot import Snapshot

_OFFSET_BITS, _OFFSET_MASK = np.uint64(32), np.uint64(0xFFFF_FFFF)
_SHOWN = 5
_FEW_ROWS = 1 << 12
"""Maximum rows read together: their size in memory is not estimated."""

Wanted = npt.NDArray[np.uint64]
Places = npt.NDArray[np.intp]


class RowKey(Enum):
    """Meaning of row numbers.

    `OFFSET` counts live rows in dataset order; `ADDRESS` is `_rowaddr`; `ID` is `_rowid`.
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
    """Read rows in the given order, with duplicates.

    Args:
        snapshot: The version.
        projection: Columns of the result.
        rows: Numbers of the rows.
        key: Their meaning.

    Raises:
        InvalidArgumentError: There is no live row of some number.
    """
    asked = np.asarray(rows)
    if asked.size and (not np.issubdtype(asked.dtype, np.integer) or int(asked.min()) < 0):
        raise InvalidArgumentError("rows must be non-negative integers", field="rows")
    wanted, inverse = _sort(asked.reshape(-1).astype(np.uint64))
    if key is RowKey.ID and not snapshot.uses_stable_row_ids:
        key = RowKey.ADDRESS
    found_together = _take_together(snapshot, projection, wanted, key)
    if found_together is not None:
        return found_together if inverse is None else rearrange_rows(found_together, pa.array(inverse))
    shares = _share_out(snapshot, projection, wanted, key)
    # Fragments are read concurrently on slow stores.
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
    """Read a few rows of several fragments as if these were one; None if that is not possible.

    Also None if a row does not exist or a file is damaged: the read by fragment reports which.
    """
    if key is RowKey.ID or not 1 < len(wanted) <= _FEW_ROWS or not projection.schema.fields:
        return None
    if has_latency(snapshot.bases.root) or has_blobs(projection.schema):
        return None
    addresses = _addresses(snapshot, wanted) if key is RowKey.OFFSET else wanted
    if addresses is None:
        return None
    owners = (addresses >> _OFFSET_BITS).astype(np.int64)
    changes = owners[1:] != owners[:-1]
    ids = owners[np.concatenate(([True], changes))].tolist()
    if len(ids) < 2:
        return None
    known = snapshot.fragments_by_id
    fragments = [known[number] for number in ids if number in known]
    if len(fragments) < len(ids):
        return None
    try:
        joined = snapshot.joined_fragments.find(fragments) or _join(snapshot, fragments)
        if joined is None:
            return None
        places = np.searchsorted(joined.ids, owners)
        rows = (addresses & _OFFSET_MASK).astype(np.int64) + joined.starts[places]
        if bool((rows >= joined.starts[places + 1]).any()):
            return None
        if key is RowKey.ADDRESS and _has_deleted(snapshot, ids, owners, addresses):
            return None
        table = take_joined(snapshot, joined, rows, projection.schema)
    except (CorruptFileError, UnsupportedError):
        return None
    columns = _AddressedRows(snapshot, ids, owners, addresses)
    return projection.build([table], columns, addresses.view(np.int64))


def _addresses(snapshot: Snapshot, wanted: Wanted) -> Wanted | None:
    """Return addresses of rows by offset; None unless they ascend."""
    starts, fragments = snapshot.first_rows, snapshot.fragments
    if int(wanted[-1]) >= int(starts[-1]):
        return None
    places = np.searchsorted(starts, wanted.view(np.int64), side="right") - 1
    offsets = wanted.view(np.int64) - starts[places]
    owners, firsts = np.unique(places, return_index=True)
    counts = np.diff(firsts, append=len(places))
    ids = np.array([fragments[place].id for place in owners.tolist()], dtype=np.uint64)
    for place, first, count in zip(owners.tolist(), firsts.tolist(), counts.tolist(), strict=True):
        deleted = snapshot.deletion_vector(fragments[place])
        if deleted is not None:
            own = offsets[first : first + count]
            own[:] = deleted.skip(own)
    addresses: Wanted = np.repeat(ids << _OFFSET_BITS, counts) + offsets.astype(np.uint64)
    return addresses if bool((addresses[1:] > addresses[:-1]).all()) else None


def _join(snapshot: Snapshot, fragments: Sequence[Fragment]) -> JoinedFragments | None:
    """Join fragments; None if one differs from the others."""
    if len(fragments) > MOST_FRAGMENTS:
        return None
    kinds = {file_kind(fragment) for fragment in fragments}
    if len(kinds) > 1 or None in kinds:
        return None
    return snapshot.joined_fragments.join(snapshot.bases, snapshot.open_files, fragments)


def _has_deleted(snapshot: Snapshot, ids: Sequence[int], owners: Offsets, addresses: Wanted) -> bool:
    """Return whether some of the rows are deleted."""
    for number in ids:
        deleted = snapshot.deletion_vector(snapshot.fragments_by_id[number])
        if deleted is not None:
            offsets = (addresses[owners == number] & _OFFSET_MASK).astype(np.int64)
            first, last = int(offsets[0]), int(offsets[-1]) + 1
            if bool(deleted.mask(first, last)[offsets - first].any()):
                return True
    return False


@dataclass(frozen=True, slots=True)
class _AddressedRows:
    """Row columns of rows of several fragments; a `RowColumnSource`.

    Attributes:
        snapshot: The version.
        ids: Fragments, as they follow each other.
        owners: Fragment position of each row, int64.
        addresses: Of the rows, ascending.
    """

    snapshot: Snapshot
    ids: Sequence[int]
    owners: Offsets
    addresses: Wanted

    def column(self, name: str, rows: Rows) -> pa.Array:
        """See `RowColumns.column`."""
        del rows
        known, numbers, starts = (
            self.snapshot.fragments_by_id,
            self.snapshot.fragment_numbers,
            self.snapshot.first_rows,
        )
        values = []
        for number in self.ids:
            fragment = FragmentRows(self.snapshot, known[number], int(starts[numbers[number]]))
            offsets = (self.addresses[self.owners == number] & _OFFSET_MASK).astype(np.int64)
            values.append(fragment.columns.values(name, offsets))
        return pa.array(np.concatenate(values), pa.uint64())


def _sort(asked: Wanted) -> tuple[Wanted, Places | None]:
    """Return distinct numbers, ascending, and the position of each input unless it was sorted."""
    if bool((asked[1:] > asked[:-1]).all()):
        return asked, None
    order = np.argsort(asked)
    wanted = asked[order]
    if not bool((wanted[1:] > wanted[:-1]).all()):
        return np.unique(asked, return_inverse=True)
    inverse = np.empty(len(order), np.intp)
    inverse[order] = np.arange(len(order))
    return wanted, inverse


def _order(found: Sequence[Places], wanted: Wanted, key: RowKey) -> Places | None:
    """Return the position of each wanted row among those found; None if they are in order.

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
        raise InvalidArgumentError(f"no live row has {key.value} {listed}", field="rows")
    return order


def _share_out(
    snapshot: Snapshot, projection: Projection, wanted: Wanted, key: RowKey
) -> Iterator[Callable[[], tuple[Places, pa.Table] | None]]:
    """Return for each fragment a function that selects its rows, and one that reads them."""
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
    """Return positions of fragments that may have some of the rows, with the range of these rows."""
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
