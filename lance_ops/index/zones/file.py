"""Zone file: the only file of a segment of zones, with the null rows in a separate buffer."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.small_files import read_small
from lance_ops.index.zones.layout import ZONE_FIELDS, ZoneLayout, rows_of
from lance_ops.storage import Store
from lance_ops.storage.fork_safe import cached_property
from lance_ops.table.manifest.index_metadata import IndexFile
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.snapshot import Snapshot

FILE_VERSION = "2.0"
"""Storage version of index files: every peer since 0.30 reads it."""
NULL_BITMAP = "null_bitmap"
"""Metadata key: the number of the buffer with the null rows, which early writers did not keep."""

_BATCH_BYTES = 8 << 20
_SMALL_BYTES = 256 << 10
_SMALL_ROWS = 4096
_FIRST_ROWS = 8


@dataclass(frozen=True)
class ZoneFile:
    """An open file of zones; what is small of it is read once.

    Attributes:
        reader: The file.
        summary_fields: Its columns beside `ZONE_FIELDS`.
    """

    reader: FileReader
    summary_fields: tuple[pa.Field, ...]

    @classmethod
    def open(cls, store: Store, path: str, summary: tuple[str, ...]) -> "ZoneFile":
        """Open a file.

        Args:
            store: Store of the base that holds it.
            path: The file.
            summary: Names of the columns beside those of `ZONE_FIELDS`.

        Raises:
            CorruptFileError: It has other columns.
        """
        reader = FileReader.open(store, path)
        columns = reader.schema.to_arrow()
        types = {field.name: field.type for field in columns}
        wanted = {field.name: field.type for field in ZONE_FIELDS}
        if set(types) != {*wanted, *summary} or any(types[name] != wanted[name] for name in wanted):
            raise CorruptFileError(f"its columns are {', '.join(columns.names)}", path=path, field="schema")
        return cls(reader, tuple(columns.field(name) for name in summary))

    @property
    def metadata(self) -> Mapping[str, bytes]:
        """Metadata of the file."""
        return self.reader.schema.metadata

    def number(self, key: str) -> float | None:
        """Return a number of the metadata; None when there is none.

        Raises:
            CorruptFileError: It is not a number.
        """
        text = self.metadata.get(key)
        try:
            return None if text is None else float(text)
        except ValueError:
            raise CorruptFileError(f"{key} is {text!r}", path=self.reader.path, field=key) from None

    @property
    def counts_live_rows(self) -> bool:
        """See `ZoneLayout`: a writer without null rows may be one of the first."""
        return NULL_BITMAP not in self.metadata

    @cached_property
    def layout(self) -> ZoneLayout:
        """Return the layout of all zones."""
        names = {field.name for field in ZONE_FIELDS}
        chosen = Schema(tuple(field for field in self.reader.schema.fields if field.name in names))
        return self.layout_of([self._all if self._is_small else self.reader.read_table(chosen)])

    def layout_of(self, zones: Sequence[pa.Table]) -> ZoneLayout:
        """Return the same, of all zones as they have been read."""
        every = zones[0] if len(zones) == 1 else pa.concat_tables(zones)
        return ZoneLayout.of(every, self.reader.path, counts_live_rows=self.counts_live_rows)

    def summaries(self) -> pa.Table:
        """Return all zones."""
        return self.reader.read_table()

    def first(self) -> pa.Table:
        """Return some zones, if there are any."""
        if self._is_small:
            return self._all
        return self.reader.read_table(stop=min(_FIRST_ROWS, self.reader.num_rows))

    def batches(self, row_bytes: int) -> Iterator[pa.Table]:
        """Yield all zones, some at a time; `row_bytes` is about what one takes."""
        if self._is_small and self.reader.num_rows:
            yield self._all
            return
        step = max(1, _BATCH_BYTES // max(row_bytes, 1))
        for start in range(0, self.reader.num_rows, step):
            yield self.reader.read_table(start=start, stop=min(start + step, self.reader.num_rows))

    @cached_property
    def _all(self) -> pa.Table:
        return read_small(self.reader)

    @property
    def _is_small(self) -> bool:
        # Zones are hardly compressed, so that those of a small file take little memory.
        return self.reader.size_bytes <= _SMALL_BYTES and self.reader.num_rows <= _SMALL_ROWS

    def nulls(self, dataset: Snapshot) -> RowSet | None:
        """Return the null rows; None when the writer did not keep them.

        Raises:
            CorruptFileError: They cannot be read.
        """
        number = self.metadata.get(NULL_BITMAP)
        if number is None:
            return None
        path = self.reader.path
        if not number.isdigit() or int(number) >= self.reader.num_global_buffers or not int(number):
            raise CorruptFileError(f"buffer {number!r} does not exist", path=path, field=NULL_BITMAP)
        data = self.reader.global_buffer(int(number)).to_pybytes()
        return RowSet.deserialize(data, path=path, rows_of=lambda owner: rows_of(dataset, owner))


def write_zone_file(
    store: Store,
    path: str,
    schema: pa.Schema,
    zones: Iterable[pa.Table],
    metadata: Mapping[str, str],
    nulls: Iterable[RowSet] | None = None,
) -> IndexFile:
    """Write a file of zones.

    Args:
        store: Destination.
        path: Relative to the store.
        schema: Columns of the zones, in the order of the file.
        zones: The zones, some at a time.
        metadata: Metadata of the file.
        nulls: The null rows; read after all zones are written.

    Returns:
        The file, by its name.
    """
    described = Schema.from_arrow(schema.with_metadata(dict(metadata)))
    with FileWriter(store, path, described, version=FILE_VERSION) as writer:
        for table in zones:
            writer.write(table.select(schema.names))
        if nulls is not None:
            number = writer.add_global_buffer(reduce(or_, nulls, RowSet()).serialize())
            writer.add_schema_metadata({NULL_BITMAP: str(number).encode()})
        written = writer.finish()
    return IndexFile(path.rsplit("/", 1)[-1], written.size_bytes)
