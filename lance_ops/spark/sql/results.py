"""Result tables with the columns and Arrow types of the connector for the JVM."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

_TYPES = {"": pa.int64(), "int": pa.int32(), "string": pa.string(), "strings": pa.list_(pa.string())}


def _schema(columns: str) -> pa.Schema:
    """The schema of names of columns, each with its type behind a colon where that is not 64 bits."""
    pairs = (column.partition(":")[::2] for column in columns.split())
    return pa.schema([(name, _TYPES[kind]) for name, kind in pairs])


OPTIMIZE = _schema("fragments_removed fragments_added files_removed files_added")
VACUUM = _schema("bytes_removed old_versions")
CREATE_INDEX = _schema("fragments_indexed index_name:string")
REFRESH_INDEX = _schema("fragments_indexed segments_added index_name:string")
OPTIMIZE_INDEX = _schema("index_name:string fragments_indexed segments_before segments_after")
DROP_INDEX = _schema("index_name:string status:string")
SHOW_INDEXES = _schema(
    "name:string fields:strings index_type:string num_indexed_fragments num_indexed_rows"
    " num_unindexed_fragments num_unindexed_rows num_segments"
)
SHOW_TAGS = _schema("name:string branch:string version created_at updated_at manifest_size:int")
SHOW_BRANCHES = _schema("name:string parent_branch:string parent_version created_at manifest_size:int")
NAME = _schema("name:string")
PRIMARY_KEY = _schema("status:string primary_key_columns:string")
NOTHING = _schema("")
AFFECTED = _schema("num_affected_rows")
MERGED = _schema("num_affected_rows num_updated_rows num_deleted_rows num_inserted_rows")


def one_row(schema: pa.Schema, *values: Any) -> pa.Table:
    """Return a result with one row."""
    return rows(schema, [dict(zip(schema.names, values, strict=True))])


def rows(schema: pa.Schema, values: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return a result with any rows."""
    return pa.Table.from_pylist(list(values), schema=schema)
