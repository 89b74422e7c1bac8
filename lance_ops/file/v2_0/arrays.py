"""Array encodings of 2.0: decode a page by walking its encoding tree, and build an Arrow array.

Rows are always decoded from a multiple of 8 on, so bitmaps are viewed without copies; the caller slices.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_ops.encoding.bits.bitmap import apply_validity, decode_bitmap, encode_bitmap
from lance_ops.encoding.distinct import distinct
from lance_ops.encoding.fsst import decode_fsst
from lance_ops.encoding.values.binary import decode_binary, is_binary_like
from lance_ops.encoding.values.dictionary import decode_dictionary, decode_string_dictionary
from lance_ops.encoding.values.end_offsets import decode_end_offsets, decode_words
from lance_ops.encoding.values.fixed_size_list import decode_fixed_size_list, rebase_nested
from lance_ops.encoding.values.flat import bit_width, decode_flat
from lance_ops.encoding.values.packed_struct import decode_packed
from lance_ops.encoding.values.values import null_array
from lance_ops.encoding.values.variable import gather_values
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.io.extents import fetch_extents, fetch_fixed
from lance_ops.file.io.fetch import Steps, fetch
from lance_ops.file.io.page_errors import page_errors
from lance_ops.file.io.row_selection import Integers, RowSelection, join_lengths
from lance_ops.file.v2_0.columns import ArrayPage
from lance_ops.file.v2_0.words import fetch_all_bytes, fetch_words, find_words, is_flat, word_bits
from lance_ops.pb import encodings20_pb2 as pb

Decoder = Callable[[ArrayPage, pb.ArrayEncoding, pa.DataType, RowSelection], Steps[pa.Array]]

# No page of a sane file has more rows than Arrow's 32-bit offsets can count.
_MAX_LENGTH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Extents:
    """Extents of rows in their bytes or items.

    Attributes:
        starts: First byte or item of each row.
        stops: End of each.
        offsets: Offsets of the rows without gaps; only differences matter.
        validity: Bitmap of the rows, None if none is null.
    """

    starts: Integers
    stops: Integers
    offsets: Integers
    validity: pa.Buffer | None


def read_rows(page: ArrayPage, data_type: pa.DataType, rows: RowSelection) -> Steps[pa.Array]:
    """Read rows of a page.

    Args:
        page: A page of a column that is neither a list nor a struct.
        data_type: Storage type of the values.
        rows: Which rows within the page.

    Raises:
        CorruptFileError: The bytes do not match the encodings.
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
    words = find_words(encoding)
    bits = word_bits(words)
    if rows.numbers is None:
        first = max(rows.start - 1, 0)
        data = yield from fetch_words(page, words, RowSelection(first, rows.stop))
        ends = decode_words(data, bits, rows.stop - first)
        offsets, validity = decode_end_offsets(ends, adjustment, limit, has_predecessor=rows.start > 0)
        return Extents(offsets[:-1], offsets[1:], offsets, validity)
    # A row starts at the end of the previous one, which is the previous entry.
    pairs = distinct(np.concatenate([rows.numbers, np.maximum(rows.numbers - 1, 0)]))
    data = yield from fetch_words(page, words, RowSelection.some(pairs, rows.gap))
    ends = decode_words(data, bits, len(pairs))
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
        raise CorruptFileError("a page has no information about nulls")
    validity = yield from fetch_words(page, find_words(nullable.some_nulls.validity, bits=1), rows)
    values = yield from decode_array(page, nullable.some_nulls.values, data_type, rows)
    return apply_validity(values, validity)


def _decode_plain(
    page: ArrayPage, encoding: pb.ArrayEncoding, data_type: pa.DataType, rows: RowSelection
) -> Steps[pa.Array]:
    bits = bit_width(data_type)
    if word_bits(encoding) != bits or pa.types.is_fixed_size_list(data_type):
        raise CorruptFileError(f"values of {word_bits(encoding)} bits cannot be of type {data_type}")
    data = yield from fetch_words(page, encoding, rows)
    return decode_flat(data, data_type, rows.count)


def _decode_fixed_size_list(
    page: ArrayPage, encoding: pb.ArrayEncoding, data_type: pa.DataType, rows: RowSelection
) -> Steps[pa.Array]:
    dimension = encoding.fixed_size_list.dimension
    if not pa.types.is_fixed_size_list(data_type) or data_type.list_size != dimension:
        raise CorruptFileError(f"lists of {dimension} items cannot be of type {data_type}")
    bits = bit_width(data_type)
    if rows.numbers is not None and is_flat(encoding.fixed_size_list.items) and not bits % 8:
        # Whole rows, rather than item by item.
        words = find_words(encoding.fixed_size_list.items)
        if word_bits(words) * dimension != bits:
            raise CorruptFileError(f"values of {word_bits(words)} bits cannot be of type {data_type}")
        data = yield from fetch_words(page, words, rows, width=dimension)
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


def _decode_fixed_size_binary(
    page: ArrayPage, encoding: pb.ArrayEncoding, data_type: pa.DataType, rows: RowSelection
) -> Steps[pa.Array]:
    """Strings that are all of the same length."""
    size = encoding.fixed_size_binary.byte_width
    if not is_binary_like(data_type) or size == 0:
        raise CorruptFileError(f"values of {size} bytes cannot be of type {data_type}")
    words = find_words(encoding.fixed_size_binary.bytes)
    bits = word_bits(words)
    if bits == 0 or size * 8 % bits:
        raise CorruptFileError(f"values of {size} bytes in words of {bits} bits")
    data = yield from fetch_words(page, words, rows, width=size * 8 // bits)
    return decode_binary(np.arange(rows.count + 1, dtype=np.int64) * size, None, data, data_type)


def _decode_fsst(
    page: ArrayPage, encoding: pb.ArrayEncoding, data_type: pa.DataType, rows: RowSelection
) -> Steps[pa.Array]:
    if not is_binary_like(data_type) or encoding.fsst.binary.WhichOneof("array_encoding") != "binary":
        raise CorruptFileError(f"compressed strings cannot be of type {data_type}")
    offsets, validity, data = yield from _read_bytes(page, encoding.fsst.binary.binary, rows)
    plain = decode_fsst(encoding.fsst.symbol_table, offsets, data)
    return decode_binary(plain.offsets, validity, plain.data, data_type, is_ascii=plain.is_ascii)


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
    words = find_words(binary.bytes, bits=8)
    whole = yield from fetch_all_bytes(page, words)
    position, size = (0, whole.size) if whole is not None else page.buffer(words.flat.buffer)
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
    picked = gather_values(np.frombuffer(data, dtype=np.uint8), starts, np.diff(offsets))
    return picked.offsets, extents.validity, picked.data


_DECODERS: dict[str, Decoder] = {
    "nullable": _decode_nullable,
    "flat": _decode_plain,
    "bitpacked": _decode_plain,
    "bitpacked_for_non_neg": _decode_plain,
    "fixed_size_binary": _decode_fixed_size_binary,
    "fixed_size_list": _decode_fixed_size_list,
    "binary": _decode_binary,
    "fsst": _decode_fsst,
    "dictionary": _decode_dictionary,
    "packed_struct": _decode_packed_struct,
}
