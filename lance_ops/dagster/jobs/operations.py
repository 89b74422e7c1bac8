"""The operations as jobs, partitioned by dataset: backfills, status and retries are per dataset.

The partitions are the datasets of the code location, known when it loads: a backfill needs no sensor to have
run before it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from typing import Any, Protocol

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs
from lance_ops.dagster.dead_runs import tag_machine
from lance_ops.dagster.jobs.by_hand import (
    DropIndexConfig,
    FsckConfig,
    RestoreConfig,
    checked,
    dropped,
    restored,
)
from lance_ops.dagster.jobs.call import Call
from lance_ops.dagster.jobs.config import (
    AddColumnsConfig,
    AppendConfig,
    CleanupConfig,
    CompactConfig,
    DeleteConfig,
    IndexConfig,
    OperationConfig,
)
from lance_ops.dagster.jobs.failures import translated_errors
from lance_ops.dagster.jobs.run_report import (
    RunNotes,
    build_progress,
    change_metadata,
    plan_metadata,
    report_checks,
    report_versions,
    result_metadata,
    shortened,
    warn_of_nothing_written,
)
from lance_ops.dagster.jobs.tagging import TagConfig, tagged
from lance_ops.dagster.jobs.told import Told
from lance_ops.dagster.lineage import noted_expressions
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.version_event import as_metadata
from lance_ops.maintenance.cleanup.operation import CleanupResult, cleanup
from lance_ops.maintenance.compact.options import CompactionChoices
from lance_ops.maintenance.results import CompactResult, OperationResult
from lance_ops.spark.submitted.answer import SubmittedResult

ADD_COLUMNS = "lance_add_columns"
APPEND = "lance_append"
DELETE = "lance_delete"
COMPACT = "lance_compact"
INDEX = "lance_index"
CLEANUP = "lance_cleanup"
RESTORE = "lance_restore"
TAG = "lance_tag"
DROP_INDEX = "lance_drop_index"
FSCK = "lance_fsck"

_MOST_NAMES = 20


class NamedJob(Protocol):
    """A job, from `@dg.job` or `dg.define_asset_job`; the type of the latter has no public name."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


def build_jobs(refs: Sequence[LanceDatasetRef], *, prefix: str = "") -> list[dg.JobDefinition]:
    """The jobs `lance_append`, `lance_delete`, `lance_add_columns`, `lance_compact` and so on.

    Each wants a resource `lance_store` (`LanceStoreResource`). Runs carry the tag `lance_ops/dataset`, by
    which `dagster.yaml` keeps them to one at a time for each dataset.

    Args:
        refs: The datasets.
        prefix: Before the names of jobs and resource, for a second set in one code location:
            `<prefix>_lance_compact` wants `<prefix>_lance_store`.
    """
    by_name = index_refs(refs)
    store_key = keys.prefixed(prefix, keys.STORE_RESOURCE)

    @_op(
        "append",
        prefix,
        "Add the rows of files, exactly once however often it is retried or re-executed.",
    )
    def append_files(context: dg.OpExecutionContext, config: AppendConfig) -> None:
        _run(context, by_name, store_key, config, lambda call: _append(call, config))

    @_op("delete", prefix, "Delete the rows that match a predicate. A dry run unless told otherwise.")
    def delete_rows(context: dg.OpExecutionContext, config: DeleteConfig) -> None:
        _run(context, by_name, store_key, config, lambda call: _delete(call, config))

    @_op("add_columns", prefix, "Add columns by SQL or by a function; a retry goes on with what is done.")
    def add_new_columns(context: dg.OpExecutionContext, config: AddColumnsConfig) -> None:
        _run(context, by_name, store_key, config, lambda call: _add_columns(call, config))

    @_op("compact", prefix, "Merge small fragments and purge deleted rows; the data stay the same.")
    def compact_fragments(context: dg.OpExecutionContext, config: CompactConfig) -> None:
        _run(context, by_name, store_key, config, lambda call: _compact(call, config))

    @_op("index", prefix, "Build an index on a column, or bring all indices up to date.")
    def index_op(context: dg.OpExecutionContext, config: IndexConfig) -> None:
        _run(context, by_name, store_key, config, lambda call: _index(call, config))

    @_op(
        "cleanup",
        prefix,
        "Remove old versions and files that only they use. A dry run unless told otherwise.",
    )
    def clean_versions(context: dg.OpExecutionContext, config: CleanupConfig) -> None:
        _run(context, by_name, store_key, config, lambda call: _cleanup(call, config))

    @_op("restore", prefix, "Make an older version the newest one. A dry run unless told otherwise.")
    def restore_version(context: dg.OpExecutionContext, config: RestoreConfig) -> None:
        _run(context, by_name, store_key, config, lambda call: restored(call, config))

    @_op("tag", prefix, "Create, move or delete a tag: cleanup keeps the version that it names.")
    def tag_version(context: dg.OpExecutionContext, config: TagConfig) -> None:
        _run(context, by_name, store_key, config, lambda call: tagged(call, config))

    @_op("drop_index", prefix, "Remove an index. A dry run unless told otherwise.")
    def drop_index_op(context: dg.OpExecutionContext, config: DropIndexConfig) -> None:
        _run(context, by_name, store_key, config, lambda call: dropped(call, config))

    @_op("fsck", prefix, "See whether the dataset is sound; the run fails when it is not.", pool=None)
    def check_files(context: dg.OpExecutionContext, config: FsckConfig) -> None:
        _run(context, by_name, store_key, config, lambda call: checked(call, config))

    partitions = dg.StaticPartitionsDefinition(list(by_name))
    operations = {
        APPEND: append_files,
        DELETE: delete_rows,
        ADD_COLUMNS: add_new_columns,
        COMPACT: compact_fragments,
        INDEX: index_op,
        CLEANUP: clean_versions,
        RESTORE: restore_version,
        TAG: tag_version,
        DROP_INDEX: drop_index_op,
        FSCK: check_files,
    }
    return [_build_job(name, prefix, op, partitions, by_name) for name, op in operations.items()]


def _op(
    name: str, prefix: str, description: str, *, pool: str | None = keys.COMMIT_POOL
) -> Callable[[Callable[..., None]], dg.OpDefinition]:
    return dg.op(
        # Names of ops are unique in a code location; in its job it goes by its own.
        name=keys.prefixed(prefix, name),
        description=description,
        out=dg.Out(dg.Nothing),
        required_resource_keys={keys.prefixed(prefix, keys.STORE_RESOURCE)},
        pool=pool,
    )


def _build_job(
    name: str,
    prefix: str,
    op: dg.OpDefinition,
    partitions: dg.StaticPartitionsDefinition,
    refs: Mapping[str, LanceDatasetRef],
) -> dg.JobDefinition:
    @dg.graph(name=keys.prefixed(prefix, name), description=op.description)
    def operation() -> None:
        op.alias(name.removeprefix("lance_"))()

    return operation.to_job(
        name=keys.prefixed(prefix, name),
        config=dg.PartitionedConfig(
            partitions_def=partitions,
            run_config_for_partition_key_fn=lambda _: {},
            tags_for_partition_key_fn=lambda dataset: refs[dataset].run_tags,
        ),
        # A step process of its own would cost a second or more and gain nothing: there is one step.
        executor_def=dg.in_process_executor,
    )


def _run(
    context: dg.OpExecutionContext,
    refs: Mapping[str, LanceDatasetRef],
    store_key: str,
    config: OperationConfig,
    operate: Callable[[Call], object],
) -> None:
    """Call an operation and tell Dagster what came of it: a plan, or a result with versions and checks."""
    ref = _chosen(context, refs)
    tag_machine(context.instance, context.run)
    store: LanceStoreResource = getattr(context.resources, store_key)
    notes = RunNotes.of(context)
    with translated_errors(
        ref,
        retry_number=notes.retry_number,
        conflict_retries=config.conflict_retries,
        pause=config.conflict_pause_seconds,
    ):
        outcome = operate(Call(context, ref, store, notes))
        context.log.info(shortened(str(outcome)))
        if isinstance(outcome, Told):
            _tell(context, ref, store, outcome)
            return
        if not isinstance(outcome, OperationResult):
            context.add_output_metadata(plan_metadata(outcome))
            return
        metadata = result_metadata(outcome)
        changes = change_metadata(ref, store, outcome)
        context.add_output_metadata({keys.SUMMARY: metadata[keys.SUMMARY], **changes, **metadata})
        if not outcome.changed and not isinstance(outcome, CleanupResult):
            warn_of_nothing_written(context, ref, store, outcome)
        if isinstance(outcome, CleanupResult):
            # It makes no version: an observation leaves the asset's newest event in force. What it cured is
            # told by the checks alone.
            context.log_event(dg.AssetObservation(ref.key, description=str(outcome), metadata=metadata))
            report_checks(context, ref, store)
            if not outcome.complete:
                raise dg.Failure(f"{ref.key.to_user_string()}: {outcome}", metadata=metadata)
        else:
            report_versions(context, ref, store, outcome)
        if isinstance(outcome, CompactResult | SubmittedResult) and not outcome.complete:
            # What was committed is told above; a retry, under the same job key, does the groups that failed.
            raise dg.Failure(f"{ref.key.to_user_string()}: {outcome}", metadata=metadata)


def _tell(
    context: dg.OpExecutionContext, ref: LanceDatasetRef, store: LanceStoreResource, told: Told
) -> None:
    """What made no version: an observation leaves the asset's newest event in force."""
    metadata = as_metadata(told.metadata)
    context.add_output_metadata(metadata)
    context.log_event(dg.AssetObservation(ref.key, description=shortened(told.text), metadata=metadata))
    if told.failed:
        report_checks(context, ref, store)
        raise dg.Failure(
            f"{ref.key.to_user_string()}: {shortened(told.text)}", metadata=metadata, allow_retries=False
        )


def _chosen(context: dg.OpExecutionContext, refs: Mapping[str, LanceDatasetRef]) -> LanceDatasetRef:
    """The dataset that the run was launched for.

    Raises:
        dagster.Failure: It was launched for none, or for one that the code location does not have.
    """
    name = context.partition_key if context.has_partition_key else None
    if name is not None and name in refs:
        return refs[name]
    known = ", ".join(list(refs)[:_MOST_NAMES]) + (", ..." if len(refs) > _MOST_NAMES else "")
    what = "no dataset was chosen" if name is None else f"there is no dataset {name!r} here"
    raise dg.Failure(
        f"{what}: choose one as the partition of the launch, of {known}",
        metadata={keys.ERROR_HINT: "choose a dataset as the partition", keys.ERROR_FIELD: "partition"},
        allow_retries=False,
    )


def _append(call: Call, config: AppendConfig) -> object:
    arguments = {
        "paths": config.paths,
        "fill_missing": config.fill_missing,
        "max_rows_per_file": config.max_rows_per_file,
    }
    return call.perform("append", arguments, job_key=_key_of_chain(call, config.rerun_token))


def _delete(call: Call, config: DeleteConfig) -> object:
    arguments = {
        "predicate": config.predicate,
        "dry_run": config.dry_run,
        "max_fraction": config.max_fraction,
    }
    return call.perform("delete", arguments)


def _add_columns(call: Call, config: AddColumnsConfig) -> object:
    arguments = {"values": config.values, "function": config.function, "dry_run": config.dry_run}
    return call.perform(
        "add_columns",
        arguments,
        job_key=_key_of_chain(call, config.rerun_token),
        notes=noted_expressions(config.values),
    )


def _key_of_chain(call: Call, token: str) -> str:
    """The first run's id, so that re-executing a run that died after its commit adds nothing.

    What a broken-off run did is gone on with.
    """
    return f"{call.notes.job}|{call.notes.root_run_id}|{token}"


def _compact(call: Call, config: CompactConfig) -> object:
    asked: dict[str, Any] = {}
    for name in (*CompactionChoices.__annotations__, "budget_money"):
        value = getattr(config, name, None)
        if value is not None:
            asked[name] = value.value if isinstance(value, Enum) else value
    return call.perform(
        "compact", {**call.ref.policy.compaction_options(), **asked, "dry_run": config.dry_run}
    )


def _index(call: Call, config: IndexConfig) -> object:
    policy = call.ref.policy
    refresh = {
        "rebuild": config.rebuild,
        "merge_segments": config.merge_segments,
        "most_segments": policy.most_segments,
        "limits": asdict(policy.wear_limits),
    }
    if config.indices:
        wanted = [
            {"column": item.column, "kind": item.kind, "name": item.name, "parameters": item.parameters}
            for item in config.indices
        ]
        arguments = {
            "wanted": wanted,
            "replace": config.replace,
            "dry_run": config.dry_run,
            "refresh": refresh,
        }
        return call.perform("build_indices", arguments)
    if config.column is None:
        names = None if config.name is None else [config.name]
        return call.perform("optimize_indices", {"names": names, "dry_run": config.dry_run, **refresh})
    return call.perform(
        "create_index",
        {
            "column": config.column,
            "kind": config.kind,
            "name": config.name,
            "replace": config.replace,
            "parameters": config.parameters,
            "dry_run": config.dry_run,
        },
    )


def _cleanup(call: Call, config: CleanupConfig) -> object:
    return cleanup(
        call.ref.uri,
        older_than=config.age(call.ref),
        retain_versions=config.retained(call.ref),
        delete_unverified=config.delete_unverified,
        dry_run=config.dry_run,
        progress=build_progress(call.context, call.ref),
        storage_options=call.store.options_of(call.ref),
    )
