"""Columns of a stream, which keeps its schema while the dataset's may change."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from lance_ops.errors import LanceOpsError, SchemaMismatchError
from lance_ops.file.schema.field_path import format_field_path
from lance_ops.spark.convert import to_spark
from lance_ops.spark.types import arrow_schema, spark_schema
from lance_ops.table.changes import CHANGE_TYPE, COMMIT_VERSION
from lance_ops.table.dataset import Dataset
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

    @classmethod
    def of(cls, dataset: Dataset, rows: StructType) -> "StreamColumns":
        """Columns of a stream whose schema is that of a version.

        Raises:
            SchemaMismatchError: The version lacks some.
        """
        known = {field.name: field.id for field in dataset.lance_schema.fields}
        missing = [name for name in rows.fieldNames() if name not in known]
        if missing:
            lines = [f"{name}: the dataset has no such column" for name in missing]
            raise SchemaMismatchError("the wanted schema does not fit the dataset", lines, path=dataset.uri)
        return cls(rows, {name: known[name] for name in rows.fieldNames()}, dataset.version)

    @property
    def schema(self) -> pa.Schema:
        """The rows, as Spark takes them."""
        return arrow_schema(self.rows)

    def names_in(self, dataset: Dataset) -> tuple[str | None, ...]:
        """What the columns are called in a version; None for one that it does not have yet.

        Raises:
            SchemaMismatchError: A column is gone, or of another type; lists every one.
        """
        found: list[str | None] = []
        problems: list[str] = []
        for field in self.rows.fields:
            name = self._find(field, dataset)
            if name is None and (dataset.version >= self.version or not field.nullable):
                problems.append(f"{field.name}: version {dataset.version} has no such column of this type")
            found.append(name)
        if problems:
            raise SchemaMismatchError(
                "columns of the stream changed; start the query again, with the option columns if some are "
                "to be left out",
                problems,
                path=dataset.uri,
            )
        return tuple(found)

    def _find(self, field: StructField, dataset: Dataset) -> str | None:
        names: list[str] = [field.name]
        same_field = dataset.lance_schema.by_id(self.ids[field.name])
        if same_field is not None and same_field.parent_id < 0 and self._was_renamed(field.name, dataset):
            names.append(same_field.name)
        for name in names:
            if name in dataset.lance_schema.names:
                kind = spark_schema(dataset.scanner([format_field_path([name])]).schema)[0].dataType
                if kind.simpleString() == field.dataType.simpleString():
                    return name
        return None

    def _was_renamed(self, name: str, dataset: Dataset) -> bool:
        """Whether the field id of a column means that column in a version that lacks its name."""
        if name in dataset.lance_schema.names or dataset.version == self.version:
            return True
        try:
            own = dataset.checkout_version(self.version)
        except LanceOpsError:
            # Cleaned away: nothing proves that the id was not given to another column.
            return False
        old, new = sorted((own, dataset), key=lambda item: item.version)
        origins = find_origins(old, new, lambda version: new.read_transaction(version).operation)
        return origins.get(self.ids[name]) == self.ids[name]


def wanted_columns(dataset: Dataset, columns: Sequence[str] | None) -> StructType:
    """The columns of a stream in Spark's types.

    Args:
        dataset: The version that the stream is made from.
        columns: Top-level names; all when None.
    """
    names = None if columns is None else [format_field_path([name]) for name in columns]
    return spark_schema(dataset.scanner(names).schema)


def spark_batch(
    batch: pa.RecordBatch, names: Sequence[str | None], schema: pa.Schema, extra: Sequence[pa.Scalar]
) -> pa.RecordBatch:
    """Rows of a version as rows of a stream.

    Args:
        batch: With the columns of `names` that are none, in this order.
        names: See `StreamColumns.names_in`.
        schema: See `StreamColumns.schema`.
        extra: Values of `CHANGE_FIELDS` for all rows; none in other modes.
    """
    read = iter(batch.columns)
    columns = [
        pa.nulls(batch.num_rows, field.type) if name is None else next(read)
        for name, field in zip(names, schema, strict=True)
    ]
    fields = [pa.field(field.name, column.type) for field, column in zip(schema, columns, strict=True)]
    rows = to_spark(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)), schema)
    if not extra:
        return rows
    values = [pa.repeat(scalar, batch.num_rows) for scalar in extra]
    added = arrow_schema(StructType(list(CHANGE_FIELDS)))
    return pa.RecordBatch.from_arrays([*rows.columns, *values], schema=pa.schema([*schema, *added]))
