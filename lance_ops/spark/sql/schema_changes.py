"""Schema changes in SQL: types of added columns, and the declaration of a primary key."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.file.schema.field import PRIMARY_KEY_KEY, PRIMARY_KEY_POSITION_KEY
from lance_ops.filter.types.sql_names import arrow_type
from lance_ops.maintenance.metadata.actions import update_config
from lance_ops.table.dataset import Dataset
from lance_ops.table.join_keys import primary_key

_FILTER_NAMES = {"BYTE": "TINYINT", "SHORT": "SMALLINT", "INTEGER": "INT", "LONG": "BIGINT", "REAL": "FLOAT"}
_TIMESTAMPS = {"TIMESTAMP": pa.timestamp("us", "UTC"), "TIMESTAMP_NTZ": pa.timestamp("us")}


def column_type(name: str, arguments: Sequence[int]) -> pa.DataType:
    """Return the Arrow type for a simple type of Spark's SQL.

    Args:
        name: Such as "INT" or "DECIMAL".
        arguments: Its arguments in parentheses.

    Raises:
        UnsupportedError: The type is not supported.
    """
    upper = name.upper()
    if upper in ("DECIMAL", "DEC", "NUMERIC") and len(arguments) <= 2:
        precision, scale = (*arguments, *(10, 0)[len(arguments) :])
        return pa.decimal128(precision, scale)
    found = _TIMESTAMPS.get(upper) or arrow_type(_FILTER_NAMES.get(upper, upper), ())
    if found is None or arguments or not upper.isidentifier():
        raise UnsupportedError(
            f"SQL cannot add columns of type {name}",
            field="statement",
            hint="use lance_ops.add_columns with an Arrow schema",
        )
    return found


def declare_primary_key(
    uri: str, columns: Sequence[str], storage: Mapping[str, str], options: Mapping[str, Any]
) -> None:
    """Declare the columns of the primary key, once; keys are not checked to be unique.

    Raises:
        InvalidArgumentError: There is a key already, or a column cannot be part of one.
    """
    dataset = Dataset.open(uri, storage_options=storage)
    declared = primary_key(dataset.lance_schema)
    if declared:
        raise InvalidArgumentError(
            f"the table already has a primary key: {', '.join(field.name for field in declared)}",
            path=uri,
            field="statement",
            hint="a primary key cannot be changed",
        )
    if len(set(columns)) != len(columns):
        raise InvalidArgumentError("duplicate column in the key", path=uri, field="statement")
    for name in columns:
        field = dataset.lance_schema.field(name)
        if field.children or field.nullable:
            why = "is nested" if field.children else "is nullable"
            raise InvalidArgumentError(
                f"column {name!r} {why}, and cannot be part of a primary key", path=uri, field="statement"
            )
    update_config(
        dataset,
        field_metadata={
            name: {PRIMARY_KEY_KEY: "true", PRIMARY_KEY_POSITION_KEY: str(position)}
            for position, name in enumerate(columns, start=1)
        },
        **options,
    )
