"""Random Arrow arrays of any type, and the types that storage versions can hold."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_ops.encoding.arrays import number_dtype

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
MORE_DICTIONARY_TYPES = [
    pa.dictionary(pa.uint8(), pa.string()),
    pa.dictionary(pa.int16(), pa.string()),
    pa.dictionary(pa.uint32(), pa.large_binary()),
    pa.dictionary(pa.uint64(), pa.int8()),
    pa.dictionary(pa.int8(), pa.bool_()),
]
"""The other index types, and other values."""
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

ONLY_2_2_TYPES = [
    pa.map_(pa.string(), pa.int32()),
    pa.map_(pa.int16(), pa.list_(pa.string())),
    pa.list_(pa.map_(pa.string(), pa.list_(pa.int32()))),
    pa.struct([("m", pa.map_(pa.large_string(), pa.struct([("x", pa.float64())])))]),
    pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]), 3),
    pa.struct([("f", pa.list_(pa.struct([("a", pa.list_(pa.float32(), 2))]), 2))]),
]
"""What 2.2 was the first version to hold."""
EXTENSION_TYPES = [
    pa.uuid(),
    pa.bool8(),
    pa.fixed_shape_tensor(pa.float32(), [2, 2]),
    pa.opaque(pa.string(), "kind", "vendor"),
]
"""Kept by their storage and the field's metadata."""
VIEW_TYPES = [pa.string_view(), pa.binary_view()]
"""Stored, and read back, as strings and bytes."""


@dataclass(frozen=True, slots=True)
class _Nulls:
    """Where there are nulls.

    Attributes:
        share: Of the values, 0 for none and 1 for all.
        structs: Whether structs are null, too.
        depth: The only level with nulls, counted from the rows; None for all.
        empty: Share of the lists that are empty; None for a quarter.
        required: Whether the current level has no nulls, whatever the share.
    """

    share: float
    structs: bool
    depth: int | None
    empty: float | None = None
    required: bool = False

    @property
    def here(self) -> float:
        """Share of the values at this level."""
        return self.share if not self.depth and not self.required else 0.0

    @property
    def inside(self) -> "_Nulls":
        """The same for the next level."""
        if self.depth is None:
            return replace(self, required=False) if self.required else self
        # Below the only level with nulls there are none: a level that is never reached.
        return replace(self, depth=self.depth - 1 if self.depth else 1 << 10, required=False)


def random_array(
    data_type: pa.DataType,
    length: int,
    *,
    nulls: float = 0.2,
    seed: int = 0,
    null_structs: bool = False,
    null_depth: int | None = None,
    empty_lists: float | None = None,
) -> pa.Array:
    """Random values.

    Args:
        data_type: Any type that a data file can hold.
        length: Rows.
        nulls: Share of null rows at every level but structs, 0 for none and 1 for all.
        seed: The same seed gives the same array.
        null_structs: Whether structs are null as often as everything else, which 2.0 cannot hold.
        null_depth: The only level that has nulls, 0 for the rows.
        empty_lists: Share of the lists and maps that are empty, a quarter by default.
    """
    pattern = _Nulls(nulls, null_structs, null_depth, empty_lists)
    return _random(data_type, length, pattern, np.random.default_rng(seed))


def nesting_depth(data_type: pa.DataType) -> int:
    """Number of levels at which a type can have nulls."""
    if isinstance(data_type, pa.BaseExtensionType):
        return nesting_depth(data_type.storage_type)
    if pa.types.is_map(data_type):
        return 1 + nesting_depth(data_type.item_type)
    children = [data_type.field(number).type for number in range(data_type.num_fields)]
    return 1 + max(map(nesting_depth, children), default=0)


def _random(data_type: pa.DataType, length: int, nulls: _Nulls, rng: np.random.Generator) -> pa.Array:
    types = pa.types
    if isinstance(data_type, pa.BaseExtensionType):
        storage = _random(data_type.storage_type, length, nulls, rng)
        return pa.ExtensionArray.from_storage(data_type, storage)
    if data_type in VIEW_TYPES:
        plain = pa.string() if data_type == pa.string_view() else pa.binary()
        return _random(plain, length, nulls, rng).cast(data_type)
    if types.is_null(data_type):
        return pa.nulls(length)
    if types.is_struct(data_type):
        return _random_structs(data_type, length, nulls, rng)
    mask = rng.random(length) < nulls.here
    if types.is_map(data_type):
        return _random_maps(data_type, mask, nulls, rng)
    if types.is_list(data_type) or types.is_large_list(data_type):
        offsets = _random_offsets(mask, nulls, rng)
        items = _random_member(data_type.value_field, int(offsets[-1]), nulls, rng)
        large = types.is_large_list(data_type)
        kind = pa.LargeListArray if large else pa.ListArray
        return kind.from_arrays(
            pa.array(offsets, pa.int64() if large else pa.int32()),
            items,
            type=data_type,
            mask=pa.array(mask) if mask.any() else None,
        )
    if types.is_fixed_size_list(data_type):
        items = _random_member(data_type.value_field, length * data_type.list_size, nulls, rng)
        return pa.FixedSizeListArray.from_arrays(
            items, type=data_type, mask=pa.array(mask) if mask.any() else None
        )
    if types.is_dictionary(data_type):
        values = _random(data_type.value_type, 7, _NO_NULLS, rng).unique()
        indices = pa.array(rng.integers(0, len(values), length), data_type.index_type, mask=mask)
        return pa.DictionaryArray.from_arrays(indices, values)
    if types.is_boolean(data_type):
        return pa.array(rng.random(length) < 0.5, mask=mask)
    if data_type in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        words = [WORDS[n % len(WORDS)] + str(n // 2) * (n % 3) for n in rng.integers(0, 500, length)]
        array = pa.array(words, pa.string(), mask=mask)
        return array.cast(data_type)
    return _random_flat(data_type, length, mask, rng)


def _random_member(field: pa.Field, length: int, nulls: _Nulls, rng: np.random.Generator) -> pa.Array:
    return _random(field.type, length, replace(nulls.inside, required=not field.nullable), rng)


def _random_offsets(mask: np.ndarray, nulls: _Nulls, rng: np.random.Generator) -> np.ndarray:
    if nulls.empty is None:
        lengths = np.where(mask, 0, rng.integers(0, 4, len(mask)))
    else:
        empty = mask | (rng.random(len(mask)) < nulls.empty)
        lengths = np.where(empty, 0, rng.integers(1, 4, len(mask)))
    return np.concatenate([[0], np.cumsum(lengths)])


def _random_maps(
    data_type: pa.MapType, mask: np.ndarray, nulls: _Nulls, rng: np.random.Generator
) -> pa.Array:
    offsets = _random_offsets(mask, nulls, rng)
    keys = _random(data_type.key_type, int(offsets[-1]), _NO_NULLS, rng)
    items = _random_member(data_type.item_field, len(keys), nulls, rng)
    entries = pa.StructArray.from_arrays([keys, items], fields=[data_type.key_field, data_type.item_field])
    validity = pa.py_buffer(np.packbits(~mask, bitorder="little")) if mask.any() else None
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(data_type, len(mask), buffers, children=[entries])


def _random_structs(
    data_type: pa.StructType, length: int, nulls: _Nulls, rng: np.random.Generator
) -> pa.Array:
    members = [_random_member(field, length, nulls, rng) for field in data_type]
    if not members:
        return pa.Array.from_buffers(data_type, length, [None])
    mask = pa.array(rng.random(length) < nulls.here) if nulls.structs and nulls.here else None
    return pa.StructArray.from_arrays(members, fields=list(data_type), mask=mask)


_NO_NULLS = _Nulls(0.0, False, None)


def _random_flat(data_type: pa.DataType, length: int, mask: np.ndarray, rng: np.random.Generator) -> pa.Array:
    types = pa.types
    width = data_type.bit_width // 8
    if types.is_floating(data_type):
        values = rng.normal(size=length).astype(number_dtype(data_type))
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
