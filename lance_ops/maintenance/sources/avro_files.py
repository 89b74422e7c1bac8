"""Avro files: records of an Avro container as batches; fastavro, which is an extra, decodes them."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, UnsupportedTypeError
from lance_ops.extras import load_extra
from lance_ops.maintenance.sources.byte_streams import open_bytes

_ROWS = 16_384
_DAMAGE = (EOFError, IndexError, KeyError, OverflowError, SystemError, TypeError, ValueError, pa.ArrowInvalid)
_PRIMITIVE = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}


def avro_schema(path: str) -> pa.Schema:
    """Return the schema of an Avro file.

    Raises:
        InvalidArgumentError: It is no Avro file, or has no records.
        UnsupportedTypeError: A field is a union of several types, or of an unknown one.
        MissingExtraError: fastavro is not installed.
    """
    with open_bytes(path) as stream:
        return _arrow_schema(_reader(stream, path).writer_schema, path)


def avro_batches(path: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an Avro file, of at most 16,384 each; raises what `avro_schema` does."""
    with open_bytes(path) as stream:
        reader = _reader(stream, path)
        schema = _arrow_schema(reader.writer_schema, path)
        row = 0
        try:
            while rows := list(islice(reader, _ROWS)):
                yield _batch(rows, schema)
                row += len(rows)
        except _DAMAGE as error:
            raise InvalidArgumentError(
                f"the file ends early or is damaged after row {row:,}: {error or type(error).__name__}",
                path=path,
                hint="write the file again",
            ) from error


def _reader(stream: Any, path: str) -> Any:
    fastavro = load_extra("fastavro")
    try:
        return fastavro.reader(stream)
    except _DAMAGE as error:
        raise InvalidArgumentError(
            "the file is damaged, or is not an Avro file: it has no readable header",
            path=path,
            hint="write the file again; or state its format, such as format='json' (--format json)",
        ) from error


def _arrow_schema(schema: Any, path: str) -> pa.Schema:
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise InvalidArgumentError(
            "the Avro file has no records", path=path, hint="its schema must be a record"
        )
    return pa.schema(list(_arrow_type(schema, path, "", {})))


def _arrow_type(schema: Any, path: str, name: str, known: dict[str, pa.DataType]) -> pa.DataType:
    """Return the Arrow type of an Avro schema; `known` are the types named by then."""
    if isinstance(schema, list):
        others = [item for item in schema if item != "null"]
        if len(others) > 1:
            raise UnsupportedTypeError(
                f"{name}: a union of several types, {others}", path=path, field=name, hint="write one type"
            )
        return _arrow_type(others[0] if others else "null", path, name, known)
    if isinstance(schema, str):
        found = _PRIMITIVE.get(schema, known.get(schema))
        if found is None:
            raise UnsupportedTypeError(f"{name}: unknown Avro type {schema!r}", path=path, field=name)
        return found
    kind = schema["type"]
    if not isinstance(kind, str):
        return _arrow_type(kind, path, name, known)
    found = _named_type(schema, kind, path, name, known)
    for key in (schema.get("name"), f"{schema.get('namespace', '')}.{schema.get('name')}"):
        if key:
            known[key] = found
    return found


def _named_type(
    schema: Mapping[str, Any], kind: str, path: str, name: str, known: dict[str, pa.DataType]
) -> pa.DataType:
    logical = schema.get("logicalType")
    if logical == "decimal":
        make = pa.decimal128 if schema["precision"] <= 38 else pa.decimal256
        return make(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[str(logical)]
    if kind == "record":
        return pa.struct(
            [
                pa.field(
                    item["name"],
                    _arrow_type(item["type"], path, f"{name}.{item['name']}".lstrip("."), known),
                    nullable=isinstance(item["type"], list) or item["type"] == "null",
                )
                for item in schema["fields"]
            ]
        )
    if kind == "array":
        return pa.list_(_arrow_type(schema["items"], path, name, known))
    if kind == "map":
        return pa.map_(pa.string(), _arrow_type(schema["values"], path, name, known))
    if kind == "enum":
        return pa.string()
    if kind == "fixed":
        return pa.binary(schema["size"])
    return _arrow_type(kind, path, name, known)


def _batch(rows: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Return records as a batch; UUIDs, which fastavro returns as objects, as strings."""
    columns = []
    for item in schema:
        values = [row[item.name] for row in rows]
        if pa.types.is_string(item.type):
            values = [value if value is None else str(value) for value in values]
        columns.append(pa.array(values, item.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
