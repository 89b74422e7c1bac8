"""Conversion of incoming data to the schema of a dataset: mismatches, and lossless casts.

A column is accepted when its name matches and every value of its type has exactly one equal value in the
dataset's type: the same type; strings, binaries and lists of another width; dictionaries for their values and
back; wider integers, floats and decimals; timestamps, times and durations of a finer unit; null columns for
nullable ones. Everything else is a mismatch: narrowing, int to float, strings to numbers, naive to zoned
timestamps. The order of columns does not matter. A column declared nullable may be written to one that is
not, if it contains no null: Spark and pandas declare everything nullable. Rows without any column are
rejected: no file can store their number.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_ops.encoding.values.dictionary import recode_dictionary
from lance_ops.errors import SchemaMismatchError
from lance_ops.file.schema.blob_limits import differing_limits
from lance_ops.file.schema.column_names import RESERVED_NAMES, drop_hint
from lance_ops.table.assemble import as_it_is, forbidden_nulls, is_flat, list_items, null_column

_UNITS = ("s", "ms", "us", "ns")
_OTHER_TYPE = " in the dataset"


def find_mismatches(data: pa.Schema, target: pa.Schema, *, fill_missing: bool = False) -> tuple[str, ...]:
    """Return every mismatch between the schemas of data and dataset; empty if they are compatible.

    Args:
        data: Schema of the data.
        target: Schema of the dataset.
        fill_missing: Nullable top-level columns may be missing; they are filled with nulls.
    """
    if is_flat(target) and data.equals(target) and len(set(target.names)) == len(target):
        # Wide tables have thousands of columns, most of which match.
        return ()
    wanted = [
        field
        for field in target
        if not (fill_missing and field.nullable and data.get_field_index(field.name) < 0)
    ]
    known = {field.name for field in target}
    return tuple(_field_mismatches("", [field for field in data if field.name in known], wanted)) + tuple(
        f"{field.name}: column not found in the dataset ({field.type} in the data)"
        + (f"; {drop_hint(field.name)}" if field.name in RESERVED_NAMES else "")
        for field in data
        if field.name not in known
    )


def check_schema(
    data: pa.Schema, target: pa.Schema, *, what: str, path: str | None = None, fill_missing: bool = False
) -> None:
    """Check that data fit the schema.

    Args:
        data: Schema of the data.
        target: Schema of the dataset.
        what: Names the data in the message, e.g. the input file.
        path: The dataset.
        fill_missing: See `find_mismatches`.

    Raises:
        SchemaMismatchError: lists every mismatch.
    """
    mismatches = find_mismatches(data, target, fill_missing=fill_missing)
    if mismatches:
        hint = cast_hint(mismatches)
        raise SchemaMismatchError(f"{what} does not fit the dataset", mismatches, path=path, hint=hint)


def cast_hint(mismatches: Sequence[str]) -> str | None:
    """Return how to convert data with a column of another type; None without one."""
    if not any(mismatch.endswith(_OTHER_TYPE) for mismatch in mismatches):
        return None
    return "convert the columns first, e.g. in Python table.cast(lance_ops.dataset(uri).schema)"


def conform(batch: pa.RecordBatch, target: pa.Schema, *, fill_missing: bool = False) -> pa.RecordBatch:
    """Convert a batch to the columns, order and types of the target.

    Raises:
        SchemaMismatchError: a column has an incompatible type (lists every one), a non-nullable column has a
            null, or a value is out of range (such as a timestamp in a finer unit).
    """
    check_schema(batch.schema, target, what="a batch of the data", fill_missing=fill_missing)
    if not len(target) and batch.num_rows:
        raise SchemaMismatchError("rows without columns cannot be stored", [f"{batch.num_rows:,} rows"])
    ready = as_it_is(batch, target)
    if ready is not None:
        return ready
    arrays, problems = [], []
    for field in target:
        position = batch.schema.get_field_index(field.name)
        array = batch.column(position) if position >= 0 else null_column(field.type, batch.num_rows)
        try:
            array = _cast(array, field.type)
        except pa.ArrowInvalid as error:
            problems.append(f"{field.name}: a value does not fit {field.type}: {error}")
            continue
        problems += [
            f"{name}: {count} nulls in a non-nullable column" for name, count in forbidden_nulls(field, array)
        ]
        arrays.append(array)
    if problems:
        raise SchemaMismatchError("values do not fit the dataset", problems)
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _field_mismatches(prefix: str, data: list[pa.Field], target: list[pa.Field]) -> Iterator[str]:
    given: dict[str, pa.Field] = {}
    for field in data:
        if field.name in given:
            yield f"{prefix}{field.name}: duplicate column name in the data"
        given[field.name] = field
    known = {field.name: field for field in target}
    for name, field in known.items():
        if name not in given:
            way_out = "; fill_missing writes nulls" if field.nullable and not prefix else ""
            yield f"{prefix}{name}: missing, the dataset has it as {field.type}{way_out}"
        else:
            yield from _type_mismatches(f"{prefix}{name}", given[name], field)
    for name, field in given.items():
        if name not in known:
            yield f"{prefix}{name}: column not found in the dataset ({field.type} in the data)"


def _type_mismatches(path: str, data: pa.Field, target: pa.Field) -> Iterator[str]:
    for difference in differing_limits(data, target):
        yield f"{path}: {difference}; remove it from the data, or write a new dataset"
    if pt.is_null(data.type) and not pt.is_null(target.type):
        if not target.nullable:
            yield f"{path}: only nulls in the data, but the dataset's column is not nullable"
        return
    if pt.is_struct(data.type) and pt.is_struct(target.type):
        yield from _field_mismatches(f"{path}.", list(data.type), list(target.type))
    elif _is_list(data.type) and _is_list(target.type):
        yield from _type_mismatches(f"{path}.item", data.type.value_field, target.type.value_field)
    elif not _is_lossless(data.type, target.type):
        yield f"{path}: {data.type} in the data, {target.type}{_OTHER_TYPE}"


def _is_lossless(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether every value of `source` has exactly one equal value of `target`; both are flat."""
    if source.equals(target):
        return True
    if pt.is_dictionary(source):
        return _is_lossless(source.value_type, target)
    if pt.is_dictionary(target):
        return _is_lossless(source, target.value_type)
    if pt.is_fixed_size_list(source) and pt.is_fixed_size_list(target):
        return bool(source.list_size == target.list_size) and _fits(source.value_field, target.value_field)
    if pt.is_map(source) and pt.is_map(target):
        return _is_lossless(source.key_type, target.key_type) and _fits(source.item_field, target.item_field)
    return any(
        (
            _is_string(source) and _is_string(target),
            (_is_binary(source) or pt.is_fixed_size_binary(source)) and _is_binary(target),
            _is_wider_number(source, target),
            _is_finer_time(source, target),
        )
    )


def _fits(source: pa.Field, target: pa.Field) -> bool:
    return not any(True for _ in _type_mismatches("", source, target))


def _is_string(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind))


def _is_wider_number(source: pa.DataType, target: pa.DataType) -> bool:
    if pt.is_integer(source) and pt.is_integer(target):
        wider = bool(target.bit_width > source.bit_width)
        return wider and (pt.is_unsigned_integer(source) or pt.is_signed_integer(target))
    if pt.is_floating(source) and pt.is_floating(target):
        return bool(target.bit_width > source.bit_width)
    if pt.is_decimal(source) and pt.is_decimal(target):
        whole = target.precision - target.scale >= source.precision - source.scale
        return bool(whole and target.scale >= source.scale)
    return False


def _is_finer_time(source: pa.DataType, target: pa.DataType) -> bool:
    if pt.is_timestamp(source) and pt.is_timestamp(target):
        # Timestamps with a zone are instants: the zone changes their display, not their value.
        comparable = (source.tz is None) == (target.tz is None)
    else:
        comparable = (pt.is_time(source) and pt.is_time(target)) or (
            pt.is_duration(source) and pt.is_duration(target)
        )
    return comparable and _UNITS.index(target.unit) >= _UNITS.index(source.unit)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type.equals(kind):
        return array
    if pt.is_dictionary(array.type):
        if pt.is_dictionary(kind):
            recoded = recode_dictionary(array, _cast(array.dictionary, kind.value_type), kind)
            if recoded is not None:
                return recoded
        return _cast(array.dictionary_decode(), kind)
    if pt.is_dictionary(kind):
        encoded = _cast(array, kind.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            encoded.indices.cast(kind.index_type), encoded.dictionary, ordered=kind.ordered
        )
    if pt.is_struct(kind) and pt.is_struct(array.type):
        # By name: Arrow's own cast uses positions.
        children = [_cast(array.field(array.type.get_field_index(field.name)), field.type) for field in kind]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if _is_list(kind) and _is_list(array.type):
        return _cast_list(array, kind)
    return array.cast(kind)


def _cast_list(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast list items separately, since they may be structs or dictionaries; keeps the list structure."""
    items = _cast(list_items(array), kind.value_type)
    large = pt.is_large_list(kind)
    lengths = array.value_lengths().fill_null(0).cast(pa.int64())
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends]).cast(pa.int64() if large else pa.int32())
    mask = array.is_null() if array.null_count else None
    cls = pa.LargeListArray if large else pa.ListArray
    return cls.from_arrays(offsets, items, type=kind, mask=mask)
