"""Dictionaries of pages: each distinct value once, and its position for every value."""

from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrow_arrays import to_numpy
from lance_ops.encoding.general.compression import NONE, compress
from lance_ops.encoding.values.array_values import from_arrow
from lance_ops.encoding.values.binary import is_large
from lance_ops.encoding.values.dictionary import compact_dictionary, has_many_unused
from lance_ops.encoding.values.numbering import number_distinct, pick_values
from lance_ops.encoding.values.values import Fixed, Values, Variable, as_bits, as_bytes
from lance_ops.encoding.values.variable import encode_variable_block, gather_values
from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.v2_1.compression.descriptions import describe_flat, describe_general
from lance_ops.file.v2_1.compression.encoded import Block
from lance_ops.file.v2_1.compression.fixed import compress_block_fixed, estimate_fixed
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.pb import encodings21_pb2 as pb

Integers = npt.NDArray[np.int64]

_MIN_VALUES = 100
_INDEX_BITS = 32
_SIZE_RATIO = 0.8
_DIVISOR = 2
# Reading a single row reads the whole dictionary: a large one has to make the page much smaller.
_MAX_ENTRIES = 1 << 16
_MAX_BYTES = 1 << 20
_MAX_SHARE = 1 / 8
# A little less space is not worth looking up every value.
_WORTH_LOOKING_UP = 0.9
# About what a table of symbols leaves of strings.
_SYMBOLS_SHARE = 0.5
_SAMPLE_VALUES = 1 << 14
_MIN_SAMPLE_VALUES = 1 << 8
_SAMPLE_BYTES = 1 << 19
_MAX_SAMPLE_BYTES = 1 << 30
# The prefixes of a few values identify most columns with too many distinct ones; the error rate is one in a
# thousand for columns with fewer.
_FEW_VALUES = 1 << 10
_BEGINNING = 64
# Values of more bytes than these are compared by their beginnings first, however few they are.
_LARGE_BYTES = 1 << 10
_SURELY = 4
# Widths of numbers for which readers of a version support a dictionary.
_FIXED_BITS = {"2.1": (128,), "2.2": (64, 128), "2.3": (64, 128)}


def find_dictionary(
    values: Values, data_type: pa.DataType, options: FieldOptions, version: str
) -> tuple[Fixed, Block] | None:
    """Build a dictionary of a page, if that makes it smaller.

    Args:
        values: Of the page.
        data_type: Storage type of the values.
        options: Of the column.
        version: "2.1" or "2.2".

    Returns:
        The 32-bit indices of the values, and the dictionary; None if it does not pay.
    """
    if values.length < _MIN_VALUES or not _can_have_dictionary(values, version):
        return None
    assert isinstance(values, Fixed | Variable)
    limit = min(values.length // max(options.dict_divisor or _DIVISOR, 1), _MAX_ENTRIES)
    if _has_surely_more(values, limit):
        return None
    plain_bytes = _plain_bytes(values)
    most = min(plain_bytes * (options.dict_size_ratio or _SIZE_RATIO), _other_bytes(values, options))
    most_items = max(plain_bytes * _MAX_SHARE, _MAX_BYTES)

    def pays(entries: int, items_bytes: float) -> bool:
        if entries > limit or items_bytes > most_items:
            return False
        return _index_bytes(values.length, entries) + items_bytes < most

    # More entries than these would take too much space by their numbers alone.
    limit = min(limit, 1 << int(min(most * 8 / values.length, 32)))
    if (wanted := _sample_size(values)) < values.length:
        entries = _estimate_distinct(pick_values(values, _choose(values.length, wanted)), values.length)
        if not pays(entries, entries * plain_bytes / values.length):
            return None
    found = number_distinct(values, limit, int(most_items))
    if found is None or not pays(found[1].length, _plain_bytes(found[1])):
        return None
    positions, items = found
    return Fixed(_INDEX_BITS, len(positions), positions), _items_block(items, data_type, options, version)


def dictionary_of_arrow(
    array: pa.DictionaryArray, options: FieldOptions, version: str
) -> tuple[Fixed, Block]:
    """Return the dictionary of an Arrow dictionary array.

    Args:
        array: Without null rows; entries of the dictionary that are null must not be used. Its dictionary has
            at least one entry.
        options: Of the column.
        version: "2.1" or "2.2".

    Returns:
        The positions of the values, as wide as the indices of the array, and the dictionary.
    """
    if has_many_unused(array) or array.dictionary.null_count:
        array = compact_dictionary(array)
    indices = to_numpy(array.indices)
    positions = indices.view(f"u{indices.dtype.itemsize}")
    items = _items_block(from_arrow(array.dictionary), array.type.value_type, options, version)
    return Fixed(indices.dtype.itemsize * 8, len(positions), positions), items


def _can_have_dictionary(values: Values, version: str) -> bool:
    return isinstance(values, Variable) or (isinstance(values, Fixed) and values.bits in _FIXED_BITS[version])


def _plain_bytes(values: Fixed | Variable) -> float:
    if isinstance(values, Variable):
        return 4 * values.length + int(values.offsets[-1] - values.offsets[0])
    return values.length * values.bits / 8


def _other_bytes(values: Fixed | Variable, options: FieldOptions) -> float:
    """Return the size of the plain values, which a dictionary must improve on."""
    if isinstance(values, Fixed):
        return estimate_fixed(values, options) * _WORTH_LOOKING_UP
    offsets = 4 * values.length
    return (offsets + (_plain_bytes(values) - offsets) * _SYMBOLS_SHARE) * _WORTH_LOOKING_UP


def _index_bytes(length: int, entries: int) -> float:
    return length * max(entries - 1, 1).bit_length() / 8


def _has_surely_more(values: Fixed | Variable, limit: int) -> bool:
    """Return whether a sample of prefixes has many more distinct values than allowed."""
    chosen = _choose(values.length, _FEW_VALUES)
    if values.length > _FEW_VALUES:
        sample = pick_values(values, chosen) if isinstance(values, Fixed) else _beginnings(values, chosen)
        return _estimate_distinct(sample, values.length) > limit * _SURELY
    # As many distinct prefixes, as many distinct values: most bytes of large values need not be read.
    if isinstance(values, Variable) and _plain_bytes(values) > values.length * _LARGE_BYTES:
        beginnings = _beginnings(values, chosen)
        if number_distinct(beginnings, limit, _MAX_SAMPLE_BYTES) is None:
            return True
    # A full pass stops at the first value that is too many.
    return number_distinct(values, limit, _MAX_SAMPLE_BYTES) is None


def _beginnings(values: Variable, chosen: Integers) -> Fixed | Variable:
    """Return the first bytes of some values."""
    first = int(values.offsets[0])
    starts = values.offsets[chosen].astype(np.int64)
    lengths = np.minimum(values.offsets[chosen + 1] - starts, _BEGINNING)
    return gather_values(np.frombuffer(values.data, dtype=np.uint8), starts - first, lengths)


def _sample_size(values: Fixed | Variable) -> int:
    """Return the size of a sample that estimates the number of distinct values."""
    wanted = int(_SAMPLE_BYTES * values.length / _plain_bytes(values))
    return min(max(wanted, _MIN_SAMPLE_VALUES), _SAMPLE_VALUES)


def _choose(length: int, wanted: int) -> Integers:
    """Return the positions of a sample, ascending: a random one in each of `wanted` ranges."""
    if length <= wanted:
        return np.arange(length)
    return (_random_places()[:wanted] * (length / wanted)).astype(np.int64)


@cache
def _random_places() -> npt.NDArray[np.float64]:
    """Return a fixed pseudo-random position for each range of a sample."""
    return np.arange(_SAMPLE_VALUES) + np.random.default_rng(0).random(_SAMPLE_VALUES)


def _estimate_distinct(sample: Fixed | Variable, length: int) -> int:
    """Estimate the number of distinct values from a sample (Chao, Scand. J. Statist. 1984)."""
    found = number_distinct(sample, sample.length, _MAX_SAMPLE_BYTES)
    if found is None:
        return sample.length
    if sample.length == length:
        return found[1].length
    times = np.bincount(found[0])
    _, once, twice = np.bincount(times, minlength=3)[:3].tolist()
    return len(times) + int(once) * (int(once) - 1) // (2 * (int(twice) + 1))


def _items_block(items: Values, data_type: pa.DataType, options: FieldOptions, version: str) -> Block:
    if isinstance(items, Variable):
        width = 64 if is_large(data_type) else 32
        block = encode_variable_block(items, width // 8)
        encoding = pb.CompressiveEncoding(variable=pb.Variable(offsets=describe_flat(width)))
        return _compress_block(Block(encoding, block, items.length), options, version)
    if not isinstance(items, Fixed):
        raise UnsupportedTypeError(f"a dictionary of values of type {data_type} cannot be stored")
    if version == "2.1":
        # Its first readers accept nothing else.
        data = as_bits(items) if items.bits == 1 else as_bytes(items)
        return Block(describe_flat(items.bits), data, items.length)
    return compress_block_fixed(items, version, options)


def _compress_block(block: Block, options: FieldOptions, version: str) -> Block:
    scheme, level = options.dictionary_scheme
    if version == "2.1" or scheme == NONE:
        return block
    data = np.frombuffer(compress(scheme, pa.py_buffer(block.data), level), dtype=np.uint8)
    if len(data) >= len(block.data):
        return block
    return Block(describe_general(scheme, level, block.encoding), data, block.count)
