"""Sources of a page copy: files whose descriptions are read once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError, FormatError, UnsupportedError
from lance_ops.file.container.contents import read_contents
from lance_ops.file.container.read import (
    ALIGNMENT,
    ENTRY_SIZE,
    FOOTER_SIZE,
    Column,
    Page,
    decode_column,
    decode_descriptor,
    decode_footer,
    decode_table,
    decode_version,
)
from lance_ops.file.container.write import ContainerWriter
from lance_ops.file.io.fetch import Request, Steps, run
from lance_ops.file.page_copy.removed import Removed
from lance_ops.file.schema.model import Schema
from lance_ops.file.versions import StorageVersion, version_of_footer
from lance_ops.pb import file_pb2
from lance_ops.storage import Store, maps_files

# Descriptions grow with the number of pages and with their symbol tables.
_TAIL_BYTES = 48 << 10
# Pages that are read together go to threads that concatenate them, which copies them anyway: mapping saves
# another copy, and the threads take the page faults.
_MAP_FROM = 128 << 10

Bytes = npt.NDArray[np.uint8]

# Pages with other descriptions are decoded and encoded again.
_NOT_COPIED = ("2.3",)
_NO_BYTES: Bytes = np.empty(0, dtype=np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Columns of the new file.

    Attributes:
        schema: Of the new file, the same for all files.
        columns: Physical column of the file by field id of the schema; -1 and no entry for none.
    """

    schema: Schema
    columns: Mapping[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class CopySource:
    """A data file whose rows are copied.

    Attributes:
        store: Where it is.
        path: Relative to the store.
        size: Size of the file in bytes, if known; saves a request.
        deleted: Rows to drop: ascending row numbers, or a mask that is true for them; None for no rows.
        wanted: Columns to copy; None for those of the file's own schema.
    """

    store: Store
    path: str
    size: int | None = None
    deleted: npt.NDArray[Any] | None = None
    wanted: Wanted | None = None


@dataclass(frozen=True, slots=True, eq=False)
class OpenSource:
    """A data file whose descriptions have been read.

    Attributes:
        store: Where it is.
        path: Relative to the store.
        size: In bytes.
        version: Storage version.
        schema: The file's own; files with equal schemas share one.
        num_rows: Rows in the file.
        num_global_buffers: At least 1.
        columns: Every physical column.
        starts: Of each column, the first row (or item) of each page, with the total at the end.
        removed: Rows to drop.
    """

    store: Store
    path: str
    size: int
    version: StorageVersion
    schema: Schema
    num_rows: int
    num_global_buffers: int
    columns: tuple[Column, ...]
    starts: tuple[tuple[int, ...], ...]
    removed: Removed

    @property
    def kept_rows(self) -> int:
        """Number of copied rows."""
        return self.num_rows - len(self.removed)

    def read(self, page: Page) -> list[Bytes]:
        """Return the buffers of a page."""
        return self.read_many(page.buffers)

    def read_many(self, ranges: Sequence[Request]) -> list[Bytes]:
        """Read ranges of the file, some of them possibly empty."""
        groups = list(neighbours(sorted({found for found in ranges if found[1]})))
        bounds = [(group[0][0], max(position + size for position, size in group)) for group in groups]
        read = self.read_ranges([(start, stop - start) for start, stop in bounds]) if groups else []
        found = {}
        for group, (first, _), data in zip(groups, bounds, read, strict=True):
            joined = np.frombuffer(data, dtype=np.uint8)
            for position, size in group:
                found[position, size] = joined[position - first : position - first + size]
        return [found[one] if one[1] else _NO_BYTES for one in ranges]

    def read_ranges(self, ranges: list[Request]) -> list[pa.Buffer]:
        """Read ranges of the file."""
        store = self.store
        if sum(length for _, length in ranges) >= _MAP_FROM and maps_files(store):
            mapping = store.map_file(self.path)
            # A file that became shorter is left to the store, which raises the right error.
            if mapping is not None and mapping.size == self.size:
                return [mapping.slice(offset, length) for offset, length in ranges]
        return store.read_ranges(self.path, ranges)


def neighbours(buffers: Sequence[Request]) -> Iterator[list[Request]]:
    """Group buffers with only padding between them, which can be copied together.

    Args:
        buffers: Position and size of each, in ascending order.
    """
    group: list[Request] = []
    end = 0
    for position, size in buffers:
        if group and (position - end >= ALIGNMENT or position % ALIGNMENT or group[0][0] % ALIGNMENT):
            yield group
            group = []
        end = position + size if not group else max(end, position + size)
        group.append((position, size))
    if group:
        yield group


def copy_buffers(
    container: ContainerWriter, source: OpenSource, buffers: Iterable[Request]
) -> dict[Request, int]:
    """Append buffers of a file to a new one, adjacent ones together.

    Returns:
        Position of each in the new file; empty buffers have none.
    """
    moved: dict[Request, int] = {}
    for group in neighbours(sorted({buffer for buffer in buffers if buffer[1]})):
        start = group[0][0]
        stop = max(position + size for position, size in group)
        target = container.align()
        container.append_from(source.store, source.path, [(start, stop - start)])
        moved.update({buffer: target + buffer[0] - start for buffer in group})
    return moved


def open_source(source: CopySource) -> OpenSource:
    """Read the descriptions of a file.

    Raises:
        FileMissingError: There is no such file.
        CorruptFileError: It is truncated or damaged.
        UnsupportedError: The storage version has no pages that can be copied.
        InvalidArgumentError: The deleted rows are out of range.
    """
    store, path = source.store, source.path
    if source.size is None:
        tail, size = store.read_tail(path, _TAIL_BYTES)
    else:
        size = source.size
        length = min(size, _TAIL_BYTES)
        tail = store.read(path, size - length, length)
    tail_start = size - tail.size

    def read_ranges(ranges: list[Request]) -> list[pa.Buffer]:
        if all(offset >= tail_start and offset + length <= size for offset, length in ranges):
            return [tail.slice(offset - tail_start, length) for offset, length in ranges]
        return store.read_ranges(path, ranges)

    end = tail.to_pybytes()
    version = version_of_footer(*decode_version(end, path), path)
    if version.read_contents is not read_contents or version.name in _NOT_COPIED:
        raise UnsupportedError(
            f"files of storage version {version.name} have no pages that can be copied",
            path=path,
            hint="read the rows and write them to a new file",
        )
    footer = decode_footer(end[-FOOTER_SIZE:], size, path)
    tables = [
        (footer.column_table, footer.num_columns * ENTRY_SIZE),
        (footer.global_table, footer.num_global_buffers * ENTRY_SIZE),
    ]
    listed = run(_fetch_all(tables), read_ranges)
    column_table = decode_table(listed[0].to_pybytes(), size, "column", path)
    global_table = decode_table(listed[1].to_pybytes(), size, "global buffer", path)
    described, *columns_data = run(_fetch_all([global_table[0], *column_table]), read_ranges)
    num_rows, schema = _read_descriptor(described.to_pybytes(), path)
    columns = tuple(
        decode_column(data.to_pybytes(), size, index, path) for index, data in enumerate(columns_data)
    )
    return OpenSource(
        store=store,
        path=path,
        size=size,
        version=version,
        schema=schema,
        num_rows=num_rows,
        num_global_buffers=len(global_table),
        columns=columns,
        starts=tuple(tuple(accumulate((page.length for page in c.pages), initial=0)) for c in columns),
        removed=Removed.of_rows(source.deleted, num_rows, path),
    )


def _read_descriptor(data: bytes, path: str) -> tuple[int, Schema]:
    descriptor = decode_descriptor(data, path)
    try:
        return descriptor.length, _build_schema(descriptor.schema.SerializeToString(deterministic=True))
    except FormatError as error:
        raise CorruptFileError(error.message, path=path, field=error.field) from error


@lru_cache(maxsize=64)
def _build_schema(data: bytes) -> Schema:
    # The files of a table have few different schemas, whose trees are the most expensive part.
    schema = file_pb2.Schema.FromString(data)
    # Writers of 2.2 list the members of a blob descriptor without ids, after the blob's own field.
    fields = [field for field in schema.fields if field.id >= 0]
    return Schema.from_protos(fields, dict(schema.metadata))


def _fetch_all(ranges: list[Request]) -> Steps[list[pa.Buffer]]:
    return (yield ranges)
