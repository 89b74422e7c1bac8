"""Reading a BTREE segment: its lookup, a search through the pages that may match, and all rows in order."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.index.btree.pages import PAGE_DATA, PAGE_LOOKUP, PAGE_ROWS
from lance_ops.index.sargable import Range, Sargable
from lance_ops.storage import Store
from lance_ops.table.filter.compare import compare

Addresses = npt.NDArray[np.uint64]

_READ_ROWS = 64 * PAGE_ROWS


@dataclass(frozen=True, slots=True)
class BTreeSegment:
    """An open segment.

    Attributes:
        path: Directory of the segment, for messages.
        data: Reader of `page_data.lance`.
        lookup: All of `page_lookup.lance`: `min`, `max`, `null_count`, one row a page.
        page_rows: Rows of every page but the last.
    """

    path: str
    data: FileReader
    lookup: pa.Table
    page_rows: int

    @classmethod
    def open(cls, store: Store, directory: str) -> "BTreeSegment":
        """Open a segment.

        Args:
            store: Store of the base that holds the segment.
            directory: `_indices/{uuid}`.

        Raises:
            CorruptFileError: the two files do not belong together.
        """
        data = FileReader.open(store, f"{directory}/{PAGE_DATA}")
        lookup_file = FileReader.open(store, f"{directory}/{PAGE_LOOKUP}")
        metadata = lookup_file.schema.metadata
        try:
            page_rows = int(metadata.get("batch_size", str(PAGE_ROWS)))
        except ValueError:
            page_rows = 0
        pages = lookup_file.num_rows
        path = f"{directory}/{PAGE_LOOKUP}"
        if page_rows <= 0 or pages != -(-data.num_rows // page_rows):
            raise CorruptFileError(
                f"{data.num_rows} rows of {page_rows} a page do not make {pages} pages",
                path=path,
                field="batch_size",
                hint="rebuild the index",
            )
        lookup = lookup_file.read_table()
        if not lookup["page_idx"].combine_chunks().equals(pa.array(np.arange(pages, dtype=np.uint32))):
            raise CorruptFileError(
                "its pages are not in order", path=path, field="page_idx", hint="rebuild the index"
            )
        return cls(directory, data, lookup, page_rows)

    @property
    def num_rows(self) -> int:
        """Rows in the segment, those with null values included."""
        return self.data.num_rows

    @property
    def value_type(self) -> pa.DataType:
        """Arrow type of the indexed values."""
        return self.lookup.schema.field("min").type

    def rows(self) -> Iterator[pa.Table]:
        """All rows in index order, as tables (`values`, `ids`)."""
        for start in range(0, self.num_rows, _READ_ROWS):
            yield self.data.read_table(start=start, stop=min(start + _READ_ROWS, self.num_rows))

    def candidate_pages(self, wanted: Sargable) -> npt.NDArray[np.bool_]:
        """Which pages may hold a match, one boolean a page."""
        pages = np.ones(self.lookup.num_rows, dtype=np.bool_)
        for values in wanted.ranges:
            pages &= self._overlap(values)
        return pages

    def search(self, wanted: Sargable, pages: npt.NDArray[np.bool_]) -> Addresses:
        """Addresses of the rows that match, uint64, in index order.

        Args:
            wanted: The condition.
            pages: The candidates among the pages.
        """
        found: list[Addresses] = []
        for first, last in _runs(np.flatnonzero(pages), limit=_READ_ROWS // PAGE_ROWS):
            rows = self.data.read_table(
                start=first * self.page_rows, stop=min((last + 1) * self.page_rows, self.num_rows)
            )
            kept = rows["ids"].filter(wanted.matches(rows["values"]))
            found.append(np.asarray(kept.to_numpy(), dtype=np.uint64))
        return np.concatenate(found) if found else np.zeros(0, dtype=np.uint64)

    def _overlap(self, values: Range) -> npt.NDArray[np.bool_]:
        """Pages that hold a value of a range, as far as their bounds tell.

        A page without a minimum starts with nulls, which are below every value; a page without a maximum
        holds nothing else.
        """
        low, high = self.lookup["min"].combine_chunks(), self.lookup["max"].combine_chunks()
        some_value = np.asarray(high.is_valid().to_numpy(zero_copy_only=False))
        selected = np.zeros(len(low), dtype=np.bool_)
        for interval in values.intervals:
            inside = some_value.copy()
            if interval.low is not None:
                inside &= _known(compare(">=", high, interval.low.cast(high.type)), default=False)
            if interval.high is not None:
                inside &= _known(compare("<=", low, interval.high.cast(low.type)), default=True)
            selected |= inside
        if values.nulls:
            selected |= self.lookup["null_count"].to_numpy() > 0
        return selected


def _known(flags: pa.Array, *, default: bool) -> npt.NDArray[np.bool_]:
    return np.asarray(flags.fill_null(default).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _runs(pages: npt.NDArray[np.int64], *, limit: int) -> Iterator[tuple[int, int]]:
    """Runs of neighbouring pages as (first, last), none longer than `limit`."""
    if not len(pages):
        return
    for run in np.split(pages, np.flatnonzero(np.diff(pages) != 1) + 1):
        for start in range(0, len(run), limit):
            part = run[start : start + limit]
            yield int(part[0]), int(part[-1])
