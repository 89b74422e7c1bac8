"""Writes a data file with one mini-block page by hand, for tests of compressions with the peer."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import ChunkBuffer, assemble_chunks
from lance_ops.file.container.read import Encoding
from lance_ops.file.container.write import ContainerWriter
from lance_ops.file.schema.model import Schema
from lance_ops.file.v2_1.columns import COLUMN_ENCODING_URL, PAGE_LAYOUT_URL
from lance_ops.file.v2_1.compression.encoded import Block, ChunkedValues
from lance_ops.pb import encodings21_pb2 as pb
from lance_ops.storage import open_store

_FOOTERS = {"2.1": (2, 1), "2.2": (2, 2)}
_COLUMN_VALUES = b"\x0a\x00"


@dataclass(frozen=True, slots=True)
class Levels:
    """Definition levels of nullable values.

    Attributes:
        encoding: How they are compressed.
        buffer: One entry for each chunk.
        counts: Of each chunk.
    """

    encoding: pb.CompressiveEncoding
    buffer: ChunkBuffer
    counts: npt.NDArray[np.int64]


def write_mini_block_file(
    path: Path,
    data_type: pa.DataType,
    values: ChunkedValues,
    version: str,
    *,
    dictionary: Block | None = None,
    definition: Levels | None = None,
    metadata: dict[str, str] | None = None,
) -> None:
    """Write a file with the column `x`."""
    wide = version == "2.2"
    total = int(values.counts.sum())
    words, chunks = assemble_chunks(
        None if definition is None else definition.counts,
        None,
        None if definition is None else definition.buffer,
        values.buffers,
        values.counts,
        size_bytes=4 if wide else 2,
    )
    layout = pb.MiniBlockLayout(
        value_compression=values.encoding,
        num_buffers=len(values.buffers),
        num_items=total,
        has_large_chunk=wide,
        layers=[pb.REPDEF_ALL_VALID_ITEM if definition is None else pb.REPDEF_NULLABLE_ITEM],
    )
    buffers = [words, chunks]
    if definition is not None:
        layout.def_compression.CopyFrom(definition.encoding)
    if dictionary is not None:
        layout.dictionary.CopyFrom(dictionary.encoding)
        layout.num_dictionary_items = dictionary.count
        buffers.append(dictionary.data)
    field = pa.field("x", data_type, nullable=definition is not None, metadata=metadata)
    schema = Schema.from_arrow(pa.schema([field]))
    with open_store(str(path.parent)).open_writer(path.name) as output:
        container = ContainerWriter(output, 1)
        places = [container.write_buffer(pa.py_buffer(buffer)) for buffer in buffers]
        encoding = Encoding(
            PAGE_LAYOUT_URL, pb.PageLayout(mini_block_layout=layout).SerializeToString(deterministic=True)
        )
        container.add_page(0, places, total, 0, encoding)
        # From 2.1 on, the file descriptor must be aligned.
        container.write_buffer(b"")
        container.finish(schema, total, [Encoding(COLUMN_ENCODING_URL, _COLUMN_VALUES)], _FOOTERS[version])
