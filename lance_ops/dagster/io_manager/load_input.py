"""Inputs: rows of a version, a partition or some columns of a dataset as the type of the parameter."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pyarrow as pa

from lance_ops.dagster.io_manager.declaration import (
    COLUMNS,
    FILTER,
    VERSION,
    AssetDeclaration,
    partitions_predicate,
)
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.errors import InvalidArgumentError
from lance_ops.facade.dataset import Dataset as MovingDataset
from lance_ops.spark.options import STORAGE_PREFIX
from lance_ops.table.dataset import Dataset


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows to read.

    Attributes:
        version: A number or a tag; None for the newest version.
        columns: Names; None for all.
        predicate: Returns the SQL condition of the rows for a schema; None for all rows.
    """

    version: int | str | None
    columns: tuple[str, ...] | None
    predicate: Callable[[pa.Schema], str | None]


def selection_of(context: dg.InputContext, declaration: AssetDeclaration) -> Selection:
    """Return the rows for an input: by its metadata, and by the partitions of the step.

    Args:
        context: Context of the input.
        declaration: Declaration of the asset to read.

    Raises:
        InvalidArgumentError: A value of the metadata has the wrong type.
    """
    given = {
        key: getattr(value, "value", value) for key, value in (context.definition_metadata or {}).items()
    }
    version, columns, condition = given.get(VERSION), given.get(COLUMNS), given.get(FILTER)
    name = context.name
    if isinstance(version, bool) or not isinstance(version, int | str | None):
        raise _wrong(name, VERSION, version, "use a number or the name of a tag")
    if columns is not None and (
        isinstance(columns, str)
        or not isinstance(columns, Sequence)
        or not all(isinstance(column, str) for column in columns)
    ):
        raise _wrong(name, COLUMNS, columns, "use a list of names")
    if not isinstance(condition, str | None):
        raise _wrong(name, FILTER, condition, "use an SQL condition")
    partitions = _partitions(context, declaration)

    def predicate(schema: pa.Schema) -> str | None:
        parts = [part for part in (partitions(schema), condition) if part is not None]
        return " AND ".join(f"({part})" for part in parts) or None

    return Selection(version, None if columns is None else tuple(columns), predicate)


def _partitions(context: dg.InputContext, declaration: AssetDeclaration) -> Callable[[pa.Schema], str | None]:
    """Return the condition for the rows of the partitions to read; None for the whole dataset."""
    if not context.has_asset_partitions:
        return lambda _: None
    expr = declaration.partition_expr
    if expr is None:
        # An append or a merge with partitions: their rows are not identified, but requested.
        raise InvalidArgumentError(
            f"cannot read a partition of {declaration.name!r}: its rows are not identified",
            field="partition_expr",
            hint="declare `partition_expr` in its metadata, or depend on the whole asset with "
            "`deps=[...]`: `AssetIn(partition_mapping=...)` does not support this",
        )
    definition, chosen = context.asset_partitions_def, list(context.asset_partition_keys)
    return lambda schema: partitions_predicate(definition, chosen, expr, schema)


def load_rows(dataset: Dataset, selection: Selection, kind: Any, store: LanceStoreResource) -> Any:
    """Read rows as a type.

    Args:
        dataset: At the version to read.
        selection: Rows to read.
        kind: Annotation of the parameter.
        store: Spark session for a Spark DataFrame.

    Raises:
        InvalidArgumentError: The type is not supported.
    """
    condition = selection.predicate(dataset.schema)
    columns = None if selection.columns is None else list(selection.columns)
    if kind is Dataset:
        return dataset
    if kind is MovingDataset:
        return MovingDataset(dataset)
    wanted = pa.Table if kind in (Any, None, type(None)) else kind
    library = getattr(wanted, "__module__", "").partition(".")[0]
    if library == "pyspark":
        return _spark_frame(dataset, columns, condition, store)
    read = _READERS.get((library, getattr(wanted, "__name__", "")))
    if read is None:
        raise InvalidArgumentError(
            f"cannot read a dataset as {kind}",
            field="input",
            hint="annotate the parameter as a pyarrow Table or RecordBatchReader, a pandas, Polars or Spark "
            "DataFrame, or a lance_ops.Dataset",
        )
    return read(dataset, columns, condition)


def _table(dataset: Dataset, columns: list[str] | None, condition: str | None) -> pa.Table:
    return dataset.to_table(columns, condition)


def _reader(dataset: Dataset, columns: list[str] | None, condition: str | None) -> pa.RecordBatchReader:
    return dataset.to_batches(columns, condition)


def _pandas(dataset: Dataset, columns: list[str] | None, condition: str | None) -> Any:
    return dataset.to_pandas(columns, condition)


def _polars(dataset: Dataset, columns: list[str] | None, condition: str | None) -> Any:
    import polars as pl

    return pl.from_arrow(dataset.to_table(columns, condition))


def _lazy_polars(dataset: Dataset, columns: list[str] | None, condition: str | None) -> Any:
    return _polars(dataset, columns, condition).lazy()


_Read = Callable[[Dataset, list[str] | None, str | None], Any]

_READERS: Mapping[tuple[str, str], _Read] = {
    ("pyarrow", "Table"): _table,
    ("pyarrow", "RecordBatchReader"): _reader,
    ("pandas", "DataFrame"): _pandas,
    ("polars", "DataFrame"): _polars,
    ("polars", "LazyFrame"): _lazy_polars,
}


def _spark_frame(
    dataset: Dataset, columns: list[str] | None, condition: str | None, store: LanceStoreResource
) -> Any:
    from lance_ops.spark.datasource import register

    session = store.spark_session()
    register(session)
    given = {f"{STORAGE_PREFIX}{name}": value for name, value in dataset.storage_options.items()}
    given["version"] = str(dataset.version)
    if condition is not None:
        given["filter"] = condition
    frame = session.read.format("lance").options(**given).load(dataset.uri)
    return frame if columns is None else frame.select(*columns)


def _wrong(name: str, key: str, value: object, wanted: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"input {name!r}, metadata {key!r}: {value!r}", field=key, hint=f"give {wanted}"
    )
