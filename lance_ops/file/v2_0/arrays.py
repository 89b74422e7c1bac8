"""Decoding one page of 2.0: walks the tree of array encodings, asks for bytes, and builds an Arrow array.

Rows are always decoded from a multiple of 8 on, so that bitmaps can be viewed where they lie; the caller
slices.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_ops.encoding.binary import decode_binary, is_binary_like, is_large
from lance_ops.encoding.bitmap import apply_validity, decode_bitmap, encode_bitmap
from lance_ops.encoding.compression import NONE, decompress
from lance_ops.encoding.dictionary import decode_dictionary, decode_string_dictionary
from lance_ops.encoding.end_offsets import decode_end_offsets, decode_words
from lance_ops.encoding.fixed_size_list import decode_fixed_size_list, rebase_nested
from lance_ops.encoding.flat import bit_width, decode_flat
from lance_ops.encoding.fsst import decode_fsst
from lance_ops.encoding.packed_struct import decode_packed
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.extents import fetch_bits, fetch_extents, fetch_fixed, gather_fixed, pick_bits
from lance_ops.file.fetch import Steps, fetch
from lance_ops.file.row_selection import Integers, RowSelection, join_extents, join_lengths
from lance_ops.file.v2_0.columns import ArrayPage
from lance_ops.pb import encodings20_pb2 as pb

Decoder = Callable[[ArrayPage, pb.ArrayEncoding, pa.DataType, RowSelection], Steps[pa.Array]]

# No page of a sane file has more rows than Arrow's 32-bit offsets can count.
_MAX_LENGTH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Extents:
    """Where rows lie in what they point into.

    Attributes:
        starts: First byte or item of each row.
        stops: End of each.
        offsets: Offsets of the rows once nothing lies between them; only the differences count.
        validity: Bitmap of the rows, None if none is null.
    """

    starts: Integers
    stops: Integers
    offsets: Integers
    validity: pa.Buffer | None


@contextmanager
def page_errors(page: ArrayPage) -> Iterator[None]:
    """Name the file and page in errors of decoding, and give Arrow's own errors a type.

    Nothing inside reads from a store, so that any error means that the bytes are not what the format says.
    """
    try:
        yield
    except (CorruptFileError, UnsupportedError) as error:
        if error.path is not None:
            raise
        raise type(error)(error.message, path=page.path, field=page.where, hint=error.hint) from error
    except (pa.ArrowException, ValueError, OverflowError, MemoryError, IndexError) as error:
        raise CorruptFileError(
            f"a page cannot be decoded: {error}", path=page.path, field=page.where
        ) from error


def read_rows(page: ArrayPage, data_type: pa.DataType, rows: RowSelection) -> Steps[pa.Array]:
    """Read rows of a page.

    Args:
        page: A page of a column that is neither a list nor a struct.
        data_type: Storage type of the values.
        rows: Which rows within the page.

    Raises:
        CorruptFileError: The bytes are not what the encoding says.
        UnsupportedError: An encoding that is not implemented, which is named.
    """
    with page_errors(page):
        skipped = rows.start % 8
        if rows.numbers is not None or not skipped:
            return (yield from decode_array(page, page.encoding, data_type, rows))
        whole_bytes = RowSelection(rows.start - skipped, rows.stop)
        array = yield from decode_array(page, page.encoding, data_type, whole_bytes)
        return rebase_nested(array.slice(skipped))


def decode_array(
    page: ArrayPage, encoding: pb.ArrayEncoding, data_type: pa.DataType, rows: RowSelection
) -> Steps[pa.Array]:
    """Decode one node of the tree; the result has no offset."""
    kind = encoding.WhichOneof("array_encoding")
    decoder = _DECODERS.get(kind or "")
    if decoder is None:
        raise UnsupportedError(f"the 2.0 array encoding {kind!r} is not supported")
    if rows.count > _MAX_LENGTH:
        raise UnsupportedError(f"a page of {rows.count} rows is too large", hint="read fewer rows at once")
    array = yield from decoder(page, encoding, data_type, rows)
    if array.type != data_type or len(array) != rows.count:
        # Arrow aborts the process when it builds a parent over children of a wrong type.
        raise CorruptFileError(f"a page of {data_type} holds values of {array.type}")
    return array


def read_end_offsets(
    page: ArrayPage, encoding: pb.ArrayEncoding, adjustment: int, limit: int, rows: RowSelection
) -> Steps[Extents]:
    """Read where rows start and stop in what they point into, and their validity.

    Args:
        page: The page.
        encoding: Of the ends: plain unsigned integers.
        adjustment: The null adjustment.
        limit: Size of what the ends point into.
        rows: Which rows within the page.
    """
    flat = _plain_flat(encoding)
    if rows.numbers is None:
        first = max(rows.start - 1, 0)
        data = yield from _fetch_flat(page, flat, RowSelection(first, rows.stop))
        ends = decode_words(data, flat.bits_per_value, rows.stop - first)
        offsets, validity = decode_end_offsets(ends, adjustment, limit, has_predecessor=rows.start > 0)
        return Extents(offsets[:-1], offsets[1:], offsets, validity)
    # A row starts where the one before it ends, which is an entry of its own.
    pairs = np.unique(np.concatenate([rows.numbers, np.maximum(rows.numbers - 1, 0)]))
    data = yield from _fetch_flat(page, flat, RowSelection.some(pairs, rows.gap))
    ends = decode_words(data, flat.bits_per_value, len(pairs))
    has_first = bool(rows.numbers[0] == 0)
    offsets, validity = decode_end_offsets(ends, adjustment, limit, has_predecessor=not has_first)
    at = np.searchsorted(pairs, rows.numbers) + has_first
    if validity is not None:
        # Bits are those of the rows behind the first offset.
        valid = decode_bitmap(validity, len(offsets) - 1)[at - 1]
        validity = None if bool(valid.all()) else encode_bitmap(valid)
    starts, stops = offsets[at - 1], offsets[at]
    return Extents(starts, stops, join_lengths(stops - starts), validity)


def _decode_nullable(
    page: ArrayPage, encoding: pb.ArrayEncoding, data_type: pa.DataType, rows: RowSelection
) -> Steps[pa.Array]:
    nullable = encoding.nullable
    kind = nullable.WhichOneof("nullability")
    if kind == "all_nulls":
        return null_array(data_type, rows.count)
    if kind == "no_nulls":
        return (yield from decode_array(page, nullable.no_nulls.values, data_type, rows))
    if kind != "some_nulls":
        raise CorruptFileError("a page does not say whether it has nulls")
    validity = yield from _fetch_flat(page, _plain_flat(nullable.some_nulls.validity, bits=1), rows)
    values = yield from decode_array(page, nullable.some_nulls.values, data_type, rows)
    return apply_validity(values, validity)


def _decode_flat(
    page: ArrayPage, encoding: pb.ArrayEncoding, data_type: pa.DataType, rows: RowSelection
) -> Steps[pa.Array]:
    bits = bit_width(data_type)
    if encoding.flat.bits_per_value != bits or pa.types.is_fixed_size_list(data_type):
        raise CorruptFileError(f"values of {encoding.flat.bits_per_value} bits cannot be of type {data_type}")
    data = yield from _fetch_flat(page, encoding.flat, rows)
    return decode_flat(data, data_type, rows.count)


def _decode_fixed_size_list(
    page: ArrayPage, encoding: pb.ArrayEncoding, data_type: pa.DataType, rows: RowSelection
) -> Steps[pa.Array]:
    dimension = encoding.fixed_size_list.dimension
    if not pa.types.is_fixed_size_list(data_type) or data_type.list_size != dimension:
        raise CorruptFileError(f"lists of {dimension} items cannot be of type {data_type}")
    bits = bit_width(data_type)
    if rows.numbers is not None and _is_flat(encoding.fixed_size_list.items) and not bits % 8:
        # Whole rows, rather than item by item.
        flat = _plain_flat(encoding.fixed_size_list.items)
        if flat.bits_per_value * dimension != bits:
            raise CorruptFileError(f"values of {flat.bits_per_value} bits cannot be of type {data_type}")
        data = yield from _fetch_flat(page, flat, rows, width=dimension)
        return _wrap_lists(data, data_type, rows.count)
    items = yield from decode_array(
        page, encoding.fixed_size_list.items, data_type.value_type, rows.spread(dimension)
    )
    return decode_fixed_size_list(items, data_type)


def _wrap_lists(data: pa.Buffer, data_type: pa.DataType, length: int) -> pa.Array:
    if not pa.types.is_fixed_size_list(data_type):
        return decode_flat(data, data_type, length)
    items = _wrap_lists(data, data_type.value_type, length * data_type.list_size)
    return decode_fixed_size_list(items, data_type)


def _decode_binary(
    page: ArrayPage, encoding: pb.ArrayEncoding, data_type: pa.DataType, rows: RowSelection
) -> Steps[pa.Array]:
    if not is_binary_like(data_type):
        raise CorruptFileError(f"values of variable length cannot be of type {data_type}")
    offsets, validity, data = yield from _read_bytes(page, encoding.binary, rows)
    return decode_binary(offsets, validity, data, data_type)


def _decode_fsst(
    page: ArrayPage, encoding: pb.ArrayEncoding, data_type: pa.DataType, rows: RowSelection
) -> Steps[pa.Array]:
    if not is_binary_like(data_type) or encoding.fsst.binary.WhichOneof("array_encoding") != "binary":
        raise CorruptFileError(f"compressed strings cannot be of type {data_type}")
    offsets, validity, data = yield from _read_bytes(page, encoding.fsst.binary.binary, rows)
    offsets, data = decode_fsst(encoding.fsst.symbol_table, offsets, data)
    return decode_binary(offsets, validity, data, data_type)


def _decode_dictionary(
    page: ArrayPage, encoding: pb.ArrayEncoding, data_type: pa.DataType, rows: RowSelection
) -> Steps[pa.Array]:
    dictionary = encoding.dictionary
    plain = not pa.types.is_dictionary(data_type)
    if plain and not is_binary_like(data_type):
        raise CorruptFileError(f"a dictionary of strings cannot be of type {data_type}")
    number_type = pa.uint8() if plain else data_type.index_type
    value_type = data_type if plain else data_type.value_type
    numbers = yield from decode_array(page, dictionary.indices, number_type, rows)
    every_item = RowSelection(0, dictionary.num_dictionary_items)
    items = yield from decode_array(page, dictionary.items, value_type, every_item)
    if numbers.null_count:
        raise UnsupportedError("dictionary indices with nulls are not supported")
    if plain:
        return decode_string_dictionary(numbers, items)
    return decode_dictionary(numbers, items, data_type)


def _decode_packed_struct(
    page: ArrayPage, encoding: pb.ArrayEncoding, data_type: pa.DataType, rows: RowSelection
) -> Steps[pa.Array]:
    if not pa.types.is_struct(data_type):
        raise CorruptFileError(f"a packed struct cannot be of type {data_type}")
    members = list(data_type)
    if len(members) != len(encoding.packed_struct.inner):
        raise CorruptFileError(
            f"a packed struct of {len(encoding.packed_struct.inner)} members cannot be of type {data_type}"
        )
    widths = [_packed_width(member.type) for member in members]
    stride = sum(widths)
    position, size = page.buffer(encoding.packed_struct.buffer)
    if rows.stop * stride > size:
        raise CorruptFileError(f"{rows.stop} packed rows of {stride} bytes do not fit into {size} bytes")
    data = yield from fetch_fixed(position, stride, rows)
    columns = decode_packed(data, widths, rows.count)
    arrays = [
        _decode_packed_member(column, member.type, rows.count)
        for column, member in zip(columns, members, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=members)


def _packed_width(data_type: pa.DataType) -> int:
    bits = bit_width(data_type)
    if bits == 0 or bits % 8:
        raise CorruptFileError(f"a packed struct cannot have a member of type {data_type}")
    return bits // 8


def _decode_packed_member(data: pa.Buffer, data_type: pa.DataType, length: int) -> pa.Array:
    if pa.types.is_fixed_size_list(data_type):
        items = _decode_packed_member(data, data_type.value_type, length * data_type.list_size)
        return decode_fixed_size_list(items, data_type)
    return decode_flat(data, data_type, length)


def _read_bytes(
    page: ArrayPage, binary: pb.Binary, rows: RowSelection
) -> Steps[tuple[Integers, pa.Buffer | None, pa.Buffer]]:
    flat = _plain_flat(binary.bytes, bits=8)
    position, size = page.buffer(flat.buffer)
    whole: pa.Buffer | None = None
    if _is_compressed(flat):
        whole = yield from _fetch_whole(page, flat)
        size = whole.size
    extents = yield from read_end_offsets(page, binary.indices, binary.null_adjustment, size, rows)
    starts, stops, offsets = extents.starts, extents.stops, extents.offsets
    if rows.numbers is None:
        low, length = int(offsets[0]), int(offsets[-1] - offsets[0])
        if whole is not None:
            return offsets, extents.validity, whole.slice(low, length)
        data = yield from fetch(position + low, length)
        return offsets, extents.validity, data
    if whole is None:
        data, starts = yield from fetch_extents(position + starts, position + stops, rows.gap)
    else:
        data = whole
    picked = np.frombuffer(data, dtype=np.uint8)[join_extents(starts, starts + np.diff(offsets))]
    return offsets, extents.validity, pa.py_buffer(picked)


def _is_flat(encoding: pb.ArrayEncoding) -> bool:
    while encoding.WhichOneof("array_encoding") == "nullable":
        if encoding.nullable.WhichOneof("nullability") != "no_nulls":
            return False
        encoding = encoding.nullable.no_nulls.values
    return encoding.WhichOneof("array_encoding") == "flat"


def _plain_flat(encoding: pb.ArrayEncoding, bits: int | None = None) -> pb.Flat:
    # Writers wrap plain integers into "nullable, but no nulls".
    while encoding.WhichOneof("array_encoding") == "nullable":
        if encoding.nullable.WhichOneof("nullability") != "no_nulls":
            raise UnsupportedError("offsets or bitmaps with nulls are not supported")
        encoding = encoding.nullable.no_nulls.values
    kind = encoding.WhichOneof("array_encoding")
    if kind != "flat":
        raise UnsupportedError(f"offsets or bitmaps in the 2.0 array encoding {kind!r} are not supported")
    if bits is not None and encoding.flat.bits_per_value != bits:
        raise CorruptFileError(f"values of {encoding.flat.bits_per_value} bits where {bits} are expected")
    return encoding.flat


def _is_compressed(flat: pb.Flat) -> bool:
    return flat.compression.scheme not in ("", NONE)


def _fetch_whole(page: ArrayPage, flat: pb.Flat) -> Steps[pa.Buffer]:
    position, size = page.buffer(flat.buffer)
    data = yield from fetch(position, size)
    return decompress(flat.compression.scheme, data)


def _fetch_flat(page: ArrayPage, flat: pb.Flat, rows: RowSelection, width: int = 1) -> Steps[pa.Buffer]:
    """Fetch plain values, `width` of them for each row; of single bits, a bitmap."""
    position, size = page.buffer(flat.buffer)
    bits = flat.bits_per_value * width
    first, last = rows.start * bits // 8, (rows.stop * bits + 7) // 8
    whole: pa.Buffer | None = None
    if _is_compressed(flat):
        whole = yield from _fetch_whole(page, flat)
        size = whole.size
    if last > size:
        raise CorruptFileError(f"rows up to {rows.stop} need {last} bytes, but the buffer has {size}")
    if rows.numbers is None:
        if whole is not None:
            return whole.slice(first, last - first)
        return (yield from fetch(position + first, last - first))
    if bits % 8:
        if bits != 1:
            raise UnsupportedError(f"single values of {bits} bits are not supported")
        if whole is not None:
            data = np.frombuffer(whole, dtype=np.uint8)
            return encode_bitmap(pick_bits(data, rows.numbers >> 3, rows.numbers))
        return encode_bitmap((yield from fetch_bits(position, rows)))
    if whole is None:
        return (yield from fetch_fixed(position, bits // 8, rows))
    data = np.frombuffer(whole, dtype=np.uint8)
    return pa.py_buffer(gather_fixed(data, rows.numbers * (bits // 8), bits // 8))


def null_array(data_type: pa.DataType, length: int) -> pa.Array:
    """An array of nulls.

    Zeros come from fresh pages of the operating system, which cost nothing until somebody touches them: a
    page that claims to have billions of nulls takes no memory.
    """
    validity = _zeros(length)
    if pa.types.is_fixed_size_list(data_type):
        items = null_array(data_type.value_type, length * data_type.list_size)
        return pa.Array.from_buffers(data_type, length, [validity], null_count=length, children=[items])
    if is_binary_like(data_type):
        offsets = _zeros((length + 1) * (64 if is_large(data_type) else 32))
        return pa.Array.from_buffers(
            data_type, length, [validity, offsets, pa.py_buffer(b"")], null_count=length
        )
    bits = bit_width(data_type)
    if bits == 0:
        return pa.nulls(length, data_type)
    return pa.Array.from_buffers(data_type, length, [validity, _zeros(length * bits)], null_count=length)


def _zeros(bits: int) -> pa.Buffer:
    return pa.py_buffer(np.zeros((bits + 7) // 8, dtype=np.uint8))


_DECODERS: dict[str, Decoder] = {
    "nullable": _decode_nullable,
    "flat": _decode_flat,
    "fixed_size_list": _decode_fixed_size_list,
    "binary": _decode_binary,
    "fsst": _decode_fsst,
    "dictionary": _decode_dictionary,
    "packed_struct": _decode_packed_struct,
}
