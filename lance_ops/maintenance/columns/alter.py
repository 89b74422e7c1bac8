"""Alter columns: names, types, nullability.

Name and nullability are entries of the schema. Values of another type are written to new data files under a
new field id, since files record the type of an id; the old values remain until a compaction. Source: format,
schema evolution; commits of pylance.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypedDict, Unpack, overload

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, check_type, public
from lance_ops.file.schema.column_names import check_column_names
from lance_ops.file.schema.model import Field, Schema
from lance_ops.filter import Column, Expression, column_sql
from lance_ops.filter.types.coercion import plain_type
from lance_ops.maintenance.columns.compute import first_free_id
from lance_ops.maintenance.columns.job import compute_and_commit
from lance_ops.maintenance.columns.result import AlterColumnsResult
from lance_ops.maintenance.columns.transform import SqlValues
from lance_ops.maintenance.columns.work import FILL_LATER, ColumnWork, refuse_mem_wal
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.fit import fits_type
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.target import Target
from lance_ops.maintenance.text import count_text
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.operations import Project


class _Path(TypedDict):
    path: str


class Alteration(_Path, total=False):
    """Change of one column.

    Attributes:
        path: The column; a path such as `a.b` for a field of a struct.
        name: Its new name, of the last part of the path.
        nullable: New nullability.
        data_type: Its new type; for top-level columns.
    """

    name: str
    nullable: bool
    data_type: pa.DataType


@dataclass(frozen=True, slots=True)
class AlterColumnsPlan:
    """Plan of altering columns; prints as text.

    Attributes:
        uri: The dataset.
        version: Version that it was planned from.
        schema: The new schema.
        changes: One line for each column.
        cast: The columns whose values are rewritten, with their new ids.
        expressions: Expressions of their values.
        required: True if some column becomes non-nullable.
        fragments: Number of fragments that get a file.
    """

    uri: str
    version: int
    schema: Schema
    changes: tuple[str, ...]
    cast: Schema
    expressions: tuple[Expression, ...]
    required: bool
    fragments: int

    def to_dict(self) -> dict[str, object]:
        """Return numbers and ids as JSON values."""
        return {
            "operation": "alter_columns",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.version,
            "changes": list(self.changes),
            "fragments": self.fragments,
        }

    def __str__(self) -> str:
        files = f"files for {count_text(self.fragments, 'fragment')}" if self.fragments else "no file"
        return f"alter version {self.version} of {self.uri}: {'; '.join(self.changes)} ({files})"


@overload
def alter_columns(
    uri_or_dataset: Target,
    *alterations: Alteration,
    dry_run: Literal[False] = False,
    **run: Unpack[RunOptions],
) -> AlterColumnsResult: ...
@overload
def alter_columns(
    uri_or_dataset: Target, *alterations: Alteration, dry_run: Literal[True], **run: Unpack[RunOptions]
) -> AlterColumnsPlan: ...
@overload
def alter_columns(
    uri_or_dataset: Target, *alterations: Alteration, dry_run: bool, **run: Unpack[RunOptions]
) -> AlterColumnsResult | AlterColumnsPlan: ...
@public(target="uri_or_dataset")
def alter_columns(
    uri_or_dataset: Target, *alterations: Alteration, dry_run: bool = False, **run: Unpack[RunOptions]
) -> AlterColumnsResult | AlterColumnsPlan:
    """Change names, types or nullability of columns, in one commit.

    Names and nullability change no file, and indices are kept. A new type rewrites the values of the column
    to a new file of each fragment.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        *alterations: Such as `{"path": "a", "name": "b", "data_type": pa.int64(), "nullable": False}`.
        dry_run: Return the plan.
        **run: See `RunOptions`.

    Raises:
        InvalidArgumentError: A column does not exist, a name is taken, nothing would change, a column that
            becomes non-nullable has nulls, or the type cannot be changed: of an indexed or nested column, or
            to an incompatible type.
        SchemaMismatchError: The new type cannot hold a value; names column and row.
        CommitConflictError: Another commit stands in the way.

    Examples:
        >>> lo.alter_columns("events.lance", {"path": "kind", "name": "type"}).changes
        ('kind is named type',)
    """
    call = Run.start("alter_columns", uri_or_dataset, run)
    plan = partial(_plan, alterations)
    first = plan(call.dataset) if dry_run or call.find_job() is None else None
    if dry_run and first is not None:
        return first
    if first is not None and first.expressions:
        refuse_mem_wal(call.dataset, "the type of a column cannot change", FILL_LATER)
    if first is None or not first.expressions:
        return call.execute(plan, partial(_commit, None), AlterColumnsResult)
    # The expressions depend only on the columns that they name.
    return compute_and_commit(call, SqlValues(first.expressions), plan, _commit, AlterColumnsResult)


def _plan(alterations: Sequence[Alteration], dataset: Dataset) -> AlterColumnsPlan:
    own = dataset.lance_schema
    wanted: dict[int, Alteration] = {}
    for item in alterations:
        _check(item, dataset)
        field = own.field(item["path"])
        if field.id in wanted:
            raise _refused(dataset, f"{item['path']!r} is altered twice")
        wanted[field.id] = item
    fields = tuple(_altered(top, wanted) for top in own.fields)
    first_id, cast = first_free_id(dataset), []
    expressions: list[Expression] = []
    for at, (before, top) in enumerate(zip(own.fields, fields, strict=True)):
        data_type = wanted[before.id].get("data_type") if before.id in wanted else None
        if data_type is None or data_type == before.to_arrow().type:
            continue
        arrow = pa.field(top.name, data_type, top.nullable, metadata=top.to_arrow().metadata)
        (made,) = Schema.from_arrow(pa.schema([arrow]), first_id=first_id).fields
        first_id = max(node.id for node in made.walk()) + 1
        cast.append(made)
        expressions.append(_source(dataset, before, data_type))
        fields = (*fields[:at], made, *fields[at + 1 :])
    schema = replace(own, fields=fields)
    # Names that are taken, or not allowed.
    Schema.from_arrow(schema.to_arrow())
    check_column_names(schema, own, path=dataset.uri)
    changes = tuple(_changes(own, wanted))
    if not changes:
        raise _refused(
            dataset,
            "nothing would change",
            "give a new name (--name), type (--type) or nullability (--nullable)",
        )
    required = [field for field in own.walk() if field.nullable and not _stays_nullable(field, wanted)]
    for field in required:
        _refuse_nulls(dataset, own.path(field.id))
    fragments = len(dataset.fragments) if cast else 0
    return AlterColumnsPlan(
        dataset.uri,
        dataset.version,
        schema,
        changes,
        Schema(tuple(cast)),
        tuple(expressions),
        bool(required),
        fragments,
    )


def _check(item: Alteration, dataset: Dataset) -> None:
    check_type(item, Mapping, "a mapping such as {'path': 'a', 'name': 'b'}", field="alterations")
    unknown = set(item) - {"path", "name", "nullable", "data_type"}
    if unknown or "path" not in item:
        raise _refused(dataset, f"an alteration has path, name, nullable and data_type, got {sorted(item)}")
    for key, kind in (("path", str), ("name", str), ("nullable", bool), ("data_type", pa.DataType)):
        if key in item:
            check_type(item[key], kind, f"a {kind.__name__}", field=key)  # type: ignore[literal-required]


def _refused(dataset: Dataset, message: str, hint: str | None = None) -> InvalidArgumentError:
    return InvalidArgumentError(message, path=dataset.uri, field="alterations", hint=hint)


def _altered(field: Field, wanted: Mapping[int, Alteration]) -> Field:
    item = wanted.get(field.id)
    children = tuple(_altered(child, wanted) for child in field.children)
    if item is None:
        return replace(field, children=children)
    nullable = item.get("nullable", field.nullable)
    return replace(field, name=item.get("name", field.name), nullable=nullable, children=children)


def _stays_nullable(field: Field, wanted: Mapping[int, Alteration]) -> bool:
    return field.id not in wanted or wanted[field.id].get("nullable", True)


def _source(dataset: Dataset, field: Field, data_type: pa.DataType) -> Expression:
    """Return the expression for the values of a column of another type."""
    named = sorted(
        segment.name
        for segment in dataset.indices
        if not {node.id for node in field.walk()}.isdisjoint(segment.fields)
    )
    if named:
        raise _refused(
            dataset,
            f"cannot change the type of column {field.name!r} while it is indexed: {', '.join(named)}",
            "drop the indices first, and rebuild them afterwards",
        )
    before = field.to_arrow().type
    if not fits_type(before, data_type):
        raise _refused(dataset, f"cannot convert column {field.name!r} from {before} to {data_type}")
    return Column((field.name,), plain_type(before))


def _refuse_nulls(dataset: Dataset, path: str) -> None:
    column = column_sql(tuple(node.name for node in dataset.lance_schema.ancestry(path)))
    nulls = dataset.count_rows(f"{column} IS NULL")
    if nulls:
        message = f"column {path!r} has {count_text(nulls, 'null')}"
        raise _refused(dataset, message, "fill them first, with update")


def _changes(schema: Schema, wanted: Mapping[int, Alteration]) -> Iterator[str]:
    for field_id, item in wanted.items():
        field = schema.by_id(field_id)
        assert field is not None
        path = schema.path(field_id)
        if item.get("name", field.name) != field.name:
            yield f"{path} is named {item['name']}"
        if "data_type" in item and item["data_type"] != field.to_arrow().type:
            if schema.ancestry(path)[0] is not field:
                raise InvalidArgumentError(
                    f"{path!r} is nested in a column: its type cannot be changed",
                    field="alterations",
                    hint="add a column with the new type",
                )
            yield f"{path} becomes {item['data_type']}"
        if item.get("nullable", field.nullable) != field.nullable:
            yield f"{path} may {'be null' if item['nullable'] else 'not be null any more'}"


def _commit(work: ColumnWork | None, attempt: Attempt, plan: AlterColumnsPlan) -> AlterColumnsResult:
    if work is None or not plan.expressions:
        done = attempt.commit(CommitRequest(Project(plan.schema, preserves_nullability=not plan.required)))
        size = 0
    else:
        work.transform = SqlValues(plan.expressions)
        done, size = work.commit(attempt, plan.cast, plan.schema, preserves_nullability=not plan.required)
    if done.already_committed:
        return AlterColumnsResult(**attempt.common(done))
    return AlterColumnsResult(
        **attempt.common(done),
        changes=plan.changes,
        fragments_updated=plan.fragments,
        bytes_written=size,
    )
