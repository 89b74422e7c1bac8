"""Random Arrow arrays of any type, and the types that storage version 2.0 can hold."""

import numpy as np
import pyarrow as pa

WORDS = ("", "a", "é", "日本", "lance", "a longer value " * 4)

FLAT_TYPES = [
    pa.bool_(),
    pa.int8(),
    pa.uint8(),
    pa.int16(),
    pa.uint16(),
    pa.int32(),
    pa.uint32(),
    pa.int64(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    pa.timestamp("s"),
    pa.timestamp("ms", "UTC"),
    pa.timestamp("us", "Europe/Paris"),
    pa.timestamp("us", "+05:30"),
    pa.timestamp("ns"),
    pa.duration("s"),
    pa.duration("ms"),
    pa.duration("us"),
    pa.duration("ns"),
    pa.decimal128(10, 2),
    pa.decimal128(38, -3),
    pa.decimal256(60, 5),
    pa.binary(3),
    pa.binary(16),
]
VARIABLE_TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
DICTIONARY_TYPES = [
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint16(), pa.large_string()),
    pa.dictionary(pa.int32(), pa.binary()),
    pa.dictionary(pa.int64(), pa.int32()),
    pa.dictionary(pa.int32(), pa.float64()),
]
FIXED_SIZE_LIST_TYPES = [
    pa.list_(pa.float32(), 16),
    pa.list_(pa.float16(), 3),
    pa.list_(pa.int8(), 5),
    pa.list_(pa.bool_(), 5),
    pa.list_(pa.binary(3), 2),
    pa.list_(pa.decimal128(10, 2), 2),
    pa.list_(pa.timestamp("us", "UTC"), 2),
    pa.list_(pa.list_(pa.int16(), 2), 3),
    pa.list_(pa.list_(pa.bool_(), 3), 2),
]
LIST_TYPES = [
    pa.list_(pa.int32()),
    pa.large_list(pa.float64()),
    pa.list_(pa.bool_()),
    pa.list_(pa.string()),
    pa.large_list(pa.large_binary()),
    pa.list_(pa.null()),
    pa.list_(pa.list_(pa.int16())),
    pa.list_(pa.large_list(pa.list_(pa.string()))),
    pa.list_(pa.list_(pa.float32(), 4)),
    pa.list_(pa.dictionary(pa.int32(), pa.string())),
    pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())])),
    pa.large_list(pa.struct([("x", pa.list_(pa.int8())), ("y", pa.struct([("z", pa.bool_())]))])),
    pa.list_(pa.field("element", pa.int64(), nullable=False)),
]
STRUCT_TYPES = [
    pa.struct([("a", pa.int32()), ("b", pa.string())]),
    pa.struct([("a", pa.struct([("b", pa.struct([("c", pa.bool_())]))]))]),
    pa.struct([("a", pa.list_(pa.struct([("b", pa.list_(pa.int64()))]))), ("c", pa.list_(pa.float32(), 2))]),
    pa.struct([pa.field("a", pa.int16(), nullable=False), pa.field("n", pa.null())]),
    pa.struct([]),
]
ALL_2_0_TYPES = [
    pa.null(),
    *FLAT_TYPES,
    *VARIABLE_TYPES,
    *DICTIONARY_TYPES,
    *FIXED_SIZE_LIST_TYPES,
    *LIST_TYPES,
    *STRUCT_TYPES,
]
"""One of each kind that 2.0 can hold."""


def random_array(data_type: pa.DataType, length: int, *, nulls: float = 0.2, seed: int = 0) -> pa.Array:
    """Random values.

    Args:
        data_type: Any type that a data file can hold.
        length: Rows.
        nulls: Share of null rows at every level but structs, 0 for none and 1 for all.
        seed: The same seed gives the same array.
    """
    return _random(data_type, length, nulls, np.random.default_rng(seed))


def _random(data_type: pa.DataType, length: int, nulls: float, rng: np.random.Generator) -> pa.Array:
    types = pa.types
    if types.is_null(data_type):
        return pa.nulls(length)
    if types.is_struct(data_type):
        members = [_random(field.type, length, nulls if field.nullable else 0.0, rng) for field in data_type]
        if not members:
            return pa.Array.from_buffers(data_type, length, [None])
        return pa.StructArray.from_arrays(members, fields=list(data_type))
    mask = rng.random(length) < nulls
    if types.is_map(data_type):
        entries = pa.struct([pa.field("key", data_type.key_type, nullable=False), data_type.item_field])
        lists = _random(pa.list_(pa.field("entries", entries, nullable=False)), length, nulls, rng)
        return pa.Array.from_buffers(data_type, length, lists.buffers()[:2], children=[lists.values])
    if types.is_list(data_type) or types.is_large_list(data_type):
        lengths = np.where(mask, 0, rng.integers(0, 4, length))
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        item = data_type.value_field
        items = _random(item.type, int(offsets[-1]), nulls if item.nullable else 0.0, rng)
        large = types.is_large_list(data_type)
        kind = pa.LargeListArray if large else pa.ListArray
        return kind.from_arrays(
            pa.array(offsets, pa.int64() if large else pa.int32()),
            items,
            type=data_type,
            mask=pa.array(mask) if mask.any() else None,
        )
    if types.is_fixed_size_list(data_type):
        items = _random(data_type.value_type, length * data_type.list_size, nulls, rng)
        return pa.FixedSizeListArray.from_arrays(
            items, type=data_type, mask=pa.array(mask) if mask.any() else None
        )
    if types.is_dictionary(data_type):
        values = _random(data_type.value_type, 7, 0.0, rng).unique()
        indices = pa.array(rng.integers(0, len(values), length), data_type.index_type, mask=mask)
        return pa.DictionaryArray.from_arrays(indices, values)
    if types.is_boolean(data_type):
        return pa.array(rng.random(length) < 0.5, mask=mask)
    if data_type in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        words = [WORDS[n % len(WORDS)] + str(n // 2) * (n % 3) for n in rng.integers(0, 500, length)]
        array = pa.array(words, pa.string(), mask=mask)
        return array.cast(data_type)
    return _random_flat(data_type, length, mask, rng)


def _random_flat(data_type: pa.DataType, length: int, mask: np.ndarray, rng: np.random.Generator) -> pa.Array:
    types = pa.types
    width = data_type.bit_width // 8
    if types.is_floating(data_type):
        values = rng.normal(size=length).astype(data_type.to_pandas_dtype())
        return pa.array(values, data_type, mask=mask)
    if types.is_fixed_size_binary(data_type) and not types.is_decimal(data_type):
        raw = rng.integers(0, 256, length * width, dtype=np.uint8).tobytes()
    elif types.is_decimal(data_type):
        words = np.zeros((length, width // 8), dtype=np.int64)
        words[:, 0] = rng.integers(-(10**9), 10**9, length)
        words[:, 1:] = np.where(words[:, :1] < 0, -1, 0)
        raw = words.tobytes()
    elif types.is_integer(data_type):
        raw = rng.integers(0, 256, length * width, dtype=np.uint8).tobytes()
    else:
        # Dates and times that every reader can convert to Python.
        unit = 86_400_000 if types.is_date64(data_type) else 1
        word = np.int64 if width == 8 else np.int32
        raw = (rng.integers(0, 80_000, length).astype(word) * word(unit)).tobytes()
    plain = pa.Array.from_buffers(data_type, length, [None, pa.py_buffer(raw)])
    if not mask.any():
        return plain
    validity = pa.py_buffer(np.packbits(~mask, bitorder="little"))
    return pa.Array.from_buffers(data_type, length, [validity, pa.py_buffer(raw)])
