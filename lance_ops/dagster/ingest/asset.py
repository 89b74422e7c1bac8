"""Ingest as a separate asset upstream of the dataset, with the partitions that the dataset must not have.

Dagster considers partitions alone when an asset has them, so a delete or a restore, which belongs to no
partition, would not trigger anything downstream.

If a column identifies the rows of a partition, a materialization replaces them in one commit: existing rows
are deleted and those of the source added; whatever happened to the dataset, it then holds the latest rows of
the source. Retries of a run, and re-executions of a failed one, are one piece of work, which is committed
once; re-executing a successful run replaces the rows again.

Otherwise a partition is appended exactly once. The job key consists of the asset and the partition, and the
proof is a commit of that job in the lineage of the newest version: a dataset that was removed and recreated
does not have it, nor does one that was restored to an earlier version. If rows of it were deleted since, or
if this is unknown, the run fails with the reason. A materialization that wrote nothing leaves a warning on
the asset.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg
from pydantic import Field

from lance_ops.dagster import keys
from lance_ops.dagster.dead_runs import tag_machine
from lance_ops.dagster.ingest.proof import (
    doubt_about,
    first_attempt,
    is_of_run,
    refuse_forgotten,
    refuse_lost,
)
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.dagster.ingest.write import write_partition
from lance_ops.dagster.jobs.config import OperationConfig
from lance_ops.dagster.jobs.failures import translated_errors
from lance_ops.dagster.jobs.run_report import RunNotes, report_versions, result_metadata
from lance_ops.dagster.jobs.turn import take_turn
from lance_ops.dagster.lineage import column_lineage
from lance_ops.dagster.links import asset_link
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.version_event import Metadata, as_metadata, plain_metadata
from lance_ops.errors import DatasetNotFoundError, InvalidArgumentError
from lance_ops.maintenance.results import AppendResult
from lance_ops.maintenance.text import count_text
from lance_ops.table.commit.jobs.job_keys import find_job

_ROWS_ADDED = "lance/rows_added"
_MOST_NAMED = 10


class IngestConfig(OperationConfig):
    """Config of the materialization of an ingest."""

    rerun_token: str = Field(
        default="",
        description=(
            "A new value here appends a partition again, in addition to existing rows. An ingest with a "
            "partition column needs no token: each launch replaces the rows."
        ),
    )


DESCRIPTIONS = {
    "append": "Appends to {}: each partition exactly once.",
    "overwrite": "Replaces all rows of {}.",
    "replace_where": "Replaces the rows of a partition of {}, in one commit.",
    "merge": "Updates and inserts rows of {} by a key, in one commit.",
}
"""Descriptions of ingests by mode; {} is the dataset."""


def ingest_spec(ingest: LanceIngest) -> dg.AssetSpec:
    """Return the spec of an ingest's asset."""
    ref = ingest.ref
    return dg.AssetSpec(
        key=ingest.key,
        partitions_def=ingest.partitions,
        deps=list(ingest.deps),
        description=ingest.description or DESCRIPTIONS[ingest.effective_mode].format(ref.name),
        group_name=ref.group_name,
        owners=list(ref.owners) or None,
        kinds=set(ref.kinds if ingest.kinds is None else ingest.kinds),
        automation_condition=ingest.automation_condition,
        code_version=ingest.code_version,
    )


def build_ingest_asset(
    ingest: LanceIngest, *, prefix: str = "", spec: dg.AssetSpec | None = None
) -> dg.AssetsDefinition:
    """Build the asset whose materialization appends to a dataset.

    Its runs also publish the new version of the dataset and the checks on it.

    Args:
        ingest: What to load.
        prefix: Prefix of the required resource: `<prefix>_lance_store`.
        spec: Its asset spec, from `LanceDatasetTranslator.get_ingest_spec`.
    """
    ref = ingest.ref
    store_key = keys.prefixed(prefix, keys.STORE_RESOURCE)

    @dg.multi_asset(
        name=ingest.step_name,
        specs=[spec or ingest_spec(ingest)],
        hooks=set(ingest.hooks) or None,
        op_tags=dict(ingest.op_tags) or None,
        # One append at a time for a dataset: the first one creates it.
        pool=ingest.pool or f"{keys.INGEST_POOL_PREFIX}{ref.slug}",
        check_specs=[
            dg.AssetCheckSpec(
                keys.ROWS_LOADED,
                asset=ingest.key,
                description="The last materialization wrote rows; a warning if its work was already done.",
            )
        ],
        backfill_policy=ingest.backfill_policy,
        required_resource_keys={store_key},
    )
    def ingest_asset(context: dg.AssetExecutionContext, config: IngestConfig) -> dg.MaterializeResult:  # type: ignore[type-arg]  # Dagster knows the bare name only, beside checks
        notes = RunNotes.of(context)

        def load() -> dg.MaterializeResult[Any]:
            return _ingest(context, ingest, config, getattr(context.resources, store_key), notes)

        with translated_errors(
            ref,
            retry_number=notes.retry_number,
            conflict_retries=config.conflict_retries,
            pause=config.conflict_pause_seconds,
            policy=ingest.retry_policy,
        ):
            if ingest.execute is None:
                return load()
            done = ingest.execute(context, load)
            if not isinstance(done, dg.MaterializeResult):
                raise InvalidArgumentError(
                    f"execute of {ingest.asset_name} must return a MaterializeResult, got "
                    f"{type(done).__name__}",
                    field="execute",
                    hint="return the result of the function that loads",
                )
            return done

    return ingest_asset


def _ingest(
    context: dg.AssetExecutionContext,
    ingest: LanceIngest,
    config: IngestConfig,
    store: LanceStoreResource,
    notes: RunNotes,
) -> dg.MaterializeResult[Any]:
    partitions = _chosen(context, ingest)
    tag_machine(context.instance, context.run)
    take_turn(context, ingest.ref.name)
    loaded = [
        _load(context, ingest, config, store, replace(notes, partition=partition)) for partition in partitions
    ]
    if len(loaded) == 1:
        (only,) = loaded
        tags = {keys.VERSION: str(only.result.version), keys.TRANSACTION_UUID: only.result.transaction_uuid}
        return dg.MaterializeResult(
            asset_key=ingest.key,
            data_version=dg.DataVersion(_digest(only.job_key)),
            metadata=only.metadata,
            tags={name: value for name, value in tags.items() if value},
            check_results=[only.outcome],
        )
    named = list(zip(map(str, partitions), loaded, strict=True))
    for partition, one in named:
        noted = {
            keys.JOB_DIGEST: _digest(one.job_key),
            keys.TRANSACTION_UUID: one.result.transaction_uuid or None,
        }
        context.add_asset_metadata({**one.metadata, **as_metadata(noted)}, ingest.key, partition)
    return dg.MaterializeResult(
        asset_key=ingest.key,
        data_version=dg.DataVersion(_digest("\0".join(one.job_key for one in loaded))),
        check_results=[_summary([(partition, one.outcome) for partition, one in named])],
    )


def _chosen(context: dg.AssetExecutionContext, ingest: LanceIngest) -> Sequence[str | None]:
    """Return the partitions of the launch, in order; [None] for an ingest without partitions.

    Raises:
        dagster.Failure: The ingest has partitions, and none was chosen.
    """
    if ingest.partitions is None:
        return [None]
    if context.has_partition_key:
        return [context.partition_key]
    if context.has_partition_key_range:
        return list(context.partition_keys)
    raise dg.Failure(
        f"no partition of {ingest.asset_name} was chosen: choose one, or a range, at launch",
        metadata={keys.ERROR_HINT: "choose a partition", keys.ERROR_FIELD: "partition"},
        allow_retries=False,
    )


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A loaded partition, or the whole load of an ingest without partitions."""

    job_key: str
    result: AppendResult
    outcome: dg.AssetCheckResult
    metadata: Metadata


def _load(
    context: dg.AssetExecutionContext,
    ingest: LanceIngest,
    config: IngestConfig,
    store: LanceStoreResource,
    notes: RunNotes,
) -> _Loaded:
    job_key = _job_key(context, ingest, config, notes)
    result = _find_done(context, ingest, store, notes, job_key)
    if result is None:
        result = write_partition(context, ingest, store, notes, job_key)
    outcome = _outcome(ingest, store, notes, result)
    (context.log.info if outcome.passed else context.log.warning)(outcome.description)
    report_versions(context, ingest.ref, store, result)
    metadata = result_metadata(result) | as_metadata({keys.VERSION: result.version, keys.URI: result.uri})
    metadata[keys.DATASET_PAGE] = asset_link(ingest.ref.key)
    if ingest.columns_from:
        metadata[keys.COLUMN_LINEAGE] = column_lineage(ingest.columns_from)
    if not result.already_committed:
        metadata |= as_metadata({keys.PARTITION_ROW_COUNT: result.rows_added})
    if not (result.already_committed or result.rows_added or result.rows_deleted):
        # No version holds this partition, and later rows are other data.
        job_key = f"{job_key}|no rows"
    return _Loaded(job_key, result, outcome, metadata)


def _summary(outcomes: Sequence[tuple[str, dg.AssetCheckResult]]) -> dg.AssetCheckResult:
    """Return one check result for a run of several partitions, with the names of those without new rows."""
    idle = [f"{partition}: {outcome.description}" for partition, outcome in outcomes if not outcome.passed]
    added = sum(int(str(plain_metadata(outcome.metadata)[_ROWS_ADDED])) for _, outcome in outcomes)
    text = f"{count_text(len(outcomes), 'partition')}, {count_text(added, 'row')} added"
    return dg.AssetCheckResult(
        asset_key=outcomes[0][1].asset_key,
        check_name=keys.ROWS_LOADED,
        passed=not idle,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join([text, *idle[:_MOST_NAMED]]),
        metadata=as_metadata({_ROWS_ADDED: added, "lance/partitions": len(outcomes)}),
    )


def _job_key(
    context: dg.AssetExecutionContext, ingest: LanceIngest, config: IngestConfig, notes: RunNotes
) -> str:
    """Return the job key: an appended partition, or else the load of a chain of re-executed runs."""
    parts = [ingest.asset_name]
    if ingest.partitions is not None:
        parts.append(str(notes.partition))
    if ingest.effective_mode != "append":
        parts.append(first_attempt(context.instance, notes))
    elif ingest.partitions is None:
        parts.append(notes.root_run_id)
    return "|".join([*parts, config.rerun_token])


def _digest(job_key: str) -> str:
    """Return the data version of a load by job key; deterministic."""
    return hashlib.sha256(f"lance_ops ingest\0{job_key}".encode()).hexdigest()[:32]


def _find_done(
    context: dg.AssetExecutionContext,
    ingest: LanceIngest,
    store: LanceStoreResource,
    notes: RunNotes,
    job_key: str,
) -> AppendResult | None:
    """Find the commit of this job in the lineage of the newest version; None if there is none.

    Raises:
        RowsLostError: Rows of it were deleted since.
        JobUnprovenError: It is unknown whether the partition was appended.
    """
    try:
        head = store.open(ingest.ref)
    except DatasetNotFoundError:
        return None
    done = find_job(head, job_key)
    if ingest.partitions is not None and ingest.effective_mode == "append":
        if done is not None:
            refuse_lost(head, done, str(notes.partition))
        else:
            refuse_forgotten(context.instance, ingest.key, str(notes.partition), head, _digest(job_key))
    if done is None:
        return None
    return AppendResult(
        uri=head.uri,
        read_version=head.version,
        version=done.version,
        seconds=0.0,
        attempts=0,
        already_committed=True,
        mode=ingest.effective_mode,
        transaction_uuid=done.transaction_uuid,
    )


def _outcome(
    ingest: LanceIngest, store: LanceStoreResource, notes: RunNotes, result: AppendResult
) -> dg.AssetCheckResult:
    """Return the check result: whether the materialization wrote rows."""
    passed = result.changed and result.rows_added > 0
    text = str(result)
    if result.already_committed:
        head = store.open(ingest.ref)
        passed = is_of_run(head, result.version, notes.run_id)
        by = "an earlier attempt of this run" if passed else "an earlier run with the same job key"
        text = f"version {result.version} was committed by {by}{doubt_about(head, result.version)}"
    if not passed:
        gone = f" and {count_text(result.rows_deleted, 'row')} removed" if result.rows_deleted else ""
        text = (
            f"nothing was written{gone}: "
            f"{text if result.already_committed else 'the source returned no rows'}"
        )
    return dg.AssetCheckResult(
        asset_key=ingest.key,
        check_name=keys.ROWS_LOADED,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=text,
        metadata=as_metadata({keys.VERSION: result.version, _ROWS_ADDED: result.rows_added}),
    )
