"""Pandas metadata of a schema: the pandas type of each column, in JSON under the key `pandas`.

`pyarrow.Table.to_pandas` uses it, and fails if the Arrow type of a column has changed since: entries of
replaced columns are removed. Source: pandas, "Storing pandas DataFrame objects in Apache Parquet format".
"""

import json
from collections.abc import Collection
from dataclasses import replace

from lance_ops.file.schema.model import Schema

PANDAS_KEY = "pandas"


def without_replaced_columns(schema: Schema, before: Schema) -> Schema:
    """Remove the pandas types of columns that replaced another one of the same name.

    Args:
        schema: New schema of the table.
        before: Previous schema.
    """
    if schema is before or PANDAS_KEY not in schema.metadata:
        return schema
    old = {field.name: field.id for field in before.fields}
    replaced = {field.name for field in schema.fields if old.get(field.name) != field.id}
    if not replaced:
        return schema
    kept = _without(schema.metadata[PANDAS_KEY], replaced)
    return replace(schema, metadata={**schema.metadata, PANDAS_KEY: kept})


def _without(metadata: bytes, names: Collection[str]) -> bytes:
    try:
        found = json.loads(metadata)
        columns = [
            column for column in found["columns"] if column.get("field_name", column["name"]) not in names
        ]
        index = [level for level in found["index_columns"] if isinstance(level, dict) or level not in names]
    except (ValueError, TypeError, KeyError, AttributeError):
        # Without a valid list, pyarrow finds no types in it.
        return metadata
    return json.dumps({**found, "columns": columns, "index_columns": index}).encode()
