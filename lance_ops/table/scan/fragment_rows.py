"""Fragment rows as readers see them: without deleted rows, and with row columns."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.values.fixed_size_list import filter_rows
from lance_ops.file.layout import SPARSE
from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.filter import Expression
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.attached_blobs import attached_blobs
from lance_ops.table.scan.fragment_reader import FragmentReader
from lance_ops.table.scan.page_pruning import RowRange, plan_row_ranges
from lance_ops.table.scan.projection import rows_without_columns
from lance_ops.table.scan.row_columns import ROW_ID, Offsets, RowColumns, Rows, as_offsets
from lance_ops.table.scan.stored_columns import attached_columns
from lance_ops.table.snapshot import Snapshot

# In wide tables the overhead per column exceeds the bytes that could be saved.
_MOST_LOOKED_AT = 64


class FragmentRows:
    """Reader of some rows of one fragment.

    Args:
        snapshot: The version.
        fragment: One of its fragments, or a copy without its deletion file, which has all rows.
        rows_before: Live rows of the dataset before it.
    """

    def __init__(self, snapshot: Snapshot, fragment: Fragment, rows_before: int) -> None:
        self.fragment = fragment
        self.deletions = snapshot.deletion_vector(fragment)
        self.columns = RowColumns(snapshot, fragment, deletions=self.deletions, rows_before=rows_before)
        self.reader = FragmentReader(snapshot, fragment)
        self._snapshot = snapshot

    def row_ranges(self, expression: Expression, schema: Schema, start: int, stop: int) -> list[RowRange]:
        """Return parts of the rows `[start, stop)` that a filter can select; usually all of them.

        Args:
            expression: The filter.
            schema: Its columns.
            start: First row.
            stop: Row after the last.
        """
        known = self.reader.page_bounds(schema)
        if not known:
            return [(start, stop)]
        bounds = {path: known[node.id] for path, node in _plain_columns(schema.fields) if node.id in known}
        return plan_row_ranges(expression, bounds, start, stop)

    def live_offsets(self, start: int, stop: int) -> Offsets:
        """Return offsets of the rows in `[start, stop)` that are not deleted, ascending."""
        if self.deletions is None or not self.deletions.count(start, stop):
            return np.arange(start, stop, dtype=np.int64)
        return np.flatnonzero(~self.deletions.mask(start, stop)) + start

    def live_rows(self, start: int, stop: int) -> Rows:
        """Return live rows like `live_offsets`, as a range if no row is deleted."""
        if self.deletions is None or not self.deletions.count(start, stop):
            return range(start, stop)
        return self.live_offsets(start, stop)

    def is_live(self, offsets: Offsets) -> npt.NDArray[np.bool_]:
        """Return a mask of ascending offsets that exist and are not deleted."""
        inside = (offsets >= 0) & (offsets < self.fragment.physical_rows)
        if self.deletions is not None and inside.any():
            first, last = int(offsets[inside][0]), int(offsets[inside][-1]) + 1
            inside[inside] = ~self.deletions.mask(first, last)[offsets[inside] - first]
        return inside

    def window_rows(self, schema: Schema) -> int:
        """Estimate how many rows take about 32 MB in memory; see `FragmentReader.window_rows`."""
        return self.reader.window_rows(schema)

    def fetch(self, schema: Schema, rows: Rows) -> pa.Table:
        """Read columns of some rows.

        Args:
            schema: The columns.
            rows: At least one.
        """
        if not schema.fields:
            return rows_without_columns(len(rows), pa.schema([]))
        attached = attached_columns(self._snapshot.manifest, schema.fields, self._snapshot.uri)
        if attached:
            return self._fetch_attached(schema, rows, attached)
        first, last = int(rows[0]), int(rows[-1]) + 1
        span = last - first
        if len(rows) == span:
            return self.reader.read(schema, first, last)
        offsets = as_offsets(rows)
        # Each value of a blob is a separate read, which unwanted values would also cost.
        if len(offsets) * SPARSE < span or has_blobs(schema):
            return self.reader.take(offsets, schema)
        picked, read = self._share_out(schema, span / len(offsets))
        tables = [self.reader.take(offsets, picked)] if picked.fields else []
        if read.fields:
            keep = np.zeros(span, dtype=np.bool_)
            keep[offsets - first] = True
            tables.append(filter_rows(self.reader.read(read, first, last), pa.array(keep)))
        if len(tables) == 1:
            return tables[0]
        columns = {name: table.column(name) for table in tables for name in table.column_names}
        arrow = prepare_schema(schema).arrow
        return pa.Table.from_arrays([columns[name] for name in arrow.names], schema=arrow)

    def _share_out(self, schema: Schema, one_in: float) -> tuple[Schema, Schema]:
        """Split columns into those of which single rows are read, and those of which all rows are read."""
        if len(schema.fields) > _MOST_LOOKED_AT:
            return replace(schema, fields=()), schema
        needed = self.reader.sparse_from(schema)
        picked = tuple(field for field in schema.fields if needed.get(field.id, SPARSE) < one_in)
        if len(picked) == len(schema.fields):
            return schema, replace(schema, fields=())
        if not picked:
            return replace(schema, fields=()), schema
        read = tuple(field for field in schema.fields if field not in picked)
        return replace(schema, fields=picked), replace(schema, fields=read)

    def _fetch_attached(self, schema: Schema, rows: Rows, names: Sequence[str]) -> pa.Table:
        """Read rows of which some columns are stored in another dataset, by id."""
        there = Schema(tuple(field for field in schema.fields if field.name in names))
        here = Schema(tuple(field for field in schema.fields if field.name not in names))
        offsets = as_offsets(rows)
        found = attached_blobs(self._snapshot).read(there, self.columns.values(ROW_ID, offsets))
        table = self.fetch(here, rows)
        columns = [found[name] if name in names else table[name] for name in schema.names]
        return pa.Table.from_arrays(columns, schema=prepare_schema(schema).arrow)


def _plain_columns(
    fields: Sequence[Field], parents: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Return paths of the columns with one value a row: members of structs, without lists."""
    for node in fields:
        path = (*parents, node.name)
        if node.logical_type == "struct":
            yield from _plain_columns(node.children, path)
        elif not node.children:
            yield path, node
