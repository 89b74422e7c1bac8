"""Decompression in 2.1 and 2.2 of many values at once: of chunks, of whole buffers, and of levels."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bits.bitpacking import unpack_inline, unpack_parts
from lance_ops.encoding.bits.byte_stream_split import join_streams
from lance_ops.encoding.chunks import ChunkBuffer, read_words
from lance_ops.encoding.fsst import decode_fsst_chunks
from lance_ops.encoding.general.compression import decompress, decompress_parts
from lance_ops.encoding.pages.level_packing import unpack_levels
from lance_ops.encoding.values.values import Fixed, Lists, Nulls, Values, as_flags
from lance_ops.encoding.values.variable import decode_variable_block, decode_variable_chunks
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.v2_1.compression.decode_rows import (
    as_bytes,
    decode_fixed_rows,
    decode_fsst_values,
    fixed_bits,
    split_members,
)
from lance_ops.file.v2_1.compression.parameters import (
    MAX_BITS,
    flat_bits,
    offset_bytes,
    packed_width,
    refuse_data_compression,
    scheme_of,
    unsupported,
)
from lance_ops.file.v2_1.compression.runs import decode_run_chunks
from lance_ops.file.v2_1.compression.sequences import decode_strings, needs_bytes
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

# No page has as many; larger numbers would overflow.
_MAX_PAGE_BITS = 1 << 60


def decode_chunk_values(
    encoding: pb.CompressiveEncoding, buffers: tuple[ChunkBuffer, ...], counts: Integers
) -> Values:
    """Decode the values of consecutive chunks.

    Args:
        encoding: Of the values.
        buffers: The value buffers.
        counts: Values of each chunk.

    Raises:
        CorruptFileError: The buffers are not what the encoding says.
        UnsupportedError: A compression that is not implemented, which is named.
    """
    remaining = iter(buffers)
    values = _decode_chunks(encoding, remaining, counts)
    if next(remaining, None) is not None:
        raise CorruptFileError("a chunk has more buffers than its compression needs")
    return values


def has_tables_apart(encoding: pb.CompressiveEncoding) -> bool:
    """Return whether chunks are strings that `decode_chunks_by_tables` takes."""
    return encoding.WhichOneof("compression") == "fsst" and _is_in_one_buffer(encoding.fsst.values)


def _is_in_one_buffer(encoding: pb.CompressiveEncoding) -> bool:
    """Return whether chunks are strings behind their offsets."""
    return (
        encoding.WhichOneof("compression") == "variable"
        and encoding.variable.offsets.WhichOneof("compression") == "flat"
    )


def decode_chunks_by_tables(
    encodings: Sequence[pb.CompressiveEncoding],
    firsts: Integers,
    buffers: Sequence[ChunkBuffer],
    counts: Integers,
) -> Values:
    """Decode chunks of strings of several pages, which differ in their tables of symbols and in nothing else.

    Args:
        encodings: Of each page.
        firsts: Number of the first chunk of each page.
        buffers: The buffer of the chunks.
        counts: Values of each chunk.

    Raises:
        CorruptFileError: The buffers are not what the encodings say.
    """
    (chunks,) = buffers
    numbers = np.diff(firsts, append=len(counts))
    tables = np.repeat(np.arange(len(firsts)), numbers)
    width = offset_bytes(encodings[0].fsst.values.variable)
    symbols = [encoding.fsst.symbol_table for encoding in encodings]
    return decode_fsst_chunks(symbols, tables, chunks, counts, width)


def _decode_chunks(
    encoding: pb.CompressiveEncoding, buffers: Iterator[ChunkBuffer], counts: Integers
) -> Values:
    kind = encoding.WhichOneof("compression")
    total = int(counts.sum())
    if kind == "flat":
        refuse_data_compression(encoding.flat)
        return _flat_chunks(_next(buffers), counts, encoding.flat.bits_per_value)
    if kind == "inline_bitpacking":
        bits = encoding.inline_bitpacking.uncompressed_bits_per_value
        return _integers(unpack_inline(_next(buffers), counts, bits))
    if kind == "out_of_line_bitpacking":
        bits = encoding.out_of_line_bitpacking.uncompressed_bits_per_value
        width = packed_width(encoding.out_of_line_bitpacking)
        return _integers(unpack_parts(_next(buffers), counts, width, bits))
    if kind == "rle":
        values, lengths = _next(buffers), _next(buffers)
        return decode_run_chunks(encoding.rle, values, lengths, counts)
    if kind == "variable":
        if _is_in_one_buffer(encoding):
            return decode_variable_chunks(_next(buffers), counts, offset_bytes(encoding.variable))
        if encoding.variable.HasField("values"):
            raise UnsupportedError("compressed bytes of strings are not supported")
        offsets = _next(buffers) if needs_bytes(encoding.variable.offsets) else None
        return decode_strings(encoding.variable, offsets, _next(buffers), counts)
    if kind == "fsst":
        inner = encoding.fsst.values
        if _is_in_one_buffer(inner):
            width = offset_bytes(inner.variable)
            tables = np.zeros(len(counts), dtype=np.int64)
            return decode_fsst_chunks([encoding.fsst.symbol_table], tables, _next(buffers), counts, width)
        return decode_fsst_values(encoding.fsst, _decode_chunks(inner, buffers, counts))
    if kind == "fixed_size_list":
        return _fixed_size_list_chunks(encoding.fixed_size_list, buffers, counts)
    if kind == "packed_struct":
        return split_members(
            encoding.packed_struct, _decode_chunks(encoding.packed_struct.values, buffers, counts)
        )
    if kind == "general":
        # Only the first buffer is compressed as a whole.
        scheme = scheme_of(encoding.general.compression)
        plain = decompress_parts(scheme, _next(buffers))
        return _decode_chunks(encoding.general.values, chain([plain], buffers), counts)
    if kind == "byte_stream_split":
        bits = flat_bits(encoding.byte_stream_split.values)
        return Fixed(bits, total, join_streams(_next(buffers), counts, bits))
    if kind == "constant" and not encoding.constant.HasField("value"):
        return Nulls(total)
    raise unsupported(kind, "chunks")


def decode_block(encoding: pb.CompressiveEncoding, data: Bytes, count: int) -> Values:
    """Decode a buffer that holds a known number of values: levels or a dictionary.

    Args:
        encoding: Of the values.
        data: The buffer.
        count: Number of values.

    Raises:
        CorruptFileError: The buffer is not what the encoding says.
        UnsupportedError: A compression that is not implemented, which is named.
    """
    kind = encoding.WhichOneof("compression")
    if kind == "general":
        plain = decompress(scheme_of(encoding.general.compression), pa.py_buffer(data))
        return decode_block(encoding.general.values, as_bytes(plain), count)
    if kind == "variable":
        return decode_variable_block(data, count)
    if kind == "fixed_size_list":
        # One by one, each behind the validity of its items.
        size = fixed_bits(encoding) // 8
        if size * count > len(data):
            raise CorruptFileError(f"{count} values of {size} bytes in a buffer of {len(data)}")
        return decode_fixed_rows(encoding, data[: size * count], count)
    if kind == "fsst":
        return decode_fsst_values(encoding.fsst, decode_block(encoding.fsst.values, data, count))
    if kind == "rle":
        (size,) = read_words(data, np.zeros(1, dtype=np.int64), 8).tolist()
        if size > len(data) - 8:
            raise CorruptFileError(f"runs of {size} bytes in a buffer of {len(data)}")
        buffers = tuple(ChunkBuffer.from_parts([part]) for part in (data[8 : 8 + size], data[8 + size :]))
    else:
        buffers = (ChunkBuffer.from_parts([data]),)
    return decode_chunk_values(encoding, buffers, np.array([count], dtype=np.int64))


def decode_levels(
    encoding: pb.CompressiveEncoding, chunks: ChunkBuffer, counts: Integers
) -> npt.NDArray[np.uint16]:
    """Decode the levels of consecutive chunks.

    Raises:
        CorruptFileError: They are no 16-bit integers.
    """
    kind = encoding.WhichOneof("compression")
    if kind == "out_of_line_bitpacking":
        packed = encoding.out_of_line_bitpacking
        if packed.uncompressed_bits_per_value != 16:
            raise CorruptFileError("levels must be 16-bit integers")
        return unpack_levels(chunks, counts, packed_width(packed))
    if kind in ("flat", "inline_bitpacking"):
        values = decode_chunk_values(encoding, (chunks,), counts)
    elif kind == "rle":
        sizes = chunks.words(0, 8).astype(np.int64)
        if bool((sizes < 0).any()) or bool((sizes > chunks.sizes - 8).any()):
            raise CorruptFileError("runs of levels reach beyond their chunk")
        runs = ChunkBuffer(chunks.data, chunks.starts + 8, sizes)
        lengths = ChunkBuffer(chunks.data, runs.starts + sizes, chunks.sizes - 8 - sizes)
        values = decode_chunk_values(encoding, (runs, lengths), counts)
    else:
        parts = [
            decode_block(encoding, part, count)
            for part, count in zip(chunks.parts(), counts.tolist(), strict=True)
        ]
        return np.concatenate([_as_levels(part) for part in parts])
    return _as_levels(values)


def _as_levels(values: Values) -> npt.NDArray[np.uint16]:
    if not isinstance(values, Fixed) or values.bits != 16 or isinstance(values.data, pa.Buffer):
        raise CorruptFileError("levels must be 16-bit integers")
    data = np.ascontiguousarray(values.data)
    return data if data.dtype == np.uint16 else data.reshape(-1).view(np.uint16)


def _next(buffers: Iterator[ChunkBuffer]) -> ChunkBuffer:
    found = next(buffers, None)
    if found is None:
        raise CorruptFileError("a chunk has fewer buffers than its compression needs")
    return found


def _integers(values: npt.NDArray[np.unsignedinteger]) -> Fixed:
    return Fixed(values.dtype.itemsize * 8, len(values), values)


def _flat_chunks(chunks: ChunkBuffer, counts: Integers, bits: int) -> Fixed:
    if not 0 < bits <= MAX_BITS or (bits % 8 and bits != 1):
        raise CorruptFileError(f"values of {bits} bits")
    total = int(counts.sum())
    if total * bits > _MAX_PAGE_BITS:
        raise CorruptFileError(f"{total} values of {bits} bits")
    sizes = (counts * bits + 7) // 8
    data = chunks.join_prefixes(sizes)
    if bits > 1:
        return Fixed(bits, total, data)
    if not bool((counts[:-1] % 8).any()):
        return Fixed(1, total, pa.py_buffer(data))
    flags = np.unpackbits(data, bitorder="little").view(np.bool_)
    ends = np.cumsum(sizes) * 8
    starts = ends - sizes * 8
    picked = [
        flags[start : start + count] for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
    ]
    return Fixed(1, total, np.concatenate(picked))


def _fixed_size_list_chunks(
    encoding: pb.FixedSizeList, buffers: Iterator[ChunkBuffer], counts: Integers
) -> Lists:
    size = encoding.items_per_value
    if not 0 < size < 2**31:
        raise CorruptFileError(f"fixed-size lists of {size} items")
    if int(counts.sum()) * size > _MAX_PAGE_BITS:
        raise CorruptFileError(f"{int(counts.sum())} fixed-size lists of {size} items")
    item_counts = counts * size
    valid = None
    if encoding.has_validity:
        valid = as_flags(_flat_chunks(_next(buffers), item_counts, 1))
    items = _decode_chunks(encoding.values, buffers, item_counts)
    return Lists(size, int(counts.sum()), items, valid)
