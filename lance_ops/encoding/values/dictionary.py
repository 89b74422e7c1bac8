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

# The first is enough for most columns of long values, which take long to compare.
_SAMPLE_ROWS = (STRING_DICTIONARY_LIMIT + 20, 1000)
# Entries that a page keeps although it has fewer rows.
_KEPT_ENTRIES = 1024


def decode_string_dictionary(numbers: pa.Array, items: pa.Array) -> pa.Array:
    """Decode dictionary indices from 1 to strings.

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
    """Return numbers and entries of an Arrow dictionary array, null rows pointing at a null entry at the end.

    Args:
        array: A dictionary array; entries that no row uses are dropped if they are many.

    Returns:
        Indices without nulls and the dictionary, or None when the null entry does not fit the index type:
        fewer rows at once will fit.
    """
    if array.null_count == len(array):
        zeros = np.zeros(len(array), dtype=number_dtype(array.type.index_type))
        return pa.array(zeros), pa.nulls(1, array.type.value_type)
    if array.dictionary.null_count or has_many_unused(array):
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


def has_many_unused(array: pa.DictionaryArray) -> bool:
    """Return whether a dictionary has so many entries beside the rows that a page should not keep all.

    The unused categories of an ordinary column are kept, with their order.
    """
    return len(array.dictionary) > max(len(array), _KEPT_ENTRIES)


def compact_dictionary(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same values over a dictionary of only those that occur, in their order, without null entries."""
    dense = array.dictionary_decode().dictionary_encode()
    places = pc.index_in(dense.dictionary, array.dictionary).to_numpy(zero_copy_only=False)
    order = np.argsort(places, kind="stable")
    moved = np.empty(len(order), dtype=np.int64)
    moved[order] = np.arange(len(order))
    indices = pa.array(moved).take(dense.indices).cast(array.type.index_type)
    items = dense.dictionary.take(pa.array(order))
    return pa.DictionaryArray.from_arrays(indices, items, ordered=array.type.ordered)


def recode_dictionary(
    array: pa.DictionaryArray, items: pa.Array, data_type: pa.DictionaryType
) -> pa.DictionaryArray | None:
    """Return the same rows over entries of another type, in the same order, with those that no row uses.

    Args:
        array: A dictionary array; may be a slice.
        items: Its dictionary in the value type of `data_type`.
        data_type: The dictionary type to return.

    Returns:
        None when there are more entries than the index type can number.
    """
    if len(items) - 1 > np.iinfo(number_dtype(data_type.index_type)).max:
        return None
    indices = array.indices.cast(data_type.index_type)
    return pa.DictionaryArray.from_arrays(indices, items, ordered=data_type.ordered)


def _check_range(values: npt.NDArray[np.integer], size: int) -> None:
    if len(values) and not (int(values.min()) >= 0 and int(values.max()) < size):
        raise CorruptFileError(f"a row points outside of its dictionary of {size} entries")
