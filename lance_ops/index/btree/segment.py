"""Reading a BTREE segment: its lookup, a search through the pages that may match, and all rows in order."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.cache import Cache
from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.filter.functions.compare import compare
from lance_ops.index.btree.pages import PAGE_DATA, PAGE_LOOKUP, PAGE_ROWS, PAGE_SIZE
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.sargable import Range
from lance_ops.index.small_files import read_small
from lance_ops.index.value_bounds import ValueBounds, as_numbers, known
from lance_ops.storage import Store
from lance_ops.storage.fork_safe import cached_property

Addresses = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64] | range
"""Numbers of rows of the segment, ascending."""

_READ_ROWS = 64 * PAGE_ROWS
_KEPT_BYTES = 4 << 20
"""Bytes of pages that are kept as they were read: longer runs are of conditions that few repeat."""
_KEEPS_NO_NULLS = "0.1"
_ADDRESS_NAMES = ("ids", "row_ids")
_PAGES_AT_ONCE = 1 << 14
_LOOKUP_NAMES = ["min", "max", "null_count", "page_idx"]


@dataclass(frozen=True)
class BTreeSegment:
    """An open segment.

    Releases of pylance differ: up to 0.34 the second column of the data is called `row_ids`, in 0.20 and
    before both files are of storage version 0.1, which keeps neither the nulls of numbers nor empty strings
    (these are null there). Nulls come first in a page, though, and the lookup counts them, so that they can
    be restored. The minimum of a page that starts with nulls is null, or in early releases that of the values
    behind them.

    Attributes:
        path: Directory of the segment, for messages.
        data: Reader of `page_data.lance`.
        lookup: All of `page_lookup.lance`: `min`, `max`, `null_count`, one row a page.
        page_rows: Rows of every page but the last.
        kept: Pages that searches read last, with what was found out about all of them.
    """

    path: str
    data: FileReader
    lookup: pa.Table
    page_rows: int
    kept: Cache[tuple[int, int], pa.Table] = field(
        default_factory=lambda: Cache("btree pages"), repr=False, compare=False
    )

    @classmethod
    def open(cls, store: Store, directory: str) -> "BTreeSegment":
        """Open a segment.

        Args:
            store: Store of the base that holds the segment.
            directory: `_indices/{uuid}`.

        Raises:
            CorruptFileError: a file has other columns than it should, or the two do not belong together.
        """
        data = FileReader.open(store, f"{directory}/{PAGE_DATA}")
        lookup_file = FileReader.open(store, f"{directory}/{PAGE_LOOKUP}")
        _check_columns(data, lookup_file)
        metadata = lookup_file.schema.metadata
        try:
            page_rows = int(metadata.get(PAGE_SIZE, str(PAGE_ROWS)))
        except ValueError:
            page_rows = 0
        pages = lookup_file.num_rows
        path = f"{directory}/{PAGE_LOOKUP}"
        if page_rows <= 0 or pages != -(-data.num_rows // page_rows):
            raise CorruptFileError(
                f"{data.num_rows} rows of {page_rows} a page do not make {pages} pages",
                path=path,
                field=PAGE_SIZE,
                hint="rebuild the index",
            )
        lookup = read_small(lookup_file)
        if not lookup["page_idx"].combine_chunks().equals(pa.array(np.arange(pages, dtype=np.uint32))):
            raise CorruptFileError(
                "its pages are not in order", path=path, field="page_idx", hint="rebuild the index"
            )
        opened = cls(directory, data, lookup, page_rows)
        if lookup["null_count"].null_count or (opened._null_counts > opened._rows_of_pages).any():
            raise CorruptFileError(
                "pages have more nulls than rows", path=path, field="null_count", hint="rebuild the index"
            )
        return opened

    @property
    def num_rows(self) -> int:
        """Rows in the segment, those with null values included."""
        return self.data.num_rows

    @property
    def value_type(self) -> pa.DataType:
        """Arrow type of the indexed values."""
        return self.lookup.schema.field("min").type

    def rows(self) -> Iterator[pa.Table]:
        """Yield all rows in index order, as tables (`values`, `ids`).

        Raises:
            CorruptFileError: a page does not hold what the lookup says of it.
        """
        step = max(1, _READ_ROWS // self.page_rows)
        for first in range(0, self.lookup.num_rows, step):
            yield self._read_pages(first, min(first + step, self.lookup.num_rows) - 1)

    def addresses(self) -> Iterator[Addresses]:
        """Row addresses of all rows, uint64, in index order."""
        for start in range(0, self.num_rows, _READ_ROWS):
            yield self.names(start, min(start + _READ_ROWS, self.num_rows))

    def names(self, start: int, stop: int) -> Addresses:
        """Row addresses of the rows from one to another (excluded), in index order."""
        ids = Schema(self.data.schema.fields[1:])
        rows = self.data.read_table(ids, start=start, stop=stop)
        return np.asarray(self._ids(rows.column(0)).to_numpy(), dtype=np.uint64)

    def candidate_pages(self, wanted: ColumnQuery) -> npt.NDArray[np.bool_]:
        """Return which pages may hold a match, one boolean a page."""
        pages = np.ones(self.lookup.num_rows, dtype=np.bool_)
        for values in wanted.ranges or ():
            pages &= self._overlap(values)
        return pages

    def search(self, wanted: ColumnQuery, pages: npt.NDArray[np.bool_]) -> Addresses:
        """Return addresses of the rows that match, uint64, in index order.

        Args:
            wanted: The condition.
            pages: The candidates among the pages.

        Raises:
            CorruptFileError: a page does not match the lookup.
        """
        if len(pages) and not pages.any():
            # That nothing matches rests on the lookup alone: it has to be that of these data.
            self._kept_pages(0, 0)
        found: list[Addresses] = []
        for first, last in _runs(np.flatnonzero(pages), limit=max(1, _READ_ROWS // self.page_rows)):
            rows = self._kept_pages(first, last)
            kept = rows["ids"].filter(wanted.matches(rows["values"]))
            found.append(np.asarray(kept.to_numpy(), dtype=np.uint64))
        return np.concatenate(found) if found else np.zeros(0, dtype=np.uint64)

    def stale_bounds(self) -> str | None:
        """Return the mismatch between the lookup and the first or last rows of a page; None if all match.

        Reads a few rows of each page: rows that moved across pages moved across their ends.
        """
        values = Schema(self.data.schema.fields[:1])
        for first in range(0, self.lookup.num_rows, _PAGES_AT_ONCE):
            pages = np.arange(first, min(first + _PAGES_AT_ONCE, self.lookup.num_rows))
            starts, nulls = pages * self.page_rows, self._null_counts[pages]
            lasts = starts + self._rows_of_pages[pages] - 1
            border = starts + nulls
            places = np.unique(
                np.concatenate([starts, border[nulls > 0] - 1, border[border <= lasts], lasts])
            )
            problem = self._problem(self._values(self.data.take(places, values), places), places)
            if problem is not None:
                return problem
        return None

    @cached_property
    def _null_counts(self) -> npt.NDArray[np.int64]:
        return np.asarray(self.lookup["null_count"].to_numpy(), dtype=np.int64)

    @cached_property
    def _has_nulls(self) -> bool:
        return bool(self._null_counts.any())

    @cached_property
    def _bounds(self) -> ValueBounds:
        return ValueBounds(self.lookup["min"].combine_chunks(), self.lookup["max"].combine_chunks())

    @cached_property
    def _some_value(self) -> npt.NDArray[np.bool_]:
        """Return a mask of pages with non-null values."""
        return self._null_counts < self._rows_of_pages

    @cached_property
    def _rows_of_pages(self) -> npt.NDArray[np.int64]:
        rows = np.full(self.lookup.num_rows, self.page_rows, np.int64)
        if len(rows):
            rows[-1] = self.num_rows - (len(rows) - 1) * self.page_rows
        return rows

    def _kept_pages(self, first: int, last: int) -> pa.Table:
        """See `_read_pages`: what is asked about once is often asked about again."""
        found = self.kept.get((first, last))
        if found is None:
            found = self._read_pages(first, last)
            if found.nbytes <= _KEPT_BYTES:
                self.kept.put((first, last), found, found.nbytes)
        return found

    def _read_pages(self, first: int, last: int) -> pa.Table:
        """Read consecutive pages as a table (`values`, `ids`), and compare them with the lookup.

        The rows before and behind them are compared, too. As rows are sorted, these show that no other page
        has what the lookup promises here only: rows may have moved across pages that are not read, for
        compactions by pylance before 4 dropped rows from the pages and kept the lookup.
        """
        start, stop = first * self.page_rows, min((last + 1) * self.page_rows, self.num_rows)
        before, behind = min(start, 1), min(self.num_rows - stop, 1)
        first_row, end = start - before, stop + behind
        stored = self.data.read_table(start=first_row, stop=end)
        places = range(first_row, end)
        values = self._values(stored, places)
        problem = self._problem(values, places)
        if problem is not None:
            raise CorruptFileError(
                f"pages and lookup have different {problem}",
                path=self.data.path,
                field="values",
                hint="rebuild the index",
            )
        rows = pa.table({"values": values, "ids": self._ids(stored.column(1))})
        return rows.slice(before, stop - start)

    def _ids(self, stored: pa.ChunkedArray) -> pa.ChunkedArray:
        if stored.null_count:
            raise CorruptFileError("rows are without an address", path=self.data.path, field="ids")
        return stored.combine_chunks()

    def _values(self, stored: pa.Table, places: Places) -> pa.Array:
        """Return the values of some rows, nulls among them."""
        values = stored["values"].combine_chunks()
        values = values if isinstance(values, pa.Array) else pa.concat_arrays(values.chunks)
        return _with_nulls(values, self._is_null(places)) if self.data.version == _KEEPS_NO_NULLS else values

    def _is_null(self, places: Places) -> npt.NDArray[np.bool_]:
        if not self._has_nulls:
            return np.zeros(len(places), np.bool_)
        page_of, place = np.divmod(np.asarray(places), self.page_rows)
        return np.asarray(place < self._null_counts[page_of], dtype=np.bool_)

    def _problem(self, values: pa.Array, places: Places) -> str | None:
        """Return which values at ascending positions do not match the lookup: nulls, minimum or maximum."""
        if values.null_count or self._has_nulls:
            held_nulls = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
            if not np.array_equal(held_nulls, self._is_null(places)):
                return "nulls"
        if isinstance(places, range):
            pages = np.arange(places.start // self.page_rows, (places.stop - 1) // self.page_rows + 1)
        else:
            pages = places // self.page_rows
            pages = pages[np.diff(pages, prepend=-1) != 0]
        starts, rows = pages * self.page_rows, self._rows_of_pages[pages]
        ends = (("min", starts), ("max", starts + rows - 1))
        numbers, plain = self._bounds.numbers, as_numbers(values)
        if isinstance(places, range) and numbers is not None and plain is not None and not self._has_nulls:
            for (name, wanted), bounds in zip(ends, numbers, strict=True):
                there = (wanted >= places.start) & (wanted < places.stop)
                if (plain[wanted[there] - places.start] != bounds[pages[there]]).any():
                    return f"{name} values"
            return None
        nulls = self._null_counts[pages]
        for name, wanted in (("min", starts + nulls), ("max", starts + rows - 1)):
            if isinstance(places, range):
                at, there = wanted - places.start, (wanted >= places.start) & (wanted < places.stop)
            else:
                at = np.minimum(np.searchsorted(places, wanted), len(places) - 1)
                there = places[at] == wanted
            some = (nulls < rows) & there
            said = self.lookup[name].combine_chunks().take(pa.array(pages[some]))
            held = values.take(pa.array(at[some]))
            if pa.types.is_float16(held.type):
                # Arrow compares no half floats.
                said, held = said.cast(pa.float32()), held.cast(pa.float32())
            # The total order distinguishes zeros, and equality distinguishes NaN from itself: accept either.
            equal = pc.or_(compare("=", held, said), pc.equal(held, said))
            if not known(equal, default=True).all():
                return f"{name} values"
        return None

    def _overlap(self, values: Range) -> npt.NDArray[np.bool_]:
        """Return pages that hold a value of a range, as far as their bounds tell.

        A page without a minimum starts with nulls, which are below every value. One without a maximum has
        only nulls, or ends with an empty string that was not stored.
        """
        selected = np.zeros(self.lookup.num_rows, dtype=np.bool_)
        for interval in values.intervals:
            selected |= self._some_value & self._bounds.reach(interval)
        if values.nulls:
            selected |= self._null_counts > 0
        return selected


def _runs(pages: npt.NDArray[np.int64], *, limit: int) -> Iterator[tuple[int, int]]:
    """Runs of neighbouring pages as (first, last), none longer than `limit`."""
    if not len(pages):
        return
    for run in np.split(pages, np.flatnonzero(np.diff(pages) != 1) + 1):
        for start in range(0, len(run), limit):
            part = run[start : start + limit]
            yield int(part[0]), int(part[-1])


def _check_columns(data: FileReader, lookup: FileReader) -> None:
    """Refuse files that are not those of an index."""
    columns = data.schema.to_arrow()
    if (
        len(columns) != 2
        or columns.names[0] != "values"
        or columns.names[1] not in _ADDRESS_NAMES
        or columns.types[1] != pa.uint64()
    ):
        raise CorruptFileError(f"its columns are {_signature(columns)}", path=data.path, field="schema")
    bounds = lookup.schema.to_arrow()
    value_type = columns.types[0]
    if bounds.names != _LOOKUP_NAMES or bounds.types != [value_type, value_type, pa.uint32(), pa.uint32()]:
        raise CorruptFileError(
            f"its columns are {_signature(bounds)}, beside values of {value_type}",
            path=lookup.path,
            field="schema",
        )


def _signature(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _with_nulls(values: pa.Array, is_null: npt.NDArray[np.bool_]) -> pa.Array:
    """Values of a file that keeps no nulls, with those back that the lookup counts; all others are values."""
    if values.null_count:
        # Strings and bytes: what is empty was kept as a null.
        is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        empty = pa.scalar("" if is_text else b"", values.type)
        values = values.fill_null(empty)
    return pc.if_else(pa.array(is_null), pa.scalar(None, values.type), values)
