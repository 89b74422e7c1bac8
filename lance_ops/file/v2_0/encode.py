"""Pages of 2.0, encoded: the buffers of an array and the tree that describes them."""

from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from lance_ops.encoding.bits.bitmap import validity_bitmap
from lance_ops.encoding.general.compression import LZ4, NONE, ZSTD, compress
from lance_ops.encoding.values.binary import encode_binary, is_binary_like
from lance_ops.encoding.values.dictionary import encode_dictionary, encode_string_dictionary
from lance_ops.encoding.values.fixed_size_list import encode_fixed_size_list
from lance_ops.encoding.values.flat import bit_width, encode_flat
from lance_ops.encoding.values.packed_struct import encode_packed
from lance_ops.file.container.read import Encoding
from lance_ops.file.schema.model import Field
from lance_ops.file.v2_0.columns import ARRAY_ENCODING_URL, COLUMN_ENCODING_URL
from lance_ops.pb import encodings20_pb2 as pb

COMPRESSION_KEY = "lance-encoding:compression"
COMPRESSION_LEVEL_KEY = "lance-encoding:compression-level"


@dataclass(frozen=True, slots=True)
class Compression:
    """Requested compression of a field; 2.0 applies it to the bytes of strings only.

    Attributes:
        scheme: "zstd", "lz4" or "none".
        level: Of zstd, None for the default.
    """

    scheme: str = NONE
    level: int | None = None

    @classmethod
    def of_field(cls, node: Field) -> "Compression":
        """Read the options of a field; an unknown scheme counts as none, as in pylance."""
        scheme = node.metadata.get(COMPRESSION_KEY, b"").decode(errors="replace")
        level = node.metadata.get(COMPRESSION_LEVEL_KEY, b"").decode(errors="replace")
        return cls(
            scheme if scheme in (ZSTD, LZ4) else NONE,
            int(level) if level.removeprefix("-").isdecimal() and len(level) < 4 else None,
        )


@dataclass(slots=True)
class EncodedPage:
    """A page on its way to the file.

    Attributes:
        buffers: Its buffers; the encoding refers to them by number.
        encoding: What they hold.
    """

    buffers: list[pa.Buffer] = field(default_factory=list)
    encoding: pb.ArrayEncoding = field(default_factory=pb.ArrayEncoding)

    def add(self, data: pa.Buffer) -> pb.Buffer:
        """Append a buffer and refer to it."""
        self.buffers.append(data)
        return pb.Buffer(buffer_index=len(self.buffers) - 1)


def encode_page(array: pa.Array, compression: Compression) -> EncodedPage | None:
    """Encode a page of values.

    Args:
        array: Of any type but lists and structs, at least one row; may be a slice.
        compression: For the bytes of strings.

    Returns:
        The page, or None when the rows do not fit into one page (a full Arrow dictionary with null rows):
        fewer rows will.
    """
    page = EncodedPage()
    if pa.types.is_dictionary(array.type):
        encoded = encode_dictionary(array)
        if encoded is None:
            return None
        page.encoding.CopyFrom(_dictionary(page, *encoded))
        return page
    strings = encode_string_dictionary(array) if pa.types.is_string(array.type) else None
    if strings is not None:
        page.encoding.CopyFrom(_dictionary(page, *strings))
    else:
        page.encoding.CopyFrom(_array(page, array, compression))
    return page


def encode_list_page(ends: pa.Buffer, adjustment: int, num_items: int) -> EncodedPage:
    """Encode the extents of lists.

    Args:
        ends: u64 end offsets, relative to the items of this page.
        adjustment: What is added to the end of a null row.
        num_items: Items of this page.
    """
    page = EncodedPage()
    page.encoding.list.offsets.CopyFrom(_words(page, ends))
    page.encoding.list.null_offset_adjustment = adjustment
    page.encoding.list.num_items = num_items
    return page


def encode_struct_page() -> EncodedPage:
    """Return the page of a struct column, which only has a length."""
    page = EncodedPage()
    page.encoding.struct.SetInParent()
    return page


def encode_packed_page(array: pa.StructArray) -> EncodedPage:
    """Encode a packed struct.

    Args:
        array: A struct of fixed-width members without nulls; may be a slice.
    """
    page = EncodedPage()
    members = [array.field(number) for number in range(array.type.num_fields)]
    widths = [bit_width(member.type) // 8 for member in members]
    data = encode_packed([_packed_values(member) for member in members], widths, len(array))
    packed = page.encoding.packed_struct
    packed.buffer.CopyFrom(page.add(data))
    for member in members:
        # The description of a member refers to no buffer of its own.
        packed.inner.append(_packed_description(member.type))
    return page


@lru_cache(maxsize=1)
def values_column() -> Encoding:
    """Encoding of a column whose pages hold its values."""
    message = pb.ColumnEncoding()
    message.values.SetInParent()
    return Encoding(COLUMN_ENCODING_URL, message.SerializeToString())


def blob_column() -> Encoding:
    """Encoding of a column whose pages hold where its values are."""
    message = pb.ColumnEncoding()
    message.blob.inner.values.SetInParent()
    return Encoding(COLUMN_ENCODING_URL, message.SerializeToString())


def page_encoding(page: EncodedPage) -> Encoding:
    """Return the page's tree as the container stores it."""
    return Encoding(ARRAY_ENCODING_URL, page.encoding.SerializeToString(deterministic=True))


def _array(page: EncodedPage, array: pa.Array, compression: Compression) -> pb.ArrayEncoding:
    if is_binary_like(array.type):
        return _binary(page, array, compression)
    encoding = pb.ArrayEncoding()
    if array.null_count == len(array) and len(array):
        encoding.nullable.all_nulls.SetInParent()
        return encoding
    validity = validity_bitmap(array)
    if validity is None:
        encoding.nullable.no_nulls.values.CopyFrom(_values(page, array, compression))
        return encoding
    # The validity comes first: buffers are in the order of the tree.
    encoding.nullable.some_nulls.validity.flat.bits_per_value = 1
    encoding.nullable.some_nulls.validity.flat.buffer.CopyFrom(page.add(validity))
    encoding.nullable.some_nulls.values.CopyFrom(_values(page, array, compression))
    return encoding


def _values(page: EncodedPage, array: pa.Array, compression: Compression) -> pb.ArrayEncoding:
    encoding = pb.ArrayEncoding()
    if pa.types.is_fixed_size_list(array.type):
        encoding.fixed_size_list.dimension = array.type.list_size
        encoding.fixed_size_list.items.CopyFrom(_array(page, encode_fixed_size_list(array), compression))
    else:
        encoding.flat.bits_per_value = bit_width(array.type)
        encoding.flat.buffer.CopyFrom(page.add(encode_flat(array)))
    return encoding


def _binary(page: EncodedPage, array: pa.Array, compression: Compression) -> pb.ArrayEncoding:
    ends, adjustment, data = encode_binary(array)
    encoding = pb.ArrayEncoding()
    encoding.binary.indices.CopyFrom(_words(page, pa.py_buffer(ends)))
    flat = encoding.binary.bytes.flat
    flat.bits_per_value = 8
    if compression.scheme != NONE:
        data = compress(compression.scheme, data, compression.level)
        flat.compression.scheme = compression.scheme
        if compression.level is not None:
            flat.compression.level = compression.level
    flat.buffer.CopyFrom(page.add(data))
    encoding.binary.null_adjustment = adjustment
    return encoding


def _dictionary(page: EncodedPage, numbers: pa.Array, items: pa.Array) -> pb.ArrayEncoding:
    encoding = pb.ArrayEncoding()
    encoding.dictionary.indices.CopyFrom(_array(page, numbers, Compression()))
    encoding.dictionary.items.CopyFrom(_array(page, items, Compression()))
    encoding.dictionary.num_dictionary_items = len(items)
    return encoding


def _words(page: EncodedPage, data: pa.Buffer) -> pb.ArrayEncoding:
    encoding = pb.ArrayEncoding()
    flat = encoding.nullable.no_nulls.values.flat
    flat.bits_per_value = 64
    flat.buffer.CopyFrom(page.add(data))
    return encoding


def _packed_values(array: pa.Array) -> pa.Buffer:
    while pa.types.is_fixed_size_list(array.type):
        array = encode_fixed_size_list(array)
    return encode_flat(array)


def _packed_description(data_type: pa.DataType) -> pb.ArrayEncoding:
    encoding = pb.ArrayEncoding()
    values = encoding.nullable.no_nulls.values
    if pa.types.is_fixed_size_list(data_type):
        values.fixed_size_list.dimension = data_type.list_size
        values.fixed_size_list.items.CopyFrom(_packed_description(data_type.value_type))
    else:
        values.flat.bits_per_value = bit_width(data_type)
        values.flat.buffer.SetInParent()
    return encoding
