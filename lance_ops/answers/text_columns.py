"""Text columns: what CSV and JSON hold of Arrow types, and which types a reader does not get back."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from lance_ops.answers.json_values import plain_values


@dataclass(frozen=True, slots=True)
class LostType:
    """A column whose type a text file does not keep.

    Attributes:
        column: Name of the column.
        type: Its Arrow type.
        written: What the file has in its place, such as "JSON" or "number".
    """

    column: str
    type: str
    written: str

    def __str__(self) -> str:
        return f"{self.column} ({self.type} as {self.written})"


def types_lost_in_csv(schema: pa.Schema) -> tuple[LostType, ...]:
    """Return the columns whose types a CSV file does not keep.

    Readers infer integers, floating-point numbers, booleans, dates and strings; the width of a number, and
    every other type, is lost.

    Example:
        >>> types_lost_in_csv(pa.schema({"id": pa.int64(), "v": pa.list_(pa.float32())}))
        (LostType(column='v', type='list<item: float>', written='JSON'),)
    """
    return _lost(schema, _is_inferred, _in_csv)


def types_lost_in_json(schema: pa.Schema) -> tuple[LostType, ...]:
    """Return the columns whose types JSON does not keep; lists and structs of what it keeps are kept."""
    return _lost(schema, _is_json, _in_json)


def _lost(
    schema: pa.Schema, keeps: Callable[[pa.DataType], bool], name: Callable[[pa.DataType], str]
) -> tuple[LostType, ...]:
    return tuple(
        LostType(field.name, str(field.type), name(field.type)) for field in schema if not keeps(field.type)
    )


def csv_table(table: pa.Table) -> pa.Table:
    """Return a table with columns that a CSV file can hold.

    Lists, structs and maps become JSON, bytes base64, durations and floats of 16 bits text.
    """
    columns = [
        column if _is_csv(column.type) else _text_column(column, as_json=_is_nested(column.type))
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _text_column(column: pa.ChunkedArray, *, as_json: bool) -> pa.Array:
    texts = [
        None if value is None else _json(value) if as_json else _plain(value)
        for value in plain_values(column)
    ]
    return pa.array(texts, pa.string())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _is_inferred(kind: pa.DataType) -> bool:
    known = (pa.int64(), pa.float64(), pa.string(), pa.large_string(), pa.bool_(), pa.date32())
    return kind in known


def _is_json(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _is_json(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_json(kind.field(number).type) for number in range(kind.num_fields))
    return kind in (pa.int64(), pa.float64(), pa.string(), pa.large_string(), pa.bool_(), pa.null())


def _is_csv(kind: pa.DataType) -> bool:
    """Return whether pyarrow writes values of a type as text that people and readers understand."""
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_date(kind)
        or types.is_null(kind)
    )


def _is_nested(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _is_nested(kind.storage_type)
    return bool(pa.types.is_nested(kind))


def _in_csv(kind: pa.DataType) -> str:
    return "JSON" if _is_nested(kind) else _in_json(kind)


def _in_json(kind: pa.DataType) -> str:
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _in_json(kind.storage_type)
    if types.is_dictionary(kind):
        kind = kind.value_type
        return "string" if types.is_string(kind) or types.is_large_string(kind) else _in_json(kind)
    if types.is_struct(kind):
        return "object"
    if types.is_nested(kind):
        return "list"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "base64"
    if types.is_integer(kind) or types.is_floating(kind):
        return "number"
    return "text"
