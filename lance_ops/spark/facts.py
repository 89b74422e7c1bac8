"""Facts of a version and parts of a query, exchanged with the classes in Java as metadata of columns.

Spark's interface for sources in Python has no place for them. With them, the planner in Java knows size and
number of rows without another process in Python, and the reader gets conditions and a limit.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql.types import BooleanType, StructField, StructType

from lance_ops.spark.options import ReadOptions
from lance_ops.table.dataset import Dataset
from lance_ops.table.scan.row_columns import ROW_CREATED_AT, ROW_UPDATED_AT

CARRIER = "__lance_ops__"
"""Name of the field at the end of a described schema; its metadata are the facts."""

ROW_COLUMNS = frozenset({"_rowid", "_rowaddr", ROW_CREATED_AT, ROW_UPDATED_AT})
"""Metadata columns of a table; versions with stable row ids only."""

SCAN_KEY = "lance_ops.scan"
"""Metadata key of the first column that a query reads."""

_UNKNOWN = -1

# Between the names of a path; no name has it.
_SEPARATOR = "\0"


@dataclass(frozen=True, slots=True)
class PushedScan:
    """Parts of a query for the reader.

    Attributes:
        conditions: Conditions as JSON values, see `pushed.parse_conditions`; all of them must hold.
        limit: Number of rows that each partition may stop at; None for all.
    """

    conditions: Sequence[Any] = ()
    limit: int | None = None


def with_facts(schema: StructType, dataset: Dataset, options: ReadOptions) -> StructType:
    """Return a schema with the field that has the facts of a version; searches have none.

    Args:
        schema: Columns to read.
        dataset: The version.
        options: Options of the read: with a filter, the number of rows is unknown.
    """
    if options.search:
        return schema
    known = all(
        fragment.deletion_file is None or fragment.num_deleted_rows > 0 for fragment in dataset.fragments
    )
    rows = sum(fragment.num_rows for fragment in dataset.fragments)
    has_rows = known and options.filter is None
    size = sum(fragment.data_bytes for fragment in dataset.fragments)
    shown = set(schema.fieldNames())
    exact = [
        _SEPARATOR.join(path)
        for field in dataset.schema
        if field.name in shown
        for path in _exact_paths((), field)
    ]
    facts = {
        "rows": rows if has_rows else _UNKNOWN,
        # Old manifests do not record sizes.
        "bytes": size if size or not rows else _UNKNOWN,
        "exact": exact,
        "stable": dataset.uses_stable_row_ids,
    }
    return StructType([*schema.fields, StructField(CARRIER, BooleanType(), True, facts)])


def pushed_scan(schema: StructType) -> PushedScan:
    """Return what a query has for the reader, from the columns that it reads."""
    text = (schema.fields[0].metadata or {}).get(SCAN_KEY) if schema.fields else None
    if text is None:
        return PushedScan()
    found = json.loads(text)
    return PushedScan(tuple(found["conditions"]), None if found["limit"] < 0 else int(found["limit"]))


def _exact_paths(parents: tuple[str, ...], field: pa.Field) -> Iterator[tuple[str, ...]]:
    path = (*parents, field.name)
    if pat.is_struct(field.type):
        for child in field.type:
            yield from _exact_paths(path, child)
    elif _is_exact(field.type):
        yield path


def _is_exact(stored: pa.DataType) -> bool:
    """Return whether Spark reads the stored values unchanged, so that comparisons mean the same."""
    if pat.is_timestamp(stored):
        return bool(stored.unit == "us")
    if pat.is_decimal128(stored):
        return bool(0 <= stored.scale <= stored.precision)
    return stored in _EXACT


_EXACT = frozenset(
    {
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.date32(),
    }
)
