"""Recast of written rows: new data files for an append that no longer fits the head.

The schema changed after the files were written: a column was cast, or dropped and added again. The rows are
read back from the files, matched by column name, and converted as `alter_columns` converts them. The source
of the data need not be readable twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_ops.errors import CommitConflictError, SchemaMismatchError
from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.file.schema.model import Schema
from lance_ops.maintenance.fit import first_misfit, fit, fits_type
from lance_ops.maintenance.ingest.plan import WriteTask, WriteTaskResult, write_task
from lance_ops.maintenance.live_rows import iter_live_rows, rows_per_batch
from lance_ops.maintenance.progress import Reporter
from lance_ops.maintenance.runner import Runner
from lance_ops.maintenance.tasks import remove_files, run_tasks, said_by_rows
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.field_history import find_origins
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class RecastTask:
    """Rows of one part of the data; serializable for executors.

    Attributes:
        written: The fragments of the part, with the schema that they were written for.
        task: Writes the rows for the head.
        sources: Columns of the part by their names in the head.
    """

    written: Snapshot
    task: WriteTask
    sources: Mapping[str, str]


def recast(
    task: WriteTask,
    base: Dataset | None,
    results: Sequence[WriteTaskResult],
    head: Dataset,
    *,
    runner: Runner,
    report: Reporter,
) -> list[WriteTaskResult]:
    """Rewrite rows that were written for an earlier schema.

    Args:
        task: The task that wrote them.
        base: The version for which they were written; None without a dataset.
        results: Its results. Their files are kept.
        head: The version to write for.
        runner: Writes the parts.
        report: Receives progress events.

    Returns:
        The new parts, in the order of `results`.

    Raises:
        CommitConflictError: A column was dropped, is required and missing, or has an incompatible type.
        SchemaMismatchError: A value does not fit the new type.
    """
    sources, problems = match_columns(task.schema, base, head)
    if problems:
        raise schema_conflict("append", head, problems)
    current = replace(task, schema=head.lance_schema, fill_missing=True)
    with said_by_rows():
        return run_tasks(
            runner,
            _recast_part,
            [
                RecastTask(head.narrowed(_numbered(part.fragments), task.schema), current, sources)
                for part in results
            ],
            report=report,
            message="writing rows for the new schema",
            discard=lambda done: remove_files(task.store, (path for part in done for path in part.paths)),
        )


def match_columns(
    written: Schema, base: Dataset | None, head: Dataset, *, adds_rows: bool = True
) -> tuple[Mapping[str, str], list[str]]:
    """Match written columns to columns of the head; returns also the conflicts.

    Args:
        written: The columns, with their ids in `base`.
        base: The version for which they were written; None without a dataset.
        head: A later version.
        adds_rows: The head must not require other columns.
    """
    wanted = head.lance_schema
    if has_blobs(written) or has_blobs(wanted):
        return {}, ["the data has blob columns, which cannot be rewritten"]
    origins: Mapping[int, int] = {}
    if base is not None:
        origins = find_origins(base, head, lambda version: head.read_transaction(version).operation)
    by_id = {field.id: field for field in written.fields}
    by_name = {field.name: field for field in written.fields}
    # A column that was renamed or cast, before one that has its former name now.
    sources = {
        field.name: by_id[origins[field.id]] for field in wanted.fields if origins.get(field.id) in by_id
    }
    taken = {field.id for field in sources.values()}
    problems = []
    for field in wanted.fields:
        now, same = field.arrow_type, by_name.get(field.name)
        if field.name in sources:
            before = sources[field.name].arrow_type
            if not fits_type(before, now):
                problems.append(
                    f"column {field.name!r} has type {now} now, to which {before} cannot be converted"
                )
        elif same is not None and same.id not in taken:
            sources[field.name] = same
            if same.arrow_type != now:
                problems.append(f"column {field.name!r} was replaced by one of type {now}")
        elif adds_rows and not field.nullable:
            problems.append(f"the new column {field.name!r} is not nullable")
    used = {field.id for field in sources.values()}
    problems += [f"column {field.name!r} was dropped" for field in written.fields if field.id not in used]
    return {name: field.name for name, field in sources.items()}, problems


def schema_conflict(ours: str, head: Dataset, problems: Sequence[str]) -> CommitConflictError:
    """Return the error for data that do not fit a concurrently changed schema."""
    return CommitConflictError(
        f"the schema of the dataset changed while the data was written: {'; '.join(problems)}",
        ours=ours,
        theirs=f"version {head.version}",
        version=head.version,
        path=head.uri,
        hint="run it again with data of the new schema",
    )


def _numbered(fragments: Sequence[Fragment]) -> list[Fragment]:
    return [fragment.replace(id=number) for number, fragment in enumerate(fragments)]


def _recast_part(part: RecastTask) -> WriteTaskResult:
    return write_task(part.task, _converted(part))


def _converted(part: RecastTask) -> Iterator[pa.RecordBatch]:
    fragments, own = part.written.fragments, part.written.lance_schema
    target = [field for field in part.task.schema.to_arrow() if field.name in part.sources]
    for batch in iter_live_rows(part.written, own, batch_rows=rows_per_batch(fragments)):
        columns = [convert(batch.column(part.sources[field.name]), field) for field in target]
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(target))


def convert(values: pa.Array, field: pa.Field) -> pa.Array:
    """Convert values to the present type of their column.

    Raises:
        SchemaMismatchError: A value does not fit; names column and value.
    """
    misfit = first_misfit(values, field.type)
    if misfit is not None:
        raise SchemaMismatchError(
            "values do not fit the present type of their column", [f"{field.name}: {misfit[1]}"]
        )
    return fit(values, field.type)
