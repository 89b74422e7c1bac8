"""Columns of a stream, which keeps its schema when that of the dataset changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from lance_ops.errors import LanceOpsError, SchemaMismatchError
from lance_ops.file.schema.field_path import format_field_path
from lance_ops.file.schema.model import Field
from lance_ops.spark.convert import to_spark
from lance_ops.spark.types import arrow_schema, spark_schema
from lance_ops.table.changes import CHANGE_TYPE, COMMIT_VERSION
from lance_ops.table.dataset import Dataset
from lance_ops.table.former_values import FormerColumn
from lance_ops.table.history.field_history import find_origins

COMMIT_TIMESTAMP = "_commit_timestamp"

CHANGE_FIELDS = (
    StructField(CHANGE_TYPE, StringType(), nullable=False),
    StructField(COMMIT_VERSION, LongType(), nullable=False),
    StructField(COMMIT_TIMESTAMP, TimestampType(), nullable=False),
)
"""Columns added by mode "changes"."""


def split_changes(schema: StructType) -> tuple[StructType, StructType]:
    """Split the columns of a change feed into those of the rows and those of the changes.

    Raises:
        SchemaMismatchError: It is not the schema of a change feed; lists every missing column.
    """
    told = [field.name for field in CHANGE_FIELDS]
    needed = {CHANGE_TYPE: StringType(), COMMIT_VERSION: LongType()}
    there = {field.name: field for field in schema.fields}
    missing = [
        f"{name}: {kind.simpleString()} is needed"
        for name, kind in needed.items()
        if name not in there or there[name].dataType != kind
    ]
    if missing:
        raise SchemaMismatchError("applyChanges requires the rows of a stream with mode=changes", missing)
    rows = [field for field in schema.fields if field.name not in told]
    return StructType(rows), StructType([field for field in schema.fields if field.name in told])


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a stream in one version.

    Attributes:
        name: Its name in the version.
        former: Conversion of its values to those of the stream; None if equal.
    """

    name: str
    former: FormerColumn | None = None

    def values(self, column: pa.Array) -> pa.Array:
        """Return values of the version in the type of the stream's column."""
        if self.former is None:
            return column
        converted = self.former.convert(pa.chunked_array([column]), self.former.now.to_arrow().type)
        return converted.combine_chunks()


Sources = tuple[SourceColumn | None, ...]
"""Columns of a version for those of a stream; None for one that the version does not have yet."""


@dataclass(frozen=True, slots=True)
class StreamColumns:
    """The columns of a stream, located in each version.

    Attributes:
        rows: Columns of the rows, without `CHANGE_FIELDS`.
        ids: Field ids by name, in `version`.
        version: The version of the schema.
    """

    rows: StructType
    ids: dict[str, int]
    version: int
    # Origins of fields by the version's fields: a stream that catches up meets the same ones often.
    _origins: dict[Any, Mapping[int, int]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, dataset: Dataset, rows: StructType) -> "StreamColumns":
        """Return the columns of a stream with the schema of a version.

        Raises:
            SchemaMismatchError: The version lacks some.
        """
        known = {top.name: top.id for top in dataset.lance_schema.fields}
        missing = [name for name in rows.fieldNames() if name not in known]
        if missing:
            lines = [f"{name}: column not found in the dataset" for name in missing]
            raise SchemaMismatchError("the wanted schema does not fit the dataset", lines, path=dataset.uri)
        return cls(rows, {name: known[name] for name in rows.fieldNames()}, dataset.version)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows in Spark's types."""
        return arrow_schema(self.rows)

    def sources_in(self, dataset: Dataset) -> Sources:
        """Return the columns of a version; None for one that it does not have yet.

        A column of an older version may have another name or type: its values are cast, null if one does not
        fit. A dropped column has no successor.

        Raises:
            SchemaMismatchError: A column was dropped, or has another type; lists every one.
        """
        found: list[SourceColumn | None] = []
        problems: list[str] = []
        own = self._own(dataset)
        for column in self.rows.fields:
            source = self._find(column, dataset, own)
            may_lack = column.nullable and dataset.version < self.version
            unproven = own is None and column.name in dataset.lance_schema.names
            if source is None and not (may_lack and not unproven):
                problems.append(f"{column.name}: not found with this type in version {dataset.version}")
            elif source is not None and source.former is not None and not column.nullable:
                problems.append(f"{column.name}: has another type in version {dataset.version}")
            found.append(source)
        if problems:
            raise SchemaMismatchError(
                "columns of the stream changed; restart the query, with the option columns to omit some",
                problems,
                path=dataset.uri,
            )
        return tuple(found)

    def _own(self, dataset: Dataset) -> Dataset | None:
        """Open the version of the schema, if needed; None if it was removed."""
        if dataset.version == self.version or all(
            self._is_same(column, dataset) for column in self.rows.fields
        ):
            return dataset
        try:
            return dataset.checkout_version(self.version)
        except LanceOpsError:
            return None

    def _is_same(self, column: StructField, dataset: Dataset) -> bool:
        """Return whether a version has the column with its name, id and type."""
        named = _top(dataset, column.name)
        return named is not None and named.id == self.ids[column.name] and _has_type(column, dataset)

    def _find(self, column: StructField, dataset: Dataset, own: Dataset | None) -> SourceColumn | None:
        if self._is_same(column, dataset):
            return SourceColumn(column.name)
        if own is None:
            # The old version is removed, so names are compared.
            return SourceColumn(column.name) if _has_type(column, dataset) else None
        wanted = self.ids[column.name]
        origins = self._origins_of(own, dataset)
        if dataset.version < self.version:
            before = next((top for top in dataset.lance_schema.fields if top.id == origins.get(wanted)), None)
            if before is None:
                return None
            former = FormerColumn(before, own.lance_schema.field(format_field_path([column.name])), origins)
            return SourceColumn(before.name, None if former.is_same else former)
        after = next((top for top in dataset.lance_schema.fields if origins.get(top.id) == wanted), None)
        if after is None or not _has_type(column, dataset, after.name):
            return None
        return SourceColumn(after.name)

    def _origins_of(self, own: Dataset, dataset: Dataset) -> Mapping[int, int]:
        """Return field ids of the older of two versions by those of the newer one."""
        key = (dataset.version < self.version, dataset.lance_schema.fields)
        if key not in self._origins:
            old, new = sorted((own, dataset), key=lambda item: item.version)
            self._origins[key] = find_origins(
                old, new, lambda version: new.read_transaction(version).operation
            )
        return self._origins[key]


def _top(dataset: Dataset, name: str) -> Field | None:
    return next((top for top in dataset.lance_schema.fields if top.name == name), None)


def _has_type(column: StructField, dataset: Dataset, name: str | None = None) -> bool:
    """Return whether a version has a column, under any name, in the type of the stream."""
    name = column.name if name is None else name
    if _top(dataset, name) is None:
        return False
    kind = spark_schema(dataset.scanner([format_field_path([name])]).schema)[0].dataType
    return bool(kind.simpleString() == column.dataType.simpleString())


def wanted_columns(dataset: Dataset, columns: Sequence[str] | None) -> StructType:
    """Return the columns of a stream in Spark's types.

    Args:
        dataset: The version of the stream's schema.
        columns: Top-level names; all if None.
    """
    names = None if columns is None else [format_field_path([name]) for name in columns]
    return spark_schema(dataset.scanner(names).schema)


def spark_batch(
    batch: pa.RecordBatch, sources: Sources, schema: pa.Schema, extra: Sequence[pa.Scalar]
) -> pa.RecordBatch:
    """Convert rows of a version to rows of a stream.

    Args:
        batch: Rows with the existing columns of `sources`, in this order.
        sources: See `StreamColumns.sources_in`.
        schema: See `StreamColumns.schema`.
        extra: Values of `CHANGE_FIELDS` for all rows; none in other modes.
    """
    read = iter(batch.columns)
    columns = [
        pa.nulls(batch.num_rows, wanted.type) if source is None else source.values(next(read))
        for source, wanted in zip(sources, schema, strict=True)
    ]
    fields = [pa.field(wanted.name, column.type) for wanted, column in zip(schema, columns, strict=True)]
    rows = to_spark(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)), schema)
    if not extra:
        return rows
    values = [pa.repeat(scalar, batch.num_rows) for scalar in extra]
    added = arrow_schema(StructType(list(CHANGE_FIELDS)))
    return pa.RecordBatch.from_arrays([*rows.columns, *values], schema=pa.schema([*schema, *added]))
