"""Result tables with the columns and Arrow types of the connector for the JVM."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

LONG, TEXT, INT = pa.int64(), pa.string(), pa.int32()

OPTIMIZE = pa.schema(
    [("fragments_removed", LONG), ("fragments_added", LONG), ("files_removed", LONG), ("files_added", LONG)]
)
VACUUM = pa.schema([("bytes_removed", LONG), ("old_versions", LONG)])
CREATE_INDEX = pa.schema([("fragments_indexed", LONG), ("index_name", TEXT)])
REFRESH_INDEX = pa.schema([("fragments_indexed", LONG), ("segments_added", LONG), ("index_name", TEXT)])
OPTIMIZE_INDEX = pa.schema(
    [("index_name", TEXT), ("fragments_indexed", LONG), ("segments_before", LONG), ("segments_after", LONG)]
)
DROP_INDEX = pa.schema([("index_name", TEXT), ("status", TEXT)])
SHOW_INDEXES = pa.schema(
    [
        ("name", TEXT),
        ("fields", pa.list_(TEXT)),
        ("index_type", TEXT),
        ("num_indexed_fragments", LONG),
        ("num_indexed_rows", LONG),
        ("num_unindexed_fragments", LONG),
        ("num_unindexed_rows", LONG),
        ("num_segments", LONG),
    ]
)
SHOW_TAGS = pa.schema(
    [
        ("name", TEXT),
        ("branch", TEXT),
        ("version", LONG),
        ("created_at", LONG),
        ("updated_at", LONG),
        ("manifest_size", INT),
    ]
)
SHOW_BRANCHES = pa.schema(
    [
        ("name", TEXT),
        ("parent_branch", TEXT),
        ("parent_version", LONG),
        ("created_at", LONG),
        ("manifest_size", INT),
    ]
)
NAME = pa.schema([("name", TEXT)])
PRIMARY_KEY = pa.schema([("status", TEXT), ("primary_key_columns", TEXT)])
NOTHING = pa.schema([])
AFFECTED = pa.schema([("num_affected_rows", LONG)])
MERGED = pa.schema(
    [
        ("num_affected_rows", LONG),
        ("num_updated_rows", LONG),
        ("num_deleted_rows", LONG),
        ("num_inserted_rows", LONG),
    ]
)


def one_row(schema: pa.Schema, *values: Any) -> pa.Table:
    """Return a result with one row."""
    return rows(schema, [dict(zip(schema.names, values, strict=True))])


def rows(schema: pa.Schema, values: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return a result with any rows."""
    return pa.Table.from_pylist(list(values), schema=schema)
