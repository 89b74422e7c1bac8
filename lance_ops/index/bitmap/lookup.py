"""The file of values and their row sets: reading it part by part, and writing it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.cache import Cache
from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.bitmap.group import lookup_schema
from lance_ops.index.bitmap.row_sets import union, union_of_row_sets
from lance_ops.index.order import sort_order
from lance_ops.index.row_bounds import RowBounds
from lance_ops.index.sorted_runs import one_array
from lance_ops.storage import Store
from lance_ops.table.manifest.index_metadata import IndexFile
from lance_ops.table.manifest.row_set import RowSet

LOOKUP_FILE = "bitmap_page_lookup.lance"
INDEX_FILE_VERSION = "2.0"
"""Storage version of index files: every peer since 0.19 reads it."""

_STATS_KEY = "lance:index_stats"
_READ_BYTES = 8 << 20
_READ_KEYS = 1 << 16
_FEW_SETS = 64


def lookup_path(directory: str) -> str:
    """Return the path of the file in the directory of a segment."""
    return f"{directory}/{LOOKUP_FILE}"


@dataclass(frozen=True, slots=True)
class BitmapLookup:
    """An open file (`keys`, `bitmaps`).

    Attributes:
        file: Its reader.
        kept: Its keys, where they are kept between searches.
        sets: The sets that searches read last, by their rows in the file, where these are kept.
    """

    file: FileReader
    kept: pa.Array | None = None
    sets: Cache[int, RowSet] | None = None

    @classmethod
    def open(cls, store: Store, directory: str) -> "BitmapLookup":
        """Open the file of a segment.

        Args:
            store: Store of the base that holds the segment.
            directory: `_indices/{uuid}`.

        Raises:
            CorruptFileError: It has other columns than it should.
        """
        return cls.of(store, lookup_path(directory))

    @classmethod
    def of(cls, store: Store, path: str) -> "BitmapLookup":
        """Open a file by its path; see `open`."""
        opened = cls(FileReader.open(store, path))
        columns = opened.file.schema.to_arrow()
        if columns.names != ["keys", "bitmaps"] or columns.types[1] != pa.binary():
            described = ", ".join(f"{field.name} {field.type}" for field in columns)
            raise CorruptFileError(f"its columns are {described}", path=opened.path, field="schema")
        return opened

    @property
    def path(self) -> str:
        """Path of the file."""
        return self.file.path

    @property
    def key_type(self) -> pa.DataType:
        """Arrow type of the keys."""
        return self.file.schema.to_arrow().types[0]

    def for_searches(self) -> "BitmapLookup":
        """The same with the keys read, unless they are many; sets will be kept."""
        sets = Cache[int, RowSet]("bitmaps")
        if self.file.num_rows > _READ_KEYS:
            return replace(self, sets=sets)
        keys = pa.concat_arrays([pa.array([], self.key_type), *(part for _, part in self.keys())])
        return replace(self, kept=keys, sets=sets)

    def keys(self) -> Iterator[tuple[int, pa.Array]]:
        """Yield all keys with the number of the first, a part at a time."""
        if self.kept is not None:
            yield 0, self.kept
            return
        keys = Schema(self.file.schema.fields[:1])
        for start in range(0, self.file.num_rows, _READ_KEYS):
            stop = min(start + _READ_KEYS, self.file.num_rows)
            yield start, one_array(self.file.read_table(keys, start=start, stop=stop).column(0))

    def bitmaps(self, rows: npt.NDArray[np.int64]) -> Iterator[pa.Array]:
        """Yield the bitmaps of some rows, in ascending order, a few megabytes at a time."""
        bitmaps = Schema(self.file.schema.fields[1:])
        for start in range(0, len(rows), self._rows_at_once):
            part = rows[start : start + self._rows_at_once]
            if int(part[-1]) - int(part[0]) == len(part) - 1:
                read = self.file.read_table(bitmaps, start=int(part[0]), stop=int(part[-1]) + 1)
            else:
                read = self.file.take(part, bitmaps)
            yield self._valid(read.column(0))

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[pa.Table]:
        """Yield the file's rows (`keys`, `bitmaps`) unchanged, a few megabytes at a time."""
        end = self.file.num_rows if stop is None else stop
        for first in range(start, end, self._rows_at_once):
            yield self._table(self.file.read_table(start=first, stop=min(first + self._rows_at_once, end)))

    def runs(self, lengths: Iterable[int]) -> Iterator[Iterator[pa.Table]]:
        """Yield the rows as several consecutive lookups."""
        start = 0
        for length in lengths:
            yield self.rows(start, start + length)
            start += length

    def sorted_rows(self) -> Iterator[pa.Table]:
        """Yield the rows in index order; early releases of pylance wrote keys unsorted."""
        keys = [part for _, part in self.keys()]
        if not keys:
            return
        order = sort_order(pa.concat_arrays(keys))
        del keys
        if bool((np.diff(order) > 0).all()):
            yield from self.rows()
            return
        for start in range(0, len(order), self._rows_at_once):
            wanted = order[start : start + self._rows_at_once]
            places = np.sort(wanted)
            yield self._table(self.file.take(places)).take(pa.array(np.searchsorted(places, wanted)))

    def search(self, matches: Callable[[pa.Array], npt.NDArray[np.bool_]], bounds: RowBounds) -> RowSet:
        """Return the rows of all keys that match.

        Raises:
            CorruptFileError: A bitmap cannot be read, or names rows that cannot be.
        """
        found = [start + np.flatnonzero(matches(keys)) for start, keys in self.keys()]
        places = np.concatenate(found) if found else np.zeros(0, np.int64)
        if self.sets is not None and len(places) <= _FEW_SETS:
            return union(self._kept_sets(self.sets, places, bounds))
        return union([union_of_row_sets(part, bounds) for part in self.bitmaps(places)])

    def _kept_sets(
        self, sets: Cache[int, RowSet], places: npt.NDArray[np.int64], bounds: RowBounds
    ) -> list[RowSet]:
        found: dict[int, RowSet | None] = {place: sets.get(place) for place in places.tolist()}
        missing = [place for place, rows in found.items() if rows is None]
        unread = iter(missing)
        for part in self.bitmaps(np.array(missing, np.int64)):
            for number in range(len(part)):
                bitmap = part.slice(number, 1)
                rows = union_of_row_sets(bitmap, bounds)
                place = next(unread)
                found[place] = rows
                sets.put(place, rows, int(bitmap.nbytes))
        return [rows for rows in found.values() if rows is not None]

    def row_set(self, key: str) -> bytes | None:
        """Return the row set of a metadata entry, see `LookupWriter.add_rows`; None without one.

        Raises:
            CorruptFileError: The entry is not a number, or there is no such buffer.
        """
        entry = self.file.schema.metadata.get(key)
        if entry is None:
            return None
        if not entry.isdigit():
            raise CorruptFileError(f"its buffer is number {entry!r}", path=self.path, field=key)
        return bytes(self.file.global_buffer(int(entry)))

    @property
    def _rows_at_once(self) -> int:
        average = self.file.size_bytes // max(1, self.file.num_rows)
        return max(1, min(_READ_KEYS, _READ_BYTES // max(1, average)))

    def _table(self, read: pa.Table) -> pa.Table:
        columns = [one_array(read.column(0)), self._valid(read.column(1))]
        return pa.table(columns, schema=lookup_schema(self.key_type))

    def _valid(self, column: pa.ChunkedArray) -> pa.Array:
        bitmaps = one_array(column)
        if bitmaps.null_count:
            raise CorruptFileError("a bitmap is missing", path=self.path, field="bitmaps")
        return bitmaps


class LookupWriter:
    """Writes the file of a segment; use as a context manager, then `finish`.

    Args:
        store: Store of the dataset.
        path: Of the file.
        key_type: Arrow type of the keys.
    """

    def __init__(self, store: Store, path: str, key_type: pa.DataType) -> None:
        self._schema = lookup_schema(key_type)
        self._writer = FileWriter(store, path, Schema.from_arrow(self._schema), version=INDEX_FILE_VERSION)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._writer.abort()

    def write(self, rows: pa.Table) -> None:
        """Add rows (`keys`, `bitmaps`) that follow all earlier ones."""
        if rows.num_rows:
            self._writer.write(rows.cast(self._schema))

    def write_all(self, rows: Iterable[pa.Table]) -> int:
        """Add all of some tables; returns the number of their rows."""
        before = self._writer.num_rows
        for table in rows:
            self.write(table)
        return self._writer.num_rows - before

    def add_rows(self, key: str, rows: RowSet) -> None:
        """Add a row set that belongs to no key, as a buffer that an entry of the metadata names."""
        number = self._writer.add_global_buffer(rows.serialize())
        self._writer.add_schema_metadata({key: str(number).encode()})

    def finish(self) -> tuple[IndexFile, ...]:
        """Close the file and make it visible."""
        stats = f'{{"num_bitmaps":{self._writer.num_rows}}}'
        self._writer.add_schema_metadata({_STATS_KEY: stats.encode()})
        written = self._writer.finish()
        return (IndexFile(LOOKUP_FILE, written.size_bytes),)
