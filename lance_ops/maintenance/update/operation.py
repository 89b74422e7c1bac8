"""Update: set columns of rows by SQL, exactly once with a job key.

The rows are marked deleted, and written again with all columns: the specification calls this rewriting rows.
Rows keep their stable ids, and the version that created them. Concurrent deletes are merged at the commit;
after concurrent changes of the very same rows, the search is repeated on the head. Optionally, columns are
rewritten instead, see `in_place`: then any change of the same fragments conflicts.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Literal, Unpack, overload

from lance_ops.errors import public
from lance_ops.filter import settled
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.delete.operation import find_matches, search_again, write_deletion_files
from lance_ops.maintenance.delete.plan import plan_delete, predicate_schema
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.maintenance.target import Target
from lance_ops.maintenance.tasks import reading, run_tasks, said_by_rows
from lance_ops.maintenance.update.assignments import parse_assignments
from lance_ops.maintenance.update.in_place import Rewrite, choose, update_in_place
from lance_ops.maintenance.update.plan import EVERY_ROW, UpdatePlan
from lance_ops.maintenance.update.result import UpdateResult
from lance_ops.maintenance.update.rewrite import RewriteTask, data_paths, discard, rewrite_rows, share_parts
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.pruner import Pruner
from lance_ops.table.transaction.operations import Update

UPDATE_KEY = "lance_ops.update"
"""Property of the transaction: the columns and the condition, as JSON."""

_ROWS_PER_TASK = 1 << 18


@overload
def update(
    uri_or_dataset: Target,
    values: Mapping[str, str],
    where: str | None = None,
    *,
    rewrite: Rewrite = "rows",
    dry_run: Literal[False] = False,
    pruners: Sequence[Pruner] = (),
    **run: Unpack[RunOptions],
) -> UpdateResult: ...
@overload
def update(
    uri_or_dataset: Target,
    values: Mapping[str, str],
    where: str | None = None,
    *,
    rewrite: Rewrite = "rows",
    dry_run: Literal[True],
    pruners: Sequence[Pruner] = (),
    **run: Unpack[RunOptions],
) -> UpdatePlan: ...
@overload
def update(
    uri_or_dataset: Target,
    values: Mapping[str, str],
    where: str | None = None,
    *,
    rewrite: Rewrite = "rows",
    dry_run: bool,
    pruners: Sequence[Pruner] = (),
    **run: Unpack[RunOptions],
) -> UpdateResult | UpdatePlan: ...
@public(
    target="uri_or_dataset",
    updates="values",
    conflict_retries="max_replans",
    ignored=("retry_timeout",),
    refused={"data_storage_version": "rows are written in the version of the dataset"},
)
@cleans_up
def update(
    uri_or_dataset: Target,
    values: Mapping[str, str],
    where: str | None = None,
    *,
    rewrite: Rewrite = "rows",
    dry_run: bool = False,
    pruners: Sequence[Pruner] = (),
    **run: Unpack[RunOptions],
) -> UpdateResult | UpdatePlan:
    """Set columns of rows to new values. Without matching rows, nothing is committed.

    All expressions read the old values. A value that its column cannot hold (a fraction for an integer, a
    number that is too large, a null where none may be) is an error, and nothing is changed; write a CAST to
    cut it.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        values: For each column an SQL expression, such as `{"x": "x + 1", "s": "upper(s)"}`. Whole columns
            only. It may name what `where` may.
        where: SQL; rows for which it is true are updated. All rows when None. It may name `_rowid` and
            `_rowaddr`, and where row ids are stable the versions of a row.
        rewrite: "rows" moves the rows to new fragments, with all their columns. "columns" leaves them where
            they are, and gives their fragments files with the changed columns of all rows: indices on other
            columns stay whole, those on these columns lose the fragments until they are refreshed, and the
            update does not wait for writers of the same fragments, but starts again. "auto" takes the one
            that writes fewer bytes, and rows where a changed column has an index. Without stable row ids a
            change feed does not know which rows were changed in place, and refuses to go past that version.
        dry_run: Look for the rows, change nothing, and return the plan with what was found.
        pruners: Indices that may narrow the search, as `IndexPruner()`. None by default:
            what is updated then rests on the data alone.
        **run: See `RunOptions`.

    Raises:
        InvalidArgumentError: A column does not exist, or no value was given; or blob columns, or columns with
            overlays, cannot be rewritten in place.
        PredicateError: A condition or an expression does not parse, names an unknown column, cannot be
            computed, or has an incompatible type.
        SchemaMismatchError: A value does not fit its column; it names column and row.
        CommitConflictError: Another commit stands in the way; of a condition that names rows by where they
            lie: any that the update cannot be merged with, since rows may lie elsewhere now.

    Examples:
        >>> lo.update("events.lance", {"price": "price + 1"}, where="kind = 'a'").rows_updated
        5
    """
    call = Run.start("update", uri_or_dataset, run)
    named = predicate_schema(call.dataset)
    condition = EVERY_ROW if where is None else settled(where, named)
    # Once: what means today means the same day in every attempt.
    first = parse_assignments(values, call.dataset.schema, named)

    def plan(dataset: Dataset) -> UpdatePlan:
        assignments = first
        if dataset.lance_schema != call.dataset.lance_schema:
            assignments = parse_assignments(values, dataset.schema, predicate_schema(dataset))
        with said_by_rows():
            search = find_matches(plan_delete(dataset, condition, pruners=pruners), call.runner, call.report)
        way, why = choose(dataset, search.matches or (), assignments, rewrite)
        return UpdatePlan(search, assignments, way, why)

    if dry_run:
        return plan(call.dataset)

    done = partial(UpdateResult, where=condition, columns=tuple(values))
    again = partial(search_again, call, condition)
    return call.execute(plan, commit_update, done, reads="a search", on_conflict=again)


def commit_update(attempt: Attempt, plan: UpdatePlan) -> UpdateResult:
    """Write and commit the rows of a plan and the deletion files; or the columns.

    Raises:
        RetryableCommitConflictError: Other writers changed the same rows.
        SchemaMismatchError: See `update`.
    """
    columns = tuple(item.column for item in plan.assignments)
    matches = plan.search.matches or ()
    if not matches:
        return UpdateResult(**attempt.common(), where=plan.where, columns=columns)
    dataset = attempt.dataset
    noted = {"values": {item.column: item.sql for item in plan.assignments}, "where": plan.where}
    properties = {UPDATE_KEY: json.dumps(noted)}
    if plan.rewrite == "columns":
        with reading(dataset, "an update"), said_by_rows():
            operation, size = update_in_place(attempt, matches, plan.assignments)
        done = attempt.commit(CommitRequest(operation, properties=properties))
        if done.already_committed:
            return UpdateResult(**attempt.common(done), where=plan.where, columns=columns)
        return UpdateResult(
            **attempt.common(done),
            where=plan.where,
            columns=columns,
            rewrite="columns",
            rows_updated=plan.rows_matched,
            fragments_updated=len(matches),
            bytes_written=size,
        )
    with reading(dataset, "an update"), said_by_rows():
        new = _write_rows(attempt, plan)
    updated = write_deletion_files(attempt, matches)
    emptied = tuple(match.fragment.id for match in matches if match.empties)
    schema = dataset.lance_schema
    changed = [field for field in schema.fields if field.name in columns]
    fields = tuple(sorted(node.id for field in changed for node in field.walk()))
    done = attempt.commit(
        CommitRequest(
            Update(
                emptied,
                tuple(item.fragment for item in updated),
                new,
                preserving_fields=fields,
                sees_new_rows=False,
            ),
            properties=properties,
            affected_rows={match.fragment.id: match.matched for match in matches},
        )
    )
    if done.already_committed:
        return UpdateResult(**attempt.common(done), where=plan.where, columns=columns)
    return UpdateResult(
        **attempt.common(done),
        where=plan.where,
        columns=columns,
        rows_updated=plan.rows_matched,
        fragments_added=len(new),
        fragments_updated=len(updated),
        fragments_removed=len(emptied),
        bytes_written=sum(part.data_bytes for part in new) + sum(item.size for item in updated),
    )


def _write_rows(attempt: Attempt, plan: UpdatePlan) -> tuple[Fragment, ...]:
    dataset, run = attempt.dataset, attempt.run
    here = run.commits.committer is None and isinstance(run.runner, LocalRunner)
    tasks = [
        RewriteTask(
            dataset.narrowed([part.fragment for part in parts]),
            parts,
            plan.assignments,
            dataset.data_storage_version,
            job_key=run.commits.job_key,
            # Flushed while the commit is prepared: our committer ensures that all files exist before the
            # version.
            durable="later" if here else "now",
        )
        for parts in share_parts(plan.search.matches or (), _ROWS_PER_TASK)
    ]
    written = run_tasks(
        run.runner,
        rewrite_rows,
        tasks,
        report=run.report,
        message="writing rows",
        discard=partial(discard, dataset.store),
    )
    new = tuple(chain.from_iterable(written))
    attempt.written += data_paths(new)
    return new
