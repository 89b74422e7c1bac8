"""Decompression in 2.1 and 2.2 wherever it occurs: in chunks, whole buffers, and single values."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bits.bitpacking import unpack_inline, unpack_parts, word_type
from lance_ops.encoding.bits.byte_stream_split import join_streams
from lance_ops.encoding.bits.rle import decode_runs
from lance_ops.encoding.chunks import ChunkBuffer, read_words
from lance_ops.encoding.fsst import decode_fsst, decode_fsst_chunks
from lance_ops.encoding.general.compression import LZ4, ZSTD, decompress, decompress_parts
from lance_ops.encoding.pages.level_packing import unpack_levels
from lance_ops.encoding.values.packed_struct import pick_column
from lance_ops.encoding.values.values import Fixed, Lists, Nulls, Packed, Values, Variable, as_flags
from lance_ops.encoding.values.variable import check_offsets as check_offsets
from lance_ops.encoding.values.variable import decode_variable_block, decode_variable_chunks, gather_values
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

_SCHEMES = {
    pb.COMPRESSION_ALGORITHM_LZ4: LZ4,
    pb.COMPRESSION_ALGORITHM_ZSTD: ZSTD,
}
# What one value of fixed width may take: a page of longer ones could not be addressed.
_MAX_BITS = 1 << 34
# No page has as many; whatever is more would overflow when it is counted.
_MAX_PAGE_BITS = 1 << 60


def as_bytes(data: pa.Buffer) -> Bytes:
    """View a buffer as bytes."""
    return np.frombuffer(data, dtype=np.uint8)


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
    """Whether chunks are strings that `decode_chunks_by_tables` takes."""
    return encoding.WhichOneof("compression") == "fsst" and (
        encoding.fsst.values.WhichOneof("compression") == "variable"
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
    width = _offset_bytes(encodings[0].fsst.values.variable)
    symbols = [encoding.fsst.symbol_table for encoding in encodings]
    return decode_fsst_chunks(symbols, tables, chunks, counts, width)


def _decode_chunks(
    encoding: pb.CompressiveEncoding, buffers: Iterator[ChunkBuffer], counts: Integers
) -> Values:
    kind = encoding.WhichOneof("compression")
    total = int(counts.sum())
    if kind == "flat":
        _refuse_data_compression(encoding.flat)
        return _flat_chunks(_next(buffers), counts, encoding.flat.bits_per_value)
    if kind == "inline_bitpacking":
        bits = encoding.inline_bitpacking.uncompressed_bits_per_value
        return _integers(unpack_inline(_next(buffers), counts, bits))
    if kind == "out_of_line_bitpacking":
        bits = encoding.out_of_line_bitpacking.uncompressed_bits_per_value
        width = _packed_width(encoding.out_of_line_bitpacking)
        return _integers(unpack_parts(_next(buffers), counts, width, bits))
    if kind == "rle":
        values, lengths = _next(buffers), _next(buffers)
        bits, length_bits = _rle_bits(encoding.rle)
        return Fixed(bits, total, decode_runs(values, lengths, counts, bits, length_bits))
    if kind == "variable":
        return decode_variable_chunks(_next(buffers), counts, _offset_bytes(encoding.variable))
    if kind == "fsst":
        inner = encoding.fsst.values
        if inner.WhichOneof("compression") == "variable":
            width = _offset_bytes(inner.variable)
            tables = np.zeros(len(counts), dtype=np.int64)
            return decode_fsst_chunks([encoding.fsst.symbol_table], tables, _next(buffers), counts, width)
        return _decode_fsst(encoding.fsst, _decode_chunks(inner, buffers, counts))
    if kind == "fixed_size_list":
        return _fixed_size_list_chunks(encoding.fixed_size_list, buffers, counts)
    if kind == "packed_struct":
        return _split_members(
            encoding.packed_struct, _decode_chunks(encoding.packed_struct.values, buffers, counts)
        )
    if kind == "general":
        # Only the first buffer is compressed as a whole.
        scheme = _scheme(encoding.general.compression)
        plain = decompress_parts(scheme, _next(buffers))
        return _decode_chunks(encoding.general.values, chain([plain], buffers), counts)
    if kind == "byte_stream_split":
        bits = _flat_bits(encoding.byte_stream_split.values)
        return Fixed(bits, total, join_streams(_next(buffers), counts, bits))
    if kind == "constant" and not encoding.constant.HasField("value"):
        return Nulls(total)
    raise _unsupported(kind, "chunks")


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
        plain = decompress(_scheme(encoding.general.compression), pa.py_buffer(data))
        return decode_block(encoding.general.values, as_bytes(plain), count)
    if kind == "variable":
        return decode_variable_block(data, count)
    if kind == "fsst":
        return _decode_fsst(encoding.fsst, decode_block(encoding.fsst.values, data, count))
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
            raise CorruptFileError("levels that are no integers of 16 bits")
        return unpack_levels(chunks, counts, _packed_width(packed))
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
        raise CorruptFileError("levels that are no integers of 16 bits")
    data = np.ascontiguousarray(values.data)
    return data if data.dtype == np.uint16 else data.reshape(-1).view(np.uint16)


def fixed_bits(encoding: pb.CompressiveEncoding) -> int:
    """Bits that a value of fixed width takes in a full-zip page, item validity included.

    Raises:
        UnsupportedError: A compression that has no place there.
    """
    kind = encoding.WhichOneof("compression")
    if kind == "flat":
        _refuse_data_compression(encoding.flat)
        bits = encoding.flat.bits_per_value
    elif kind == "fixed_size_list":
        bits = sum(8 * size for size in _validity_bytes(encoding.fixed_size_list, 1)) + _innermost_bits(
            encoding
        )
    elif kind == "packed_struct":
        bits = sum(encoding.packed_struct.bits_per_value)
    elif kind == "constant" and not encoding.constant.HasField("value"):
        bits = 0
    else:
        raise _unsupported(kind, "values of fixed width")
    if bits > _MAX_BITS:
        raise CorruptFileError(f"values of {bits} bits")
    return bits


def decode_fixed_rows(encoding: pb.CompressiveEncoding, rows: Bytes | pa.Buffer, count: int) -> Values:
    """Decode values of fixed width that follow each other.

    Args:
        encoding: Of a value.
        rows: `count` values; a buffer, or bytes.
        count: Number of values.
    """
    kind = encoding.WhichOneof("compression")
    if kind == "fixed_size_list":
        return _fixed_size_list_rows(encoding, rows, count)
    data = pa.py_buffer(np.ascontiguousarray(rows)) if isinstance(rows, np.ndarray) else rows
    if kind == "packed_struct":
        bits = fixed_bits(encoding)
        return _split_members(encoding.packed_struct, Fixed(bits, count, as_bytes(data)))
    if kind == "constant":
        return Nulls(count)
    return Fixed(fixed_bits(encoding), count, data)


def decode_variable_rows(encoding: pb.CompressiveEncoding, values: Variable) -> Values:
    """Decode values of variable width, each compressed by itself.

    Args:
        encoding: Of a value.
        values: The compressed values.
    """
    kind = encoding.WhichOneof("compression")
    if kind == "variable":
        return values
    if kind == "fsst":
        return _decode_fsst(encoding.fsst, decode_variable_rows(encoding.fsst.values, values))
    if kind == "general":
        scheme = _scheme(encoding.general.compression)
        starts = (values.offsets - values.offsets[0]).astype(np.int64, copy=False)
        plain = decompress_parts(scheme, ChunkBuffer(as_bytes(values.data), starts[:-1], np.diff(starts)))
        offsets = np.zeros(len(starts), dtype=np.int64)
        np.cumsum(plain.sizes, out=offsets[1:])
        joined = Variable(offsets, pa.py_buffer(plain.data))
        return decode_variable_rows(encoding.general.values, joined)
    if kind == "variable_packed_struct":
        return _variable_packed_rows(encoding.variable_packed_struct, values)
    raise _unsupported(kind, "values of variable width")


def _next(buffers: Iterator[ChunkBuffer]) -> ChunkBuffer:
    found = next(buffers, None)
    if found is None:
        raise CorruptFileError("a chunk has fewer buffers than its compression needs")
    return found


def _integers(values: npt.NDArray[np.unsignedinteger]) -> Fixed:
    return Fixed(values.dtype.itemsize * 8, len(values), values)


def _flat_chunks(chunks: ChunkBuffer, counts: Integers, bits: int) -> Fixed:
    if not 0 < bits <= _MAX_BITS or (bits % 8 and bits != 1):
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


def _decode_fsst(fsst: pb.Fsst, values: Values) -> Variable:
    if not isinstance(values, Variable):
        raise CorruptFileError("compressed strings of fixed width")
    return decode_fsst(fsst.symbol_table, values.offsets, values.data)


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


def _validity_bytes(encoding: pb.FixedSizeList, items: int) -> list[int]:
    # Bytes of the validity of each level of nested lists that has one, outermost first.
    items *= encoding.items_per_value
    if items > _MAX_BITS:
        raise CorruptFileError(f"fixed-size lists of {items} items")
    own = [(items + 7) // 8] if encoding.has_validity else []
    if encoding.values.WhichOneof("compression") == "fixed_size_list":
        return own + _validity_bytes(encoding.values.fixed_size_list, items)
    return own


def _innermost_bits(encoding: pb.CompressiveEncoding) -> int:
    items = 1
    while encoding.WhichOneof("compression") == "fixed_size_list":
        items *= encoding.fixed_size_list.items_per_value
        encoding = encoding.fixed_size_list.values
        if items > _MAX_BITS:
            raise CorruptFileError(f"fixed-size lists of {items} items")
    return items * fixed_bits(encoding)


def _fixed_size_list_rows(encoding: pb.CompressiveEncoding, rows: Bytes | pa.Buffer, count: int) -> Values:
    validity = _validity_bytes(encoding.fixed_size_list, 1)
    value_bits = _innermost_bits(encoding)
    if value_bits % 8:
        raise UnsupportedError("full-zip pages of lists of single bits are not supported")
    values: Bytes | pa.Buffer = rows
    masks = []
    if validity:
        width = sum(validity) + value_bits // 8
        matrix = (rows if isinstance(rows, np.ndarray) else as_bytes(rows))[: count * width].reshape(
            count, width
        )
        start = 0
        for size in validity:
            masks.append(np.ascontiguousarray(matrix[:, start : start + size]))
            start += size
        values = np.ascontiguousarray(matrix[:, start:]).reshape(-1)
    return _build_lists(encoding, values, count, count, iter(masks))


def _build_lists(
    encoding: pb.CompressiveEncoding, values: Bytes | pa.Buffer, rows: int, count: int, masks: Iterator[Bytes]
) -> Values:
    if encoding.WhichOneof("compression") != "fixed_size_list":
        return decode_fixed_rows(encoding, values, count)
    inner = encoding.fixed_size_list
    items = count * inner.items_per_value
    valid = None
    if inner.has_validity:
        bits = np.unpackbits(next(masks), axis=1, count=items // max(rows, 1), bitorder="little")
        valid = bits.reshape(-1).view(np.bool_)
    return Lists(inner.items_per_value, count, _build_lists(inner.values, values, rows, items, masks), valid)


def _split_members(encoding: pb.PackedStruct, values: Values) -> Packed:
    widths = list(encoding.bits_per_value)
    if not isinstance(values, Fixed) or values.bits != sum(widths) or any(width % 8 for width in widths):
        raise CorruptFileError("a packed struct whose members do not fill it")
    data = values.data if isinstance(values.data, np.ndarray) else as_bytes(values.data)
    rows = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    stride = sum(widths) // 8
    members: list[Values] = []
    start = 0
    for width in widths:
        member = pick_column(rows, values.length, stride, start, width // 8)
        members.append(Fixed(width, values.length, member))
        start += width // 8
    return Packed(values.length, tuple(members))


def _variable_packed_rows(encoding: pb.VariablePackedStruct, rows: Variable) -> Packed:
    data = as_bytes(rows.data)
    starts = rows.offsets[:-1] - rows.offsets[0]
    ends = rows.offsets[1:] - rows.offsets[0]
    members: list[Values] = []
    for member in encoding.fields:
        layout = member.WhichOneof("layout")
        if layout == "bits_per_value":
            width = member.bits_per_value // 8
            if member.bits_per_value % 8 or fixed_bits(member.value) != member.bits_per_value:
                raise CorruptFileError(f"a packed member of {member.bits_per_value} bits")
            lengths = np.full(len(starts), width, dtype=np.int64)
        elif layout == "bits_per_length" and member.bits_per_length in (8, 16, 32, 64):
            prefix = member.bits_per_length // 8
            lengths = read_words(data, starts, prefix).astype(np.int64)
            starts = starts + prefix
        else:
            raise CorruptFileError("a packed member without a width")
        stops = starts + lengths
        if bool((lengths < 0).any()) or bool((stops > ends).any()):
            raise CorruptFileError("a packed member reaches beyond its row")
        taken = gather_values(data, starts, lengths)
        if layout == "bits_per_value":
            members.append(decode_fixed_rows(member.value, as_bytes(taken.data), len(starts)))
        else:
            members.append(decode_variable_rows(member.value, taken))
        starts = stops
    return Packed(rows.length, tuple(members))


def _offset_bytes(variable: pb.Variable) -> int:
    if variable.HasField("values"):
        raise UnsupportedError("compressed bytes of strings are not supported")
    bits = _flat_bits(variable.offsets)
    if bits not in (32, 64):
        raise CorruptFileError(f"offsets of {bits} bits")
    return bits // 8


def _rle_bits(rle: pb.Rle) -> tuple[int, int]:
    return _flat_bits(rle.values), _flat_bits(rle.run_lengths)


def _packed_width(encoding: pb.OutOfLineBitpacking) -> int:
    width = _flat_bits(encoding.values)
    if width > word_type(encoding.uncompressed_bits_per_value).itemsize * 8:
        raise CorruptFileError(f"integers packed into {width} bits")
    return width


def _flat_bits(encoding: pb.CompressiveEncoding) -> int:
    kind = encoding.WhichOneof("compression")
    if kind != "flat":
        raise _unsupported(kind, "parts of another compression")
    _refuse_data_compression(encoding.flat)
    return encoding.flat.bits_per_value


def _refuse_data_compression(flat: pb.Flat) -> None:
    if flat.HasField("data") and flat.data.scheme != pb.COMPRESSION_ALGORITHM_UNSPECIFIED:
        raise UnsupportedError("compressed buffers of plain values are not supported")


def _scheme(compression: pb.BufferCompression) -> str:
    scheme = _SCHEMES.get(compression.scheme)
    if scheme is None:
        raise UnsupportedError(f"the compression scheme {compression.scheme} is not supported")
    return scheme


def _unsupported(kind: str | None, place: str) -> UnsupportedError:
    return UnsupportedError(f"the compression {kind!r} is not supported for {place}")
