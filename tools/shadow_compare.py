"""Whether two answers to one read are the same: schemas with metadata, then every value of every row."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

_BITS = {16: np.uint16, 32: np.uint32, 64: np.uint64}


def difference(ours: pa.Table, theirs: pa.Table, *, ordered: bool = True) -> str | None:
    """The first difference in words; None when there is none.

    Args:
        ours: The answer of lance_ops.
        theirs: The answer of the peer.
        ordered: Whether the order of rows counts.
    """
    if (found := schema_difference(ours.schema, theirs.schema)) is not None:
        return found
    if ours.num_rows != theirs.num_rows:
        return f"rows: ours {ours.num_rows:,} | theirs {theirs.num_rows:,}"
    if not ordered:
        return None if _multiset(ours) == _multiset(theirs) else "rows differ (in any order)"
    for name, mine, yours in zip(ours.column_names, ours.columns, theirs.columns, strict=True):
        if (row := _first_difference(mine, yours)) is not None:
            shown = [repr(column[row].as_py())[:200] for column in (mine, yours)]
            return f"row {row:,} of column {name!r}: ours {shown[0]} | theirs {shown[1]}"
    return None


def schema_difference(ours: pa.Schema, theirs: pa.Schema) -> str | None:
    """The first difference between two schemas, metadata included, in words."""
    if ours.names != theirs.names:
        return f"columns: ours {str(ours.names)[:400]} | theirs {str(theirs.names)[:400]}"
    for mine, yours in zip(ours, theirs, strict=True):
        if mine != yours:
            return f"schema: ours {mine} | theirs {yours}"
    if not ours.equals(theirs, check_metadata=True):
        return f"metadata: ours {_metadata(ours)} | theirs {_metadata(theirs)}"
    return None


def _first_difference(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> int | None:
    # Arrow takes zeros of both signs for equal.
    if not pat.is_floating(ours.type) and ours.equals(theirs):
        return None
    mine, yours = _plain(ours), _plain(theirs)
    if pat.is_floating(mine.type):
        # Here NaN equals itself, and zeros of both signs are two values.
        mine, yours = _float_bits(mine), _float_bits(yours)
    if mine.equals(yours):
        return None
    for row, (a, b) in enumerate(zip(mine.to_pylist(), yours.to_pylist(), strict=True)):
        if repr(a) != repr(b):
            return row
    return None


def _plain(column: pa.ChunkedArray) -> pa.Array:
    column = column.cast(_storage(column.type))
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _float_bits(array: pa.Array) -> pa.Array:
    kind = array.type
    values = array.to_numpy(zero_copy_only=False).astype(kind.to_pandas_dtype())
    bits = (
        np.where(np.isnan(values), np.nan, values).astype(kind.to_pandas_dtype()).view(_BITS[kind.bit_width])
    )
    return pa.array(bits, mask=np.asarray(array.is_null()))


def _storage(kind: pa.DataType) -> pa.DataType:
    """The type without extension types and dictionaries at any depth."""
    if isinstance(kind, pa.BaseExtensionType):
        return _storage(kind.storage_type)
    if pat.is_dictionary(kind):
        return _storage(kind.value_type)
    if pat.is_struct(kind):
        return pa.struct([field.with_type(_storage(field.type)) for field in kind])
    if pat.is_list(kind) or pat.is_large_list(kind):
        item = kind.value_field.with_type(_storage(kind.value_type))
        return pa.large_list(item) if pat.is_large_list(kind) else pa.list_(item)
    if pat.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_storage(kind.value_type)), kind.list_size)
    if pat.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_storage(key.type)), item.with_type(_storage(item.type)))
    return kind


def _multiset(table: pa.Table) -> list[str]:
    columns = [_plain(column).to_pylist() for column in table.columns]
    return sorted(repr(row) for row in zip(*columns, strict=True))


def _metadata(schema: pa.Schema) -> str:
    fields: Iterable[pa.Field] = schema
    nested = {field.name: str(field.metadata) for field in fields if field.metadata}
    return f"{schema.metadata} {nested or list(schema)}"[:400]
