"""Index operations: build, refresh with uncovered fragments, and rebuild."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast, overload

from lance_ops.errors import (
    CommitError,
    InvalidArgumentError,
    JobCancelledError,
    NotFoundError,
    StorageError,
    TaskFailedError,
    UnreadableIndexError,
    check_type,
    public,
)
from lance_ops.index.kind import Parameters
from lance_ops.index.registry import kind_by_name
from lance_ops.index.upkeep.remap import ROWS_PER_TASK, build_segment, catch_up, segment_directory
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
from lance_ops.maintenance.tasks import reading, remove_files, run_tasks
from lance_ops.table.commit.request import CommitRequest
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


class VectorParameters(TypedDict, total=False):
    """Parameters of a vector index: IVF_FLAT, IVF_SQ, IVF_PQ, IVF_RQ and IVF_HNSW_FLAT, _SQ and _PQ.

    Attributes:
        metric: "l2", "cosine", "dot" or, for bytes, "hamming".
        num_partitions: Partitions; from the number of rows when None.
        target_partition_size: Rows of a partition, in place of `num_partitions`.
        sample_rate: Rows for training, for each centroid.
        max_iters: Rounds of training at most.
        num_sub_vectors: Of PQ: codes of a vector; a sixteenth of its dimension when None.
        num_bits: Bits of a code: 4 or 8 of PQ, 1 to 9 of RQ.
        m: Of HNSW: neighbors of a node.
        ef_construction: Of HNSW: candidates while a node is added.
        max_level: Of HNSW: levels of the graph.
    """

    metric: str
    num_partitions: int | None
    target_partition_size: int | None
    sample_rate: int
    max_iters: int
    num_sub_vectors: int | None
    num_bits: int
    m: int
    ef_construction: int
    max_level: int


class InvertedParameters(TypedDict, total=False):
    """Parameters of a full-text index, INVERTED; the [guide](search.md) describes the tokenizers.

    Attributes:
        base_tokenizer: "simple", "whitespace", "raw", "ngram", "code", or one of a language library.
        language: Language of stems and stop words.
        with_position: Store positions of words, which phrases need.
        max_token_length: Leave out words of so many bytes or more; None keeps all.
        lower_case: Compare words in lower case.
        stem: Reduce words to their stems.
        remove_stop_words: Leave out stop words.
        custom_stop_words: Stop words in place of those of the language.
        ascii_folding: Compare letters without accents.
        min_ngram_length: Of "ngram": least number of characters.
        max_ngram_length: Of "ngram": greatest number of characters.
        prefix_only: Of "ngram": n-grams at the start of a text alone.
        split_identifiers: Of "code": split identifiers into parts.
        split_on_numerics: Of "code": split between digits and letters.
        preserve_original: Of "code": keep the identifier beside its parts.
        index_operators: Of "code": index operators.
        lance_tokenizer: "text" or "json"; follows from the column.
        block_size: Documents of a block of postings: 128 or 256.
        format_version: Version of the files, 0 to 3; see `BuildParameters`.
        memory_limit: MiB that a task may hold.
    """

    base_tokenizer: str
    language: str
    with_position: bool
    max_token_length: int | None
    lower_case: bool
    stem: bool
    remove_stop_words: bool
    custom_stop_words: Sequence[str] | None
    ascii_folding: bool
    min_ngram_length: int
    max_ngram_length: int
    prefix_only: bool
    split_identifiers: bool
    split_on_numerics: bool
    preserve_original: bool
    index_operators: bool
    lance_tokenizer: str | None
    block_size: int
    format_version: int | str
    memory_limit: int


class BTreeParameters(TypedDict, total=False):
    """Parameters of a BTREE.

    Attributes:
        zone_size: Rows of a page, 4096 by default.
    """

    zone_size: int


class ZoneMapParameters(TypedDict, total=False):
    """Parameters of a ZONEMAP.

    Attributes:
        rows_per_zone: Rows of a zone, 8192 by default.
    """

    rows_per_zone: int


class BloomFilterParameters(TypedDict, total=False):
    """Parameters of a BLOOMFILTER.

    Attributes:
        number_of_items: Rows of a zone, 8192 by default.
        probability: Share of zones that are read without a match, 0.00057 by default.
    """

    number_of_items: int
    probability: float


class RTreeParameters(TypedDict, total=False):
    """Parameters of an RTREE.

    Attributes:
        page_size: Boxes of a page, 4096 by default.
    """

    page_size: int


class JsonParameters(TypedDict, total=False):
    """Parameters of a JSON index.

    Attributes:
        path: Path of the values within the documents, such as `a.b`.
        target_index_type: Kind of the index on the values, "btree" by default.
        target_index_parameters: Parameters of that kind.
        target_data_type: Type of the values; that of the first one by default.
    """

    path: str
    target_index_type: str
    target_index_parameters: Mapping[str, Any] | str | None
    target_data_type: str | None


class IndexParameters(
    VectorParameters,
    InvertedParameters,
    BTreeParameters,
    ZoneMapParameters,
    BloomFilterParameters,
    RTreeParameters,
    JsonParameters,
    total=False,
):
    """Parameters of all kinds of index; BITMAP, LABEL_LIST and NGRAM have none."""


class CreateOptions(IndexParameters, RunOptions, total=False):
    """`IndexParameters` and `RunOptions`."""


class CreateArguments(CreateOptions, total=False):
    """What `create_index` takes by name, beside `CreateOptions`; see there for all of them.

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
    uri_or_dataset: Target,
    column: str,
    kind: str = "BTREE",
    *,
    dry_run: Literal[False] = False,
    **arguments: Unpack[CreateArguments],
) -> IndexResult: ...
@overload
def create_index(
    uri_or_dataset: Target,
    column: str,
    kind: str = "BTREE",
    *,
    dry_run: Literal[True],
    **arguments: Unpack[CreateArguments],
) -> IndexPlan: ...
@overload
def create_index(
    uri_or_dataset: Target,
    column: str,
    kind: str = "BTREE",
    *,
    dry_run: bool,
    **arguments: Unpack[CreateArguments],
) -> IndexResult | IndexPlan: ...
@public(
    target="uri_or_dataset",
    index_type="kind",
    distance_type="metric",
    metric_type="metric",
    max_iterations="max_iters",
    ignored=(
        "accelerator",
        "filter_nan",
        "index_cache_size",
        "progress_callback",
        "shuffle_partition_batches",
        "shuffle_partition_concurrency",
    ),
    refused={
        "fragment_ids": "an index covers all fragments",
        "index_uuid": "each segment gets a new one",
        "ivf_centroids_file": "give ivf_centroids",
        "precomputed_partition_dataset": "leave it out: vectors are assigned here",
    },
)
@cleans_up
def create_index(
    uri_or_dataset: Target,
    column: str,
    kind: str = "BTREE",
    *,
    name: str | None = None,
    replace: bool = False,
    parameters: Parameters | None = None,
    train: bool = True,
    dry_run: bool = False,
    rows_per_task: int = ROWS_PER_TASK,
    **options: Unpack[CreateOptions],
) -> IndexResult | IndexPlan:
    """Build an index on a column.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        column: Path of the column.
        kind: Kind of the index, in upper or lower case: BTREE, BITMAP, LABEL_LIST, NGRAM, ZONEMAP,
            BLOOMFILTER, RTREE, JSON, INVERTED (full text), or IVF_FLAT, IVF_SQ, IVF_PQ, IVF_RQ,
            IVF_HNSW_FLAT, IVF_HNSW_SQ and IVF_HNSW_PQ for vectors.
        name: Its name; `{column}_idx` by default, followed by a number where an index of another kind has
            that name.
        replace: Rebuild the index if there is one of this name.
        parameters: Parameters of the kind as a mapping, such as `{"metric": "cosine"}`, in place of keyword
            arguments.
        train: Read the rows. With False the index is there at once, and covers nothing before
            `optimize_indices`; queries scan until then. Not for vectors, which learn from rows.
        dry_run: Return the plan.
        rows_per_task: Live rows that one task sorts.
        **options: Parameters of the kind by the names that pylance gives them, such as `num_partitions=64,
            metric="cosine"`, see `IndexParameters`; and how to run, see `RunOptions`.

    Raises:
        InvalidArgumentError: There is no such column or kind, the kind cannot index the column or has no
            such parameter, or the name is taken.
        UnsupportedError: `train` is False, and the kind learns from rows.
        CommitConflictError: Another commit stands in the way.

    Examples:
        >>> lo.create_index("events.lance", "id").rows_indexed
        10
        >>> done = lo.create_index("events.lance", "vector", "IVF_FLAT", num_partitions=2, metric="cosine")
        >>> done.indices
        ('vector_idx',)
    """
    if parameters is not None:
        check_type(parameters, Mapping, "parameters by name", field="parameters")
    of_kind: dict[str, Any] = dict(parameters or {})
    for given in options.keys() & IndexParameters.__annotations__.keys():
        if given in of_kind:
            raise InvalidArgumentError(
                f"create_index got {given!r} twice", field=given, hint="leave it out of parameters"
            )
        of_kind[given] = options.pop(given)  # type: ignore[misc]
    run = cast("RunOptions", options)

    def plan(dataset: Dataset) -> IndexPlan:
        return plan_create_index(
            dataset, column, kind, name=name, replace=replace, parameters=of_kind, train=train
        )

    return _run(uri_or_dataset, plan, rows_per_task, run, dry_run=dry_run)


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
    uri_or_dataset: Target,
    names: Sequence[str] | None = None,
    *,
    dry_run: Literal[False] = False,
    **arguments: Unpack[OptimizeArguments],
) -> IndexResult: ...
@overload
def optimize_indices(
    uri_or_dataset: Target,
    names: Sequence[str] | None = None,
    *,
    dry_run: Literal[True],
    **arguments: Unpack[OptimizeArguments],
) -> IndexPlan: ...
@overload
def optimize_indices(
    uri_or_dataset: Target,
    names: Sequence[str] | None = None,
    *,
    dry_run: bool,
    **arguments: Unpack[OptimizeArguments],
) -> IndexResult | IndexPlan: ...
@public(target="uri_or_dataset")
@cleans_up
def optimize_indices(
    uri_or_dataset: Target,
    names: Sequence[str] | None = None,
    *,
    dry_run: bool = False,
    **arguments: Unpack[OptimizeArguments],
) -> IndexResult | IndexPlan:
    """Index uncovered rows, apply deferred remaps, or rebuild.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        names: Which indices; all by default.
        dry_run: Return the plan, which says why each segment is written.
        **arguments: See `OptimizeArguments`, `plan_optimize_indices` and `RunOptions`.

    Raises:
        InvalidArgumentError: a name is unknown, or something is said under two names.

    Examples:
        >>> done = lo.create_index("events.lance", "id")
        >>> more = lo.append("events.lance", pa.table({"id": [10, 11]}), fill_missing=True)
        >>> lo.optimize_indices("events.lance").coverage_after
        1.0
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

    return _run(uri_or_dataset, plan, rows_per_task, arguments, dry_run=dry_run)


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
    committed = attempt.commit(CommitRequest(CreateIndex(tuple(entries), tuple(removed))))
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
