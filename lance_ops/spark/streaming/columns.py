"""Columns of a stream, which keeps its schema while the dataset's may change."""

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
"""Columns that mode "changes" adds."""


def split_changes(schema: StructType) -> tuple[StructType, StructType]:
    """The columns of the rows of a change feed, and those that tell what became of them.

    Raises:
        SchemaMismatchError: It is the schema of no change feed; lists every column that is missing.
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
        raise SchemaMismatchError(
            "these are not the rows of a stream with mode=changes, which applyChanges is for", missing
        )
    rows = [field for field in schema.fields if field.name not in told]
    return StructType(rows), StructType([field for field in schema.fields if field.name in told])


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a stream in one version.

    Attributes:
        name: There.
        former: How its values become those of the stream; None where they are alike.
    """

    name: str
    former: FormerColumn | None = None

    def values(self, column: pa.Array) -> pa.Array:
        """Values of the version in the type that the column of the stream is made from."""
        if self.former is None:
            return column
        converted = self.former.convert(pa.chunked_array([column]), self.former.now.to_arrow().type)
        return converted.combine_chunks()


Sources = tuple[SourceColumn | None, ...]
"""Columns of a version for those of a stream; None for one that the version does not have yet."""


@dataclass(frozen=True, slots=True)
class StreamColumns:
    """The columns of a stream, found again in each version.

    Attributes:
        rows: Those of the rows, without `CHANGE_FIELDS`.
        ids: Field ids by name, as of `version`.
        version: The version that the schema is from.
    """

    rows: StructType
    ids: dict[str, int]
    version: int
    # Origins of fields by the version's fields: a stream that catches up meets the same ones often.
    _origins: dict[Any, Mapping[int, int]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, dataset: Dataset, rows: StructType) -> "StreamColumns":
        """Columns of a stream whose schema is that of a version.

        Raises:
            SchemaMismatchError: The version lacks some.
        """
        known = {top.name: top.id for top in dataset.lance_schema.fields}
        missing = [name for name in rows.fieldNames() if name not in known]
        if missing:
            lines = [f"{name}: the dataset has no such column" for name in missing]
            raise SchemaMismatchError("the wanted schema does not fit the dataset", lines, path=dataset.uri)
        return cls(rows, {name: known[name] for name in rows.fieldNames()}, dataset.version)

    @property
    def schema(self) -> pa.Schema:
        """The rows, as Spark takes them."""
        return arrow_schema(self.rows)

    def sources_in(self, dataset: Dataset) -> Sources:
        """The columns of a version; None for one that it does not have yet.

        A column of an older version is the same under another name or type: its values are cast, null where
        one does not fit. A column that was dropped has no successor.

        Raises:
            SchemaMismatchError: A column is gone, or of another type; lists every one.
        """
        found: list[SourceColumn | None] = []
        problems: list[str] = []
        own = self._own(dataset)
        for column in self.rows.fields:
            source = self._find(column, dataset, own)
            may_lack = column.nullable and dataset.version < self.version
            unproven = own is None and column.name in dataset.lance_schema.names
            if source is None and not (may_lack and not unproven):
                problems.append(f"{column.name}: version {dataset.version} has no such column of this type")
            elif source is not None and source.former is not None and not column.nullable:
                problems.append(f"{column.name}: version {dataset.version} has it of another type")
            found.append(source)
        if problems:
            raise SchemaMismatchError(
                "columns of the stream changed; start the query again, with the option columns if some are "
                "to be left out",
                problems,
                path=dataset.uri,
            )
        return tuple(found)

    def _own(self, dataset: Dataset) -> Dataset | None:
        """The version that the schema is from, where it is needed; None when it was cleaned away."""
        if dataset.version == self.version or all(
            self._is_same(column, dataset) for column in self.rows.fields
        ):
            return dataset
        try:
            return dataset.checkout_version(self.version)
        except LanceOpsError:
            return None

    def _is_same(self, column: StructField, dataset: Dataset) -> bool:
        """Whether a version has the column under its name, id and type."""
        named = _top(dataset, column.name)
        return named is not None and named.id == self.ids[column.name] and _has_type(column, dataset)

    def _find(self, column: StructField, dataset: Dataset, own: Dataset | None) -> SourceColumn | None:
        if self._is_same(column, dataset):
            return SourceColumn(column.name)
        if own is None:
            # Nothing is left to tell what became of columns, so that names have to do.
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
        """Field ids of the older of two versions by those of the newer one."""
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
    """Whether a version has a column, under its own name or another one, in the type of the stream."""
    name = column.name if name is None else name
    if _top(dataset, name) is None:
        return False
    kind = spark_schema(dataset.scanner([format_field_path([name])]).schema)[0].dataType
    return bool(kind.simpleString() == column.dataType.simpleString())


def wanted_columns(dataset: Dataset, columns: Sequence[str] | None) -> StructType:
    """The columns of a stream in Spark's types.

    Args:
        dataset: The version that the stream is made from.
        columns: Top-level names; all when None.
    """
    names = None if columns is None else [format_field_path([name]) for name in columns]
    return spark_schema(dataset.scanner(names).schema)


def spark_batch(
    batch: pa.RecordBatch, sources: Sources, schema: pa.Schema, extra: Sequence[pa.Scalar]
) -> pa.RecordBatch:
    """Rows of a version as rows of a stream.

    Args:
        batch: With the columns of `sources` that there are, in this order.
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
