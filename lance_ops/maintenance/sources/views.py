"""Views of Arrow: string, binary and list views, as Polars and DuckDB export them, in types of datasets.

JSON documents in large strings or views are handled alike: the format has one type of JSON.

Arrow has few kernels for views (it neither takes nor joins rows of them, and its cast of list views makes
arrays that are too short), so they end where data come in.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt


def has_views(kind: pa.DataType) -> bool:
    """Return whether a type is or contains a view; extension types except JSON are unchanged."""
    if isinstance(kind, pa.JsonType):
        return bool(kind.storage_type != pa.string())
    if pt.is_string_view(kind) or pt.is_binary_view(kind):
        return True
    if pt.is_dictionary(kind):
        return has_views(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType) or not (kind.num_fields and pt.is_nested(kind)):
        return False
    if _is_list_view(kind):
        return True
    return not pt.is_union(kind) and any(has_views(kind.field(at).type) for at in range(kind.num_fields))


def type_without_views(kind: pa.DataType) -> pa.DataType:
    """Return the type with the same values and without views."""
    if not has_views(kind):
        return kind
    if isinstance(kind, pa.JsonType):
        return pa.json_()
    if pt.is_string_view(kind):
        return pa.string()
    if pt.is_binary_view(kind):
        return pa.binary()
    if pt.is_dictionary(kind):
        return pa.dictionary(kind.index_type, type_without_views(kind.value_type), kind.ordered)
    if pt.is_map(kind):
        return pa.map_(_field(kind.key_field), _field(kind.item_field), kind.keys_sorted)
    if pt.is_struct(kind):
        return pa.struct([_field(kind.field(at)) for at in range(kind.num_fields)])
    items = _field(kind.value_field)
    if pt.is_fixed_size_list(kind):
        return pa.list_(items, kind.list_size)
    return pa.large_list(items) if pt.is_large_list(kind) or pt.is_large_list_view(kind) else pa.list_(items)


def schema_without_views(schema: pa.Schema) -> pa.Schema:
    """Return the schema without views."""
    return pa.schema([_field(field) for field in schema], schema.metadata)


def without_views(values: pa.Array) -> pa.Array:
    """Convert views at any depth; arrays without any are not copied.

    Raises:
        pyarrow.ArrowInvalid: More text or bytes than an array of 32-bit offsets holds.
    """
    if not has_views(values.type):
        return values
    kind = type_without_views(values.type)
    if isinstance(kind, pa.JsonType):
        return pa.ExtensionArray.from_storage(kind, values.storage.cast(kind.storage_type))
    if pt.is_string(kind) or pt.is_binary(kind):
        return values.cast(kind)
    if pt.is_dictionary(kind):
        plain = without_views(values.dictionary)
        return pa.DictionaryArray.from_arrays(values.indices, plain, ordered=kind.ordered)
    mask = values.is_null() if values.null_count else None
    if pt.is_struct(kind):
        children = [without_views(values.field(number)) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pt.is_fixed_size_list(kind):
        at = values.offset * kind.list_size
        items = values.values.slice(at, len(values) * kind.list_size)
        return pa.FixedSizeListArray.from_arrays(without_views(items), type=kind, mask=mask)
    if pt.is_map(kind):
        # Without the offset of a slice, beside which Arrow takes no mask.
        offsets = pa.concat_arrays([values.offsets])
        keys, items = without_views(values.keys), without_views(values.items)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    large = pt.is_large_list(kind)
    size = pa.int64() if large else pa.int32()
    ends = pc.cumulative_sum(values.value_lengths().fill_null(0).cast(pa.int64()))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends]).cast(size)
    cls = pa.LargeListArray if large else pa.ListArray
    return cls.from_arrays(offsets, without_views(values.flatten()), type=kind, mask=mask)


def batch_without_views(batch: pa.RecordBatch, plain: pa.Schema) -> pa.RecordBatch:
    """Convert views in a batch.

    Args:
        batch: Some rows.
        plain: Its schema without them.

    Raises:
        pyarrow.ArrowInvalid: See `without_views`.
    """
    return pa.RecordBatch.from_arrays([without_views(column) for column in batch.columns], schema=plain)


def plain_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert views in batches; these usually have one schema, which is checked once."""
    seen: pa.Schema | None = None
    plain: pa.Schema | None = None
    for batch in batches:
        if seen is None or batch.schema != seen:
            seen = batch.schema
            plain = schema_without_views(seen) if any(map(has_views, seen.types)) else None
        yield batch if plain is None else batch_without_views(batch, plain)


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(type_without_views(field.type))


def _is_list_view(kind: pa.DataType) -> bool:
    return bool(pt.is_list_view(kind) or pt.is_large_list_view(kind))
