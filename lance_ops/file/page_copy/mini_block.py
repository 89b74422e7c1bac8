"""Row removal from mini-block pages.

All chunks except the last have a power of two of values, so a chunk that loses one cannot precede others: the
values of the page are cut into chunks again.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.chunks import ChunkBuffer, decode_chunk_table, split_chunks
from lance_ops.encoding.values.filter_values import keep_strings, keep_values
from lance_ops.encoding.values.variable import CHUNK_BYTES
from lance_ops.errors import CorruptFileError, LanceOpsError
from lance_ops.file.page_copy.levels import keep_levels
from lance_ops.file.page_copy.rechunk import CannotRechunk, close_chunks, open_chunks
from lance_ops.file.v2_1.columns import parse_layers
from lance_ops.file.v2_1.compression.decode import decode_levels
from lance_ops.file.v2_1.compression.encoded import Block, EncodedPage
from lance_ops.file.v2_1.compression.strings import MAX_CHUNK_BYTES
from lance_ops.file.v2_1.constant.write import encode_null_page
from lance_ops.file.v2_1.mini_block.write import encode_mini_block
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

_OFFSET_BITS = (32, 64)
_TABLE, _CHUNKS, _DICTIONARY = 0, 1, 2


def keep_plain_strings(
    layout: pb.MiniBlockLayout, buffers: Sequence[Bytes], gone: tuple[Integers, Integers], version: str
) -> EncodedPage | None:
    """Drop rows from a page of strings without levels, in one pass.

    Args:
        layout: Of the page.
        buffers: Of the page.
        gone: Starts and stops of the deleted rows, not all of them.
        version: "2.1" or "2.2".

    Returns:
        None for other pages.

    Raises:
        CorruptFileError: The bytes do not match the layout.
    """
    values = layout.value_compression
    if values.WhichOneof("compression") == "fsst":
        values = values.fsst.values
    offsets = values.variable.offsets.flat
    if (
        values.WhichOneof("compression") != "variable"
        or values.variable.HasField("values")
        or offsets.bits_per_value not in _OFFSET_BITS
        or offsets.HasField("data")
        or layout.HasField("rep_compression")
        or layout.HasField("def_compression")
        or layout.HasField("dictionary")
        or layout.has_large_chunk != (version != "2.1")
        or layout.num_buffers != 1
        or len(layout.layers) != 1
        or len(buffers) != 2
    ):
        return None
    kept = keep_strings(
        buffers[_TABLE],
        buffers[_CHUNKS],
        layout.num_items,
        gone,
        word_bytes=4 if layout.has_large_chunk else 2,
        width=offsets.bits_per_value // 8,
        chunk_bytes=CHUNK_BYTES,
        limit=MAX_CHUNK_BYTES[version],
    )
    if kept is None:
        return None
    changed = pb.PageLayout(mini_block_layout=layout)
    changed.mini_block_layout.num_items -= int((gone[1] - gone[0]).sum())
    return EncodedPage(changed, kept, changed.mini_block_layout.num_items)


def keep_mini_block(
    layout: pb.MiniBlockLayout,
    buffers: list[npt.NDArray[np.uint8]],
    keep: npt.NDArray[np.bool_],
    version: str,
) -> EncodedPage:
    """Return a page of the kept rows, compressed as before.

    Args:
        layout: Of the page.
        buffers: Of the page.
        keep: The kept rows, at least one.
        version: "2.1" or "2.2".

    Raises:
        CorruptFileError: The bytes do not match the layout.
        UnsupportedError: A compression that is not implemented.
        CannotRechunk: The page has to be decoded and encoded again.
    """
    layers = tuple(parse_layers(layout.layers))
    has_dictionary = layout.HasField("dictionary")
    if len(buffers) < 2 + has_dictionary:
        raise CorruptFileError(f"a mini-block page must not have {len(buffers)} buffers")
    wide = layout.has_large_chunk
    table = decode_chunk_table(
        buffers[_TABLE],
        word_bytes=4 if wide else 2,
        num_values=layout.num_items,
        size=len(buffers[_CHUNKS]),
    )
    has_rep, has_def = layout.HasField("rep_compression"), layout.HasField("def_compression")
    chunks = split_chunks(
        ChunkBuffer(buffers[_CHUNKS], table.starts, table.sizes),
        has_rep=has_rep,
        has_def=has_def,
        num_buffers=layout.num_buffers,
        size_bytes=4 if wide else 2,
    )
    num_entries = int(chunks.num_levels.sum()) if has_rep or has_def else layout.num_items
    rep = None if chunks.rep is None else decode_levels(layout.rep_compression, chunks.rep, chunks.num_levels)
    definition = None
    if chunks.definition is not None:
        definition = decode_levels(layout.def_compression, chunks.definition, chunks.num_levels)
    raveled, kept = keep_levels(layers, rep, definition, num_entries, keep)
    if not len(raveled.values):
        # Only empty and null lists are left.
        return encode_null_page(raveled, version)
    values = keep_values(open_chunks(layout.value_compression, chunks.values, table.counts), kept)
    dictionary = None
    if has_dictionary:
        dictionary = Block(layout.dictionary, buffers[_DICTIONARY], layout.num_dictionary_items)
    try:
        page = encode_mini_block(
            raveled, close_chunks(layout.value_compression, values, version), dictionary, version
        )
    except LanceOpsError as error:
        # Such as two long values that had short ones between them, and do not fit into one chunk.
        raise CannotRechunk from error
    if page is None:
        raise CannotRechunk
    return page
