"""Replace columns: new values for whole columns of fragments, whose rows stay in place."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Unpack, overload

import pyarrow as pa

from lance_ops.errors import CommitConflictError, InvalidArgumentError, public
from lance_ops.file.schema.model import Schema
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.columns.job import compute_and_commit
from lance_ops.maintenance.columns.operation import ColumnArguments, NewColumns, values_of
from lance_ops.maintenance.columns.result import ReplaceColumnsResult
from lance_ops.maintenance.columns.transform import Transform
from lance_ops.maintenance.columns.work import ColumnWork
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.target import Target
from lance_ops.maintenance.text import count_text, ids_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragments.totals import ids_of


@dataclass(frozen=True, slots=True)
class ReplaceColumnsPlan:
    """Plan of replacing columns; prints as text.

    Attributes:
        uri: The dataset.
        version: Version that it was planned from.
        schema: The columns, as the dataset has them.
        transform: Source of their values.
        fragment_ids: Fragments that get a file.
    """

    uri: str
    version: int
    schema: Schema
    transform: Transform
    fragment_ids: tuple[int, ...]

    def to_dict(self) -> dict[str, object]:
        """Return numbers and ids as JSON values."""
        return {
            "operation": "replace_columns",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.version,
            "columns": list(self.schema.names),
            "fragment_ids": list(self.fragment_ids),
        }

    def __str__(self) -> str:
        columns = ", ".join(self.schema.names)
        where = f"{count_text(len(self.fragment_ids), 'fragment')} ({ids_text(self.fragment_ids)})"
        return f"replace {columns} in version {self.version} of {self.uri}: in {where}"


class ReplaceArguments(ColumnArguments, total=False):
    """Keyword arguments of `replace_columns`.

    Attributes:
        fragments: Ids of the fragments; all if None.
    """

    fragments: Iterable[int] | None


@overload
def replace_columns(
    uri_or_dataset: Target,
    columns: NewColumns,
    *,
    dry_run: Literal[False] = False,
    **arguments: Unpack[ReplaceArguments],
) -> ReplaceColumnsResult: ...
@overload
def replace_columns(
    uri_or_dataset: Target,
    columns: NewColumns,
    *,
    dry_run: Literal[True],
    **arguments: Unpack[ReplaceArguments],
) -> ReplaceColumnsPlan: ...
@overload
def replace_columns(
    uri_or_dataset: Target, columns: NewColumns, *, dry_run: bool, **arguments: Unpack[ReplaceArguments]
) -> ReplaceColumnsResult | ReplaceColumnsPlan: ...
@public(target="uri_or_dataset")
@cleans_up
def replace_columns(
    uri_or_dataset: Target,
    columns: NewColumns,
    *,
    fragments: Iterable[int] | None = None,
    read_columns: Sequence[str] | None = None,
    output_schema: pa.Schema | None = None,
    batch_size: int | None = None,
    dry_run: bool = False,
    **run: Unpack[RunOptions],
) -> ReplaceColumnsResult | ReplaceColumnsPlan:
    """Replace the values of whole columns, in one commit: each fragment gets a new file for them.

    Rows keep their place, ids and other columns, and nothing else is rewritten, for example to recompute an
    embedding. Indices on the columns no longer cover these fragments until they are refreshed. Rows added
    concurrently keep their values.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        columns: SQL, a function or a reader, as for `add_columns`, with names of columns that are there.
        fragments: Ids of the fragments; all when None. A reader has a row for each live row of these.
        read_columns: See `add_columns`, as the next two.
        output_schema: See `add_columns`.
        batch_size: See `add_columns`.
        dry_run: Return the plan.
        **run: See `RunOptions`; it is resumed like `add_columns`.

    Raises:
        InvalidArgumentError: A column or fragment does not exist.
        SchemaMismatchError: A value does not fit its column; names column and row. Nothing was changed.
        CommitConflictError: Another commit stands in the way.

    Examples:
        >>> lo.replace_columns("events.lance", {"price": "price * 2"}).columns
        ('price',)
    """
    call = Run.start("replace_columns", uri_or_dataset, run)
    found = call.find_job()
    if found is not None and not dry_run:
        return ReplaceColumnsResult(**found)
    wanted = None if fragments is None else tuple(fragments)
    values = values_of(call.dataset, columns, read_columns, output_schema, batch_size)

    def plan(dataset: Dataset) -> ReplaceColumnsPlan:
        current = values
        gone = set(wanted or ()) - ids_of(dataset.fragments)
        if gone and gone <= ids_of(call.dataset.fragments):
            raise CommitConflictError(
                f"fragments {sorted(gone)[:8]} no longer exist",
                ours="replace_columns",
                theirs=f"version {dataset.version}",
                version=dataset.version,
                path=dataset.uri,
                hint="run it again for the remaining fragments",
            )
        if isinstance(columns, Mapping) and dataset.lance_schema != call.dataset.lance_schema:
            current = values_of(dataset, columns)
        return _plan(dataset, *current, wanted)

    if dry_run:
        return plan(call.dataset)
    return compute_and_commit(call, plan(call.dataset).transform, plan, _commit, ReplaceColumnsResult)


def _plan(
    dataset: Dataset, transform: Transform | None, arrow: pa.Schema, fragments: tuple[int, ...] | None
) -> ReplaceColumnsPlan:
    missing = sorted(set(arrow.names).difference(dataset.lance_schema.names))
    if missing or transform is None or not len(arrow) or len(set(arrow.names)) != len(arrow):
        raise InvalidArgumentError(
            f"cannot replace the columns {arrow.names} of {list(dataset.lance_schema.names)}",
            path=dataset.uri,
            field="columns",
            hint="use SQL, a function or a reader for existing columns",
        )
    transform.columns(dataset.lance_schema)
    known = ids_of(dataset.fragments)
    chosen = tuple(sorted(known)) if fragments is None else fragments
    unknown = sorted(set(chosen) - known)
    if unknown or len(set(chosen)) != len(chosen):
        raise InvalidArgumentError(
            f"fragments {unknown[:8]} do not exist" if unknown else "duplicate fragment id",
            path=dataset.uri,
            field="fragments",
        )
    schema = dataset.lance_schema.select(arrow.names)
    return ReplaceColumnsPlan(dataset.uri, dataset.version, schema, transform, chosen)


def _commit(work: ColumnWork, attempt: Attempt, plan: ReplaceColumnsPlan) -> ReplaceColumnsResult:
    names = tuple(plan.schema.names)
    if not plan.fragment_ids:
        return ReplaceColumnsResult(**attempt.common(), columns=names)
    work.transform = plan.transform
    done, size = work.commit_replacement(attempt, plan.schema, frozenset(plan.fragment_ids))
    if done.already_committed:
        return ReplaceColumnsResult(**attempt.common(done), columns=names)
    return ReplaceColumnsResult(
        **attempt.common(done),
        columns=names,
        fragments_updated=len(plan.fragment_ids),
        fragments_resumed=work.resumed,
        bytes_written=size,
    )
