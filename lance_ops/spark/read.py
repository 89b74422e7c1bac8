"""Batch reader of the `lance` data source: the driver plans a scan, executors read shares of it."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import LongType, StructType

from lance_ops.errors import SchemaMismatchError
from lance_ops.file.schema.field_path import format_field_path
from lance_ops.file.schema.model import Schema
from lance_ops.filter.expression import Expression
from lance_ops.filter.junctions import all_of
from lance_ops.spark.facts import ROW_COLUMNS, pushed_scan
from lance_ops.spark.local_time import refuse_local_filter
from lance_ops.spark.options import ReadOptions
from lance_ops.spark.pushdown import push_filters
from lance_ops.spark.pushed import parse_conditions
from lance_ops.spark.shares import Share, cut_scan, with_blob_sizes
from lance_ops.spark.types import arrow_schema, spark_schema
from lance_ops.table.dataset import Dataset
from lance_ops.table.snapshot import Snapshot


class LanceReader(DataSourceReader):  # type: ignore[misc]  # pyspark counts as untyped
    """Reads one version.

    Args:
        dataset: The version.
        options: Options of the read.
        schema: Schema in Spark's types: from the data source, or the user's columns.

    Raises:
        SchemaMismatchError: The dataset does not have the wanted columns; lists every mismatch.
        PredicateError: The filter among the options does not parse.
    """

    def __init__(self, dataset: Dataset, options: ReadOptions, schema: StructType) -> None:
        self._dataset: Dataset | None = dataset
        self._columns = wanted_columns(dataset, options, schema)
        self._partition_bytes = options.partition_bytes
        self._filters: tuple[Expression, ...] = ()
        if options.filter is not None:
            self._filters = (dataset.parse_filter(options.filter),)
            refuse_local_filter(options.filter, self._filters[0], options.zone, field="filter")
        pushed = pushed_scan(schema)
        self._filters += parse_conditions(pushed.conditions, dataset.schema)
        self._limit = pushed.limit
        # For executors: a share has its fragments, and the plan the columns.
        self._snapshot: Snapshot = dataset.narrowed((), Schema(()))
        self._target: pa.Schema = arrow_schema(schema)

    def __getstate__(self) -> dict[str, Any]:
        # Spark sends this object to every executor: none of them has to read the manifest.
        return {**self.__dict__, "_dataset": None}

    def partitions(self) -> list[InputPartition]:
        """Plan the scan, and divide it into shares."""
        assert self._dataset is not None
        condition = all_of(self._filters) if self._filters else None
        plan = self._dataset.scanner(self._columns, condition, self._limit).plan
        plan = with_blob_sizes(plan, self._dataset.bases)
        return [InputPartition(share) for share in cut_scan(plan, share_bytes=self._partition_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one share, on an executor."""
        share: Share | None = partition.value
        # Spark adds a partition if there is nothing to read.
        return iter(()) if share is None else share.read(self._snapshot, self._target)


class EmptyReader(DataSourceReader):  # type: ignore[misc]  # pyspark counts as untyped
    """Reads a table of Spark's catalog without a dataset yet."""

    def partitions(self) -> list[InputPartition]:
        """Return no partitions."""
        return []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - Spark's signature
        """Yield no rows."""
        return iter(())


class PushingReader(LanceReader):
    """Reads one version, and applies filters from Spark.

    Spark (seen in 4.3.0) stores them with the loaded data instead of with the query: a later query without
    filters, or another scan of the same DataFrame in one query, gets the rows of the former filters. So this
    is correct only for a DataFrame that is scanned once, in one query; the option `filter` is always correct.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Apply the filters that can be translated, and return the rest to Spark."""
        assert self._dataset is not None
        pushed, left = push_filters(filters, self._dataset.schema)
        self._filters += pushed
        return left


def wanted_columns(dataset: Dataset, options: ReadOptions, schema: StructType) -> tuple[str, ...]:
    """Return the paths of the columns to read, after a comparison with the schema that Spark expects."""
    columns = options.columns
    if columns is None:
        known = dataset.scanner(**options.search).schema.names
        offered = ROW_COLUMNS if options.is_described else frozenset()
        missing = [name for name in schema.fieldNames() if name not in known and name not in offered]
        if missing:
            lines = [f"{name}: column not found in the dataset" for name in missing]
            raise SchemaMismatchError("the wanted schema does not fit the dataset", lines, path=dataset.uri)
        columns = tuple(format_field_path([name]) for name in schema.fieldNames())
        found = spark_schema(dataset.scanner(columns, **options.search).schema)
        # A path in backticks names its column with them.
        for field, name in zip(found.fields, schema.fieldNames(), strict=True):
            field.name = name
            if name in offered and schema[name].dataType == LongType():
                # Metadata columns of Java; as one of the columns to read, an address is a decimal.
                field.dataType = LongType()
        found = StructType(found.fields)
    else:
        found = spark_schema(dataset.scanner(columns, **options.search).schema)
        if options.is_described and not options.search:
            # A query reads some of them.
            wanted = [found.fieldNames().index(name) for name in schema.fieldNames() if name in found.names]
            columns = tuple(columns[place] for place in wanted)
            found = StructType([found.fields[place] for place in wanted])
    mismatches = _mismatches(schema, found)
    if mismatches:
        raise SchemaMismatchError("the wanted schema does not fit the dataset", mismatches, path=dataset.uri)
    return columns


def _mismatches(wanted: StructType, found: StructType) -> list[str]:
    """Yield differences by column; a nullable column may not be declared required."""
    known = {field.name: field for field in found.fields}
    lines = [f"{name}: not in the wanted schema" for name in known if name not in wanted.fieldNames()]
    for field in wanted.fields:
        there = known.get(field.name)
        if there is None:
            lines.append(f"{field.name}: not among the columns to read")
            continue
        kind, kind_there = field.dataType.simpleString(), there.dataType.simpleString()
        if kind != kind_there:
            lines.append(f"{field.name}: expected {kind}, the dataset has {kind_there}")
        elif there.nullable and not field.nullable:
            lines.append(f"{field.name}: nullable in the dataset, but not in the wanted schema")
    return lines
