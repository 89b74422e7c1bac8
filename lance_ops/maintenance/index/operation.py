"""Index operations: build, refresh with uncovered fragments, and rebuild."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, Unpack, overload

from lance_ops.errors import (
    CommitError,
    InvalidArgumentError,
    JobCancelledError,
    NotFoundError,
    StorageError,
    TaskFailedError,
    UnreadableIndexError,
)
from lance_ops.index.kind import Parameters
from lance_ops.index.registry import kind_by_name
from lance_ops.index.upkeep.build import ROWS_PER_TASK, build_segment, catch_up, segment_directory
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.index.decision import WearLimits
from lance_ops.maintenance.index.kept import why_unreadable
from lance_ops.maintenance.index.merging import MOST_SEGMENTS
from lance_ops.maintenance.index.plan import (
    IndexPlan,
    SegmentPlan,
    mean_coverage,
    plan_create_index,
)
from lance_ops.maintenance.index.refresh_plan import plan_optimize_indices
from lance_ops.maintenance.index.result import IndexResult
from lance_ops.maintenance.index.reuse_trim import SegmentNeeds
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.target import Target
from lance_ops.maintenance.tasks import remove_files, run_tasks
from lance_ops.maintenance.vanished import reading
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.feature_flags import uses_tagged_reuse
from lance_ops.table.manifest.fragment_reuse.write import write_fragment_reuse
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.transaction.operations import CreateIndex
from lance_ops.table.transaction.transaction import job_uuid

T = TypeVar("T")
R = TypeVar("R")

_OF_ALL = (CommitError, JobCancelledError, MemoryError, NotFoundError, OSError, StorageError)
"""Errors of the store, the process or the job, which end a refresh of several indices."""


class CreateArguments(RunOptions, total=False):
    """Keyword arguments of `create_index`, beside `RunOptions`; see there.

    Attributes:
        name: Name of the index.
        replace: Rebuild an index with this name.
        parameters: Parameters of the kind.
        train: See `create_index`.
        rows_per_task: Live rows that one task sorts.
    """

    name: str | None
    replace: bool
    parameters: Parameters | None
    train: bool
    rows_per_task: int


@overload
def create_index(
    target: Target,
    column: str,
    kind: str = "BTREE",
    *,
    dry_run: Literal[False] = False,
    **arguments: Unpack[CreateArguments],
) -> IndexResult: ...
@overload
def create_index(
    target: Target,
    column: str,
    kind: str = "BTREE",
    *,
    dry_run: Literal[True],
    **arguments: Unpack[CreateArguments],
) -> IndexPlan: ...
@overload
def create_index(
    target: Target, column: str, kind: str = "BTREE", *, dry_run: bool, **arguments: Unpack[CreateArguments]
) -> IndexResult | IndexPlan: ...
@cleans_up
def create_index(
    target: Target,
    column: str,
    kind: str = "BTREE",
    *,
    name: str | None = None,
    replace: bool = False,
    parameters: Parameters | None = None,
    train: bool = True,
    dry_run: bool = False,
    rows_per_task: int = ROWS_PER_TASK,
    **run: Unpack[RunOptions],
) -> IndexResult | IndexPlan:
    """Build an index on a column; see `plan_create_index` for what it raises and for the other arguments.

    Args:
        target: The dataset, see `Target`.
        column: Path of the column.
        kind: Kind of the index.
        name: Its name.
        replace: Rebuild an index with this name.
        parameters: Parameters of the kind (`{"metric": "cosine"}`).
        train: Read the rows. With False the index is created without coverage until `optimize_indices`;
            queries scan until then. Not for vector indices, which are trained on rows.
        dry_run: Return the plan.
        rows_per_task: Live rows that one task sorts.
        **run: See `RunOptions`.
    """
    for unknown in run.keys() - RunOptions.__annotations__.keys():
        raise TypeError(
            f"create_index got an unexpected keyword argument {unknown!r}; "
            f"parameters of the index stand in parameters={{{unknown!r}: ...}}"
        )

    def plan(dataset: Dataset) -> IndexPlan:
        return plan_create_index(
            dataset, column, kind, name=name, replace=replace, parameters=parameters, train=train
        )

    return _run(target, plan, rows_per_task, run, dry_run=dry_run)


class OptimizeArguments(RunOptions, total=False):
    """Keyword arguments of `optimize_indices`, beside `RunOptions`.

    Attributes:
        merge_segments: See `plan_optimize_indices`.
        rebuild: See `plan_optimize_indices`.
        num_indices_to_merge: The name of `merge_segments` in pylance.
        index_names: The name of `names` in pylance.
        retrain: The name of `rebuild` in pylance.
        most_segments: See `plan_optimize_indices`.
        limits: See `plan_optimize_indices`.
        rows_per_task: Live rows that one task reads.
    """

    merge_segments: int | None
    rebuild: bool
    num_indices_to_merge: int | None
    index_names: Sequence[str] | None
    retrain: bool
    most_segments: int
    limits: WearLimits | None
    rows_per_task: int


@overload
def optimize_indices(
    target: Target,
    names: Sequence[str] | None = None,
    *,
    dry_run: Literal[False] = False,
    **arguments: Unpack[OptimizeArguments],
) -> IndexResult: ...
@overload
def optimize_indices(
    target: Target,
    names: Sequence[str] | None = None,
    *,
    dry_run: Literal[True],
    **arguments: Unpack[OptimizeArguments],
) -> IndexPlan: ...
@overload
def optimize_indices(
    target: Target,
    names: Sequence[str] | None = None,
    *,
    dry_run: bool,
    **arguments: Unpack[OptimizeArguments],
) -> IndexResult | IndexPlan: ...
@cleans_up
def optimize_indices(
    target: Target,
    names: Sequence[str] | None = None,
    *,
    dry_run: bool = False,
    **arguments: Unpack[OptimizeArguments],
) -> IndexResult | IndexPlan:
    """Index uncovered rows, apply deferred remaps, or rebuild.

    Args:
        target: The dataset, see `Target`.
        names: Names of indices; all by default.
        dry_run: Return the plan, with the reason for each segment.
        **arguments: See `OptimizeArguments`, `plan_optimize_indices` and `RunOptions`.

    Raises:
        InvalidArgumentError: a name is unknown, or an argument is given under both names.
    """
    merge = _one_of(
        "merge_segments", arguments.pop("merge_segments", None), "num_indices_to_merge", arguments
    )
    names = _one_of("names", names, "index_names", arguments)
    rebuild = _one_of("rebuild", arguments.pop("rebuild", False) or None, "retrain", arguments) or False
    most = arguments.pop("most_segments", MOST_SEGMENTS)
    limits = arguments.pop("limits", None)
    rows_per_task = arguments.pop("rows_per_task", ROWS_PER_TASK)

    def plan(dataset: Dataset) -> IndexPlan:
        return plan_optimize_indices(
            dataset, names, merge_segments=merge, rebuild=rebuild, most_segments=most, limits=limits
        )

    return _run(target, plan, rows_per_task, arguments, dry_run=dry_run)


def _one_of(ours: str, value: Any, theirs: str, arguments: Any) -> Any:
    """Return a value given under our name or pylance's."""
    other = arguments.pop(theirs, None)
    if value is not None and other:
        raise InvalidArgumentError(f"{ours} and {theirs} are aliases", field=theirs, hint="use one of them")
    return other if value is None else value


def _run(
    target: Target,
    plan: Callable[[Dataset], IndexPlan],
    rows_per_task: int,
    options: RunOptions,
    *,
    dry_run: bool,
) -> IndexResult | IndexPlan:
    call = Run.start("index", target, options)
    if dry_run:
        return plan(call.dataset)
    return call.execute(
        plan, lambda attempt, planned: _build_and_commit(attempt, planned, rows_per_task), IndexResult
    )


def _build_and_commit(attempt: Attempt, plan: IndexPlan, rows_per_task: int) -> IndexResult:
    dataset = attempt.dataset
    done: list[SegmentPlan] = []
    built: list[IndexMetadata] = []
    skipped = list(plan.skipped)
    several = len({segment.name for segment in plan.segments}) > 1
    for segment in plan.segments:
        segment_id = uuid.UUID(job_uuid(attempt.run.commits.job_key))
        attempt.written.append(f"{segment_directory(segment_id)}/")
        try:
            with reading(dataset, f"the build of index {segment.name!r}"):
                built.append(_build(attempt, segment, segment_id, rows_per_task))
            done.append(segment)
        except Exception as error:
            cause = error.__cause__ if isinstance(error, TaskFailedError) else error
            if isinstance(cause, UnreadableIndexError):
                # The damage is in a part that planning does not check, and does not affect other indices.
                problem = why_unreadable(dataset, segment.name, cause)
            elif isinstance(cause, InvalidArgumentError) and not segment.is_asked_for:
                # The index cannot store some new rows; other indices are not affected.
                problem = f"{segment.name} is left unchanged: {cause.message}; {cause.hint}"
            elif _is_of_one_index(cause) and several and not segment.is_asked_for:
                problem = f"{segment.name} is left unchanged: {type(cause).__name__}: {cause}"
            else:
                raise
            remove_files(dataset.store, [attempt.written.pop()])
            skipped.append(problem)
    removed = [old for segment in done for old in segment.removed]
    complete = len(done) == len(plan.segments)
    trim = plan.trim if complete else SegmentNeeds(dataset).trim(removed)
    if not built and trim is None:
        looked_at = mean_coverage(dataset, plan.names)
        return IndexResult(
            **attempt.common(),
            coverage_before=looked_at,
            coverage_after=looked_at,
            skipped=tuple(skipped),
            choices=plan.choices,
        )
    entries = list(built)
    if trim is not None:
        removed.append(trim.entry)
        if trim.kept:
            entry_id = uuid.UUID(job_uuid(attempt.run.commits.job_key))
            attempt.written.append(f"{segment_directory(entry_id)}/")
            is_tagged = uses_tagged_reuse(dataset.manifest)
            entries.append(
                write_fragment_reuse(dataset.store, trim.kept, dataset.version, entry_id, is_tagged=is_tagged)
            )
    committed = attempt.commit(CreateIndex(tuple(entries), tuple(removed)))
    if committed.already_committed:
        return IndexResult(**attempt.common(committed))
    names = tuple(dict.fromkeys(segment.name for segment in done))
    return IndexResult(
        **attempt.common(committed),
        indices=names,
        rows_indexed=sum(segment.rows for segment in done),
        segments_added=len(built),
        segments_removed=sum(len(segment.removed) for segment in done),
        bytes_written=sum(file.size_bytes for segment in built for file in segment.files),
        coverage_before=mean_coverage(dataset, names),
        coverage_after=mean_coverage(committed.dataset, names),
        skipped=tuple(skipped),
        rebuilt=plan.rebuilt,
        compactions_caught_up=0 if trim is None else trim.dropped,
        choices=plan.choices,
    )


def _is_of_one_index(cause: BaseException | None) -> bool:
    """Return whether an error of a build does not affect the builds of other indices."""
    return isinstance(cause, Exception) and not isinstance(cause, _OF_ALL)


def _build(attempt: Attempt, plan: SegmentPlan, segment_id: uuid.UUID, rows_per_task: int) -> IndexMetadata:
    run = attempt.run
    dataset = attempt.dataset
    if plan.catches_up:
        return catch_up(dataset, plan.merged[0], segment_id)

    def run_all(function: Callable[[T], R], tasks: Sequence[T], message: str) -> list[R]:
        return run_tasks(run.runner, function, tasks, report=run.report, message=message)

    return build_segment(
        dataset,
        kind_by_name(plan.kind),
        plan.column,
        plan.name,
        segment_id=segment_id,
        merged=plan.merged,
        beside=[
            segment
            for segment in attempt.dataset.indices
            if segment.name == plan.name and segment not in plan.removed
        ],
        fragments=plan.fragments,
        rows_per_task=rows_per_task,
        row_ids=plan.row_ids,
        parameters=plan.parameters,
        run=run_all,
    )
