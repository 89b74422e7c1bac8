"""Reading a BTREE segment: its lookup, a search through the pages that may match, and all rows in order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.index.btree.pages import PAGE_DATA, PAGE_LOOKUP, PAGE_ROWS
from lance_ops.storage import Store
from lance_ops.table.filter import Sargable, SargableKind

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

    def candidate_pages(self, predicate: Sargable) -> npt.NDArray[np.bool_]:
        """Which pages may hold a match, one boolean a page."""
        if predicate.kind is SargableKind.IS_NULL:
            return np.asarray(self.lookup["null_count"].to_numpy() > 0)
        if predicate.kind is SargableKind.IS_NOT_NULL:
            return _known(self.lookup["max"].is_valid())
        return page_filter(predicate, self.lookup["min"], self.lookup["max"])

    def search(self, predicate: Sargable, matches: Callable[[pa.Table], pa.BooleanArray]) -> Addresses:
        """Addresses of the rows that match, uint64, in index order.

        Args:
            predicate: Chooses the pages.
            matches: Says for a table (`values`, `ids`) which of its rows match; nulls count as no.
        """
        pages = np.flatnonzero(self.candidate_pages(predicate))
        found: list[Addresses] = []
        for first, last in _runs(pages, limit=_READ_ROWS // PAGE_ROWS):
            rows = self.data.read_table(
                start=first * self.page_rows, stop=min((last + 1) * self.page_rows, self.num_rows)
            )
            kept = rows["ids"].filter(matches(rows))
            found.append(np.asarray(kept.to_numpy(), dtype=np.uint64))
        return np.concatenate(found) if found else np.zeros(0, dtype=np.uint64)


def page_filter(predicate: Sargable, low: pa.ChunkedArray, high: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Pages whose values between `low` and `high` may satisfy a comparison.

    A null minimum is below every value (the page starts with nulls), a null maximum means nothing but nulls.
    Comparisons with NaN say no in Arrow although NaN is the greatest value here, hence the `_or_nan`s.
    """
    values = [value.cast(low.type) for value in predicate.values]
    some_value = _known(high.is_valid())
    match predicate.kind:
        case SargableKind.EQUAL | SargableKind.IN:
            selected = np.zeros(len(low), dtype=np.bool_)
            for value in values:
                selected |= _at_most(low, value) & _at_least(high, value)
        case SargableKind.LESS | SargableKind.LESS_EQUAL:
            selected = _at_most(low, values[0])
        case SargableKind.GREATER | SargableKind.GREATER_EQUAL:
            selected = _at_least(high, values[0])
        case SargableKind.BETWEEN:
            selected = _at_least(high, values[0]) & _at_most(low, values[1])
        case SargableKind.STARTS_WITH:
            prefix = values[0]
            selected = _at_least(high, prefix) & (_starts_with(low, prefix) | _at_most(low, prefix))
        case _:
            selected = np.ones(len(low), dtype=np.bool_)
    return selected & some_value


def _at_most(low: pa.ChunkedArray, value: pa.Scalar) -> npt.NDArray[np.bool_]:
    return _known(pc.less_equal(low, value), default=True) | _is_nan(value)


def _at_least(high: pa.ChunkedArray, value: pa.Scalar) -> npt.NDArray[np.bool_]:
    above = _known(pc.greater_equal(high, value))
    if pa.types.is_floating(high.type):
        above |= _known(pc.is_nan(high))
    return above


def _is_nan(value: pa.Scalar) -> bool:
    return bool(pa.types.is_floating(value.type) and value.is_valid and pc.is_nan(value).as_py())


def _starts_with(low: pa.ChunkedArray, prefix: pa.Scalar) -> npt.NDArray[np.bool_]:
    return _known(pc.starts_with(low, pattern=prefix.as_py()))


def _known(flags: pa.ChunkedArray, *, default: bool = False) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.fill_null(flags, default).to_numpy(), dtype=np.bool_)


def _runs(pages: npt.NDArray[np.int64], *, limit: int) -> Iterator[tuple[int, int]]:
    """Runs of neighbouring pages as (first, last), none longer than `limit`."""
    if not len(pages):
        return
    for run in np.split(pages, np.flatnonzero(np.diff(pages) != 1) + 1):
        for start in range(0, len(run), limit):
            part = run[start : start + limit]
            yield int(part[0]), int(part[-1])
