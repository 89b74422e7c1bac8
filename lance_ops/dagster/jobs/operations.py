"""The operations as jobs, partitioned by dataset: backfills, status and retries are per dataset.

The partitions are the datasets of the code location, known when it loads: a backfill needs no sensor to have
run before it.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs
from lance_ops.dagster.dead_runs import tag_machine
from lance_ops.dagster.jobs import arguments
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
    CompactWalConfig,
    DeleteConfig,
    IndexConfig,
    MaintainConfig,
    OperationConfig,
    UpdateConfig,
    UpsertConfig,
)
from lance_ops.dagster.jobs.failures import translated_errors
from lance_ops.dagster.jobs.run_report import (
    RunNotes,
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
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.version_event import as_metadata
from lance_ops.maintenance.cleanup.operation import CleanupResult
from lance_ops.maintenance.maintain.result import MaintainResult
from lance_ops.maintenance.results import CompactResult, OperationResult
from lance_ops.spark.submitted.answer import SubmittedResult

ADD_COLUMNS = "lance_add_columns"
ALTER_COLUMNS = "lance_alter_columns"
APPEND = "lance_append"
DELETE = "lance_delete"
DROP_COLUMNS = "lance_drop_columns"
UPDATE = "lance_update"
UPSERT = "lance_upsert"
MAINTAIN = "lance_maintain"
COMPACT = "lance_compact"
INDEX = "lance_index"
CLEANUP = "lance_cleanup"
COMPACT_WAL = "lance_compact_wal"
RESTORE = "lance_restore"
TAG = "lance_tag"
DROP_INDEX = "lance_drop_index"
FSCK = "lance_fsck"

_MOST_NAMES = 20
_OP_NAMES = {MAINTAIN: "maintain_dataset"}
"""Names of ops that differ from those of their jobs: the job of a fleet has an op `maintain`."""


class NamedJob(Protocol):
    """Job from `@dg.job` or `dg.define_asset_job`; the type of the latter is not public."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


@dataclass(frozen=True, slots=True)
class _Operation:
    """A job of one step.

    Attributes:
        config: Its config class; the docstring describes the job.
        work: Function of the step.
        pool: Pool that limits concurrent steps.
    """

    config: type[OperationConfig]
    work: Callable[[Call, Any], object]
    pool: str | None = keys.COMMIT_POOL

    @property
    def description(self) -> str:
        """Description of the job, with its default of dry_run."""
        text = inspect.cleandoc(self.config.__doc__ or "")
        return f"{text} {DRY_RUN_BY_DEFAULT}" if self.is_dry_run_by_default else text

    @property
    def is_dry_run_by_default(self) -> bool:
        """True if it changes nothing by default."""
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
    """Build the jobs `lance_append`, `lance_delete`, `lance_add_columns`, `lance_compact` and so on.

    Each requires a resource `lance_store` (`LanceStoreResource`). Runs have the tag `lance_ops/dataset`, by
    which `dagster.yaml` limits them to one at a time for each dataset.

    Args:
        refs: The datasets.
        prefix: Prefix of the names of jobs and resource, for a second set in one code location:
            `<prefix>_lance_compact` requires `<prefix>_lance_store`.
        hooks: Hooks of each step: `@dg.success_hook`, `@dg.failure_hook`.
        op_retry_policy: Retry policy for transient errors; default two retries.
        tags: Additional tags of the jobs and their runs.
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
        APPEND: _Operation(AppendConfig, arguments.append_rows),
        UPSERT: _Operation(UpsertConfig, arguments.upsert_rows),
        UPDATE: _Operation(UpdateConfig, arguments.update_rows),
        DELETE: _Operation(DeleteConfig, arguments.delete_rows),
        ADD_COLUMNS: _Operation(AddColumnsConfig, arguments.add_columns),
        ALTER_COLUMNS: _Operation(AlterColumnsConfig, arguments.alter_columns),
        DROP_COLUMNS: _Operation(DropColumnsConfig, columns_dropped),
        MAINTAIN: _Operation(MaintainConfig, arguments.maintain),
        COMPACT: _Operation(CompactConfig, arguments.compact),
        INDEX: _Operation(IndexConfig, arguments.index),
        COMPACT_WAL: _Operation(CompactWalConfig, arguments.compact_wal),
        CLEANUP: _Operation(CleanupConfig, arguments.clean_up),
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
        # Names of ops are unique in a code location; in its job it has its own name.
        name=keys.prefixed(prefix, _OP_NAMES.get(name) or name.removeprefix("lance_")),
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
    # The launchpad shows the launch config, not the defaults of fields.
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
        # A separate step process would cost a second or more for a single step.
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
    """Run an operation and report its plan, or its result with versions and checks, to Dagster."""
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
            _report_without_version(context, ref, store, outcome)
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
            # It makes no version: an observation leaves the asset's newest event in force. Only the checks
            # report the repair.
            context.log_event(dg.AssetObservation(ref.key, description=str(outcome), metadata=metadata))
            report_checks(context, ref, store)
            if not outcome.complete:
                raise dg.Failure(f"{ref.key.to_user_string()}: {outcome}", metadata=metadata)
        else:
            report_versions(context, ref, store, outcome)
        if isinstance(outcome, MaintainResult) and outcome.error is not None:
            raise outcome.error
        if isinstance(outcome, CompactResult | MaintainResult | SubmittedResult) and not outcome.complete:
            # The committed part is reported above; a retry, with the same job key, does the failed groups.
            raise dg.Failure(f"{ref.key.to_user_string()}: {outcome}", metadata=metadata)


def _report_without_version(
    context: dg.OpExecutionContext, ref: LanceDatasetRef, store: LanceStoreResource, told: Told
) -> None:
    """Report a result without a version: an observation leaves the asset's newest event in force."""
    metadata = as_metadata(told.metadata)
    context.add_output_metadata(metadata)
    context.log_event(dg.AssetObservation(ref.key, description=shortened(told.text), metadata=metadata))
    if told.failed:
        report_checks(context, ref, store)
        raise dg.Failure(
            f"{ref.key.to_user_string()}: {shortened(told.text)}", metadata=metadata, allow_retries=False
        )


def _chosen(context: dg.OpExecutionContext, refs: Mapping[str, LanceDatasetRef]) -> LanceDatasetRef:
    """Return the dataset of the run's partition.

    Raises:
        dagster.Failure: The run has no partition, or one that the code location does not have.
    """
    name = context.partition_key if context.has_partition_key else None
    if name is not None and name in refs:
        return refs[name]
    known = ", ".join(list(refs)[:_MOST_NAMES]) + (", ..." if len(refs) > _MOST_NAMES else "")
    what = "no dataset was chosen" if name is None else f"unknown dataset {name!r}"
    raise dg.Failure(
        f"{what}: choose one as the partition of the launch, of {known}",
        metadata={keys.ERROR_HINT: "choose a dataset as the partition", keys.ERROR_FIELD: "partition"},
        allow_retries=False,
    )
