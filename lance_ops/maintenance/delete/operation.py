"""Delete by predicate: deletion vectors, no data file is rewritten.

Rows that other writers delete at the same time merge at the commit; when they rewrote or deleted the very
same rows, the search runs again on the head.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from numbers import Real

from lance_ops.errors import (
    CommitConflictError,
    InvalidArgumentError,
    RetryableCommitConflictError,
    check_type,
)
from lance_ops.filter import settled
from lance_ops.maintenance.cleanup.auto import cleans_up, commit
from lance_ops.maintenance.delete.plan import (
    DeletePlan,
    FragmentMatch,
    find_rows,
    plan_delete,
    predicate_schema,
)
from lance_ops.maintenance.progress import Progress, Reporter
from lance_ops.maintenance.results import DeleteResult
from lance_ops.maintenance.retry import Replans, with_replanning
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.maintenance.target import Target, open_latest
from lance_ops.maintenance.tasks import is_not_committed, remove_files, run_tasks
from lance_ops.maintenance.vanished import reading
from lance_ops.storage import Durability, Store
from lance_ops.table.commit.committer import Committer
from lance_ops.table.commit.job_keys import find_job
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.deletion_vector import (
    DeletionVector,
    encode_deletion_vector,
    write_deletion_file,
)
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.pruner import Pruner
from lance_ops.table.transaction.operations import Delete

_WRITERS = 8


@cleans_up
def delete(
    target: Target,
    predicate: str,
    *,
    dry_run: bool = False,
    max_fraction: float | None = None,
    pruners: Sequence[Pruner] = (),
    runner: Runner | None = None,
    job_key: str | None = None,
    properties: Mapping[str, str] | None = None,
    max_replans: int = 10,
    progress: Progress | None = None,
    committer: Committer | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DeleteResult | DeletePlan:
    """Delete the rows for which a predicate is true. When none is, nothing is committed.

    Args:
        target: The dataset; a `Dataset` stands for its head.
        predicate: SQL. Recorded in the transaction. Rows for which it is null stay. It may name `_rowid` and
            `_rowaddr`, and where row ids are stable the versions of a row.
        dry_run: Look for the rows, delete nothing, and return the plan with what was found.
        max_fraction: Refuse to delete more than this share of the live rows; 0 to 1.
        pruners: Indices that may narrow the search, e.g. `lance_ops.index.pruner.IndexPruner()`. None by
            default: what is deleted then rests on the data alone.
        runner: Executes the search; threads of this process by default.
        job_key: Names this piece of work: a second call with the same key finds the first one's commit and
            changes nothing.
        properties: Kept in the transaction, e.g. the id of the run.
        max_replans: How often to search again on the head after a conflict.
        progress: Receives events.
        committer: Stores the manifest, where the store alone cannot decide a race.
        storage_options: For the store.

    Raises:
        PredicateError: the predicate does not parse, or names a column that is not there.
        InvalidArgumentError: more than `max_fraction` of the rows match; nothing was deleted.
        CommitConflictError: another commit stands in the way; of a predicate that names rows by where they
            lie: any that the deletes cannot be merged with, since rows may lie elsewhere now.
    """
    started = time.monotonic()
    if max_fraction is not None:
        check_type(max_fraction, Real, "a share of the rows", field="max_fraction")
    if max_fraction is not None and not 0 <= max_fraction <= 1:
        raise InvalidArgumentError(f"a share of the rows is 0 to 1, not {max_fraction}", field="max_fraction")
    dataset = open_latest(target, storage_options)
    predicate = settled(predicate, predicate_schema(dataset))
    runner = runner or LocalRunner()
    report = Reporter("delete", progress)
    if dry_run:
        return find_matches(plan_delete(dataset, predicate, pruners=pruners), runner, report)
    if job_key is not None and (found := find_job(dataset, job_key, is_head=True)) is not None:
        return _already_committed(dataset, predicate, found.version, started)

    def attempt(replans: Replans) -> DeleteResult:
        head = dataset.latest() if replans.count else dataset
        with reading(head, "a search"):
            plan = find_matches(plan_delete(head, predicate, pruners=pruners), runner, report)
        _guard(plan, max_fraction)
        result = commit_delete(
            head,
            plan,
            job_key=job_key,
            properties=properties,
            committer=committer,
            report=report,
            job_is_new=not replans.count,
        )
        return replace(
            result,
            read_version=head.version,
            seconds=time.monotonic() - started,
            attempts=result.attempts + replans.count,
            conflicts=(*replans.conflicts, *result.conflicts),
        )

    def search_again(conflict: RetryableCommitConflictError, _: int) -> None:
        if plan_delete(dataset, predicate).names_places:
            raise CommitConflictError(
                "rows that are named by where they lie may have moved",
                ours=conflict.ours,
                theirs=conflict.theirs,
                version=conflict.version,
                path=dataset.uri,
                hint="read the addresses of the rows again",
            ) from conflict
        report(f"conflict, searching again: {conflict.theirs}")

    return with_replanning(attempt, max_replans=max_replans, on_conflict=search_again)


def find_matches(plan: DeletePlan, runner: Runner, report: Reporter | None = None) -> DeletePlan:
    """The plan with the rows that match."""
    found = run_tasks(
        runner, find_rows, plan.tasks, report=report or Reporter("delete"), message="searching fragments"
    )
    return replace(plan, matches=tuple(chain.from_iterable(found)))


def commit_delete(
    dataset: Dataset,
    plan: DeletePlan,
    *,
    job_key: str | None = None,
    properties: Mapping[str, str] | None = None,
    committer: Committer | None = None,
    report: Reporter | None = None,
    job_is_new: bool = False,
) -> DeleteResult:
    """Write the deletion files of a plan with matches and commit them.

    Args:
        dataset: The version that the plan was made from.
        plan: From `find_matches`.
        job_key: See `delete`, as the others.
        properties: See `delete`.
        committer: See `delete`.
        report: Receives events.
        job_is_new: See `commit`.

    Raises:
        RetryableCommitConflictError: other writers changed the same rows. Our deletion files are removed.
    """
    report = report or Reporter("delete")
    started = time.monotonic()
    matches = plan.matches or ()
    unchanged = DeleteResult(
        uri=dataset.uri,
        read_version=dataset.version,
        version=dataset.version,
        seconds=0.0,
        predicate=plan.predicate,
    )
    if not matches:
        return unchanged
    emptied = [match.fragment for match in matches if match.empties]
    written = write_deletion_files(dataset, matches, report, durable="later" if committer is None else "now")
    updated = [item.fragment for item in written]
    operation = Delete(tuple(updated), tuple(fragment.id for fragment in emptied), plan.predicate)
    report("committing", 0, 1)
    try:
        done = commit(
            dataset,
            operation,
            properties=properties,
            job_key=job_key,
            committer=committer,
            affected_rows={match.fragment.id: match.matched for match in matches},
            job_is_new=job_is_new,
        )
    except Exception as error:
        if is_not_committed(error):
            remove_deletion_files(dataset.store, updated)
        raise
    report("committed", 1, 1)
    if done.already_committed:
        orphans = set(done.orphans)
        remove_deletion_files(
            dataset.store,
            (item for item in updated if item.deletion_file and item.deletion_file.path(item.id) in orphans),
        )
        return _already_committed(dataset, plan.predicate, done.version, started)
    return replace(
        unchanged,
        version=done.version,
        seconds=time.monotonic() - started,
        attempts=done.attempts,
        conflicts=done.conflicts,
        rows_deleted=sum(len(match.matched) for match in matches),
        fragments_updated=len(updated),
        fragments_removed=len(emptied),
        bytes_written=sum(item.size for item in written),
        bytes_removed=sum(fragment.data_bytes for fragment in emptied),
    )


@dataclass(frozen=True, slots=True)
class _WriteTask:
    store: Store
    fragment: Fragment
    vector: DeletionVector
    read_version: int
    durable: Durability


@dataclass(frozen=True, slots=True)
class Written:
    """A fragment with its new deletion file, and the bytes of the file."""

    fragment: Fragment
    size: int


def _write_one(task: _WriteTask) -> Written:
    rows = task.fragment.physical_rows
    file = write_deletion_file(
        task.store,
        task.fragment.id,
        task.read_version,
        task.vector,
        physical_rows=rows,
        durable=task.durable,
    )
    size = len(encode_deletion_vector(task.vector, file.file_type))
    return Written(task.fragment.replace(deletion_file=file), size)


def write_deletion_files(
    dataset: Dataset, matches: Sequence[FragmentMatch], report: Reporter, *, durable: Durability = "now"
) -> list[Written]:
    """Write the deletion files of what was found, but for fragments that are emptied.

    Not done by the search: only the sum of all matches tells whether to delete at all.

    Args:
        dataset: The version that was searched.
        matches: What was found.
        report: Receives events.
        durable: See `write_data_files`.
    """
    tasks = [
        _WriteTask(dataset.store, match.fragment, match.merged, dataset.version, durable)
        for match in matches
        if not match.empties
    ]
    return run_tasks(
        LocalRunner(_WRITERS),
        _write_one,
        tasks,
        report=report,
        message="writing deletion files",
        discard=lambda written: remove_deletion_files(dataset.store, [item.fragment for item in written]),
    )


def remove_deletion_files(store: Store, fragments: Iterable[Fragment]) -> None:
    """Delete the deletion files of fragments that no version refers to."""
    remove_files(
        store,
        (item.deletion_file.path(item.id) for item in fragments if item.deletion_file is not None),
    )


def _guard(plan: DeletePlan, max_fraction: float | None) -> None:
    if max_fraction is None or plan.rows_matched <= max_fraction * plan.total_rows:
        return
    raise InvalidArgumentError(
        f"{plan.rows_matched:,} of {plan.total_rows:,} rows match, more than the share of {max_fraction} "
        "that may be deleted; nothing was deleted",
        path=plan.uri,
        field="max_fraction",
        hint="look at a dry run, then raise the limit",
    )


def _already_committed(dataset: Dataset, predicate: str, version: int, started: float) -> DeleteResult:
    return DeleteResult(
        uri=dataset.uri,
        read_version=dataset.version,
        version=version,
        seconds=time.monotonic() - started,
        attempts=0,
        already_committed=True,
        predicate=predicate,
    )
