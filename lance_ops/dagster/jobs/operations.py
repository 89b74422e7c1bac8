"""The operations as jobs, partitioned by dataset: backfills, status and retries are per dataset.

The partitions are the datasets of the code location, known when it loads: a backfill needs no sensor to have
run before it.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Protocol

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs
from lance_ops.dagster.dead_runs import tag_machine
from lance_ops.dagster.jobs.by_hand import (
    DropColumnsConfig,
    DropIndexConfig,
    FsckConfig,
    RestoreConfig,
    checked,
    columns_dropped,
    dropped,
    restored,
)
from lance_ops.dagster.jobs.call import Call
from lance_ops.dagster.jobs.config import (
    DRY_RUN_BY_DEFAULT,
    AddColumnsConfig,
    AlterColumnsConfig,
    AppendConfig,
    CleanupConfig,
    CompactConfig,
    DeleteConfig,
    IndexConfig,
    OperationConfig,
    UpdateConfig,
    UpsertConfig,
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
ALTER_COLUMNS = "lance_alter_columns"
APPEND = "lance_append"
DELETE = "lance_delete"
DROP_COLUMNS = "lance_drop_columns"
UPDATE = "lance_update"
UPSERT = "lance_upsert"
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


@dataclass(frozen=True, slots=True)
class _Operation:
    """A job of one step.

    Attributes:
        config: What its launchpad shows; its docstring describes the job.
        work: What the step does.
        pool: Limits steps at work at once.
    """

    config: type[OperationConfig]
    work: Callable[[Call, Any], object]
    pool: str | None = keys.COMMIT_POOL

    @property
    def description(self) -> str:
        """What it does, and whether it does so by default."""
        text = inspect.cleandoc(self.config.__doc__ or "")
        return f"{text} {DRY_RUN_BY_DEFAULT}" if self.is_dry_run_by_default else text

    @property
    def is_dry_run_by_default(self) -> bool:
        """Whether it changes nothing unless its config says otherwise."""
        found = self.config.model_fields.get("dry_run")
        return found is not None and found.default is True


def build_jobs(
    refs: Sequence[LanceDatasetRef],
    *,
    prefix: str = "",
    hooks: AbstractSet[dg.HookDefinition] | None = None,
    op_retry_policy: dg.RetryPolicy | None = None,
    tags: Mapping[str, str] | None = None,
) -> list[dg.JobDefinition]:
    """The jobs `lance_append`, `lance_delete`, `lance_add_columns`, `lance_compact` and so on.

    Each wants a resource `lance_store` (`LanceStoreResource`). Runs carry the tag `lance_ops/dataset`, by
    which `dagster.yaml` keeps them to one at a time for each dataset.

    Args:
        refs: The datasets.
        prefix: Before the names of jobs and resource, for a second set in one code location:
            `<prefix>_lance_compact` wants `<prefix>_lance_store`.
        hooks: Run after each step: `@dg.success_hook`, `@dg.failure_hook`.
        op_retry_policy: How often and when a step is tried again whose error may pass; by default twice.
        tags: Of the jobs and their runs, beside ours.
    """
    by_name = index_refs(refs)
    partitions = dg.StaticPartitionsDefinition(list(by_name))
    return [
        _build_job(
            name,
            prefix,
            operation,
            _build_op(name, prefix, operation, by_name, op_retry_policy),
            partitions,
            by_name,
            hooks=hooks,
            tags=tags,
        )
        for name, operation in _operations().items()
    ]


def _operations() -> dict[str, _Operation]:
    return {
        APPEND: _Operation(AppendConfig, _append),
        UPSERT: _Operation(UpsertConfig, _upsert),
        UPDATE: _Operation(UpdateConfig, _update),
        DELETE: _Operation(DeleteConfig, _delete),
        ADD_COLUMNS: _Operation(AddColumnsConfig, _add_columns),
        ALTER_COLUMNS: _Operation(AlterColumnsConfig, _alter_columns),
        DROP_COLUMNS: _Operation(DropColumnsConfig, columns_dropped),
        COMPACT: _Operation(CompactConfig, _compact),
        INDEX: _Operation(IndexConfig, _index),
        CLEANUP: _Operation(CleanupConfig, _cleanup),
        RESTORE: _Operation(RestoreConfig, restored),
        TAG: _Operation(TagConfig, tagged),
        DROP_INDEX: _Operation(DropIndexConfig, dropped),
        FSCK: _Operation(FsckConfig, checked, pool=None),
    }


def _build_op(
    name: str,
    prefix: str,
    operation: _Operation,
    refs: Mapping[str, LanceDatasetRef],
    retries: dg.RetryPolicy | None,
) -> dg.OpDefinition:
    store_key = keys.prefixed(prefix, keys.STORE_RESOURCE)

    def step(context: dg.OpExecutionContext, config: OperationConfig) -> None:
        _run(context, refs, store_key, config, operation, retries)

    # Dagster reads the schema of the launchpad from here.
    step.__annotations__["config"] = operation.config
    decorate = dg.op(
        # Names of ops are unique in a code location; in its job it goes by its own.
        name=keys.prefixed(prefix, name.removeprefix("lance_")),
        description=operation.description,
        out=dg.Out(dg.Nothing),
        required_resource_keys={store_key},
        pool=operation.pool,
    )
    return decorate(step)


def _build_job(
    name: str,
    prefix: str,
    operation: _Operation,
    op: dg.OpDefinition,
    partitions: dg.StaticPartitionsDefinition,
    refs: Mapping[str, LanceDatasetRef],
    *,
    hooks: AbstractSet[dg.HookDefinition] | None,
    tags: Mapping[str, str] | None,
) -> dg.JobDefinition:
    step = name.removeprefix("lance_")
    # The launchpad shows what a run is launched with, and no default of a field.
    shown = {"ops": {step: {"config": {"dry_run": True}}}} if operation.is_dry_run_by_default else {}

    @dg.graph(name=keys.prefixed(prefix, name), description=op.description)
    def one_step() -> None:
        op.alias(step)()

    return one_step.to_job(
        name=keys.prefixed(prefix, name),
        config=dg.PartitionedConfig(
            partitions_def=partitions,
            run_config_for_partition_key_fn=lambda _: shown,
            tags_for_partition_key_fn=lambda dataset: refs[dataset].run_tags,
        ),
        hooks=hooks,
        tags=tags,
        # A step process of its own would cost a second or more and gain nothing: there is one step.
        executor_def=dg.in_process_executor,
    )


def _run(
    context: dg.OpExecutionContext,
    refs: Mapping[str, LanceDatasetRef],
    store_key: str,
    config: OperationConfig,
    operation: _Operation,
    retries: dg.RetryPolicy | None,
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
        policy=retries,
    ):
        outcome = operation.work(Call(context, ref, store, notes), config)
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


def _upsert(call: Call, config: UpsertConfig) -> object:
    arguments = {
        "paths": config.paths,
        "on": config.on or None,
        "when_matched": config.when_matched.value,
        "condition": config.condition,
        "when_not_matched": "insert_all" if config.insert_new else None,
        "when_not_matched_by_source": config.when_not_matched_by_source,
        "dry_run": config.dry_run,
    }
    return call.perform("merge_insert", arguments, job_key=_key_of_chain(call, config.rerun_token))


def _update(call: Call, config: UpdateConfig) -> object:
    arguments = {"values": config.values, "where": config.where, "dry_run": config.dry_run}
    return call.perform("update", arguments, job_key=_key_of_chain(call, config.rerun_token))


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


def _alter_columns(call: Call, config: AlterColumnsConfig) -> object:
    alterations = [item.model_dump(exclude_none=True) for item in config.alterations]
    return call.perform("alter_columns", {"alterations": alterations, "dry_run": config.dry_run})


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
