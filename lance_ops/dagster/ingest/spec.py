"""What an ingest is: how rows come into a dataset, and what its source is asked for."""

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
    """What a source is asked for.

    Attributes:
        partition_key: Partition to load; None when the ingest has none.
        time_window: Its start and end, when partitions are times, or a dimension of theirs is.
        store: For a source that computes with Spark: `request.store.spark_session()`.
    """

    partition_key: str | None
    time_window: dg.TimeWindow | None
    store: LanceStoreResource

    @property
    def wall_clock_window(self) -> tuple[datetime, datetime] | None:
        """The times without a time zone that belong to the partition: from the first on, before the second.

        Of wall-clock times each belongs to one partition, also of those that clocks show twice a year: these
        belong to the partition in which they are shown first, so that the one in which they are shown again
        has none.
        """
        window = self.time_window
        return None if window is None else (wall_clock(window.start), wall_clock(window.end))


IngestSource = Callable[[IngestRequest], Any]
"""Returns the rows: a Spark DataFrame, or what `write_dataset` takes (Arrow, pandas, file paths)."""

Execution = Callable[[dg.AssetExecutionContext, Callable[[], dg.MaterializeResult[Any]]], Any]
"""Wraps a materialization: gets Dagster's context and the function that loads; returns what that returned."""


@dataclass(frozen=True, slots=True)
class LanceIngest:
    """How rows come into a dataset.

    Attributes:
        ref: The dataset.
        source: Gives the rows: a function, or where there is one, as `module:name`, which a program that is
            submitted to a cluster imports there.
        partitions: Time partitions, as a rule; None when every materialization appends what is new.
        partition_column: The column by which the rows of a partition can be told, or that of each dimension
            by its name: of the type timestamp or date for partitions of time, of the keys for others.
        replace_where: Returns the predicate that selects the rows of a partition, where one column does not.
        name: Name of the ingest's asset; that of the dataset with `_ingest` behind it by default.
        description: Markdown for the asset's page.
        deps: Assets that the source reads.
        mode: "replace_where" replaces the rows of the partition in one commit, and is the default when these
            can be told; "append", the default otherwise, adds a partition exactly once; "overwrite" replaces
            the whole dataset, for an ingest without partitions; "merge" updates the rows whose key is there,
            and adds the others, in one commit (the first materialization creates the dataset).
        on: Columns of the key that "merge" goes by, which is the default where there are some; the primary
            key that the schema declares when none are named.
        allow_empty: A partition for which the source gives no rows loses those that it has.
        max_rows_per_file: Rows after which a new fragment begins.
        data_storage_version: Of the data files, see `write_dataset`; that of the dataset by default.
        fill_missing: Fill nullable columns that the source lacks with nulls.
        backfill_policy: `dg.BackfillPolicy.single_run()` loads a range of partitions in one run, one after
            the other, each in its own commit; a run for each partition by default.
        kinds: What Dagster's pages show beside the name; those of the dataset by default.
        columns_from: Which columns of `deps` feed which of the columns that the source gives:
            {column: [(asset, column)]}. The dataset has them from the ingest.
        cron_schedule: When to load, e.g. "15 0 * * *": the last complete partition of time, in one run for
            each of its other dimensions; all partitions that are no times; or, without partitions, what is
            new. `build_ingest_schedule` makes the schedule. Launch a backfill for partitions before it.
        execution_timezone: Time zone of `cron_schedule`; that of the partitions by default, or else UTC.
        automation_condition: When Dagster is to materialize the ingest by itself, instead of a schedule.
        code_version: Version of the source's code, as of any asset.
        retry_policy: How often and when a step is tried again whose error may pass; by default twice.
        hooks: Run after each materialization: `@dg.success_hook`, `@dg.failure_hook`.
        op_name: Name of the step, as run config has it; made of the asset key by default.
        op_tags: Of the step, e.g. `dagster-k8s/config`.
        pool: Limits steps at work at once; a pool for each dataset by default.
        execute: Runs around each materialization: gets Dagster's context and the function that loads.
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
                f"{self.asset_name}: a partition column goes with partitions, and without `replace_where`",
                field="partition_column",
            )
        if self.mode not in (None, *get_args(IngestMode)):
            raise InvalidArgumentError(
                f"{self.asset_name}: no such mode: {self.mode!r}",
                field="mode",
                hint=f"one of {', '.join(get_args(IngestMode))}",
            )
        if self.mode == "overwrite" and self.partitions is not None:
            raise InvalidArgumentError(
                f"{self.asset_name}: each partition would replace those before it",
                field="mode",
                hint="declare the partition column, which replaces one partition",
            )
        if self.on and (self.mode not in (None, "merge") or told):
            raise InvalidArgumentError(
                f"{self.asset_name}: a key goes with mode 'merge', which replaces no partition as a whole",
                field="on",
            )
        if self.mode == "replace_where" and not told:
            raise InvalidArgumentError(
                f"{self.asset_name}: nothing says which rows are those of a partition",
                field="mode",
                hint="declare the partition column, or `replace_where`",
            )

    @property
    def effective_mode(self) -> IngestMode:
        """What a materialization does."""
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
