"""Ingest as an asset of its own, upstream of the dataset, with the partitions that the dataset must not have.

Dagster looks at partitions alone when an asset has them, so a delete or a restore, which belongs to no
partition, would leave everything downstream in peace.

A partition is appended exactly once, however often its run is retried, re-executed or launched anew: the job
key is made of the asset and the partition. It is looked for in the dataset's transactions and, since cleanup
removes old ones, in Dagster's event log as well.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import dagster as dg
from pydantic import Field

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef, slugify
from lance_ops.dagster.failures import TRANSIENT_RETRIES, translated_errors
from lance_ops.dagster.job_config import OperationConfig
from lance_ops.dagster.jobs import NamedJob
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.run_report import RunNotes, build_progress, report_versions, result_metadata
from lance_ops.dagster.version_event import as_metadata
from lance_ops.errors import DatasetNotFoundError
from lance_ops.maintenance.append import write_dataset
from lance_ops.maintenance.results import AppendResult
from lance_ops.table.data_writer import MAX_ROWS_PER_FILE


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """What a source is asked for.

    Attributes:
        partition_key: Partition to load; None when the ingest has none.
        time_window: Its start and end, when partitions are times.
        store: For a source that computes with Spark: `request.store.spark_session()`.
    """

    partition_key: str | None
    time_window: dg.TimeWindow | None
    store: LanceStoreResource


IngestSource = Callable[[IngestRequest], Any]
"""Returns the rows: a Spark DataFrame, or what `write_dataset` takes (Arrow, pandas, file paths)."""


@dataclass(frozen=True, slots=True)
class LanceIngest:
    """How rows come into a dataset.

    Attributes:
        ref: The dataset.
        source: Gives the rows.
        partitions: Time partitions, as a rule; None when every materialization appends what is new.
        name: Name of the ingest's asset; that of the dataset with `_ingest` behind it by default.
        description: Markdown for the asset's page.
        deps: Assets that the source reads.
        mode: "overwrite" replaces the whole dataset, for an ingest without partitions.
        max_rows_per_file: Rows after which a new fragment begins.
        data_storage_version: Of the data files of a new dataset.
        fill_missing: Fill nullable columns that the source lacks with nulls.
    """

    ref: LanceDatasetRef
    source: IngestSource
    partitions: dg.PartitionsDefinition[Any] | None = None
    name: str | None = None
    description: str = ""
    deps: Sequence[dg.AssetKey | str] = ()
    mode: Literal["append", "overwrite"] = "append"
    max_rows_per_file: int = MAX_ROWS_PER_FILE
    data_storage_version: str | None = None
    fill_missing: bool = False
    kinds: frozenset[str] = field(default=frozenset({"lance", "pyspark"}))

    @property
    def asset_name(self) -> str:
        """Path of the ingest's asset key, parts joined by "/"."""
        return self.name or f"{self.ref.name}_ingest"

    @property
    def key(self) -> dg.AssetKey:
        """Asset key of the ingest."""
        return dg.AssetKey(self.asset_name.split("/"))


class IngestConfig(OperationConfig):
    """How a materialization of an ingest behaves."""

    rerun_token: str = Field(
        default="",
        description="Something new here appends a partition again that was appended already.",
    )


def build_ingest_asset(ingest: LanceIngest) -> dg.AssetsDefinition:
    """The asset whose materialization appends to a dataset.

    Its runs also publish the new version of the dataset and the checks on it.

    Args:
        ingest: What to load.
    """
    ref = ingest.ref

    @dg.asset(
        key=ingest.key,
        partitions_def=ingest.partitions,
        deps=list(ingest.deps),
        description=ingest.description or f"Appends to [{ref.name}]: each partition exactly once.",
        group_name=ref.group_name,
        owners=list(ref.owners) or None,
        kinds=set(ingest.kinds),
        # One append at a time for a dataset: the first one creates it.
        pool=f"{keys.INGEST_POOL_PREFIX}{ref.slug}",
        retry_policy=TRANSIENT_RETRIES,
        # No backfill policy: a run for each partition is what Dagster does without one.
    )
    def ingest_asset(
        context: dg.AssetExecutionContext, config: IngestConfig, lance_store: LanceStoreResource
    ) -> dg.MaterializeResult[Any]:
        notes = RunNotes.of(context)
        with translated_errors(
            ref,
            retry_number=notes.retry_number,
            conflict_retries=config.conflict_retries,
            pause=config.conflict_pause_seconds,
        ):
            return _ingest(context, ingest, config, lance_store, notes)

    return ingest_asset


def build_ingest_job(ingest: LanceIngest) -> NamedJob:
    """A job that materializes an ingest, e.g. `flights_ingest_job`.

    Unlike runs from the asset's page, its runs carry the tag by which `dagster.yaml` keeps those of one
    dataset from running at once, maintenance included.

    Args:
        ingest: What to load.
    """
    job = dg.define_asset_job(
        f"{slugify(ingest.asset_name)}_job",
        selection=dg.AssetSelection.assets(ingest.key),
        tags={keys.DATASET_TAG: ingest.ref.name},
        description=f"Appends to {ingest.ref.name}.",
        executor_def=dg.in_process_executor,
    )
    return cast("NamedJob", job)


def _ingest(
    context: dg.AssetExecutionContext,
    ingest: LanceIngest,
    config: IngestConfig,
    store: LanceStoreResource,
    notes: RunNotes,
) -> dg.MaterializeResult[Any]:
    job_key = _job_key(ingest, config, notes)
    result = _in_event_log(context, ingest, store, job_key)
    if result is None:
        result = _write(context, ingest, store, notes, job_key)
    context.log.info(str(result))
    report_versions(context, ingest.ref, store, result)
    metadata = result_metadata(result) | as_metadata({keys.VERSION: result.version, keys.URI: result.uri})
    if not result.already_committed:
        metadata |= as_metadata({keys.PARTITION_ROW_COUNT: result.rows_added})
    return dg.MaterializeResult(
        asset_key=ingest.key,
        data_version=dg.DataVersion(_digest(job_key)),
        metadata=metadata,
        tags={keys.VERSION: str(result.version)},
    )


def _job_key(ingest: LanceIngest, config: IngestConfig, notes: RunNotes) -> str:
    """The partition's own key; without partitions that of the first of a chain of re-executed runs."""
    part = notes.root_run_id if ingest.partitions is None else str(notes.partition)
    return f"{ingest.asset_name}|{part}|{config.rerun_token}"


def _digest(job_key: str) -> str:
    """Data version of what a job key loaded; the same whenever it is asked."""
    return hashlib.sha256(f"lance_ops ingest\0{job_key}".encode()).hexdigest()[:32]


def _in_event_log(
    context: dg.AssetExecutionContext, ingest: LanceIngest, store: LanceStoreResource, job_key: str
) -> AppendResult | None:
    """The result of an earlier run under this key that Dagster remembers, whatever cleanup removed since."""
    if ingest.partitions is None:
        return None
    found = context.instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=ingest.key, asset_partitions=[context.partition_key]), limit=1
    ).records
    event = found[0].asset_materialization if found else None
    tags = (event.tags or {}) if event is not None else {}
    if tags.get(keys.DATA_VERSION_TAG) != _digest(job_key) or keys.VERSION not in tags:
        return None
    try:
        head = store.open(ingest.ref)
    except DatasetNotFoundError:
        return None
    version = int(tags[keys.VERSION])
    if head.version < version:
        # Somebody made the dataset anew: the rows are not in this one.
        return None
    return AppendResult(
        uri=head.uri,
        read_version=head.version,
        version=version,
        seconds=0.0,
        attempts=0,
        already_committed=True,
    )


def _write(
    context: dg.AssetExecutionContext,
    ingest: LanceIngest,
    store: LanceStoreResource,
    notes: RunNotes,
    job_key: str,
) -> AppendResult:
    window = context.partition_time_window if _has_times(ingest) else None
    data = ingest.source(IngestRequest(notes.partition, window, store))
    options: dict[str, Any] = {
        "mode": ingest.mode,
        "max_rows_per_file": ingest.max_rows_per_file,
        "data_storage_version": ingest.data_storage_version,
        "fill_missing": ingest.fill_missing,
        "job_key": job_key,
        "properties": notes.properties,
        "progress": build_progress(context),
        "storage_options": store.storage_options,
    }
    if _is_dataframe(data):
        from lance_ops.spark.write import append_dataframe

        return append_dataframe(data, ingest.ref.uri, **options)
    return write_dataset(data, ingest.ref.uri, runner=store.build_runner(), **options)


def _has_times(ingest: LanceIngest) -> bool:
    return isinstance(ingest.partitions, dg.TimeWindowPartitionsDefinition)


def _is_dataframe(data: object) -> bool:
    """Whether it is a Spark DataFrame, of a classic session or a remote one."""
    return any(kind.__module__.startswith("pyspark.sql.") for kind in type(data).__mro__)
