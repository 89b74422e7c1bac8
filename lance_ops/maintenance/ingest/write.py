"""Write: the three steps that every way of ingesting shares.

`plan_write` looks at the dataset and the schema of the data; `write_task` writes the data files of one part
of the data, here or on an executor; `commit_write` makes one commit of all parts.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lance_ops.errors import (
    CommitConflictError,
    DatasetExistsError,
    InvalidArgumentError,
    RetryableCommitConflictError,
)
from lance_ops.file.io.pending_rows import gather_batches
from lance_ops.file.schema.blob_fields import VERSIONS_WITH_OLD_BLOBS, upgrade_batch, upgrade_blobs
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema, schema_of_arrow
from lance_ops.file.versions import ALIASES, DEFAULT_STORAGE_VERSION
from lance_ops.file.writer import check_schema_writable
from lance_ops.filter import Expression, parse_filter, settled
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.ingest.conform import check_schema, conform
from lance_ops.maintenance.ingest.options import KEEPS_SCHEMA, WRITE_REPLANS, Mode, WriteOptions
from lance_ops.maintenance.ingest.replacement import Replacement, Search, check_replacing, commit_replacement
from lance_ops.maintenance.ingest.source import unify_schemas
from lance_ops.maintenance.progress import Progress
from lance_ops.maintenance.results import AppendResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.runner import Runner
from lance_ops.maintenance.target import (
    Target,
    check_changeable,
    check_side_by_side,
    open_target,
)
from lance_ops.maintenance.tasks import is_not_committed, remove_files
from lance_ops.storage import Durability, Store
from lance_ops.table.commit.jobs.job_keys import find_job
from lance_ops.table.commit.jobs.left_over import find_left_over
from lance_ops.table.commit.result import CommitResult
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE, write_data_files
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.transaction.operations import Append, Overwrite


@dataclass(frozen=True, slots=True)
class WriteTask:
    """How to write one part of the data; travels to executors.

    Attributes:
        store: Of the dataset.
        schema: Of the dataset after the commit, with field ids.
        storage_version: Of the data files.
        max_rows_per_file: Rows after which a new fragment begins.
        max_bytes_per_file: Bytes after which a new fragment begins.
        fill_missing: Columns that the data lack are filled with nulls.
        base_uris: Of the bases of the dataset, by their ids, that blobs are named relative to.
        predicate: Every row has to match it; None for no such rule.
        job_key: See `write_data_files`.
    """

    store: Store
    schema: Schema
    storage_version: str
    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    fill_missing: bool = False
    base_uris: Mapping[int, str] = field(default_factory=dict)
    predicate: Expression | None = None
    job_key: str | None = None


@dataclass(frozen=True, slots=True)
class WriteTaskResult:
    """New fragments of one part of the data, their ids not assigned yet."""

    fragments: tuple[Fragment, ...]

    @property
    def rows(self) -> int:
        """Rows written."""
        return sum(fragment.physical_rows for fragment in self.fragments)

    @property
    def bytes_written(self) -> int:
        """Size of the data files."""
        return sum(fragment.data_bytes for fragment in self.fragments)

    @property
    def paths(self) -> tuple[str, ...]:
        """The data files, relative to the root of the dataset."""
        return tuple(f"data/{file.path}" for fragment in self.fragments for file in fragment.files)


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What `write_task` and `commit_write` need.

    Attributes:
        uri: The dataset.
        mode: What will be committed: "create" if there is no dataset yet, else as the options say.
        options: As the caller gave them.
        dataset: The head that the plan was made from; None for "create".
        task: For `write_task`.
        committed_version: Version that an earlier run under this job key made.
        started: When planning began, on the monotonic clock.
        committed_uuid: The transaction of that version.
    """

    uri: str
    mode: Mode
    options: WriteOptions
    dataset: Dataset | None
    task: WriteTask
    committed_version: int | None = None
    started: float = field(default_factory=time.monotonic)
    committed_uuid: str = ""


def plan_write(
    schema: pa.Schema | Sequence[tuple[str, pa.Schema]],
    uri: Target,
    options: WriteOptions | None = None,
) -> WritePlan:
    """Check that data of this schema can be written; nothing is written yet.

    Args:
        schema: Schema of the data, or (what, schema) of each of its parts.
        uri: The dataset; a `Dataset` stands for its head.
        options: Append without them.

    Raises:
        DatasetExistsError: mode is "create" and there is a dataset.
        SchemaMismatchError: the data do not fit the dataset; lists every mismatch.
        UnsupportedTypeError: the storage version cannot hold a type; lists every field.
        UnsupportedVersionError: the dataset has a storage version that cannot be written.
        PredicateError: the predicate does not parse, or names a column that is not there.
    """
    options = options or WriteOptions()
    store, dataset = open_target(uri, options.storage_options)
    return plan_write_on(store, dataset, schema, options)


def plan_write_on(
    store: Store,
    dataset: Dataset | None,
    schema: pa.Schema | Sequence[tuple[str, pa.Schema]],
    options: WriteOptions,
) -> WritePlan:
    """Like `plan_write`, on a head that was opened just now; None when there is no dataset in the store."""
    started = time.monotonic()
    if options.data_storage_version in ALIASES:
        options = replace(options, data_storage_version=ALIASES[options.data_storage_version])
    parts = [("the data", schema)] if isinstance(schema, pa.Schema) else list(schema)
    if dataset is None:
        version = options.data_storage_version or DEFAULT_STORAGE_VERSION
        parts = _with_blobs(parts, version)
        schema_to_be = _new_schema(parts, store.uri, options)
        options = _with_predicate(options, schema_to_be)
        task = _task(store, schema_to_be, version, options)
        return WritePlan(store.uri, "create", options, None, task, None, started)
    found = find_job(dataset, options.job_key, is_head=True) if options.job_key is not None else None
    committed = None if found is None else found.version
    version, target = dataset.data_storage_version, dataset.lance_schema
    if committed is None:
        parts = _with_blobs(parts, options.data_storage_version or version)
        version, target = _check(dataset, parts, options)
        options = _with_predicate(options, target)
    bases = dataset.bases.blob_uris if options.mode in KEEPS_SCHEMA else {}
    task = replace(_task(dataset.store, target, version, options), base_uris=bases)
    uuid = "" if found is None else found.transaction_uuid
    return WritePlan(dataset.uri, options.mode, options, dataset, task, committed, started, uuid)


def _with_predicate(options: WriteOptions, schema: Schema) -> WriteOptions:
    """The predicate in SQL as it is recorded, now that the types of the columns are known."""
    if options.predicate is None:
        return options
    arrow = schema.to_arrow()
    sql = options.predicate if isinstance(options.predicate, str) else options.predicate(arrow)
    return replace(options, predicate=settled(sql, arrow))


def _check(
    dataset: Dataset, parts: Sequence[tuple[str, pa.Schema]], options: WriteOptions
) -> tuple[str, Schema]:
    """Storage version and schema to write into an existing dataset."""
    current = dataset.data_storage_version
    if options.mode == "create":
        hint = "use mode 'append' or 'overwrite'"
        raise DatasetExistsError("there is a dataset already", path=dataset.uri, hint=hint)
    check_changeable(dataset)
    if options.mode == "overwrite":
        return options.data_storage_version or current, _new_schema(parts, dataset.uri, options)
    version = options.data_storage_version or current
    check_side_by_side(dataset, version)
    for what, part in parts:
        check_schema(part, dataset.schema, what=what, path=dataset.uri, fill_missing=options.fill_missing)
    return version, dataset.lance_schema


def _with_blobs(parts: Sequence[tuple[str, pa.Schema]], version: str) -> list[tuple[str, pa.Schema]]:
    # Binary columns that ask for blobs are columns of another type from 2.2 on.
    if version in VERSIONS_WITH_OLD_BLOBS:
        return list(parts)
    return [(what, upgrade_blobs(part)) for what, part in parts]


def _new_schema(parts: Sequence[tuple[str, pa.Schema]], uri: str, options: WriteOptions) -> Schema:
    unified = unify_schemas(parts)
    for what, part in parts:
        check_schema(part, unified, what=what, path=uri, fill_missing=options.fill_missing)
    return schema_of_arrow(unified)


def _task(store: Store, schema: Schema, version: str, options: WriteOptions) -> WriteTask:
    check_schema_writable(schema, version)
    # One that is not in SQL yet belongs to a job that is done: nothing will be written.
    sql = options.predicate if isinstance(options.predicate, str) else None
    predicate = None if sql is None else parse_filter(sql, schema.to_arrow())
    return WriteTask(
        store,
        schema,
        version,
        options.max_rows_per_file,
        options.max_bytes_per_file,
        options.fill_missing,
        predicate=predicate,
        job_key=options.job_key,
    )


def write_task(
    task: WriteTask, batches: Iterable[pa.RecordBatch], *, durable: Durability = "now"
) -> WriteTaskResult:
    """Write one part of the data as new fragments. Nothing refers to them until `commit_write`.

    Args:
        task: From the plan.
        batches: The rows in order; columns by name, cast to the types of the dataset where nothing is lost.
        durable: See `write_data_files`.

    Raises:
        SchemaMismatchError: a batch does not fit. Files written by then are removed.
        InvalidArgumentError: a row does not match the predicate of the rows that the data replace. Likewise.
    """
    schema = prepare_schema(task.schema).arrow
    fitting = (
        conform(upgrade_batch(batch, schema), schema, fill_missing=task.fill_missing)
        for batch in gather_batches(batches)
        if batch.num_rows
    )
    fragments = write_data_files(
        task.store,
        fitting if task.predicate is None else check_replacing(fitting, task.predicate),
        task.schema,
        version=task.storage_version,
        max_rows_per_file=task.max_rows_per_file,
        max_bytes_per_file=task.max_bytes_per_file,
        base_uris=task.base_uris,
        job_key=task.job_key,
        durable=durable,
        conformed=True,
    )
    return WriteTaskResult(tuple(fragments))


def commit_write(
    plan: WritePlan,
    results: Sequence[WriteTaskResult],
    *,
    max_replans: int = WRITE_REPLANS,
    progress: Progress | None = None,
    runner: Runner | None = None,
) -> AppendResult:
    """Make one commit of all parts.

    An append of no rows commits nothing, and nothing under its job key where it creates the dataset; nor does
    a replacement of no rows by none. When the commit is known not to have happened, the files of the parts
    are removed; while its outcome is unknown they stay.

    Args:
        plan: From `plan_write`.
        results: Of every `write_task`, in the order of rows.
        max_replans: How often an append or a replacement is tried anew on the head after a retryable
            conflict. No data are written again for that.
        progress: Receives events.
        runner: Looks for the rows that a replacement deletes; threads of this process by default.

    Raises:
        InvalidArgumentError: rows would be replaced by none, and `allow_empty` is not set.
        CommitConflictError: another commit stands in the way.
        CommitOutcomeUnknownError: nobody knows whether it is committed; the next run under the same job key
            finds out.
    """
    run = Run.on(
        "append",
        plan.task.store,
        plan.dataset,
        RunOptions(
            runner=runner,
            job_key=plan.options.job_key,
            properties=plan.options.properties,
            max_replans=max_replans,
            progress=progress,
            committer=plan.options.committer,
            storage_options=plan.options.storage_options,
        ),
        started=plan.started,
    )
    if plan.committed_version is not None:
        abandon_write(plan, results)
        common = run.common(plan.committed_version, attempts=0, already_committed=True)
        return AppendResult(**common, mode=plan.mode, transaction_uuid=plan.committed_uuid)
    if plan.mode == "append" and plan.dataset is not None and not any(item.fragments for item in results):
        return AppendResult(**run.common(plan.dataset.version), mode=plan.mode)
    search = Search()

    def commit(attempt: Attempt) -> AppendResult:
        current = plan
        if attempt.replans.count:
            current = _replan(plan, attempt.dataset)
            _check_files(current, results)
        if current.mode == "replace_where":
            return _replace(current, results, attempt, search)
        return _result(current, results, attempt, _commit_or_join(current, results, attempt))

    try:
        return run.replanned(commit)
    except Exception as error:
        if is_not_committed(error):
            abandon_write(plan, results)
        raise


def _check_files(plan: WritePlan, results: Sequence[WriteTaskResult]) -> None:
    """See that the files are still there when they are to be committed on another version than planned.

    Meanwhile another run of the job may have committed, a cleanup may have removed these files as left over,
    and a restore may have undone that other commit (see `lance_ops.table.commit.jobs.left_over`).
    """
    key, dataset = plan.task.job_key, plan.dataset
    if key is None or dataset is None or find_job(dataset, key) is not None:
        return
    store = plan.task.store
    paths = [path for result in results for path in result.paths]
    lost = find_left_over(store, paths)
    if lost is not None:
        raise CommitConflictError(
            "a cleanup removed what this run of the job had written, after another run was committed",
            ours=f"{plan.options.mode} of job {key!r}",
            theirs="a restore that undid the other run",
            version=dataset.version,
            path=f"{store.uri}/{lost}",
            hint="run the job again",
        )


def abandon_write(plan: WritePlan, results: Iterable[WriteTaskResult]) -> None:
    """Remove the files of parts that will not be committed."""
    remove_files(plan.task.store, (path for result in results for path in result.paths))


def _commit(plan: WritePlan, fragments: tuple[Fragment, ...], attempt: Attempt) -> CommitResult:
    return attempt.commit(
        Append(fragments) if plan.mode == "append" else Overwrite(fragments, plan.task.schema),
        data_storage_version=None if plan.mode == "append" else plan.task.storage_version,
        stable_row_ids=plan.options.enable_stable_row_ids,
        # Data without rows are no job done, be there a dataset or not: those that come later count.
        is_job=bool(fragments) or plan.options.mode not in KEEPS_SCHEMA,
    )


def _replace(
    plan: WritePlan, results: Sequence[WriteTaskResult], attempt: Attempt, search: Search
) -> AppendResult:
    """Delete what the predicate selects at the head and add the new rows, in one commit."""
    assert isinstance(plan.options.predicate, str)
    replacement = Replacement(
        plan.options.predicate, _fragments(results), allow_empty=plan.options.allow_empty
    )
    replaced = commit_replacement(attempt, replacement, search)
    result = _result(plan, results, attempt, replaced.done)
    if not result.changed:
        return result
    return replace(
        result,
        rows_deleted=replaced.rows_deleted,
        fragments_updated=replaced.fragments_updated,
        fragments_removed=replaced.fragments_removed,
    )


def _commit_or_join(plan: WritePlan, results: Sequence[WriteTaskResult], attempt: Attempt) -> CommitResult:
    """Commit; when another writer created the dataset first, that is a reason to plan anew, not to fail."""
    try:
        return _commit(plan, _fragments(results), attempt)
    except DatasetExistsError as error:
        if plan.options.mode == "create":
            raise
        raise RetryableCommitConflictError(
            "another writer created the dataset",
            ours="its creation",
            theirs="version 1",
            version=1,
            path=plan.uri,
        ) from error


def _fragments(results: Sequence[WriteTaskResult]) -> tuple[Fragment, ...]:
    return tuple(fragment for result in results for fragment in result.fragments)


def _replan(plan: WritePlan, head: Dataset) -> WritePlan:
    """The same files on the head, if they still fit it."""
    if plan.options.mode in KEEPS_SCHEMA and not _same_layout(plan.task, head):
        raise CommitConflictError(
            "the schema or the storage version of the dataset is not what the data were written for",
            ours=f"{plan.options.mode} on version {plan.dataset.version if plan.dataset else 0}",
            theirs=f"version {head.version}",
            version=head.version,
            path=plan.uri,
            hint="run it again",
        )
    return replace(plan, dataset=head, mode=plan.options.mode)


def _same_layout(task: WriteTask, head: Dataset) -> bool:
    try:
        check_side_by_side(head, task.storage_version)
    except InvalidArgumentError:
        return False
    return head.lance_schema.fields == task.schema.fields


def _result(
    plan: WritePlan, results: Sequence[WriteTaskResult], attempt: Attempt, done: CommitResult | None
) -> AppendResult:
    common = attempt.common(done)
    if done is None:
        return AppendResult(**common, mode=plan.mode)
    if done.already_committed:
        return AppendResult(**common, mode=plan.mode, transaction_uuid=done.transaction.uuid)
    replaced = len(plan.dataset.fragments) if plan.mode == "overwrite" and plan.dataset is not None else 0
    return AppendResult(
        **common,
        mode=plan.mode,
        rows_added=sum(result.rows for result in results),
        fragments_added=sum(len(result.fragments) for result in results),
        fragments_removed=replaced,
        bytes_written=sum(result.bytes_written for result in results),
        transaction_uuid=done.transaction.uuid,
    )
