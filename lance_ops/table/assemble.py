"""Assembly of columns: parts of a struct from several files, missing members, members out of order."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_ops.cache import IdentityCache
from lance_ops.errors import CorruptFileError
from lance_ops.file.schema.conform import conform_array, storage_type

_types = pa.types


def null_column(kind: pa.DataType, length: int) -> pa.Array:
    """Return an array of nulls, also for extension types."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, null_column(kind.storage_type, length))
    return pa.nulls(length, kind)


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows, also for tensors and for extension types within structs and lists."""
    # Arrow's own `Schema.empty_table` builds arrays from Python values, which these types do not support.
    return pa.Table.from_arrays([null_column(field.type, 0) for field in schema], schema=schema)


def assemble(kind: pa.DataType, parts: Sequence[pa.Array], length: int) -> pa.Array:
    """Assemble one column from its parts.

    Members of structs are matched by name at any depth, and those that no part has are null.

    Args:
        kind: Type of the column.
        parts: Arrays of `length` rows; each holds some members of the type. Only structs can have several.
        length: Number of rows.

    Raises:
        CorruptFileError: Two parts hold the same values, or lists are spread over several parts.
    """
    if not parts:
        return null_column(kind, length)
    first = parts[0]
    if len(parts) == 1 and first.type.equals(kind):
        return first
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, assemble(kind.storage_type, _storage(parts), length))
    if _types.is_struct(kind):
        return _assemble_struct(kind, _storage(parts), length)
    if len(parts) > 1:
        raise CorruptFileError(f"two data files of a fragment hold the same column of type {kind}")
    first = _storage(parts)[0]
    if _types.is_list(kind) or _types.is_large_list(kind):
        values = assemble(kind.value_type, [first.values], len(first.values))
        maker = pa.LargeListArray if _types.is_large_list(kind) else pa.ListArray
        return maker.from_arrays(_shifted_offsets(first), values, type=kind, mask=_null_mask(first))
    if _types.is_fixed_size_list(kind):
        values = first.values.slice(first.offset * kind.list_size, length * kind.list_size)
        items = assemble(kind.value_type, [values], len(values))
        return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=_null_mask(first))
    if _types.is_map(kind):
        keys = assemble(kind.key_type, [first.keys], len(first.keys))
        items = assemble(kind.item_type, [first.items], len(first.items))
        return pa.MapArray.from_arrays(
            _shifted_offsets(first), keys, items, type=kind, mask=_null_mask(first)
        )
    return first.cast(kind)


def is_flat(schema: pa.Schema) -> bool:
    """Return whether no column is nested; columns of extension types count as nested."""
    return _flatness(schema)[0]


def _look_at(schema: pa.Schema) -> tuple[bool, tuple[int, ...]]:
    nested = any(_types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType) for kind in schema.types)
    return not nested, tuple([number for number, field in enumerate(schema) if not field.nullable])


# Whether a schema is flat, and the numbers of its required columns.
_flatness: IdentityCache[[pa.Schema], tuple[bool, tuple[int, ...]]] = IdentityCache(
    "flat schemas", _look_at, 64
)


def as_it_is(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch | None:
    """Return the batch with the metadata of a flat schema if it matches the schema as it is, else None.

    Wide tables have thousands of columns, most of which need no conversion.

    Args:
        batch: Any rows.
        target: The schema; at least one column. A batch with nulls in a required column does not match.
    """
    if not len(target) or not batch.schema.equals(target) or not is_flat(target):
        return None
    if any(batch.column(number).null_count for number in _flatness(target)[1]):
        return None
    if batch.schema.equals(target, check_metadata=True):
        return batch
    return pa.RecordBatch.from_arrays(batch.columns, schema=target)


def forbidden_nulls(field: pa.Field, array: pa.Array, path: str = "") -> Iterator[tuple[str, int]]:
    """Return paths of required fields that contain nulls, with the number of nulls.

    Members of null structs do not count.

    Args:
        field: Field that the column must match.
        array: Of the type of the field.
        path: Path of the enclosing field.
    """
    here = f"{path}.{field.name}" if path else field.name
    if not field.nullable and array.null_count:
        yield here, array.null_count
    kind = storage_type(field.type)
    # The check copies the nested values.
    if not _requires_something(kind):
        return
    array = conform_array(array, kind)
    if _types.is_struct(kind):
        live = array if not array.null_count else array.filter(array.is_valid())
        for index in range(kind.num_fields):
            yield from forbidden_nulls(kind.field(index), live.field(index), here)
    elif _types.is_list(kind) or _types.is_large_list(kind) or _types.is_fixed_size_list(kind):
        yield from forbidden_nulls(kind.value_field, array.flatten(), here)


def _requires_something(kind: pa.DataType) -> bool:
    """Return whether structs or lists have a required field below them, at any depth."""
    if not (_types.is_struct(kind) or _types.is_list(kind) or _types.is_large_list(kind)):
        return _types.is_fixed_size_list(kind) and _is_required(kind.value_field)
    return any(_is_required(kind.field(index)) for index in range(kind.num_fields))


def _is_required(field: pa.Field) -> bool:
    return not field.nullable or _requires_something(field.type)


def list_items(array: pa.Array) -> pa.Array:
    """Return the items of non-null lists, concatenated, also for extension types."""
    kind = storage_type(array.type)
    if array.type.equals(kind):
        return array.flatten()
    items = array.cast(kind).flatten()
    return assemble(array.type.value_type, [items], len(items))


def _assemble_struct(kind: pa.StructType, parts: Sequence[pa.Array], length: int) -> pa.Array:
    members = []
    for field in kind:
        found = [part.field(field.name) for part in parts if part.type.get_field_index(field.name) >= 0]
        members.append(assemble(field.type, found, length))
    if not members:
        return pa.StructArray.from_buffers(kind, length, [None], null_count=0)
    # Every part carries the nulls of the struct itself (or none does, in storage version 2.0).
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=_null_mask(parts[0]))


def _storage(parts: Sequence[pa.Array]) -> list[pa.Array]:
    return [part.storage if isinstance(part, pa.ExtensionArray) else part for part in parts]


def _null_mask(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None


def _shifted_offsets(array: pa.Array) -> pa.Array:
    offsets = array.offsets
    # from_arrays takes no mask together with offsets that do not start their buffer.
    if array.null_count and offsets.offset:
        return pa.array(np.array(offsets), offsets.type)
    return offsets
