"""Writer of the 2.x container: buffers as they are added, all descriptions at the end."""

from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa

from lance_ops.errors import LanceOpsError
from lance_ops.file.container.read import (
    ALIGNMENT,
    Column,
    Encoding,
    Footer,
    Page,
    encode_column,
    encode_footer,
    encode_table,
)
from lance_ops.file.io.side_files import SideFiles
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import schema_protos
from lance_ops.pb import file_pb2
from lance_ops.storage import BytesLike, Store, StoreWriter

_PADDING = bytes(ALIGNMENT)


class ContainerWriter:
    """A 2.x file that is being written.

    Args:
        output: Destination of the bytes; the caller closes or aborts it.
        num_columns: Physical columns.
        side_files: Side files of this one, if it can have any.
    """

    def __init__(self, output: StoreWriter, num_columns: int, *, side_files: SideFiles | None = None) -> None:
        self._output = output
        self._side_files = side_files
        self._position = 0
        self._pages: list[list[Page]] = [[] for _ in range(num_columns)]
        self._global_buffers: list[tuple[int, int]] = []

    @property
    def side_files(self) -> SideFiles:
        """Side files of this one.

        Raises:
            LanceOpsError: This file cannot have any.
        """
        if self._side_files is None:
            raise LanceOpsError("this file cannot have side files")
        return self._side_files

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._position

    def write_buffer(self, data: BytesLike) -> tuple[int, int]:
        """Append a buffer at the next aligned position.

        Args:
            data: Any bytes.

        Returns:
            Position and size.
        """
        position = self.align()
        self._write(data)
        return position, self._position - position

    def align(self) -> int:
        """Advance to the next aligned position, and return it."""
        padding = -self._position % ALIGNMENT
        if padding:
            self._write(_PADDING[:padding])
        return self._position

    def append(self, data: BytesLike) -> None:
        """Append to a buffer that begins at the position returned by `align`."""
        self._write(data)

    def append_from(self, source: Store, path: str, ranges: Sequence[tuple[int, int]]) -> None:
        """Append ranges of another file to a buffer; see `StoreWriter.copy_from`."""
        self._output.copy_from(source, path, ranges)
        self._position += sum(length for _, length in ranges)

    def add_page(
        self, column: int, buffers: Sequence[tuple[int, int]], length: int, priority: int, encoding: Encoding
    ) -> None:
        """Add the description of the next page of a column.

        Args:
            column: Physical column.
            buffers: Position and size of each buffer of the page.
            length: Rows, or items.
            priority: Top-level row that the page starts with.
            encoding: Encoding of the buffers.
        """
        self._pages[column].append(Page(tuple(buffers), length, priority, encoding))

    @property
    def pages(self) -> Sequence[Sequence[Page]]:
        """Return the pages of each column so far."""
        return self._pages

    def add_global_buffer(self, data: BytesLike) -> int:
        """Append a global buffer.

        Returns:
            Its number; 0 is the file descriptor, so the first one is 1.
        """
        self._global_buffers.append(self.write_buffer(data))
        return len(self._global_buffers)

    def finish(
        self, schema: Schema, num_rows: int, encodings: Sequence[Encoding], version: tuple[int, int]
    ) -> None:
        """Write all descriptions and the footer.

        Args:
            schema: For the file descriptor.
            num_rows: Top-level rows.
            encodings: Of each physical column.
            version: Numbers for the footer.
        """
        descriptor = file_pb2.FileDescriptor(length=num_rows)
        descriptor.schema.fields.extend(schema_protos(schema))
        for key in sorted(schema.metadata):
            descriptor.schema.metadata[key] = schema.metadata[key]
        # Readers of 2.1 and later require alignment here as well.
        described = self.write_buffer(descriptor.SerializeToString(deterministic=True))
        metadata_start = self._position
        # Written together: wide tables have thousands of them.
        messages = [
            encode_column(Column(encoding, tuple(pages)))
            for encoding, pages in zip(encodings, self._pages, strict=True)
        ]
        ends = list(accumulate(map(len, messages), initial=metadata_start))
        columns = [(position, len(message)) for position, message in zip(ends, messages, strict=False)]
        self._write(b"".join(messages))
        column_table, _ = self._append(encode_table(columns))
        global_table, _ = self._append(encode_table([described, *self._global_buffers]))
        footer = Footer(
            column_metadata_start=metadata_start,
            column_table=column_table,
            global_table=global_table,
            num_global_buffers=1 + len(self._global_buffers),
            num_columns=len(columns),
            major=version[0],
            minor=version[1],
        )
        self._write(encode_footer(footer))

    def _append(self, data: bytes) -> tuple[int, int]:
        position = self._position
        self._write(data)
        return position, len(data)

    def _write(self, data: BytesLike) -> None:
        size = data.size if isinstance(data, pa.Buffer) else memoryview(data).nbytes
        if size:
            self._output.write(data)
            self._position += size
