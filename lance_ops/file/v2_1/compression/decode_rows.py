"""Decompression of single values in 2.1 and 2.2, of fixed or variable width."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import ChunkBuffer, read_words
from lance_ops.encoding.fsst import decode_fsst
from lance_ops.encoding.general.compression import decompress_parts
from lance_ops.encoding.values.packed_struct import pick_column
from lance_ops.encoding.values.values import Fixed, Lists, Nulls, Packed, Values, Variable
from lance_ops.encoding.values.variable import gather_values
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.v2_1.compression.parameters import (
    MAX_BITS,
    refuse_data_compression,
    scheme_of,
    unsupported,
)
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]


def as_bytes(data: pa.Buffer) -> Bytes:
    """View a buffer as bytes."""
    return np.frombuffer(data, dtype=np.uint8)


def fixed_bits(encoding: pb.CompressiveEncoding) -> int:
    """Return bits that a value of fixed width takes in a full-zip page, item validity included.

    Raises:
        UnsupportedError: A compression that has no place there.
    """
    kind = encoding.WhichOneof("compression")
    if kind == "flat":
        refuse_data_compression(encoding.flat)
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
        raise unsupported(kind, "values of fixed width")
    if bits > MAX_BITS:
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
        return split_members(encoding.packed_struct, Fixed(bits, count, as_bytes(data)))
    if kind == "constant":
        return Nulls(count)
    return Fixed(fixed_bits(encoding), count, data)


def decode_variable_rows(encoding: pb.CompressiveEncoding, values: Variable) -> Values:
    """Decode values of variable width, each compressed separately.

    Args:
        encoding: Of a value.
        values: The compressed values.
    """
    kind = encoding.WhichOneof("compression")
    if kind == "variable":
        return values
    if kind == "fsst":
        return decode_fsst_values(encoding.fsst, decode_variable_rows(encoding.fsst.values, values))
    if kind == "general":
        starts = (values.offsets - values.offsets[0]).astype(np.int64, copy=False)
        parts = ChunkBuffer(as_bytes(values.data), starts[:-1], np.diff(starts))
        return decode_general_rows(encoding.general, parts)
    if kind == "variable_packed_struct":
        return _variable_packed_rows(encoding.variable_packed_struct, values)
    raise unsupported(kind, "values of variable width")


def decode_general_rows(general: pb.General, parts: ChunkBuffer) -> Values:
    """Decode values that were compressed separately by a general scheme.

    Args:
        general: The scheme.
        parts: The compressed values.
    """
    plain = decompress_parts(scheme_of(general.compression), parts)
    offsets = np.zeros(len(plain.sizes) + 1, dtype=np.int64)
    np.cumsum(plain.sizes, out=offsets[1:])
    return decode_variable_rows(general.values, Variable(offsets, pa.py_buffer(plain.data)))


def _validity_bytes(encoding: pb.FixedSizeList, items: int) -> list[int]:
    # Bytes of the validity of each level of nested lists that has one, outermost first.
    items *= encoding.items_per_value
    if items > MAX_BITS:
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
        if items > MAX_BITS:
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


def decode_fsst_values(fsst: pb.Fsst, values: Values) -> Variable:
    """Strings that are compressed by a table of symbols, one by one."""
    if not isinstance(values, Variable):
        raise CorruptFileError("compressed strings of fixed width")
    return decode_fsst(fsst.symbol_table, values.offsets, values.data)


def split_members(encoding: pb.PackedStruct, values: Values) -> Packed:
    """Return the members of packed structs of fixed width."""
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
