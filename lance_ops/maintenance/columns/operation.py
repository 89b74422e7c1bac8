"""Add columns: new data files beside the existing ones, or none if all values are null."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, Unpack, overload

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, check_type, public
from lance_ops.file.schema.column_names import check_column_names
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import check_schema_writable
from lance_ops.filter import computed_field, parse_value
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.columns.compute import first_free_id
from lance_ops.maintenance.columns.job import compute_and_commit
from lance_ops.maintenance.columns.result import AddColumnsResult
from lance_ops.maintenance.columns.transform import (
    BatchUDF,
    ReaderValues,
    SqlValues,
    Transform,
    are_nulls,
    as_udf,
    whole_batches,
)
from lance_ops.maintenance.columns.work import FILL_LATER, ColumnWork, refuse_mem_wal
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.sources.file_source import check_types_known
from lance_ops.maintenance.sources.open import open_source
from lance_ops.maintenance.sources.source import unify_schemas
from lance_ops.maintenance.target import Target
from lance_ops.maintenance.text import count_text
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.operations import Merge

NewColumns: TypeAlias = (
    "Mapping[str, str] | pa.Schema | pa.Field | Sequence[pa.Field] | BatchUDF | Callable[..., Any]"
    " | pa.RecordBatchReader | pa.Table"
)


@dataclass(frozen=True, slots=True)
class AddColumnsPlan:
    """Plan of adding columns; prints as text.

    Attributes:
        uri: The dataset.
        version: Version that it was planned from.
        schema: The new columns, with their ids.
        transform: Source of their values; None if all are null.
        fragments: Number of fragments that get a file.
    """

    uri: str
    version: int
    schema: Schema
    transform: Transform | None
    fragments: int

    def to_dict(self) -> dict[str, object]:
        """Return numbers and ids as JSON values."""
        return {
            "operation": "add_columns",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.version,
            "columns": {item.name: item.logical_type for item in self.schema.fields},
            "fragments": self.fragments,
        }

    def __str__(self) -> str:
        columns = ", ".join(f"{item.name} ({item.logical_type})" for item in self.schema.fields)
        how = (
            "all null" if self.transform is None else f"computed in {count_text(self.fragments, 'fragment')}"
        )
        return f"add {columns} to version {self.version} of {self.uri}: {how}"


class ColumnArguments(RunOptions, total=False):
    """Keyword arguments of `add_columns` and `replace_columns`, beside `RunOptions`.

    Attributes:
        read_columns: For a function: columns of its input; all if None.
        output_schema: For a function: names and types of its columns.
        batch_size: For a function: maximum rows of a batch.
    """

    read_columns: Sequence[str] | None
    output_schema: pa.Schema | None
    batch_size: int | None


@overload
def add_columns(
    uri_or_dataset: Target,
    columns: NewColumns,
    *,
    dry_run: Literal[False] = False,
    **arguments: Unpack[ColumnArguments],
) -> AddColumnsResult: ...
@overload
def add_columns(
    uri_or_dataset: Target,
    columns: NewColumns,
    *,
    dry_run: Literal[True],
    **arguments: Unpack[ColumnArguments],
) -> AddColumnsPlan: ...
@overload
def add_columns(
    uri_or_dataset: Target, columns: NewColumns, *, dry_run: bool, **arguments: Unpack[ColumnArguments]
) -> AddColumnsResult | AddColumnsPlan: ...
@public(target="uri_or_dataset", transforms="columns")
@cleans_up
def add_columns(
    uri_or_dataset: Target,
    columns: NewColumns,
    *,
    read_columns: Sequence[str] | None = None,
    output_schema: pa.Schema | None = None,
    batch_size: int | None = None,
    dry_run: bool = False,
    **run: Unpack[RunOptions],
) -> AddColumnsResult | AddColumnsPlan:
    """Add columns after the existing ones, in one commit. No existing file is rewritten.

    Each fragment gets one more file, written by its own task. After a conflict, only changed fragments are
    computed again; with a job key, a call after a crash resumes the interrupted one.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        columns: An SQL expression by the name of each new column, such as `{"y": "x * 2"}`, of the type
            and the nullability that pylance gives it; a function over batches of live rows (see `batch_udf`),
            which on Spark must be picklable; a reader with one row for each live row, in the
            order of the table, or any data for `write_dataset`; or Arrow fields of columns that are null
            everywhere, which write no file, like expressions `CAST(NULL AS type)`.
        read_columns: For a function: columns of its input; all if None.
        output_schema: For a function: names and types of the new columns. If undeclared, the function is
            called with the first row.
        batch_size: For a function: maximum rows of a batch.
        dry_run: Return the plan.
        **run: See `RunOptions`.

    Raises:
        InvalidArgumentError: A column exists already, none is given, or one is not nullable.
        PredicateError: An expression does not parse, names an unknown column, or cannot be computed.
        SchemaMismatchError: A function or a reader returns other columns, more or fewer rows, or a value that
            does not fit the declared type. Nothing was changed.
        TaskFailedError: The function raised an error, which is the cause.
        UnsupportedTypeError: The storage version cannot hold a type.
        CommitConflictError: Another commit stands in the way.

    Examples:
        >>> lo.add_columns("events.lance", {"gross": "price * 1.2"}).columns
        ('gross',)
    """
    call = Run.start("add_columns", uri_or_dataset, run)
    found = call.find_job()
    if found is not None and not dry_run:
        return AddColumnsResult(**found)
    values = values_of(call.dataset, columns, read_columns, output_schema, batch_size, narrow=True)
    transform = values[0]
    if (
        isinstance(columns, Mapping)
        and isinstance(transform, SqlValues)
        and are_nulls(columns.values(), transform.expressions)
    ):
        values = None, values[1]

    def plan(dataset: Dataset) -> AddColumnsPlan:
        found = values
        changed = dataset.lance_schema != call.dataset.lance_schema
        if isinstance(columns, Mapping) and values[0] is not None and changed:
            found = values_of(dataset, columns, narrow=True)
        return plan_columns(*found, dataset)

    if values[0] is not None:
        refuse_mem_wal(call.dataset, "a column cannot be computed", FILL_LATER)
    if dry_run:
        return plan(call.dataset)
    if values[0] is None:
        return call.execute(plan, partial(commit_columns, None), AddColumnsResult)
    return compute_and_commit(call, values[0], plan, commit_columns, AddColumnsResult)


def values_of(
    dataset: Dataset,
    columns: Any,
    read_columns: Sequence[str] | None = None,
    output_schema: pa.Schema | None = None,
    batch_size: int | None = None,
    *,
    narrow: bool = False,
) -> tuple[Transform | None, pa.Schema]:
    """Return the source of values, and the columns; for `narrow` see `parse_value`."""
    if isinstance(columns, Mapping):
        for name, text in columns.items():
            check_type(text, str, f"the SQL of column {name!r}", field="columns")
        schema = dataset.schema
        expressions = tuple(parse_value(text, schema, narrow=narrow) for text in columns.values())
        pairs = zip(columns, expressions, strict=True)
        return SqlValues(expressions), pa.schema([computed_field(name, item, schema) for name, item in pairs])
    if isinstance(columns, pa.Field):
        return None, pa.schema([columns])
    if isinstance(columns, pa.Schema):
        return None, columns
    if isinstance(columns, Sequence) and all(isinstance(item, pa.Field) for item in columns):
        return None, pa.schema(columns)
    if callable(columns):
        udf = as_udf(columns, output_schema, read_columns, batch_size)
        if udf.output_schema is None:
            udf = replace(udf, output_schema=_asked(dataset, udf))
        return udf, udf.output_schema
    source = open_source(columns)
    schemas = source.read_schemas()
    schema = schemas[0][1] if len(schemas) == 1 else unify_schemas(schemas)
    check_types_known(schema, schemas)
    return ReaderValues(schema, (batch.select(schema.names) for batch in source.batches())), schema


def _asked(dataset: Dataset, udf: BatchUDF) -> pa.Schema:
    """Return the schema of a function's result for the first row."""
    first = dataset.to_table(list(udf.columns(dataset.lance_schema)), limit=1)
    if not first.num_rows:
        raise InvalidArgumentError(
            "cannot derive the schema of the function from a dataset without rows",
            path=dataset.uri,
            field="output_schema",
            hint="declare it: batch_udf(output_schema)",
        )
    (batch,) = whole_batches(first, 1)
    return udf.checked(udf.func(batch), 1, None).schema.remove_metadata()


def plan_columns(transform: Transform | None, arrow: pa.Schema, dataset: Dataset) -> AddColumnsPlan:
    """Plan the new columns.

    Raises:
        InvalidArgumentError: See `add_columns`.
    """
    taken = set(dataset.lance_schema.names).intersection(arrow.names)
    computed = isinstance(transform, SqlValues)
    required = [field.name for field in arrow if not field.nullable and not computed]
    if not len(arrow) or taken or required or len(set(arrow.names)) != len(arrow):
        raise InvalidArgumentError(
            f"cannot add the columns {arrow.names} to {list(dataset.lance_schema.names)}",
            path=dataset.uri,
            field="columns",
            hint="new columns must have new names and be nullable",
        )
    if transform is not None:
        # Check unknown names of columns before anything is read.
        transform.columns(dataset.lance_schema)
    fragments = 0 if transform is None else len(dataset.fragments)
    schema = Schema.from_arrow(arrow, first_id=first_free_id(dataset))
    check_column_names(schema, path=dataset.uri)
    check_schema_writable(schema, dataset.data_storage_version)
    return AddColumnsPlan(dataset.uri, dataset.version, schema, transform, fragments)


def commit_columns(work: ColumnWork | None, attempt: Attempt, plan: AddColumnsPlan) -> AddColumnsResult:
    """Commit new columns, after the existing ones."""
    names = tuple(plan.schema.names)
    own = attempt.dataset.lance_schema
    whole = replace(own, fields=(*own.fields, *plan.schema.fields))
    if work is None or plan.transform is None:
        done = attempt.commit(
            CommitRequest(
                Merge(tuple(attempt.dataset.fragments), whole, preserves_nullability=True, schema_only=True)
            )
        )
        return AddColumnsResult(**attempt.common(done), columns=names)
    work.transform = plan.transform
    optional = all(field.nullable for field in plan.schema.fields)
    done, size = work.commit(attempt, plan.schema, whole, preserves_nullability=optional)
    if done.already_committed:
        return AddColumnsResult(**attempt.common(done), columns=names)
    return AddColumnsResult(
        **attempt.common(done),
        columns=names,
        fragments_updated=plan.fragments,
        fragments_resumed=work.resumed,
        bytes_written=size,
    )
