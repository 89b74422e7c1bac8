"""Dictionaries of pages: each distinct value once, and its position for every value."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.binary import is_binary_like, is_large
from lance_ops.encoding.compression import LZ4, NONE, ZSTD, compress
from lance_ops.encoding.dictionary import compact_dictionary
from lance_ops.encoding.flat import bit_width
from lance_ops.encoding.values import Fixed, Values, Variable, to_arrow
from lance_ops.encoding.variable import encode_variable_block
from lance_ops.file.v2_1.compress_fixed import compress_block_fixed, estimate_fixed
from lance_ops.file.v2_1.compressed import Block
from lance_ops.file.v2_1.descriptions import describe_flat, describe_general
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.pb import encodings21_pb2 as pb

_MIN_VALUES = 100
_INDEX_BITS = 32
_SIZE_RATIO = 0.8
_DIVISOR = 2
# Who reads a single row reads the whole dictionary.
_MAX_ENTRIES = 1 << 16
_MAX_BYTES = 1 << 20
_MAX_SHARE = 1 / 16
# A little less space is not worth looking up every value.
_WORTH_LOOKING_UP = 0.9
# About what a table of symbols leaves of strings.
_SYMBOLS_SHARE = 0.5
_SAMPLE_VALUES = 1 << 14
_MIN_SAMPLE_VALUES = 1 << 8
_SAMPLE_BYTES = 1 << 19
# Long values are told apart by so many bytes first.
_LONG_BYTES = 1 << 11
_BEGINNING = 64
# Widths of numbers that readers of a version look up in a dictionary.
_FIXED_BITS = {"2.1": (128,), "2.2": (64, 128)}


def find_dictionary(
    values: Values, data_type: pa.DataType, options: FieldOptions, version: str
) -> tuple[Fixed, Block] | None:
    """Give a page a dictionary, if that makes it smaller.

    Args:
        values: Of the page.
        data_type: Storage type of the values.
        options: Of the column.
        version: "2.1" or "2.2".

    Returns:
        The positions of the values, of 32 bits, and the dictionary; None where it does not pay.
    """
    if values.length < _MIN_VALUES or not _can_have_dictionary(values, version):
        return None
    limit = min(values.length // max(options.dict_divisor or _DIVISOR, 1), _MAX_ENTRIES)
    plain_bytes = _plain_bytes(values)
    most = min(plain_bytes * (options.dict_size_ratio or _SIZE_RATIO), _other_bytes(values, options))
    most_items = max(plain_bytes * _MAX_SHARE, _MAX_BYTES)
    array = _plain_array(values, data_type)
    entries = _estimate_entries(array)
    items_bytes = entries * plain_bytes / values.length
    for exact in (False, True):
        if entries > limit or items_bytes > most_items:
            return None
        if _index_bytes(values.length, entries) + items_bytes >= most:
            return None
        if not exact:
            encoded = array.dictionary_encode()
            entries, items_bytes = len(encoded.dictionary), encoded.dictionary.nbytes
    positions = encoded.indices.to_numpy(zero_copy_only=True).view(np.uint32)
    items = _items_block(encoded.dictionary, data_type, options, version)
    return Fixed(_INDEX_BITS, len(positions), positions), items


def dictionary_of_arrow(
    array: pa.DictionaryArray, options: FieldOptions, version: str
) -> tuple[Fixed, Block]:
    """The dictionary of an Arrow dictionary array.

    Args:
        array: Without null rows; entries of the dictionary that are null must not be used. Its dictionary has
            at least one entry.
        options: Of the column.
        version: "2.1" or "2.2".

    Returns:
        The positions of the values, as wide as the indices of the array, and the dictionary.
    """
    if len(array.dictionary) > len(array) or array.dictionary.null_count:
        array = compact_dictionary(array)
    indices = array.indices.to_numpy(zero_copy_only=True)
    positions = indices.view(f"u{indices.dtype.itemsize}")
    items = _items_block(array.dictionary, array.type.value_type, options, version)
    return Fixed(indices.dtype.itemsize * 8, len(positions), positions), items


def _can_have_dictionary(values: Values, version: str) -> bool:
    return isinstance(values, Variable) or (isinstance(values, Fixed) and values.bits in _FIXED_BITS[version])


def _plain_array(values: Values, data_type: pa.DataType) -> pa.Array:
    # Arrow numbers the distinct bytes of any type, but knows some of the types better than others.
    if isinstance(values, Variable):
        return to_arrow(values, pa.large_binary() if is_large(data_type) else pa.binary())
    return to_arrow(values, pa.int64() if values.length and _bits(values) == 64 else pa.binary(16))


def _plain_bytes(values: Values) -> float:
    if isinstance(values, Variable):
        return 4 * values.length + int(values.offsets[-1] - values.offsets[0])
    return values.length * _bits(values) / 8


def _other_bytes(values: Values, options: FieldOptions) -> float:
    """What the values must be smaller than to be worth looking up."""
    if isinstance(values, Fixed):
        return estimate_fixed(values, options) * _WORTH_LOOKING_UP
    offsets = 4 * values.length
    return (offsets + (_plain_bytes(values) - offsets) * _SYMBOLS_SHARE) * _WORTH_LOOKING_UP


def _index_bytes(length: int, entries: int) -> float:
    return length * max(entries - 1, 1).bit_length() / 8


def _bits(values: Values) -> int:
    return values.bits if isinstance(values, Fixed) else 0


def _estimate_entries(array: pa.Array) -> int:
    """How many distinct values there are at least, judged by a sample (Chao, Scand. J. Statist. 1984)."""
    if array.nbytes > _LONG_BYTES * len(array):
        # Values whose beginnings differ are different: to number them all would read all of their bytes.
        beginnings = int(pc.count_distinct(pc.binary_slice(array, 0, _BEGINNING)).as_py())
        if beginnings * 2 > len(array):
            return beginnings
    wanted = min(max(_SAMPLE_BYTES * len(array) // max(array.nbytes, 1), _MIN_SAMPLE_VALUES), _SAMPLE_VALUES)
    if len(array) <= wanted:
        return int(pc.count_distinct(array).as_py())
    chosen = np.sort(np.random.default_rng(0).integers(0, len(array), wanted))
    encoded = array.take(pa.array(chosen)).dictionary_encode()
    counts = np.bincount(encoded.indices.to_numpy(zero_copy_only=True))
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return len(counts) + once * (once - 1) // (2 * (twice + 1))


def _items_block(items: pa.Array, data_type: pa.DataType, options: FieldOptions, version: str) -> Block:
    if is_binary_like(items.type):
        width = 64 if is_large(data_type) else 32
        offsets = np.frombuffer(items.buffers()[1], dtype=f"<i{width // 8}")
        offsets = offsets[items.offset : items.offset + len(items) + 1].astype(np.int64)
        data = items.buffers()[2] or pa.py_buffer(b"")
        block = encode_variable_block(Variable(offsets, data.slice(int(offsets[0]))), width // 8)
        encoding = pb.CompressiveEncoding(variable=pb.Variable(offsets=describe_flat(width)))
        return _compress_block(Block(encoding, block, len(items)), options, version)
    bits = bit_width(items.type)
    fixed = _fixed_values(items, bits)
    if version == "2.1":
        # Its first readers accept nothing else.
        return Block(describe_flat(bits), fixed, len(items))
    values = np.unpackbits(fixed, count=len(items), bitorder="little").view(np.bool_) if bits == 1 else fixed
    return compress_block_fixed(Fixed(bits, len(items), values), version, options)


def _fixed_values(items: pa.Array, bits: int) -> npt.NDArray[np.uint8]:
    if items.offset:
        items = pa.concat_arrays([items])
    data = np.frombuffer(items.buffers()[1], dtype=np.uint8)
    return data[: (len(items) * bits + 7) // 8]


def _compress_block(block: Block, options: FieldOptions, version: str) -> Block:
    scheme = options.dict_values_compression or LZ4
    if version == "2.1" or scheme not in (LZ4, ZSTD) or scheme == NONE:
        return block
    data = np.frombuffer(compress(scheme, pa.py_buffer(block.data)), dtype=np.uint8)
    if len(data) >= len(block.data):
        return block
    return Block(describe_general(scheme, None, block.encoding), data, block.count)
