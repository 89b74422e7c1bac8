"""Delete by predicate: deletion vectors, no data file is rewritten.

Rows deleted concurrently by other writers are merged at the commit; when they rewrote or deleted the very
same rows, the search runs again on the head.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from numbers import Real
from typing import Literal, Unpack, overload

from lance_ops.errors import (
    CommitConflictError,
    InvalidArgumentError,
    RetryableCommitConflictError,
    check_type,
    public,
)
from lance_ops.filter import settled
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.delete.plan import (
    DeletePlan,
    FragmentMatch,
    find_rows,
    plan_delete,
    predicate_schema,
)
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.progress import Reporter
from lance_ops.maintenance.results import DeleteResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.maintenance.target import Target
from lance_ops.maintenance.tasks import remove_files, run_tasks
from lance_ops.storage import Durability, Store
from lance_ops.storage.prefetch import requests_at_once
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.deletion_file import write_deletion_file
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.pruner import Pruner
from lance_ops.table.side_sizes import with_side_sizes
from lance_ops.table.transaction.operations import Delete
from lance_ops.table.transaction.transaction import job_mark

_WRITERS = 8


@overload
def delete(
    uri_or_dataset: Target,
    predicate: str,
    *,
    dry_run: Literal[False] = False,
    max_fraction: float | None = None,
    pruners: Sequence[Pruner] = (),
    **run: Unpack[RunOptions],
) -> DeleteResult: ...
@overload
def delete(
    uri_or_dataset: Target,
    predicate: str,
    *,
    dry_run: Literal[True],
    max_fraction: float | None = None,
    pruners: Sequence[Pruner] = (),
    **run: Unpack[RunOptions],
) -> DeletePlan: ...
@overload
def delete(
    uri_or_dataset: Target,
    predicate: str,
    *,
    dry_run: bool,
    max_fraction: float | None = None,
    pruners: Sequence[Pruner] = (),
    **run: Unpack[RunOptions],
) -> DeleteResult | DeletePlan: ...
@public(target="uri_or_dataset", conflict_retries="max_replans", ignored=("retry_timeout",))
@cleans_up
def delete(
    uri_or_dataset: Target,
    predicate: str,
    *,
    dry_run: bool = False,
    max_fraction: float | None = None,
    pruners: Sequence[Pruner] = (),
    **run: Unpack[RunOptions],
) -> DeleteResult | DeletePlan:
    """Delete the rows for which a predicate is true. When none is, nothing is committed.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        predicate: SQL. Recorded in the transaction. Rows for which it is null stay. It may name `_rowid` and
            `_rowaddr`, and where row ids are stable the versions of a row.
        dry_run: Look for the rows, delete nothing, and return the plan with what was found.
        max_fraction: Refuse to delete more than this share of the live rows; 0 to 1.
        pruners: Indices that may narrow the search, as `IndexPruner()`. None by default:
            what is deleted then rests on the data alone.
        **run: See `RunOptions`.

    Raises:
        PredicateError: the predicate does not parse, or names an unknown column.
        InvalidArgumentError: more than `max_fraction` of the rows match; nothing was deleted.
        CommitConflictError: another commit stands in the way; of a predicate that names rows by where they
            lie: any that the deletes cannot be merged with, since rows may lie elsewhere now.

    Examples:
        >>> lo.delete("events.lance", "id > 7").rows_deleted
        2
    """
    if max_fraction is not None:
        check_type(max_fraction, Real, "a share of the rows", field="max_fraction")
    if max_fraction is not None and not 0 <= max_fraction <= 1:
        raise InvalidArgumentError(
            f"max_fraction must be between 0 and 1, got {max_fraction}", field="max_fraction"
        )
    call = Run.start("delete", uri_or_dataset, run, max_replans=10)
    predicate = settled(predicate, predicate_schema(call.dataset))

    def plan(dataset: Dataset) -> DeletePlan:
        return find_matches(plan_delete(dataset, predicate, pruners=pruners), call.runner, call.report)

    if dry_run:
        return plan(call.dataset)

    def guarded(attempt: Attempt, found: DeletePlan) -> DeleteResult:
        _guard(found, max_fraction)
        return commit_delete(attempt, found)

    done = partial(DeleteResult, predicate=predicate)
    return call.execute(
        plan, guarded, done, reads="a search", on_conflict=partial(search_again, call, predicate)
    )


def search_again(call: Run, predicate: str, conflict: RetryableCommitConflictError) -> None:
    """Search again after a conflict, unless the predicate depends on row addresses.

    Raises:
        CommitConflictError: It uses row addresses, and rows may have moved.
    """
    if plan_delete(call.dataset, predicate).names_places:
        raise CommitConflictError(
            "rows selected by address may have moved",
            ours=conflict.ours,
            theirs=conflict.theirs,
            version=conflict.version,
            path=call.store.uri,
            hint="read the addresses of the rows again",
        ) from conflict
    call.report(f"conflict, searching again: {conflict.theirs}")


def find_matches(plan: DeletePlan, runner: Runner, report: Reporter | None = None) -> DeletePlan:
    """Return the plan with the matching rows."""
    found = run_tasks(
        runner, find_rows, plan.tasks, report=report or Reporter("delete"), message="searching fragments"
    )
    return replace(plan, matches=tuple(chain.from_iterable(found)))


def commit_delete(attempt: Attempt, plan: DeletePlan) -> DeleteResult:
    """Write and commit the deletion files of a plan with matches, from `find_matches`.

    Raises:
        RetryableCommitConflictError: other writers changed the same rows.
    """
    matches = plan.matches or ()
    if not matches:
        return DeleteResult(**attempt.common(), predicate=plan.predicate)
    emptied = [match.fragment for match in matches if match.empties]
    written = write_deletion_files(attempt, matches)
    updated = tuple(item.fragment for item in written)
    done = attempt.commit(
        CommitRequest(
            Delete(updated, tuple(fragment.id for fragment in emptied), plan.predicate),
            affected_rows={match.fragment.id: match.matched for match in matches},
        )
    )
    if done.already_committed:
        return DeleteResult(**attempt.common(done), predicate=plan.predicate)
    return DeleteResult(
        **attempt.common(done),
        predicate=plan.predicate,
        rows_deleted=sum(len(match.matched) for match in matches),
        fragments_updated=len(updated),
        fragments_removed=len(emptied),
        bytes_written=sum(item.size for item in written),
        bytes_removed=_stored_bytes(attempt.dataset, emptied),
    )


def _stored_bytes(dataset: Dataset, fragments: Sequence[Fragment]) -> int:
    sized = with_side_sizes(dataset.bases, dataset.lance_schema, fragments)
    return sum(fragment.data_bytes for fragment in sized)


@dataclass(frozen=True, slots=True)
class _WriteTask:
    store: Store
    fragment: Fragment
    vector: DeletionVector
    read_version: int
    durable: Durability
    mark: int | None


@dataclass(frozen=True, slots=True)
class Written:
    """A fragment with its new deletion file, and the bytes of the file."""

    fragment: Fragment
    size: int


def _write_one(task: _WriteTask) -> Written:
    rows = task.fragment.physical_rows
    stored = write_deletion_file(
        task.store,
        task.fragment.id,
        task.read_version,
        task.vector,
        physical_rows=rows,
        durable=task.durable,
        mark=task.mark,
    )
    return Written(task.fragment.replace(deletion_file=stored.file), stored.size)


def write_deletion_files(attempt: Attempt, matches: Sequence[FragmentMatch]) -> list[Written]:
    """Write the deletion files of matches, except for fragments that become empty.

    With a job key their names contain its mark, so they must be committed under it and on this version:
    cleanup removes them after the commit of another run.

    Not done by the search: the total of all matches decides whether to delete at all.
    """
    dataset, commits = attempt.dataset, attempt.run.commits
    store, key = dataset.store, commits.job_key
    # Flushed while the commit is prepared: our committer ensures that all files exist before the version. For
    # a custom committer this is unknown.
    durable: Durability = "later" if commits.committer is None else "now"
    decides = commits.committer is None and store.supports_put_if_absent
    mark = job_mark(key) if key is not None and decides else None
    tasks = [
        _WriteTask(store, match.fragment, match.merged, dataset.version, durable, mark)
        for match in matches
        if not match.empties
    ]
    written = run_tasks(
        LocalRunner(max(_WRITERS, requests_at_once(store))),
        _write_one,
        tasks,
        report=attempt.run.report,
        message="writing deletion files",
        discard=lambda finished: remove_files(dataset.store, _paths(finished)),
    )
    attempt.written += _paths(written)
    return written


def _paths(written: Iterable[Written]) -> Iterator[str]:
    fragments = (item.fragment for item in written)
    return (item.deletion_file.path(item.id) for item in fragments if item.deletion_file is not None)


def _guard(plan: DeletePlan, max_fraction: float | None) -> None:
    if max_fraction is None or plan.rows_matched <= max_fraction * plan.total_rows:
        return
    raise InvalidArgumentError(
        f"{plan.rows_matched:,} of {plan.total_rows:,} rows match, more than max_fraction {max_fraction}; "
        "nothing was deleted",
        path=plan.uri,
        field="max_fraction",
        hint="check a dry run, then raise the limit",
    )
