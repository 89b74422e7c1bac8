"""Writes a data file with one finished page by hand, for tests of page encodings with the peer."""

from pathlib import Path

import pyarrow as pa

from lance_ops.file.container.read import Encoding
from lance_ops.file.container.write import ContainerWriter
from lance_ops.file.schema.model import Schema
from lance_ops.file.v2_1.columns import COLUMN_ENCODING_URL, PAGE_LAYOUT_URL
from lance_ops.file.v2_1.compression.encoded import EncodedPage
from lance_ops.storage import open_store

_FOOTERS = {"2.1": (2, 1), "2.2": (2, 2)}
_COLUMN_VALUES = b"\x0a\x00"


def write_page_file(path: Path, field: pa.Field, page: EncodedPage, version: str) -> None:
    """Write a file with one column of one leaf."""
    with open_store(str(path.parent)).open_writer(path.name) as output:
        container = ContainerWriter(output, 1)
        places = [container.write_buffer(pa.py_buffer(buffer)) for buffer in page.buffers]
        encoding = Encoding(PAGE_LAYOUT_URL, page.layout.SerializeToString(deterministic=True))
        container.add_page(0, places, page.num_rows, 0, encoding)
        # From 2.1 on, the file descriptor must be aligned.
        container.write_buffer(b"")
        schema = Schema.from_arrow(pa.schema([field]))
        columns = [Encoding(COLUMN_ENCODING_URL, _COLUMN_VALUES)]
        container.finish(schema, page.num_rows, columns, _FOOTERS[version])
