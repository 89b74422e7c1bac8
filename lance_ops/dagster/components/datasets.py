"""Component of datasets: datasets, ingests and alerts from YAML."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Literal, cast

import dagster as dg
from dagster.components import ResolvedAssetSpec, Scaffolder, ScaffoldRequest, scaffold_component

from lance_ops.dagster import keys
from lance_ops.dagster.components.shared import ComponentTranslator, LanceComponent
from lance_ops.dagster.components.values import (
    IMPORTED,
    BackfillPolicy,
    Freshness,
    LocalPath,
    RetryPolicy,
    settings_of,
)
from lance_ops.dagster.dataset_ref import LanceDatasetRef, slugify
from lance_ops.dagster.downstream import LanceDownstream
from lance_ops.dagster.factory import build_lance_definitions
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.dagster.jobs.schedules import MaintenanceTimes
from lance_ops.dagster.lineage import ColumnSources
from lance_ops.dagster.selection import filter_refs
from lance_ops.dagster.spec import described
from lance_ops.errors import InvalidArgumentError
from lance_ops.fleet.policy.quantities import parse_duration
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.table.data_writer import MAX_ROWS_PER_FILE


@dataclass
class DatasetModel(dg.Resolvable):
    """One dataset.

    Attributes:
        name: Path of its asset key, parts joined by "/".
        uri: URI, or a path relative to the YAML file.
        description: Markdown for the asset's page.
        group: Asset group.
        owners: E-mail addresses or `team:<name>`.
        tags: Asset tags.
        deps: Keys of upstream assets.
        policy: Thresholds of `MaintenancePolicy` by name; times as `14d` or `12h`.
        freshness: Maximum age of the newest version: `12h`, `{fail_window: 24h, warn_window: 12h}`, or
            `{deadline_cron: "0 6 * * *", lower_bound_delta: 1h}`.
        kinds: Kinds that Dagster shows beside the name.
        run_limit: Maximum duration of a maintenance or ingest run, as `2h`.
        storage_options: Of the object store; secrets as `{{ env.NAME }}`.
        columns_from: Declared column lineage: {column: [[asset, column]]}.
    """

    name: str
    uri: LocalPath
    description: str = ""
    group: str | None = None
    owners: list[str] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    deps: list[str] = field(default_factory=list)
    policy: Annotated[MaintenancePolicy, settings_of(MaintenancePolicy)] = field(
        default_factory=MaintenancePolicy
    )
    freshness: Freshness = None
    kinds: list[str] = field(default_factory=lambda: ["lance"])
    run_limit: str | None = None
    storage_options: dict[str, str] = field(default_factory=dict, repr=False)
    columns_from: dict[str, list[list[str]]] = field(default_factory=dict)

    def ref(self) -> LanceDatasetRef:
        """Return the dataset reference.

        Raises:
            InvalidArgumentError: A value is invalid.
        """
        return LanceDatasetRef(
            self.name,
            self.uri,
            description=self.description,
            group=self.group,
            owners=self.owners,
            tags=self.tags,
            deps=[dg.AssetKey.from_user_string(key) for key in self.deps],
            policy=self.policy,
            freshness=self.freshness,
            kinds=frozenset(self.kinds),
            run_limit=_limit(self.name, self.run_limit),
            storage_options=self.storage_options,
            columns_from=cast("ColumnSources", self.columns_from),
        )


@dataclass
class OpModel(dg.Resolvable):
    """The step of an ingest.

    Attributes:
        name: Name of the step, as run config has it.
        tags: Of the step, e.g. `dagster-k8s/config`.
        pool: Pool that limits concurrent steps.
        backfill_policy: `{type: single_run}` loads a range of partitions in one run.
        retry_policy: Arguments of `dg.RetryPolicy`.
    """

    name: str | None = None
    tags: dict[str, Any] = field(default_factory=dict)
    pool: str | None = None
    backfill_policy: BackfillPolicy = None
    retry_policy: RetryPolicy = None


@dataclass
class IngestModel(dg.Resolvable):
    """Ingest of a dataset; see `LanceIngest`.

    Attributes:
        dataset: Name of the dataset in `datasets`.
        source: The function that returns the rows, as `module:name`.
        asset: The ingest as an asset: its key, and `partitions_def`, `deps`, `automation_condition`,
            `code_version`, `owners`, `tags` and so on; `<dataset>_ingest` by default.
        op: Its step.
        partition_column: The column that identifies the rows of a partition, or one for each dimension.
        replace_where: Instead of a column: a function that returns a predicate, as `module:name`.
        mode: "append", "overwrite", "replace_where" or "merge".
        on: Key columns of a merge.
        cron_schedule: Cron expression of the schedule.
        execution_timezone: Time zone of `cron_schedule`.
        hooks: Hooks of Dagster, as `module:name`.
        allow_empty: If the source returns no rows for a partition, its existing rows are deleted.
        fill_missing: Fill missing nullable columns with nulls.
        max_rows_per_file: Maximum rows per fragment.
        data_storage_version: Storage version of the data files.
        columns_from: Declared column lineage: {column: [[asset, column]]}.
    """

    dataset: str
    source: str
    asset: ResolvedAssetSpec | None = None
    op: OpModel = field(default_factory=OpModel)
    partition_column: str | dict[str, str] | None = None
    replace_where: Annotated[Any, IMPORTED] = None
    mode: Literal["append", "overwrite", "replace_where", "merge"] | None = None
    on: list[str] = field(default_factory=list)
    cron_schedule: str | None = None
    execution_timezone: str | None = None
    hooks: Annotated[Any, IMPORTED] = field(default_factory=list)
    allow_empty: bool = False
    fill_missing: bool = False
    max_rows_per_file: int = MAX_ROWS_PER_FILE
    data_storage_version: str | None = None
    columns_from: dict[str, list[list[str]]] = field(default_factory=dict)

    def ingest(self, ref: LanceDatasetRef, execute: Callable[..., Any] | None) -> LanceIngest:
        """Return the ingest.

        Args:
            ref: Its dataset.
            execute: Wraps each materialization; None for nothing.

        Raises:
            InvalidArgumentError: A value is invalid.
        """
        asset = self.asset or dg.AssetSpec(dg.AssetKey(f"{ref.name}_ingest".split("/")))
        return LanceIngest(
            ref,
            self.source,
            name="/".join(asset.key.path),
            partitions=asset.partitions_def,
            description=asset.description or "",
            deps=[dep.asset_key for dep in asset.deps],
            automation_condition=asset.automation_condition,
            code_version=asset.code_version,
            kinds=frozenset(asset.kinds) or None,
            op_name=self.op.name,
            op_tags=self.op.tags,
            pool=self.op.pool,
            backfill_policy=self.op.backfill_policy,
            retry_policy=self.op.retry_policy,
            hooks=frozenset(self.hooks if isinstance(self.hooks, list) else [self.hooks]),
            partition_column=self.partition_column,
            replace_where=self.replace_where,
            mode=self.mode,
            on=self.on,
            cron_schedule=self.cron_schedule,
            execution_timezone=self.execution_timezone,
            allow_empty=self.allow_empty,
            fill_missing=self.fill_missing,
            max_rows_per_file=self.max_rows_per_file,
            data_storage_version=self.data_storage_version,
            columns_from=cast("ColumnSources", self.columns_from),
            execute=execute,
        )


@dataclass
class DownstreamModel(dg.Resolvable):
    """Job that starts when data change; see `LanceDownstream`.

    Attributes:
        job: A job of the project, as `module:name`.
        datasets: Names in `datasets` that it reads.
    """

    job: Annotated[Any, IMPORTED]
    datasets: list[str]


_DEFS_FILE = "defs.yaml"
_MORE = """\
    # More of the first dataset; all of it may be left out:
    #   description: One row an order.
    #   group: sales
    #   owners: [team:data]
    #   deps: [raw/orders]
    #   policy: {max_small_fragments: 20, older_than: 14d}
    #   freshness: 24h
    #   storage_options: {aws_secret_access_key: "{{ env.LAKE_SECRET }}"}
    # and of the component, beside `datasets`:
    #   running: true
    #   schedules_running: true
    #   runner: spark
    #   spark_master: local[*]
    #   translation: {tags: {tier: gold}}
    #   times: {compact: "0 * * * *"}
    #   alerts: {rules: [{to: slack, url: "${SLACK_WEBHOOK}", severity: error}]}
"""


class LanceDatasetScaffolder(Scaffolder[Any]):
    """Scaffolder of `dg scaffold defs` for datasets: YAML of the component with one dataset to fill in."""

    def scaffold(self, request: ScaffoldRequest[Any]) -> None:
        """Write the file. Its prefix allows other components in the project."""
        name = slugify(request.target_path.name)
        dataset = {"name": f"{request.target_path.name}/orders", "uri": "orders.lance"}
        scaffold_component(request, {"prefix": name, "datasets": [dataset]})
        made = request.target_path / _DEFS_FILE
        if made.exists():
            made.write_text(made.read_text(encoding="utf-8").rstrip() + "\n" + _MORE, encoding="utf-8")


@dg.scaffold_with(LanceDatasetScaffolder)
@dataclass
class LanceDatasetComponent(LanceComponent, dg.Component):
    """Some datasets, with ingests, checks, jobs, schedules, sensors and alerts.

    To do more around each ingest, subclass it and override `execute`; to change asset specs in Python,
    `get_asset_spec` and `get_ingest_spec`.

    Attributes:
        datasets: The datasets.
        ingests: Ingests into some of them.
        assets: Assets that write some of them through `LanceIOManager`, as `module:name`.
        downstream: Jobs to start when data change.
        times: When schedules look for due maintenance: fields of `MaintenanceTimes` by name.
        sensor_interval_seconds: Pause between ticks of the sensors.
        hooks: Hooks of Dagster on the maintenance jobs, as `module:name`.
        op_retry_policy: Retry policy of the steps of these jobs.
    """

    datasets: list[DatasetModel]
    ingests: list[IngestModel] = field(default_factory=list)
    assets: Annotated[Any, IMPORTED] = field(default_factory=list)
    downstream: list[DownstreamModel] = field(default_factory=list)
    times: Annotated[MaintenanceTimes | None, settings_of(MaintenanceTimes)] = None
    sensor_interval_seconds: int = 30
    hooks: Annotated[Any, IMPORTED] = field(default_factory=list)
    op_retry_policy: RetryPolicy = None

    def execute(
        self,
        context: dg.AssetExecutionContext,  # noqa: ARG002 - for those who override it
        load: Callable[[], dg.MaterializeResult[Any]],
    ) -> dg.MaterializeResult[Any]:
        """Materialize an ingest; override it to run code before and after.

        Args:
            context: Context of the step.
            load: Reads the source and commits; returns the result for Dagster.
        """
        return load()

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002 - Dagster's signature
        """Build the definitions of the datasets."""
        chosen = filter_refs(
            [item.ref() for item in self.datasets],
            self.get_asset_spec,
            select=self.select,
            exclude=self.exclude,
        )
        # A translation may change the key of a dataset, which is the name used everywhere else.
        specs = {ref.name: self.get_asset_spec(ref) for ref in chosen}
        refs = {ref.name: _as_shown(ref, specs[ref.name]) for ref in chosen}
        by_new_name = {refs[name].name: _renamed(spec, refs[name]) for name, spec in specs.items()}
        known = {item.name for item in self.datasets}
        given = [item for item in self.ingests if _known(item.dataset, known, "ingests") in refs]
        execute = type(self).execute is not LanceDatasetComponent.execute
        ingests = [item.ingest(refs[item.dataset], self.execute if execute else None) for item in given]
        own = {
            ingest.key: item.asset
            for item, ingest in zip(given, ingests, strict=True)
            if item.asset is not None
        }
        return build_lance_definitions(
            list(refs.values()),
            store=self.build_store(),
            ingests=ingests,
            assets=self.assets if isinstance(self.assets, list) else [self.assets],
            downstream=[
                LanceDownstream(item.job, read)
                for item in self.downstream
                if (
                    read := [
                        refs[name].name for name in item.datasets if _known(name, known, "downstream") in refs
                    ]
                )
            ],
            notifier=self.notifier,
            alerts=self.alerts,
            translator=ComponentTranslator(
                lambda ref: by_new_name[ref.name], partial(_asset_of_ingest, self.get_ingest_spec, own)
            ),
            times=self.times,
            sensor_options=self.sensor_options,
            sensor_interval_seconds=self.sensor_interval_seconds,
            running=self.running,
            schedules_running=self.schedules_running,
            hooks=frozenset(self.hooks if isinstance(self.hooks, list) else [self.hooks]),
            op_retry_policy=self.op_retry_policy,
            prefix=self.prefix,
        )


def _asset_of_ingest(
    base: Callable[[LanceIngest], dg.AssetSpec], own: dict[dg.AssetKey, dg.AssetSpec], ingest: LanceIngest
) -> dg.AssetSpec:
    """Return the asset of an ingest; values of its YAML take precedence."""
    spec = base(ingest)
    return described({ingest.key: spec}, own[ingest.key]) if ingest.key in own else spec


def _as_shown(ref: LanceDatasetRef, spec: dg.AssetSpec) -> LanceDatasetRef:
    """Return a dataset with the name, the group and the owners of its translation."""
    return replace(ref, name="/".join(spec.key.path), group=spec.group_name, owners=spec.owners)


def _renamed(spec: dg.AssetSpec, ref: LanceDatasetRef) -> dg.AssetSpec:
    """Return a spec with a translated key, and the matching name for Dagster's table panels."""
    return spec.merge_attributes(metadata={keys.TABLE_NAME: ref.table_name})


def _known(name: str, known: set[str], field_name: str) -> str:
    """Return the name of a dataset of the component.

    Raises:
        InvalidArgumentError: It has no such dataset.
    """
    if name not in known:
        raise InvalidArgumentError(
            f"dataset {name!r} is not in `datasets`",
            field=field_name,
            hint=f"one of {', '.join(sorted(known))}",
        )
    return name


def _limit(dataset: str, text: str | None) -> timedelta | None:
    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise InvalidArgumentError(f"dataset {dataset!r}, run_limit: {error}", field="run_limit") from None
