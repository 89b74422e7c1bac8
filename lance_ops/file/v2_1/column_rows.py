"""Rows of a leaf column: consecutive ones, to be joined with those of the other columns of a field."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrays import number_dtype
from lance_ops.encoding.arrow_arrays import from_numpy
from lance_ops.encoding.bits.bitmap import apply_validity, decode_bitmap
from lance_ops.encoding.pages.levels import Layer, Nest, unravel
from lance_ops.encoding.values.fixed_size_list import rebase_nested
from lance_ops.encoding.values.lookup import look_up_entries, require_inside
from lance_ops.encoding.values.values import Fixed, Values, null_array, to_arrow
from lance_ops.errors import CorruptFileError

_INDEX_TYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


@dataclass(frozen=True, slots=True)
class LeafType:
    """Type of a column, and its path from the row.

    Attributes:
        data_type: Storage type of the values.
        lists: True if each layer is a list, from the outermost to the values themselves.
        items: Slots below one of each layer: 1 except for fixed-size lists of structs.
    """

    data_type: pa.DataType
    lists: tuple[bool, ...]
    items: tuple[int, ...]

    @property
    def is_repeated(self) -> bool:
        """Return whether a row can have any number of values."""
        return any(self.lists)

    @property
    def span(self) -> int:
        """Values of a row that has no lists."""
        return prod(self.items)

    def check(self, layers: Sequence[Layer]) -> None:
        """Check that the layers of a page are those of the schema.

        Raises:
            CorruptFileError: They are not.
        """
        if tuple(layer.is_list for layer in reversed(layers)) != self.lists:
            raise CorruptFileError(f"the {len(layers)} layers of a page are not those of its column")


@dataclass(frozen=True, slots=True)
class ColumnRows:
    """Rows of one column.

    Attributes:
        nests: The layers from the outermost to the values.
        values: The values, with their nulls.
    """

    nests: tuple[Nest, ...]
    values: pa.Array

    @property
    def length(self) -> int:
        """Number of rows."""
        return self.nests[0].length

    @property
    def hidden(self) -> pa.BooleanArray | None:
        """Return the values in a null struct or fixed-size list of structs; None if there are none."""
        hidden = None
        for nest in reversed(self.nests[:-1]):
            # A list that is null has no items that it could hide.
            if nest.offsets is not None or not nest.length:
                break
            if nest.validity is not None:
                nulls = ~decode_bitmap(nest.validity, nest.length)
                nulls = np.repeat(nulls, len(self.values) // nest.length)
                hidden = nulls if hidden is None else hidden | nulls
        return None if hidden is None else pa.array(hidden)

    def slice(self, start: int, stop: int, items: Sequence[int]) -> "ColumnRows":
        """Return some of the rows.

        Args:
            start: First row.
            stop: End of the rows.
            items: As in `LeafType`.
        """
        if start == 0 and stop == self.length:
            return self
        nests = []
        for nest, width in zip(self.nests, items, strict=True):
            nests.append(nest.slice(start, stop))
            if nest.offsets is not None:
                start, stop = int(nest.offsets[start]), int(nest.offsets[stop])
            start, stop = start * width, stop * width
        return ColumnRows(tuple(nests), rebase_nested(self.values.slice(start, stop - start)))


def build_piece(
    leaf: LeafType,
    layers: Sequence[Layer],
    rep: npt.NDArray[np.uint16] | None,
    definition: npt.NDArray[np.uint16] | None,
    num_entries: int,
    values: pa.Array | None,
) -> ColumnRows:
    """Join values and levels.

    Args:
        leaf: What the column holds.
        layers: Of the page, from the innermost outwards.
        rep: Repetition levels.
        definition: Definition levels.
        num_entries: Number of levels.
        values: Without nulls; None when all of them are null.

    Raises:
        CorruptFileError: They do not belong together.
    """
    nests, visible = unravel(rep, definition, layers, leaf.items, num_entries)
    if values is None and leaf.data_type == pa.struct([]):
        # An empty struct has only its validity.
        values = pa.Array.from_buffers(leaf.data_type, visible, [None], null_count=0)
    if values is None:
        return ColumnRows(tuple(nests), all_null(leaf.data_type, visible))
    if len(values) != visible:
        raise CorruptFileError(
            f"number of values does not match the levels (expected {visible}, got {len(values)})"
        )
    validity = nests[-1].validity
    return ColumnRows(tuple(nests), values if validity is None else apply_validity(values, validity))


def all_null(data_type: pa.DataType, length: int) -> pa.Array:
    """Return an array of nulls of any type."""
    if pa.types.is_dictionary(data_type) or pa.types.is_struct(data_type):
        return pa.nulls(length, data_type)
    return null_array(data_type, length)


def leaf_array(values: Values, data_type: pa.DataType) -> pa.Array:
    """Return values as an array of the column's storage type."""
    if pa.types.is_dictionary(data_type):
        return encode_indices(to_arrow(values, data_type.value_type), data_type)
    return to_arrow(values, data_type)


def encode_indices(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Plain values as an Arrow dictionary array."""
    encoded = array.dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(data_type.index_type), encoded.dictionary)


def look_up(indices: Values, items: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return values by their positions in the dictionary of a page.

    Args:
        indices: Unsigned integers.
        items: The dictionary, of the column's type, or of its value type for an Arrow dictionary.
        data_type: Storage type of the column.

    Raises:
        CorruptFileError: A position lies outside of the dictionary.
    """
    word = _INDEX_TYPES.get(indices.bits) if isinstance(indices, Fixed) else None
    if word is None or not isinstance(indices, Fixed) or not isinstance(indices.data, np.ndarray):
        raise CorruptFileError("dictionary indices must be integers")
    data = np.ascontiguousarray(indices.data)
    numbers = data if data.dtype == word else data.reshape(-1).view(word)
    if not pa.types.is_dictionary(data_type):
        return look_up_entries(numbers, items)
    require_inside(numbers, len(items))
    positions = from_numpy(numbers)
    if len(items) and len(items) - 1 > np.iinfo(number_dtype(data_type.index_type)).max:
        return encode_indices(items.take(positions), data_type)
    return pa.DictionaryArray.from_arrays(positions.cast(data_type.index_type), items)
