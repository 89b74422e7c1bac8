"""Specification of ingests: source, partitions, mode, and requests to the source."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

import dagster as dg

from lance_ops.dagster.dataset_ref import LanceDatasetRef, slugify
from lance_ops.dagster.ingest.partition_predicate import Columns
from lance_ops.dagster.lineage import ColumnSources, check_sources
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.ingest.partition_rows import wall_clock
from lance_ops.table.data_writer import MAX_ROWS_PER_FILE

IngestMode = Literal["append", "overwrite", "replace_where", "merge"]


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """Request to a source.

    Attributes:
        partition_key: Partition to load; None when the ingest has none.
        time_window: Start and end of a time partition or time dimension.
        store: For a source that computes with Spark: `request.store.spark_session()`.
    """

    partition_key: str | None
    time_window: dg.TimeWindow | None
    store: LanceStoreResource

    @property
    def wall_clock_window(self) -> tuple[datetime, datetime] | None:
        """Return the wall-clock times of the partition: from the first on, before the second.

        Each wall-clock time belongs to one partition. Times that occur twice a year belong to the partition
        of their first occurrence.
        """
        window = self.time_window
        return None if window is None else (wall_clock(window.start), wall_clock(window.end))


IngestSource = Callable[[IngestRequest], Any]
"""Returns the rows: a Spark DataFrame, or what `write_dataset` takes (Arrow, pandas, file paths)."""

Execution = Callable[[dg.AssetExecutionContext, Callable[[], dg.MaterializeResult[Any]]], Any]
"""Wraps a materialization: called with Dagster's context and the function that loads; returns its result."""


@dataclass(frozen=True, slots=True)
class LanceIngest:
    """Ingest of a dataset.

    Attributes:
        ref: The dataset.
        source: Function that returns the rows, or its name as `module:name`, which a program submitted to a
            cluster imports there.
        partitions: Time partitions, as a rule; None if every materialization appends new rows.
        partition_column: The column that identifies the rows of a partition, or that of each dimension by
            name: a timestamp or date for time partitions, the type of the keys for others.
        replace_where: Returns the predicate that selects the rows of a partition, if a column does not
            suffice.
        name: Name of the ingest's asset; default that of the dataset with the suffix `_ingest`.
        description: Markdown for the asset's page.
        deps: Assets that the source reads.
        mode: "replace_where" replaces the rows of the partition in one commit, and is the default if these
            are identified; "append", the default otherwise, adds a partition exactly once; "overwrite"
            replaces
            the whole dataset, for an ingest without partitions; "merge" updates rows with a known key, and
            inserts the others, in one commit (the first materialization creates the dataset).
        on: Key columns of "merge", which is the default if they are given; default the primary key of the
            schema.
        allow_empty: If the source returns no rows for a partition, its existing rows are deleted.
        max_rows_per_file: Maximum rows per fragment.
        data_storage_version: Storage version of the data files, see `write_dataset`; default that of the
            dataset.
        fill_missing: Fill missing nullable columns with nulls.
        backfill_policy: `dg.BackfillPolicy.single_run()` loads a range of partitions in one run, one after
            the other, each in its own commit; a run for each partition by default.
        kinds: Kinds that Dagster shows beside the name; default those of the dataset.
        columns_from: Declared lineage from columns of `deps` to columns of the source: {column: [(asset,
            column)]}. The dataset inherits it from the ingest.
        cron_schedule: Cron expression, e.g. "15 0 * * *": the last complete partition of time, in one run for
            each of its other dimensions; all partitions that are no times; or, without partitions, what is
            new. `build_ingest_schedule` makes the schedule. Launch a backfill for partitions before it.
        execution_timezone: Time zone of `cron_schedule`; that of the partitions by default, or else UTC.
        automation_condition: Condition for automatic materialization, instead of a schedule.
        code_version: Version of the source's code.
        retry_policy: Retry policy for transient errors; default two retries.
        hooks: Hooks of each materialization: `@dg.success_hook`, `@dg.failure_hook`.
        op_name: Name of the step in run config; default from the asset key.
        op_tags: Tags of the step, e.g. `dagster-k8s/config`.
        pool: Pool that limits concurrent steps; default one for each dataset.
        execute: Wraps each materialization: called with Dagster's context and the function that loads.
    """

    ref: LanceDatasetRef
    source: IngestSource | str
    partitions: dg.PartitionsDefinition[Any] | None = None
    name: str | None = None
    description: str = ""
    deps: Sequence[dg.AssetKey | str] = ()
    mode: IngestMode | None = None
    on: Sequence[str] = ()
    partition_column: Columns | None = None
    replace_where: Callable[[IngestRequest], str] | None = None
    allow_empty: bool = False
    max_rows_per_file: int = MAX_ROWS_PER_FILE
    data_storage_version: str | None = None
    fill_missing: bool = False
    backfill_policy: dg.BackfillPolicy | None = None
    kinds: frozenset[str] | None = None
    columns_from: ColumnSources = field(default_factory=dict)
    cron_schedule: str | None = None
    execution_timezone: str | None = None
    automation_condition: dg.AutomationCondition[Any] | None = None
    code_version: str | None = None
    retry_policy: dg.RetryPolicy | None = None
    hooks: AbstractSet[dg.HookDefinition] = frozenset()
    op_name: str | None = None
    op_tags: Mapping[str, Any] = field(default_factory=dict)
    pool: str | None = None
    execute: Execution | None = None

    def __post_init__(self) -> None:
        check_sources(self.columns_from, f"ingest {self.asset_name!r}")
        told = self.partition_column is not None or self.replace_where is not None
        if self.partition_column is not None and (self.replace_where is not None or not self.partitions):
            raise InvalidArgumentError(
                f"{self.asset_name}: a partition column requires partitions, and excludes `replace_where`",
                field="partition_column",
            )
        if self.mode not in (None, *get_args(IngestMode)):
            raise InvalidArgumentError(
                f"{self.asset_name}: unknown mode {self.mode!r}",
                field="mode",
                hint=f"one of {', '.join(get_args(IngestMode))}",
            )
        if self.mode == "overwrite" and self.partitions is not None:
            raise InvalidArgumentError(
                f"{self.asset_name}: each partition would replace the previous ones",
                field="mode",
                hint="declare the partition column: then one partition is replaced",
            )
        if self.on and (self.mode not in (None, "merge") or told):
            raise InvalidArgumentError(
                f"{self.asset_name}: key columns require mode 'merge'; other modes replace whole partitions",
                field="on",
            )
        if self.mode == "replace_where" and not told:
            raise InvalidArgumentError(
                f"{self.asset_name}: the rows of a partition are not identified",
                field="mode",
                hint="declare the partition column, or `replace_where`",
            )

    @property
    def effective_mode(self) -> IngestMode:
        """The mode of a materialization."""
        if self.mode is not None:
            return self.mode
        if self.on:
            return "merge"
        told = self.partition_column is not None or self.replace_where is not None
        return "replace_where" if told else "append"

    @property
    def asset_name(self) -> str:
        """Path of the ingest's asset key, parts joined by "/"."""
        return self.name or f"{self.ref.name}_ingest"

    @property
    def key(self) -> dg.AssetKey:
        """Asset key of the ingest."""
        return dg.AssetKey(self.asset_name.split("/"))

    @property
    def step_name(self) -> str:
        """Name of the step that materializes it."""
        return self.op_name or "__".join(self.key.path)

    @property
    def job_name(self) -> str:
        """Name of the job that materializes it."""
        return f"{slugify(self.asset_name)}_job"
