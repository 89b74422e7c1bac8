"""Row columns, computed rather than stored: row id, row address, row offset, and row versions."""

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrow_arrays import from_numpy
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.row_address_map import row_addresses
from lance_ops.table.manifest.row_ids import row_id_range, row_versions_at
from lance_ops.table.row_lineage.read import read_sequence
from lance_ops.table.snapshot import Snapshot

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
ROW_OFFSET = "_rowoffset"
ROW_CREATED_AT = "_row_created_at_version"
ROW_UPDATED_AT = "_row_last_updated_at_version"
ROW_COLUMNS = (ROW_ID, ROW_ADDRESS, ROW_OFFSET, ROW_CREATED_AT, ROW_UPDATED_AT)
"""Names as in pylance; all are uint64."""

Offsets = npt.NDArray[np.int64]
"""Physical offsets of rows, ascending."""

Rows = range | Offsets
"""The same, or a range, which takes no memory."""

# Values that pylance reports for rows of tables without row versions.
_FIRST_VERSION = 1


def as_offsets(rows: Rows) -> Offsets:
    """Convert to an array of offsets."""
    return np.arange(rows.start, rows.stop, dtype=np.int64) if isinstance(rows, range) else rows


def row_column_field(name: str) -> pa.Field:
    """Return the Arrow field of a row column."""
    return pa.field(name, pa.uint64())


class RowColumnSource(Protocol):
    """The row columns of some rows."""

    def column(self, name: str, rows: Rows) -> pa.Array:
        """See `RowColumns.column`."""


class RowColumns:
    """Row columns of one fragment, whose sequences are decoded on demand.

    Args:
        snapshot: The version.
        fragment: The fragment.
        deletions: Deleted rows of the fragment.
        rows_before: Live rows of the dataset before this fragment, for `_rowoffset`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        fragment: Fragment,
        *,
        deletions: DeletionVector | None,
        rows_before: int,
    ) -> None:
        self._bases = snapshot.bases
        self._fragment = fragment
        self._stable = snapshot.uses_stable_row_ids
        self._deletions = deletions
        self._rows_before = rows_before
        self._decoded: dict[str, npt.NDArray[np.uint64]] = {}

    def column(self, name: str, rows: Rows) -> pa.Array:
        """Return values of a row column.

        Args:
            name: One of `ROW_COLUMNS`.
            rows: The rows.

        Raises:
            CorruptManifestError: The sequence is damaged, missing or of another length than the fragment.
            CorruptFileError: Its data file is damaged.
        """
        return from_numpy(self.values(name, as_offsets(rows)), pa.uint64())

    def values(self, name: str, offsets: Offsets) -> npt.NDArray[np.uint64]:
        """Return values like `column`, as numpy array."""
        if name == ROW_OFFSET:
            return self._row_offsets(offsets)
        if name == ROW_ADDRESS or (name == ROW_ID and not self._stable):
            return row_addresses(self._fragment.id, offsets)
        if name == ROW_ID:
            return self._pick("row_ids", offsets)
        attribute = "created_at_versions" if name == ROW_CREATED_AT else "last_updated_at_versions"
        if not self._stable or getattr(self._fragment, attribute) is None:
            return np.full(len(offsets), _FIRST_VERSION, dtype=np.uint64)
        return self._pick(attribute, offsets)

    def _row_offsets(self, offsets: Offsets) -> npt.NDArray[np.uint64]:
        before = np.uint64(self._rows_before)
        if self._deletions is None or not len(self._deletions):
            return offsets.astype(np.uint64) + before
        deleted = np.searchsorted(self._deletions.offsets(), offsets)
        return (offsets - deleted).astype(np.uint64) + before

    def _pick(self, attribute: str, offsets: Offsets) -> npt.NDArray[np.uint64]:
        """Return values of a sequence; run-length encoded ones are not expanded for a few rows."""
        inline, rows, path = (
            getattr(self._fragment, attribute),
            self._fragment.physical_rows,
            self._bases.root.uri,
        )
        if attribute not in self._decoded and isinstance(inline, bytes):
            if attribute != "row_ids":
                return row_versions_at(inline, offsets, rows=rows, path=path)
            ids = row_id_range(inline, rows=rows, path=path)
            if ids is not None:
                return offsets.astype(np.uint64) + np.uint64(ids.start)
        return self._sequence(attribute)[offsets]

    def _sequence(self, attribute: str) -> npt.NDArray[np.uint64]:
        if attribute not in self._decoded:
            self._decoded[attribute] = read_sequence(self._bases, self._fragment, attribute)
        return self._decoded[attribute]
