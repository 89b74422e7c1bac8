"""Merge of string pages with separate symbol tables into one with a common table.

The strings are not decompressed: their codes are replaced, see `lance_ops.encoding.fsst.merge`.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_ops.encoding.fsst import SymbolTable
from lance_ops.encoding.fsst.merge import CompressedStrings, merge_symbols, recode_strings
from lance_ops.encoding.pages.levels import Levels
from lance_ops.encoding.pages.ravel import Raveled
from lance_ops.encoding.values.variable import CHUNK_BYTES
from lance_ops.errors import CorruptFileError
from lance_ops.file.page_copy.dialect import ReadPart
from lance_ops.file.page_copy.runs import describe_pages, find_strings, gone_of, lay_side_by_side
from lance_ops.file.v2_1.columns import parse_layers
from lance_ops.file.v2_1.compression.encoded import ChunkedValues, EncodedPage
from lance_ops.file.v2_1.compression.strings import MAX_CHUNK_BYTES
from lance_ops.file.v2_1.mini_block.write import encode_mini_block
from lance_ops.pb import encodings21_pb2 as pb

MAX_GROWTH = 1.06
"""Maximum growth of the codes; beyond it, the tables have too little in common."""

_OFFSET_BITS = (32, 64)


def merge_strings(pages: Sequence[ReadPart], version: str) -> EncodedPage | None:
    """Merge several pages into one.

    Args:
        pages: Pages with symbol tables and equal descriptions, in the order of their rows.
        version: "2.1" or "2.2".

    Returns:
        None if it does not pay, or the strings are also compressed in another way.

    Raises:
        CorruptFileError: The bytes do not match the layouts.
    """
    layouts, lengths, table = describe_pages(pages)
    common = layouts[0]
    offsets = common.value_compression.fsst.values.variable.offsets.flat
    if not _is_plain(common) or offsets.bits_per_value not in _OFFSET_BITS:
        return None
    found = [SymbolTable.from_bytes(layout.value_compression.fsst.symbol_table) for layout in layouts]
    tables = [symbols for symbols in found if symbols is not None]
    if len(tables) != len(found):
        return None
    gone = gone_of(pages, lengths)
    owners = np.repeat(np.arange(len(tables)), table.numbers)
    width = offsets.bits_per_value // 8
    levels: Levels | None = None
    if common.HasField("def_compression"):
        laid = lay_side_by_side(pages)
        strings = CompressedStrings.of_chunks(laid.chunks.values[0], table.counts, tables, owners, width)
        levels = laid.levels if laid.levels is None or laid.keep is None else laid.levels[laid.keep]
    else:
        addresses, sizes = find_strings(pages, table, common)
        data = [part for page in pages for part in page.buffers]
        strings = CompressedStrings(data, addresses, sizes, table.counts, tables, owners, width)
    merged = merge_symbols(strings)
    if merged.growth > MAX_GROWTH:
        return None
    recoded = recode_strings(strings, merged, gone, chunk_bytes=CHUNK_BYTES)
    if recoded is None:
        return None
    counts, chunks = recoded
    raveled = _ravel(common, levels, int(counts.sum()))
    if raveled.null is not None and bool(raveled.null.all()):
        # Only nulls are left, which need no strings.
        return None
    if int(chunks.sizes.max()) > MAX_CHUNK_BYTES[version]:
        return None
    encoding = pb.CompressiveEncoding(
        fsst=pb.Fsst(symbol_table=merged.table.to_bytes(), values=common.value_compression.fsst.values)
    )
    return encode_mini_block(raveled, ChunkedValues(encoding, counts, (chunks,)), None, version)


def _is_plain(layout: pb.MiniBlockLayout) -> bool:
    values = layout.value_compression.fsst.values
    return (
        values.WhichOneof("compression") == "variable"
        and not values.variable.HasField("values")
        and not values.variable.offsets.flat.HasField("data")
        and layout.num_buffers == 1
    )


def _ravel(common: pb.MiniBlockLayout, levels: Levels | None, count: int) -> Raveled:
    if levels is not None and len(levels) != count:
        raise CorruptFileError(
            f"number of strings does not match the levels (expected {len(levels)}, got {count})"
        )
    return Raveled(
        layers=tuple(parse_layers(common.layers)),
        rep=None,
        definition=levels,
        num_entries=count,
        num_rows=count,
        values=pa.nulls(count),
    )
