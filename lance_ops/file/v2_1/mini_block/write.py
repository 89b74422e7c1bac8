"""Mini-block pages, written: joins compressed values and the levels that belong to them."""

import numpy as np

from lance_ops.encoding.chunks import ChunkBuffer, assemble_chunks
from lance_ops.encoding.pages.ravel import Raveled
from lance_ops.file.v2_1.columns import layer_codes
from lance_ops.file.v2_1.compression.encoded import Block, ChunkedLevels, ChunkedValues, EncodedPage, Integers
from lance_ops.file.v2_1.compression.levels import (
    MAX_CHUNK_LEVELS,
    compress_levels,
    levels_per_chunk,
    repetition_index,
)
from lance_ops.pb import encodings21_pb2 as pb

_ALIGNMENT = 8
# Levels of a chunk have two bytes for their size in both versions.
_MAX_LEVEL_BYTES = 2**16 - 1
# A chunk's word has 4 bits for its values and the others for its size in units of 8 bytes.
_MAX_CHUNK_BYTES = {2: 1 << 15, 4: 1 << 31}


def encode_mini_block(
    raveled: Raveled, values: ChunkedValues, dictionary: Block | None, version: str
) -> EncodedPage | None:
    """Build a page.

    Args:
        raveled: The levels.
        values: The values, or their positions in the dictionary, in chunks.
        dictionary: The distinct values, None without.
        version: "2.1" or "2.2".

    Returns:
        None if a chunk has more levels or bytes than can be written, which happens with many empty lists in a
        row: fewer rows may fit.
    """
    wide = version != "2.1"
    size_bytes = 4 if wide else 2
    level_counts = None
    rep = definition = None
    if raveled.rep is not None or raveled.definition is not None:
        level_counts = levels_per_chunk(raveled, values.counts)
        if int(level_counts.max()) > MAX_CHUNK_LEVELS:
            return None
        if raveled.rep is not None:
            rep = compress_levels(raveled.rep, level_counts, version)
        if raveled.definition is not None:
            definition = compress_levels(raveled.definition, level_counts, version)
    levels = [part.buffer for part in (rep, definition) if part is not None]
    if not _fits(levels, values.buffers, size_bytes):
        return None
    table, chunks = assemble_chunks(
        level_counts,
        None if rep is None else rep.buffer,
        None if definition is None else definition.buffer,
        values.buffers,
        values.counts,
        size_bytes=size_bytes,
    )
    layout = _describe(raveled, values, rep, definition, wide=wide)
    buffers = [table, chunks]
    if dictionary is not None:
        layout.dictionary.CopyFrom(dictionary.encoding)
        layout.num_dictionary_items = dictionary.count
        buffers.append(dictionary.data)
    if level_counts is not None and raveled.rep is not None:
        layout.repetition_index_depth = 1
        buffers.append(repetition_index(raveled, level_counts))
    return EncodedPage(pb.PageLayout(mini_block_layout=layout), tuple(buffers), raveled.num_rows)


def _describe(
    raveled: Raveled,
    values: ChunkedValues,
    rep: ChunkedLevels | None,
    definition: ChunkedLevels | None,
    *,
    wide: bool,
) -> pb.MiniBlockLayout:
    return pb.MiniBlockLayout(
        rep_compression=None if rep is None else rep.encoding,
        def_compression=None if definition is None else definition.encoding,
        value_compression=values.encoding,
        layers=layer_codes(raveled.layers),
        num_buffers=len(values.buffers),
        num_items=int(values.counts.sum()),
        has_large_chunk=wide,
    )


def _fits(levels: list[ChunkBuffer], values: tuple[ChunkBuffer, ...], size_bytes: int) -> bool:
    header = 2 + 2 * len(levels) + size_bytes * len(values)
    total: Integers = np.full(len(values[0].sizes), _padded(header), dtype=np.int64)
    for part in levels:
        if int(part.sizes.max()) > _MAX_LEVEL_BYTES:
            return False
    for part in (*levels, *values):
        total += (part.sizes + (_ALIGNMENT - 1)) & -_ALIGNMENT
    return int(total.max()) <= _MAX_CHUNK_BYTES[size_bytes]


def _padded(size: int) -> int:
    return (size + _ALIGNMENT - 1) & -_ALIGNMENT
