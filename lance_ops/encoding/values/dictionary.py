"""Dictionary: each distinct value once, and its number for every row.

The format knows two flavours. Plain strings with few distinct values are stored with numbers from 1, 0 being
null. Arrow dictionary columns keep their own numbers from 0, and a null row points at an entry of the
dictionary that is null.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.arrays import number_dtype
from lance_ops.encoding.bits.bitmap import apply_validity, encode_bitmap
from lance_ops.encoding.values.lookup import look_up_entries
from lance_ops.errors import CorruptFileError

STRING_DICTIONARY_LIMIT = 100
"""Plain strings get a dictionary when a page has at least this many rows and fewer distinct values."""

# The first tells of most columns of long values, which take long to compare.
_SAMPLE_ROWS = (STRING_DICTIONARY_LIMIT + 20, 1000)


def decode_string_dictionary(numbers: pa.Array, items: pa.Array) -> pa.Array:
    """Look up plain strings by numbers from 1.

    Args:
        numbers: uint8 without nulls, 0 for a null row.
        items: The distinct strings.

    Raises:
        CorruptFileError: A number exceeds the dictionary.
    """
    values = numbers.to_numpy(zero_copy_only=True)
    _check_range(values, len(items) + 1)
    valid = values != 0
    if items.null_count:
        return items.take(pa.array(values - np.uint8(1), mask=~valid))
    if bool(valid.all()):
        return look_up_entries(values - np.uint8(1), items)
    # Null rows have the number of an entry before the first, too.
    blank = pa.array([""], items.type)
    found = look_up_entries(values, pa.concat_arrays([blank, items]))
    return apply_validity(found, encode_bitmap(valid))


def encode_string_dictionary(array: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    """Number the distinct strings of a page, if that is worth it.

    Args:
        array: Strings.

    Returns:
        uint8 numbers from 1 (0 for null rows) and the distinct strings, or None when there are too many of
        them or too few rows.
    """
    if len(array) < STRING_DICTIONARY_LIMIT or array.null_count == len(array):
        return None
    for rows in _SAMPLE_ROWS:
        if pc.count_distinct(array.slice(0, rows)).as_py() >= STRING_DICTIONARY_LIMIT:
            return None
    encoded = array.dictionary_encode()
    if len(encoded.dictionary) >= STRING_DICTIONARY_LIMIT:
        return None
    numbers = pc.fill_null(encoded.indices, -1).to_numpy() + 1
    return pa.array(numbers.astype(np.uint8)), encoded.dictionary


def decode_dictionary(numbers: pa.Array, items: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Build an Arrow dictionary array.

    Args:
        numbers: Of the index type, from 0, without nulls.
        items: The dictionary; an entry may be null.
        data_type: The dictionary type.

    Raises:
        CorruptFileError: A number lies outside of the dictionary.
    """
    values = numbers.to_numpy(zero_copy_only=True)
    _check_range(values, len(items))
    if items.null_count:
        # Arrow counts only the nulls of the indices, so that filters would miss a null inside the dictionary.
        valid = np.asarray(items.is_valid())
        moved = (np.cumsum(valid) - 1).astype(values.dtype)
        numbers = pa.array(moved[values], mask=~valid[values])
        items = items.drop_null()
    return pa.DictionaryArray.from_arrays(numbers, items, ordered=data_type.ordered)


def encode_dictionary(array: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    """Numbers and entries of an Arrow dictionary array, null rows pointing at a null entry at the end.

    Args:
        array: A dictionary array; entries that no row uses are dropped when they outnumber the rows.

    Returns:
        Indices without nulls and the dictionary, or None when the null entry does not fit the index type:
        fewer rows at once will fit.
    """
    if array.null_count == len(array):
        zeros = np.zeros(len(array), dtype=number_dtype(array.type.index_type))
        return pa.array(zeros), pa.nulls(1, array.type.value_type)
    if array.dictionary.null_count or len(array.dictionary) > len(array):
        array = compact_dictionary(array)
    items = array.dictionary
    if array.null_count == 0:
        return array.indices, items
    null_entry = len(items)
    index_type = array.type.index_type
    if null_entry > np.iinfo(number_dtype(index_type)).max:
        compact = compact_dictionary(array)
        return encode_dictionary(compact) if len(compact.dictionary) < null_entry else None
    numbers = pc.fill_null(array.indices, pa.scalar(null_entry, index_type))
    return numbers, pa.concat_arrays([items, pa.nulls(1, items.type)])


def compact_dictionary(array: pa.Array) -> pa.Array:
    """The same values over a dictionary of only those that occur, without null entries."""
    dense = array.dictionary_decode().dictionary_encode()
    indices = dense.indices.cast(array.type.index_type)
    return pa.DictionaryArray.from_arrays(indices, dense.dictionary, ordered=array.type.ordered)


def _check_range(values: npt.NDArray[np.integer], size: int) -> None:
    if len(values) and not (int(values.min()) >= 0 and int(values.max()) < size):
        raise CorruptFileError(f"a row points outside of its dictionary of {size} entries")
