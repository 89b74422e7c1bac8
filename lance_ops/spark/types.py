"""Type mapping between columns of a dataset, Arrow, and Spark.

Spark has neither unsigned integers nor half floats, one unit of time and one layout for lists and strings, so
most Arrow types share a Spark type with others. A column is read in the narrowest Spark type for all of its
values; only units finer than a microsecond are truncated. Times of day and decimals of more than 38 digits
are read as strings: Spark's TIME is off by default. In the other direction a Spark column may be appended to
every column that Spark would read in that type, see `adapt_schema`.
"""

import json
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.types as pat

from lance_ops import _extra_spark as _extra_spark

# isort: split
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructField, StructType

from lance_ops.errors import UnsupportedTypeError

FIXED_SIZE_KEY = "arrow.fixed-size-list.size"
"""Metadata key of a Spark column: its arrays all have this length, and are stored as vectors."""

MAX_DECIMAL_DIGITS = 38

_SPARK_LEAVES: dict[pa.DataType, DataType] = {
    pa.null(): spark_types.NullType(),
    pa.bool_(): spark_types.BooleanType(),
    pa.int8(): spark_types.ByteType(),
    pa.uint8(): spark_types.ShortType(),
    pa.int16(): spark_types.ShortType(),
    pa.uint16(): spark_types.IntegerType(),
    pa.int32(): spark_types.IntegerType(),
    pa.uint32(): spark_types.LongType(),
    pa.int64(): spark_types.LongType(),
    pa.uint64(): spark_types.DecimalType(20, 0),
    pa.float16(): spark_types.FloatType(),
    pa.float32(): spark_types.FloatType(),
    pa.float64(): spark_types.DoubleType(),
    pa.string(): spark_types.StringType(),
    pa.large_string(): spark_types.StringType(),
    pa.string_view(): spark_types.StringType(),
    pa.binary(): spark_types.BinaryType(),
    pa.large_binary(): spark_types.BinaryType(),
    pa.binary_view(): spark_types.BinaryType(),
    pa.date32(): spark_types.DateType(),
    pa.date64(): spark_types.DateType(),
}

# By name, since not every supported version of pyspark has every class.
_ARROW_LEAVES: dict[str, pa.DataType] = {
    "void": pa.null(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_ARROW_KINDS: tuple[tuple[tuple[str, ...], pa.DataType], ...] = (
    (("char(", "varchar(", "string collate "), pa.string()),
    (("interval day", "interval hour", "interval minute", "interval second"), pa.duration("us")),
    (("time(",), pa.time64("ns")),
)


class _Problems:
    """Collects all types without a counterpart for one error."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, path: str, kind: object, reason: str) -> None:
        """Add a column."""
        self._lines.append(f"{path} ({kind}): {reason}")

    def check(self, message: str, hint: str) -> None:
        """Raise if there are any."""
        if self._lines:
            raise UnsupportedTypeError("\n  - ".join([message, *self._lines]), hint=hint)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the Spark schema for columns of a dataset.

    Args:
        schema: Schema of the dataset, or some of its columns.

    Raises:
        UnsupportedTypeError: Spark has no type for some columns; lists every one.
    """
    problems = _Problems()
    fields = [_spark_field("", field, problems) for field in schema]
    problems.check(
        "Spark has no type for some columns",
        "list the columns to read in the option 'columns', without these; for a table of the catalog with "
        "CREATE TABLE ... USING lance OPTIONS (path '...', columns 'a, b')",
    )
    return StructType(fields)


def arrow_schema(schema: StructType, *, stored: bool = False) -> pa.Schema:
    """Return the Arrow schema in which Spark exchanges rows of a Spark schema.

    Args:
        schema: Schema of a DataFrame.
        stored: Return the schema for a new dataset instead: arrays whose metadata have their length
            (`FIXED_SIZE_KEY`) become fixed-size lists.

    Raises:
        UnsupportedTypeError: Some columns cannot be exchanged; lists every one.
    """
    problems = _Problems()
    fields = [_arrow_field("", field, problems, stored=stored) for field in schema.fields]
    problems.check("some columns of the DataFrame cannot be written", "drop or cast them")
    return pa.schema(fields)


def adapt_schema(data: pa.Schema, target: pa.Schema) -> pa.Schema:
    """Return the types to which data from Spark are converted before the comparison with a dataset.

    A column with the type in which Spark reads the dataset's column gets the dataset's type; its values are
    checked during the conversion. Others are unchanged.

    Args:
        data: Schema from Spark.
        target: Schema of the dataset.
    """
    known = {field.name: field for field in target}
    return pa.schema([_adapted_field(field, known.get(field.name)) for field in data])


def declared_schema(text: str) -> StructType:
    """Parse a schema stored by Spark's catalog as JSON."""
    return StructType.fromJson(json.loads(text))


def with_sizes(schema: StructType, properties: Mapping[str, str]) -> StructType:
    """Return a schema with the array lengths of table properties.

    Args:
        schema: Schema of a table.
        properties: Properties by names in lower case; `<column>.arrow.fixed-size-list.size` is a length.
    """
    fields = []
    for field in schema.fields:
        size = properties.get(f"{field.name}.{FIXED_SIZE_KEY}".lower())
        metadata = field.metadata if size is None else {**(field.metadata or {}), FIXED_SIZE_KEY: int(size)}
        fields.append(StructField(field.name, field.dataType, field.nullable, metadata))
    return StructType(fields)


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type of one Spark type; see `arrow_schema`."""
    return arrow_schema(StructType([StructField("value", kind)])).field(0).type


# Arrow to Spark


def _spark_field(prefix: str, field: pa.Field, problems: _Problems) -> StructField:
    path = f"{prefix}{field.name}"
    kind = _spark_type(path, field.type, problems)
    metadata: dict[str, object] | None = None
    if pat.is_fixed_size_list(field.type):
        metadata = {FIXED_SIZE_KEY: field.type.list_size}
    elif is_shown_as_text(field.type):
        metadata = {"comment": f"{field.type} in the dataset, read as a string"}
    return StructField(field.name, kind, field.nullable, metadata)


def _spark_type(path: str, kind: pa.DataType, problems: _Problems) -> DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _spark_type(path, kind.storage_type, problems)
    if pat.is_dictionary(kind) or pat.is_run_end_encoded(kind):
        return _spark_type(path, kind.value_type, problems)
    if kind in _SPARK_LEAVES:
        return _SPARK_LEAVES[kind]
    if is_list(kind):
        item = kind.value_field
        return spark_types.ArrayType(_spark_type(f"{path}.item", item.type, problems), item.nullable)
    if pat.is_struct(kind):
        return StructType([_spark_field(f"{path}.", field, problems) for field in kind])
    if pat.is_map(kind):
        return spark_types.MapType(
            _spark_type(f"{path}.key", kind.key_type, problems),
            _spark_type(f"{path}.value", kind.item_type, problems),
            kind.item_field.nullable,
        )
    return _spark_scalar(path, kind, problems)


def _spark_scalar(path: str, kind: pa.DataType, problems: _Problems) -> DataType:
    if pat.is_fixed_size_binary(kind) and not pat.is_decimal(kind):
        return spark_types.BinaryType()
    if pat.is_timestamp(kind):
        return spark_types.TimestampNTZType() if kind.tz is None else spark_types.TimestampType()
    if pat.is_duration(kind):
        return spark_types.DayTimeIntervalType()
    if pat.is_decimal(kind):
        # Spark supports no negative scale, and none beyond the precision.
        scale = max(kind.scale, 0)
        digits = max(kind.precision + scale - kind.scale, scale)
        if digits <= MAX_DECIMAL_DIGITS:
            return spark_types.DecimalType(digits, scale)
    if is_shown_as_text(kind):
        return spark_types.StringType()
    problems.add(path, kind, "Spark has no such type")
    return spark_types.NullType()


def is_shown_as_text(kind: pa.DataType) -> bool:
    """Return whether Spark reads values of a type as strings: times, and decimals that are too long."""
    if pat.is_decimal(kind):
        scale = max(kind.scale, 0)
        return bool(max(kind.precision + scale - kind.scale, scale) > MAX_DECIMAL_DIGITS)
    return bool(pat.is_time(kind))


# Spark to Arrow


def _arrow_field(prefix: str, field: StructField, problems: _Problems, *, stored: bool) -> pa.Field:
    path = f"{prefix}{field.name}"
    kind = _arrow_type(path, field.dataType, problems, stored=stored)
    size = (field.metadata or {}).get(FIXED_SIZE_KEY)
    if stored and size is not None and pat.is_list(kind):
        kind = pa.list_(pa.field("item", kind.value_type, kind.value_field.nullable), int(size))
    return _member(field.name, kind, field.nullable)


def _member(name: str, kind: pa.DataType, nullable: bool) -> pa.Field:
    """Convert a field; one without a type holds only nulls, whatever Spark says of `array()`."""
    return pa.field(name, kind, nullable or pat.is_null(kind))


def _arrow_type(path: str, kind: DataType, problems: _Problems, *, stored: bool) -> pa.DataType:
    def inner(name: str, item: DataType) -> pa.DataType:
        return _arrow_type(f"{path}.{name}", item, problems, stored=stored)

    if isinstance(kind, spark_types.ArrayType):
        return pa.list_(_member("element", inner("item", kind.elementType), kind.containsNull))
    if isinstance(kind, StructType):
        return pa.struct([_arrow_field(f"{path}.", field, problems, stored=stored) for field in kind.fields])
    if isinstance(kind, spark_types.MapType):
        key = inner("key", kind.keyType)
        if pat.is_null(key):
            problems.add(path, kind.simpleString(), "its keys have no type, and keys cannot be null")
            return pa.null()
        value = _member("value", inner("value", kind.valueType), kind.valueContainsNull)
        return pa.map_(pa.field("key", key, nullable=False), value)
    if isinstance(kind, spark_types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    name = kind.simpleString()
    if name in _ARROW_LEAVES:
        return _ARROW_LEAVES[name]
    for prefixes, found in _ARROW_KINDS:
        if name.startswith(prefixes):
            if stored and pat.is_time(found):
                problems.add(path, name, "Spark would read it back as a string; cast it to STRING")
            return found
    problems.add(path, name, "no Arrow type that a data file can store")
    return pa.null()


# Stored type for a Spark column


def _adapted_field(data: pa.Field, target: pa.Field | None) -> pa.Field:
    return data if target is None else data.with_type(_adapted_type(data.type, target.type))


def _adapted_type(data: pa.DataType, target: pa.DataType) -> pa.DataType:
    if isinstance(target, pa.BaseExtensionType):
        adapted = _adapted_type(data, target.storage_type)
        return target if adapted.equals(target.storage_type) else adapted
    if pat.is_dictionary(target):
        return _adapted_type(data, target.value_type)
    if pat.is_list(data) and is_list(target):
        item = _adapted_field(data.value_field, target.value_field)
        if not pat.is_fixed_size_list(target):
            return pa.list_(item)
        fits = item.type.equals(target.value_type)
        return pa.list_(target.value_field, target.list_size) if fits else pa.list_(item)
    if pat.is_struct(data) and pat.is_struct(target):
        known = {field.name: field for field in target}
        return pa.struct([_adapted_field(field, known.get(field.name)) for field in data])
    if pat.is_map(data) and pat.is_map(target):
        key = _adapted_field(data.key_field, target.key_field)
        return pa.map_(key, _adapted_field(data.item_field, target.item_field))
    return target if not pat.is_nested(target) and data in _exchange_types(target) else data


def _exchange_types(kind: pa.DataType) -> tuple[pa.DataType | None, ...]:
    """Return how Spark passes values of a flat column."""
    # Spark's own type for times, if enabled, is written as well.
    return (_shown_as(kind), pa.time64("ns")) if pat.is_time(kind) else (_shown_as(kind),)


def _shown_as(kind: pa.DataType) -> pa.DataType | None:
    """Return how Spark reads values of a flat type; None if Spark has no such type."""
    problems = _Problems()
    found = _spark_type("", kind, problems)
    try:
        problems.check("", "")
    except UnsupportedTypeError:
        return None
    return arrow_type(found)


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type is a list of any layout."""
    return any(check(kind) for check in _LISTS)


_LISTS: tuple[Callable[[pa.DataType], bool], ...] = (
    pat.is_list,
    pat.is_large_list,
    pat.is_fixed_size_list,
    pat.is_list_view,
    pat.is_large_list_view,
)
