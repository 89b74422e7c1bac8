"""Merged types: one type for a column whose type was inferred from several parts of text."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from lance_ops.errors import SchemaMismatchError


def merge_types(first: pa.DataType, second: pa.DataType) -> pa.DataType | None:
    """Return the type that holds the values of both without a loss; None without one.

    Text of dates and times that differ in kind is a string. Whole numbers beside fractions are doubles:
    readers check that each is one exactly.
    """
    if first == second or pt.is_null(second):
        return first
    if pt.is_null(first):
        return second
    if pt.is_struct(first) and pt.is_struct(second):
        merged = merge_schemas([pa.schema(list(first)), pa.schema(list(second))])
        return None if merged is None else pa.struct(list(merged))
    if pt.is_list(first) and pt.is_list(second):
        items = merge_types(first.value_type, second.value_type)
        return None if items is None else pa.list_(items)
    if _is_number(first) and _is_number(second):
        is_whole = pt.is_integer(first) and pt.is_integer(second)
        return pa.uint64() if is_whole else pa.float64()
    if _is_timestamp(first) and _is_timestamp(second) and (first.tz is None) == (second.tz is None):
        units = ("s", "ms", "us", "ns")
        unit = max(first.unit, second.unit, key=units.index)
        return pa.timestamp(unit, first.tz)
    if _is_naive_day(first) and _is_naive_day(second):
        return second if pt.is_date(first) else first
    if _is_text(first) and _is_text(second):
        return pa.string()
    return None


def merge_schemas(schemas: Sequence[pa.Schema]) -> pa.Schema | None:
    """Return the columns of all schemas, in the order of their first appearance; None for a contradiction."""
    types: dict[str, pa.DataType] = {}
    for schema in schemas:
        for item in schema:
            known = types.get(item.name)
            merged = item.type if known is None else merge_types(known, item.type)
            if merged is None:
                return None
            types[item.name] = merged
    return pa.schema(list(types.items()))


def merge_parts(parts: Sequence[tuple[str, pa.Schema]]) -> dict[str, pa.DataType]:
    """Return the type of each column of several files.

    Raises:
        SchemaMismatchError: Two files contradict each other; names both for each column.
    """
    types: dict[str, pa.DataType] = {}
    seen: dict[str, str] = {}
    problems: list[str] = []
    for path, schema in parts:
        for item in schema:
            known = types.get(item.name)
            merged = item.type if known is None else merge_types(known, item.type)
            if merged is None:
                problems.append(f"{item.name}: {known} in {seen[item.name]}, {item.type} in {path}")
                continue
            types[item.name] = merged
            if known is None or known != merged:
                seen[item.name] = path
    if problems:
        name = problems[0].partition(":")[0]
        raise SchemaMismatchError(
            "the input files contradict each other",
            problems,
            hint=f"state the type: column_types={{{name!r}: 'string'}} (--column-type {name}=string)",
        )
    return types


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind))


def _is_timestamp(kind: pa.DataType) -> bool:
    return bool(pt.is_timestamp(kind))


def _is_naive_day(kind: pa.DataType) -> bool:
    return bool(pt.is_date32(kind) or (pt.is_timestamp(kind) and kind.tz is None))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_date(kind) or pt.is_time(kind) or pt.is_timestamp(kind))
