"""Page encoding: whether values are held not at all, in small chunks, or one by one."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_ops.encoding.pages.ravel import Raveled
from lance_ops.encoding.values.array_values import from_arrow
from lance_ops.encoding.values.binary import is_large
from lance_ops.encoding.values.flat import encode_flat
from lance_ops.encoding.values.values import Fixed, Lists, Nulls, Packed, Values, Variable, as_words
from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.v2_1.compression.dictionaries import dictionary_of_arrow, find_dictionary
from lance_ops.file.v2_1.compression.encoded import Block, ChunkedValues, EncodedPage
from lance_ops.file.v2_1.compression.fixed import compress_fixed
from lance_ops.file.v2_1.compression.strings import compress_variable
from lance_ops.file.v2_1.compression.structs import compress_lists, compress_packed
from lance_ops.file.v2_1.constant.detect import find_constant
from lance_ops.file.v2_1.constant.write import (
    encode_constant_page,
    encode_empty_page,
    encode_null_page,
    is_all_null,
)
from lance_ops.file.v2_1.full_zip.write import can_full_zip, encode_full_zip
from lance_ops.file.v2_1.mini_block.write import encode_mini_block
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.file.v2_1.self_check import check_positions
from lance_ops.file.v2_1.sparse.write import MAX_CONSTANT_BYTES, encode_sparse_page

# From here on a value costs more to copy than to find, and a chunk would hold too few of them.
_WIDE_BYTES = 256
# A few long values among many short ones may be in chunks, of which two values always fit into one.
_MAX_MIXED_BYTES = 4 << 10
_MAX_CHUNK_VALUE_BYTES = 8 << 10
_FEW_LEVELS = 32
# What is set aside for the levels of a value at most; where they take more, the page is cut.
_MAX_LEVELS_BYTES = 8.0


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """Properties of a column.

    Attributes:
        name: Path of the field, for errors.
        data_type: Storage type of the values.
        options: Of the field.
        version: "2.1", "2.2" or "2.3".
        dimensions: Of each layer from the outermost inwards, the structs of a fixed-size list of them; None
            of others. 2.3 needs them.
    """

    name: str
    data_type: pa.DataType
    options: FieldOptions
    version: str
    dimensions: tuple[int | None, ...] = ()

    @property
    def offset_bits(self) -> int:
        """Bits of an offset of values of variable width."""
        return 64 if is_large(self.data_type) else 32


def encode_page(leaf: LeafColumn, raveled: Raveled) -> Iterator[EncodedPage]:
    """Encode rows of a column.

    Args:
        leaf: The column.
        raveled: The rows, at least one.

    Yields:
        One page, or several that follow each other if levels and values do not fit together otherwise.

    Raises:
        UnsupportedTypeError: The rows cannot be stored.
    """
    page = _encode(leaf, raveled)
    if page is not None:
        yield page
        return
    if raveled.num_rows == 1:
        yield _encode_apart(leaf, raveled)
        return
    half = raveled.num_rows // 2
    yield from encode_page(leaf, raveled.slice(0, half))
    yield from encode_page(leaf, raveled.slice(half, raveled.num_rows))


def _encode(leaf: LeafColumn, raveled: Raveled) -> EncodedPage | None:
    if leaf.data_type == pa.struct([]):
        return _encode_empty_structs(leaf, raveled)
    if is_all_null(raveled):
        if leaf.version == "2.3":
            return encode_sparse_page(raveled, leaf.dimensions, None)
        return encode_null_page(raveled, leaf.version)
    if pa.types.is_dictionary(leaf.data_type):
        positions, items = dictionary_of_arrow(raveled.values, leaf.options, leaf.version)
        return _encode_positions(leaf, raveled, positions, items)
    values = _values(leaf, raveled.values)
    if leaf.options.structure == "fullzip" and can_full_zip(values):
        return _encode_full_zip(leaf, raveled, values)
    if leaf.version != "2.1":
        constant = find_constant(raveled, values, leaf.offset_bits)
        if constant is not None and leaf.version == "2.3":
            if constant.is_fixed and len(constant.parts[0]) <= MAX_CONSTANT_BYTES:
                return encode_sparse_page(raveled, leaf.dimensions, constant.parts[0])
        elif constant is not None and _has_few_levels(raveled):
            return encode_constant_page(raveled, constant)
        if constant is not None and isinstance(values, Fixed):
            values = constant.repeat(values)
    found = find_dictionary(values, leaf.data_type, leaf.options, leaf.version)
    if found is not None:
        return _encode_positions(leaf, raveled, *found)
    if _is_wide(values, raveled, leaf.options) and can_full_zip(values):
        return _encode_full_zip(leaf, raveled, values)
    return encode_mini_block(raveled, _compress(leaf, raveled, values), None, leaf.version)


def _values(leaf: LeafColumn, array: pa.Array) -> Values:
    if pa.types.is_boolean(leaf.data_type) and leaf.options.structure != "fullzip":
        # Chunks hold bits as Arrow does.
        return Fixed(1, len(array), encode_flat(array))
    return from_arrow(array)


def _encode_positions(
    leaf: LeafColumn, raveled: Raveled, positions: Fixed, items: Block
) -> EncodedPage | None:
    check_positions(as_words(positions), items.count, leaf.name)
    return encode_mini_block(raveled, _compress(leaf, raveled, positions), items, leaf.version)


def _encode_full_zip(leaf: LeafColumn, raveled: Raveled, values: Values) -> EncodedPage:
    return encode_full_zip(raveled, values, leaf.data_type, leaf.options, leaf.version)


def _encode_apart(leaf: LeafColumn, raveled: Raveled) -> EncodedPage:
    # One row of more levels than a chunk can have.
    values = None if pa.types.is_dictionary(leaf.data_type) else from_arrow(raveled.values)
    if values is None or not can_full_zip(values):
        raise UnsupportedTypeError(
            f"a row of {raveled.num_entries} entries cannot be stored",
            field=leaf.name,
            hint="split the row, or use a type whose values fill whole bytes",
        )
    return _encode_full_zip(leaf, raveled, values)


def _encode_empty_structs(leaf: LeafColumn, raveled: Raveled) -> EncodedPage:
    if raveled.rep is not None or raveled.definition is not None:
        raise UnsupportedTypeError(
            f"storage version {leaf.version} cannot hold empty structs that are null or within a list",
            field=leaf.name,
            hint="give the struct a member",
        )
    if leaf.version == "2.3":
        return encode_sparse_page(raveled, leaf.dimensions, None)
    return encode_empty_page(raveled)


def _has_few_levels(raveled: Raveled) -> bool:
    # Next to a constant, levels cannot be compressed; in chunks they can.
    return (raveled.rep is None and raveled.definition is None) or raveled.num_entries <= _FEW_LEVELS


def _compress(leaf: LeafColumn, raveled: Raveled, values: Values) -> ChunkedValues:
    options, version = leaf.options, leaf.version
    if isinstance(values, Fixed):
        return compress_fixed(values, options, version, levels_bytes_per_value=_levels_bytes(raveled))
    if isinstance(values, Variable):
        return compress_variable(values, leaf.offset_bits, options, version)
    if isinstance(values, Lists):
        return compress_lists(values, options, version)
    if isinstance(values, Packed):
        return compress_packed(values, options, version)
    raise UnsupportedTypeError(f"values of type {leaf.data_type} cannot be stored", field=leaf.name)


def _levels_bytes(raveled: Raveled) -> float:
    """About what the levels of a value take."""
    bits = 0
    if raveled.rep is not None:
        bits += raveled.max_rep.bit_length()
    if raveled.definition is not None:
        bits += raveled.max_definition.bit_length()
    return min(bits / 8 * raveled.num_entries / max(len(raveled.values), 1), _MAX_LEVELS_BYTES)


def _is_wide(values: Values, raveled: Raveled, options: FieldOptions) -> bool:
    if isinstance(values, Variable):
        lengths = np.diff(values.offsets)
        longest = int(lengths.max(initial=0))
        present = values.length if raveled.definition is None else int((raveled.definition == 0).sum())
        mean = int(lengths.sum()) / max(present, 1)
        wide = longest >= _WIDE_BYTES and (mean >= _WIDE_BYTES or longest > _MAX_MIXED_BYTES)
    else:
        mean = longest = _width(values)
        wide = longest >= _WIDE_BYTES
    if options.structure == "miniblock":
        return longest > _MAX_CHUNK_VALUE_BYTES
    return wide


def _width(values: Values) -> int:
    """Return bytes of each value of fixed width; many for those that chunks cannot hold."""
    if isinstance(values, Fixed):
        return values.bits // 8
    if isinstance(values, Lists):
        return _MAX_CHUNK_VALUE_BYTES + 1 if _holds_nothing(values) else _bits(values) // 8
    if isinstance(values, Packed):
        widths = [_width(member) for member in values.members if isinstance(member, Fixed)]
        return sum(widths) if len(widths) == len(values.members) else _MAX_CHUNK_VALUE_BYTES + 1
    return 0


def _holds_nothing(values: Values) -> bool:
    return _holds_nothing(values.items) if isinstance(values, Lists) else isinstance(values, Nulls)


def _bits(values: Values) -> int:
    if isinstance(values, Lists):
        own = values.size if values.valid is not None else 0
        return own + values.size * _bits(values.items)
    return 0 if isinstance(values, Nulls) or not isinstance(values, Fixed) else values.bits
