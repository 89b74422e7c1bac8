"""Compaction of columns: the data files of each fragment become one, by copying their pages.

Fragments keep their ids and rows their addresses, so that indices, deletion files, row ids and row versions
stay as they are. It is committed as a Rewrite in place: other libraries read it as a compaction that moved no
row, and plan deletes, updates, compactions and index builds on these fragments again.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal, Unpack, overload

from lance_ops.errors import public
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.column_files.plan import (
    MIN_DEAD_RATIO,
    MIN_FILES,
    ColumnFilesPlan,
    plan_column_files,
)
from lance_ops.maintenance.column_files.work import JoinTask, discard_joins, join_fragment
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.results import CompactColumnsResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.target import Target
from lance_ops.maintenance.tasks import run_tasks
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.operations import Rewrite, RewriteGroup
from lance_ops.table.transaction.transaction import ROW_ORDER_KEPT, ROW_ORDER_KEY

_Groups = Sequence[Sequence[str]] | None


@overload
def compact_columns(
    uri_or_dataset: Target,
    *,
    column_groups: _Groups = None,
    min_files: int = MIN_FILES,
    min_dead_ratio: float = MIN_DEAD_RATIO,
    max_bytes: int | None = None,
    dry_run: Literal[False] = False,
    **run: Unpack[RunOptions],
) -> CompactColumnsResult: ...
@overload
def compact_columns(
    uri_or_dataset: Target,
    *,
    column_groups: _Groups = None,
    min_files: int = MIN_FILES,
    min_dead_ratio: float = MIN_DEAD_RATIO,
    max_bytes: int | None = None,
    dry_run: Literal[True],
    **run: Unpack[RunOptions],
) -> ColumnFilesPlan: ...
@overload
def compact_columns(
    uri_or_dataset: Target,
    *,
    column_groups: _Groups = None,
    min_files: int = MIN_FILES,
    min_dead_ratio: float = MIN_DEAD_RATIO,
    max_bytes: int | None = None,
    dry_run: bool,
    **run: Unpack[RunOptions],
) -> CompactColumnsResult | ColumnFilesPlan: ...
@public(target="uri_or_dataset", conflict_retries="max_replans", ignored=("retry_timeout",))
@cleans_up
def compact_columns(
    uri_or_dataset: Target,
    *,
    column_groups: _Groups = None,
    min_files: int = MIN_FILES,
    min_dead_ratio: float = MIN_DEAD_RATIO,
    max_bytes: int | None = None,
    dry_run: bool = False,
    **run: Unpack[RunOptions],
) -> CompactColumnsResult | ColumnFilesPlan:
    """Join the data files of each fragment, and leave dropped columns behind.

    Pages are copied as they are. Fragments, rows, row addresses, deletion files and indices stay the same;
    the next cleanup removes the old files. A fragment has several data files after columns were added or
    replaced.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        column_groups: Top-level columns that get a data file of their own, a list of names for each file; all
            others are in one more. One file for all columns by default. A fragment keeps a file for each
            storage version.
        min_files: Join the files of fragments with at least so many; at least 2.
        min_dead_ratio: Write a fragment again if dropped columns are at least this share of its bytes, 0 to
            1, however few files it has.
        max_bytes: Maximum bytes read and written; fragments with most files first. The rest is left to the
            next run.
        dry_run: Return the plan and change nothing.
        **run: See `RunOptions`.

    Raises:
        InvalidArgumentError: An option is out of range, or a column does not exist.
        CorruptFileError: A data file is damaged; nothing was committed.
        CommitConflictError: Other writers changed the same fragments, after `max_replans` new plans. Appends,
            deletes and new indices are no conflict.

    Examples:
        >>> lo.compact_columns("events.lance").summary()
        'nothing to do'
    """
    call = Run.start("compact_columns", uri_or_dataset, run)

    def plan(dataset: Dataset) -> ColumnFilesPlan:
        return plan_column_files(
            dataset,
            column_groups,
            min_files=min_files,
            min_dead_ratio=min_dead_ratio,
            max_bytes=max_bytes,
        )

    if dry_run:
        return plan(call.dataset)
    groups = tuple(tuple(group) for group in column_groups or ())
    return call.execute(plan, partial(_commit, groups=groups), CompactColumnsResult)


def _commit(
    attempt: Attempt, plan: ColumnFilesPlan, *, groups: tuple[tuple[str, ...], ...]
) -> CompactColumnsResult:
    dataset, commits = attempt.dataset, attempt.run.commits
    tasks = [JoinTask(dataset.narrowed([item.fragment]), groups, commits.job_key) for item in plan.fragments]
    if not tasks:
        return CompactColumnsResult(**attempt.common(), notes=plan.notes)
    joined = run_tasks(
        attempt.run.runner,
        join_fragment,
        tasks,
        report=attempt.run.report,
        message="joining data files",
        discard=partial(discard_joins, dataset.store),
    )
    changed = [item for item in joined if item.new is not item.old and item.new.files != item.old.files]
    attempt.written += [path for item in changed for path in item.paths]
    notes = tuple(dict.fromkeys((*plan.notes, *(note for item in joined for note in item.notes))))
    if not changed:
        return CompactColumnsResult(**attempt.common(), notes=notes)
    groups_changed = tuple(RewriteGroup((item.old,), (item.new,)) for item in changed)
    done = attempt.commit(CommitRequest(Rewrite(groups_changed), properties={ROW_ORDER_KEY: ROW_ORDER_KEPT}))
    if done.already_committed:
        return CompactColumnsResult(**attempt.common(done), notes=notes)
    written = sum(file.size_bytes for item in changed for file in item.written)
    removed = sum(item.bytes_removed for item in changed)
    return CompactColumnsResult(
        **attempt.common(done),
        fragments=len(changed),
        files_removed=sum(len(item.old.files) - len(item.new.files) + len(item.written) for item in changed),
        files_added=sum(len(item.written) for item in changed),
        bytes_written=written,
        bytes_removed=removed,
        bytes_freed=max(0, removed - written),
        notes=notes,
    )
