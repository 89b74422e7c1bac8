"""Inserted keys: the filter by which two merges on the primary key detect a common new key.

As in pylance: for 8,192 keys and a probability of 0.00057, for any number of keys, since only filters of one
size can be compared.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from lance_ops.file.schema.model import Field
from lance_ops.index.bloom_filter.hashes import hash_values
from lance_ops.index.bloom_filter.split_block import filter_bytes, make_filters
from lance_ops.table.transaction.key_filter import BloomBits, KeyFilter

_ITEMS, _PROBABILITY = 8192, 0.00057


def key_filter(fields: Sequence[Field], keys: pa.Table) -> KeyFilter | None:
    """Return the filter of the keys of inserted rows; None if pylance defines no bytes for their type.

    Args:
        fields: Key columns.
        keys: Their values, a row for each inserted one. A row with a null matches no other, and is omitted.
    """
    columns = [key_bytes(keys[field.name].combine_chunks()) for field in fields]
    if any(column is None for column in columns):
        return None
    values = (
        columns[0] if len(columns) == 1 else _joined([column for column in columns if column is not None])
    )
    assert values is not None
    hashes = hash_values(values.drop_null())
    size = filter_bytes(_ITEMS, _PROBABILITY)
    words = make_filters(hashes, np.array([len(hashes)]), size)
    bloom = BloomBits(words.astype("<u4").tobytes(), size * 8, _ITEMS, _PROBABILITY)
    return KeyFilter(tuple(field.id for field in fields), bloom=bloom)


def key_bytes(column: pa.Array | pa.ChunkedArray) -> pa.Array | None:
    """Return keys as the hashed bytes: numbers as 64 bits, strings and bytes unchanged.

    None for types without a definition in pylance. For integers below 32 bits and dictionaries it commits a
    filter without keys, and would consider ours as disjoint from it.
    """
    array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    if pat.is_integer(array.type) and array.type.bit_width < 32:
        return None
    if pat.is_unsigned_integer(array.type):
        return array.cast(pa.uint64())
    if pat.is_integer(array.type):
        return array.cast(pa.int64())
    if pat.is_string(array.type) or pat.is_large_string(array.type):
        return array.cast(pa.large_string())
    if pat.is_binary(array.type) or pat.is_large_binary(array.type):
        return array.cast(pa.large_binary())
    return None


def _joined(columns: Sequence[pa.Array]) -> pa.Array:
    """Return keys of several columns: the bytes of each, terminated by a zero."""
    rows = zip(*(map(_as_bytes, column) for column in columns), strict=True)
    joined = [
        None if None in row else b"".join(part + b"\0" for part in row if part is not None) for row in rows
    ]
    return pa.array(joined, pa.large_binary())


def _as_bytes(value: pa.Scalar) -> bytes | None:
    if not value.is_valid:
        return None
    found = value.as_py()
    if isinstance(found, int):
        return found.to_bytes(8, "little", signed=found < 0)
    return found.encode() if isinstance(found, str) else bytes(found)
