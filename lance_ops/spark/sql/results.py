"""Result tables with the columns and Arrow types of the connector for the JVM."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lance_ops.spark.sql import statements

_TYPES = {
    "": pa.int64(),
    "int": pa.int32(),
    "flag": pa.bool_(),
    "string": pa.string(),
    "strings": pa.list_(pa.string()),
    "time": pa.timestamp("us", "UTC"),
}


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
HISTORY = _schema("version timestamp:time operation:string description:string damage:string")
DETAIL = _schema(
    "format:string location:string version num_rows num_fragments num_files size_in_bytes"
    " data_storage_version:string stable_row_ids:flag last_modified:time"
)
RESTORE = _schema("version num_rows")
CLONE = _schema("location:string version num_rows")
NAME = _schema("name:string")
PRIMARY_KEY = _schema("status:string primary_key_columns:string")
NOTHING = _schema("")
AFFECTED = _schema("num_affected_rows")
MERGED = _schema("num_affected_rows num_updated_rows num_deleted_rows num_inserted_rows")


_SHOWN = {"indexes": SHOW_INDEXES, "tags": SHOW_TAGS, "branches": SHOW_BRANCHES}

_BY_STATEMENT: Mapping[type[statements.Statement], pa.Schema] = {
    statements.Optimize: OPTIMIZE,
    statements.Vacuum: VACUUM,
    statements.CreateIndex: CREATE_INDEX,
    statements.DropIndex: DROP_INDEX,
    statements.CreateRef: NAME,
    statements.DropRef: NAME,
    statements.SetPrimaryKey: PRIMARY_KEY,
    statements.Delete: AFFECTED,
    statements.Update: AFFECTED,
    statements.Merge: MERGED,
    statements.Restore: RESTORE,
    statements.Clone: CLONE,
}


def schema_of(statement: statements.Statement) -> pa.Schema:
    """Return the columns of the result of a statement, without running it."""
    match statement:
        case statements.Show(what=what):
            return _SHOWN[what]
        case statements.Describe(what=what):
            return HISTORY if what == "history" else DETAIL
        case statements.MaintainIndex(verb=verb):
            return REFRESH_INDEX if verb == "refresh" else OPTIMIZE_INDEX
    return _BY_STATEMENT.get(type(statement), NOTHING)


def one_row(schema: pa.Schema, *values: Any) -> pa.Table:
    """Return a result with one row."""
    return rows(schema, [dict(zip(schema.names, values, strict=True))])


def rows(schema: pa.Schema, values: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return a result with any rows."""
    return pa.Table.from_pylist(list(values), schema=schema)
