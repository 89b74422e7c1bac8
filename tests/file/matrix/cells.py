"""The cells of the matrix: every type, null pattern and size, and how two tables are compared."""

import numpy as np
import pyarrow as pa

from tests.support.arrays import (
    ALL_2_0_TYPES,
    EXTENSION_TYPES,
    MORE_DICTIONARY_TYPES,
    ONLY_2_2_TYPES,
    nesting_depth,
    random_array,
)

VERSIONS = ("2.0", "2.1", "2.2")
SIZES = (0, 1, 2, 1023, 1024, 1025)
LARGE = 100_000
TYPES = [*ALL_2_0_TYPES, *MORE_DICTIONARY_TYPES, *EXTENSION_TYPES, *ONLY_2_2_TYPES]
LARGE_TYPES = [
    *(pa.bool_(), pa.int8(), pa.int32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
    *(pa.timestamp("us", "UTC"), pa.decimal128(10, 2), pa.decimal256(60, 5), pa.binary(3), pa.binary(16)),
    *(pa.string(), pa.large_string(), pa.large_binary(), pa.dictionary(pa.int8(), pa.string())),
    *(pa.list_(pa.float32(), 16), pa.list_(pa.bool_(), 5), pa.list_(pa.list_(pa.int16(), 2), 3)),
    *(pa.list_(pa.int32()), pa.list_(pa.bool_()), pa.large_list(pa.large_binary())),
    pa.list_(pa.large_list(pa.list_(pa.string()))),
    pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())])),
    pa.struct([("a", pa.list_(pa.struct([("b", pa.list_(pa.int64()))]))), ("c", pa.list_(pa.float32(), 2))]),
    pa.struct([("a", pa.int32()), ("b", pa.string())]),
    pa.null(),
    pa.map_(pa.string(), pa.int32()),
    pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]), 3),
]
"""About a third of all, one of each kind."""


def type_id(data_type: pa.DataType) -> str:
    """Short name for a test."""
    return str(data_type).replace(" ", "")


def can_hold(data_type: pa.DataType, version: str) -> bool:
    """Whether a storage version holds values of a type (`refusals.py` proves the other answer)."""
    return version in ("2.2", "2.3") or data_type not in ONLY_2_2_TYPES


def build_table(data_type: pa.DataType, size: int, version: str) -> pa.Table:
    """A column for each pattern of nulls: none, some, all, and some at one level of nesting alone.

    Structs are null from 2.1 on.
    """
    if data_type == pa.struct([]):
        # Neither null nor before another column, where it would hide that from the peer.
        return pa.table({"some": random_array(data_type, size)})
    structs = version not in ("0.1", "2.0")
    patterns: dict[str, dict[str, object]] = {"none": {"nulls": 0.0}, "some": {"nulls": 0.3}}
    if size < LARGE:
        patterns["all"] = {"nulls": 1.0}
        depth = nesting_depth(data_type)
        for level in range(depth if depth > 1 else 0):
            patterns[f"level {level}"] = {"nulls": 0.4, "null_depth": level}
    columns = {
        name: random_array(data_type, size, seed=size + number, null_structs=structs, **options)
        for number, (name, options) in enumerate(patterns.items())
    }
    return pa.table(columns)


def some_rows(size: int) -> np.ndarray:
    """A few row numbers, ascending, the first and the last among them."""
    rng = np.random.default_rng(size)
    rows = [*rng.integers(0, max(size, 1), 20).tolist(), 0, size - 1]
    return np.unique([row for row in rows if 0 <= row < size]).astype(np.int64)


def some_ranges(size: int) -> list[tuple[int, int]]:
    """Ranges of rows: empty ones, single ones, and those that end or begin at an edge."""
    middle = size // 2
    ranges = {(0, middle), (size // 3, size), (middle, min(middle + 1, size)), (size, size)}
    ranges |= {(start, stop) for start, stop in ((1, 1024), (1022, 1025), (7, 19)) if stop <= size}
    return sorted(ranges)


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Two tables are equal in schema and values; chunks and dictionaries may differ."""
    found.validate(full=True)
    assert found.schema.equals(expected.schema)
    assert found.num_rows == expected.num_rows
    for name in expected.column_names:
        if "dictionary" in str(expected[name].type) and pa.types.is_nested(expected[name].type):
            # Dictionaries differ from page to page without a difference in values.
            assert found[name].to_pylist() == expected[name].to_pylist(), name
        else:
            assert plain(found[name]).equals(plain(expected[name])), name


def plain(column: pa.ChunkedArray) -> pa.Array:
    """One array without dictionary and extension at the top."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    array = column.combine_chunks()
    array = array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def copy_rows(table: pa.Table, start: int, stop: int) -> pa.Table:
    """A range of rows as a copy, because the peer panics on slices of nested structs."""
    return table.take(np.arange(start, stop))
