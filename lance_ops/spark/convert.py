"""Conversion of batches between the types of a dataset and Spark's, without copies where layouts agree."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.errors import SchemaMismatchError
from lance_ops.spark.types import arrow_schema, is_list, spark_schema

_TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MILLISECONDS_PER_DAY = 86_400_000
_TIME = r"^\d\d:\d\d(:\d\d(\.\d+)?)?$"

Leaf = Callable[[pa.Array, pa.DataType], pa.Array]


def to_spark(batch: pa.RecordBatch, target: pa.Schema | None = None) -> pa.RecordBatch:
    """Convert a batch of a dataset to the types of Spark.

    Args:
        batch: Rows as read.
        target: Schema for Spark, from `arrow_schema`; derived from the batch if None.

    Raises:
        UnsupportedTypeError: Spark has no type for some columns; lists every one.
        SchemaMismatchError: A value is out of range for the Spark type.
    """
    if target is None:
        target = arrow_schema(spark_schema(batch.schema))
    return _convert_batch(batch, target, _leaf_to_spark, "values cannot be converted to Spark types")


def from_spark(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Convert a batch from Spark to the types of a dataset.

    Args:
        batch: Rows from Spark.
        target: Schema from `adapt_schema`.

    Raises:
        SchemaMismatchError: A value does not fit: an array of another length, a number out of range.
    """
    return _convert_batch(batch, target, _leaf_from_spark, "values do not fit the dataset")


def _convert_batch(batch: pa.RecordBatch, target: pa.Schema, leaf: Leaf, message: str) -> pa.RecordBatch:
    arrays, problems = [], []
    for field, column in zip(target, batch.columns, strict=True):
        try:
            arrays.append(_convert(column, field.type, leaf))
        except pa.ArrowInvalid as error:
            problems.append(f"{field.name}: {column.type} to {field.type}: {error}")
    if problems:
        raise SchemaMismatchError(message, problems)
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _convert(array: pa.Array, kind: pa.DataType, leaf: Leaf) -> pa.Array:
    if array.type.equals(kind):
        return array
    if isinstance(array, pa.ExtensionArray):
        return _convert(array.storage, kind, leaf)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _convert(array, kind.storage_type, leaf))
    if pat.is_dictionary(array.type):
        return _convert(array.dictionary_decode(), kind, leaf)
    if pat.is_run_end_encoded(array.type):
        return _convert(pc.run_end_decode(array), kind, leaf)
    if is_list(array.type):
        return _convert_list(array, kind, leaf)
    if pat.is_struct(array.type):
        members = [
            _convert(array.field(array.type.get_field_index(field.name)), field.type, leaf) for field in kind
        ]
        if not members:
            return array.cast(kind)
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=_null_mask(array))
    if pat.is_map(array.type):
        offsets, start, stop = _offsets(array)
        keys = _convert(array.keys.slice(start, stop - start), kind.key_type, leaf)
        items = _convert(array.items.slice(start, stop - start), kind.item_type, leaf)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=_null_mask(array))
    return leaf(array, kind)


def _convert_list(array: pa.Array, kind: pa.DataType, leaf: Leaf) -> pa.Array:
    if pat.is_fixed_size_list(array.type):
        size = array.type.list_size
        # The items of null rows exist too, and the null rows keep them.
        start, stop = array.offset * size, (array.offset + len(array)) * size
        offsets = pa.array(np.arange(len(array) + 1, dtype=np.int64) * size)
    else:
        if not (pat.is_list(array.type) or pat.is_large_list(array.type)):
            array = array.cast(pa.large_list(array.type.value_field))
        offsets, start, stop = _offsets(array)
    items = array.values.slice(start, stop - start)
    if pat.is_fixed_size_list(kind):
        flexible = pa.list_(kind.value_field)
        lists = _build_list(offsets, _convert(items, kind.value_type, leaf), flexible, _null_mask(array))
        return lists.cast(kind)
    return _build_list(offsets, _convert(items, kind.value_type, leaf), kind, _null_mask(array))


def _build_list(offsets: pa.Array, items: pa.Array, kind: pa.DataType, mask: pa.Array | None) -> pa.Array:
    return pa.ListArray.from_arrays(offsets.cast(pa.int32()), items, type=kind, mask=mask)


def _offsets(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Return offsets from 0, and the range of the items."""
    offsets = array.offsets
    start, stop = offsets[0].as_py(), offsets[-1].as_py()
    if start or array.offset:
        # Also if they start at 0: Arrow builds no list with nulls from a slice of offsets.
        offsets = pc.subtract(offsets, offsets[0])
    return offsets, start, stop


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


# Values


def _leaf_to_spark(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pat.is_time(array.type) and pat.is_string(kind):
        return _time_text(array)
    divisor = 1
    if pat.is_date64(array.type):
        divisor = _MILLISECONDS_PER_DAY
    elif (pat.is_timestamp(kind) or pat.is_duration(kind)) and array.type.unit == "ns":
        divisor = _TICKS_PER_SECOND["ns"] // _TICKS_PER_SECOND[kind.unit]
    if divisor == 1:
        return array.cast(kind)
    # Rounded down, also before 1970: timestamps then keep their order, which filters rely on.
    ticks = array.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) // divisor
    floored = pa.array(ticks, mask=None if not array.null_count else np.asarray(array.is_null()))
    return floored.cast(pa.int32() if pat.is_date32(kind) else pa.int64()).view(kind)


def _leaf_from_spark(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind == pa.float16():
        return _to_half_floats(array)
    if pat.is_time(kind) and pat.is_string(array.type):
        return _parse_times(array, kind)
    return array.cast(kind)


def _time_text(array: pa.Array) -> pa.Array:
    """Format times as Spark casts them to strings: without trailing zeros, so that strings order alike."""
    text = pc.replace_substring_regex(array.cast(pa.string()), r"(\.\d*?)0+$", r"\1")
    return pc.replace_substring_regex(text, r"\.$", "")


def _parse_times(array: pa.Array, kind: pa.DataType) -> pa.Array:
    sound = pc.fill_null(pc.match_substring_regex(array, _TIME), True)
    if not pc.all(sound, min_count=0).as_py():
        wrong = array.filter(pc.invert(sound))[0].as_py()
        raise pa.ArrowInvalid(f"{wrong!r} is not a time of day, expected HH:MM:SS with or without a fraction")
    # Arrow parses timestamps, but no times.
    moments = pc.binary_join_element_wise("1970-01-01", array, " ").cast(pa.timestamp(kind.unit))
    return moments.cast(kind)


def _to_half_floats(array: pa.Array) -> pa.Array:
    """Round to the nearest half float: Spark has no such type, so there is no other way to write them."""
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        halves = values.astype(np.float16)
    if np.any(np.isinf(halves) & ~np.isinf(values)):
        raise pa.ArrowInvalid("a number is out of range for half floats")
    return pa.array(halves, mask=np.asarray(array.is_null()) if array.null_count else None)
