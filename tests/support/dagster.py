"""Running jobs and sensor ticks in this process, as Dagster's daemon and run launcher would."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg

from lance_ops.dagster import Alert, LanceDatasetRef, LanceStoreResource, Message
from lance_ops.dagster.checks.catalog import CHECKS, own_name
from lance_ops.dagster.jobs.operations import build_jobs
from lance_ops.dagster.sensor.cursor import DatasetCursor, parse_cursor
from lance_ops.dagster.sensor.manifest_sensor import build_manifest_sensor
from lance_ops.dagster.sensor.memory import SensorMemory
from lance_ops.errors import AlertNotDeliveredError
from lance_ops.maintenance.ingest.operation import write_dataset
from tests.support.tables import rows

OF_INDICES = frozenset({"index_coverage", "index_upkeep", "index_wear", "vector_recall"})
"""Checks that are not evaluated without an index."""
WITHOUT_INDEX = frozenset(CHECKS) - OF_INDICES
STORE = LanceStoreResource(storage_options={"fsync": "false"}, threads=1)


def write(uri: str | Path, start: int, stop: int, **options) -> int:
    """Append numbered rows as somebody outside of Dagster would; returns the version."""
    return write_dataset(rows(start, stop), str(uri), mode="append", **options).version


def run_job(
    ref: LanceDatasetRef,
    name: str,
    instance: dg.DagsterInstance,
    /,
    *,
    store: LanceStoreResource = STORE,
    **config,
) -> dg.ExecuteInProcessResult:
    """Run one of the jobs on a dataset."""
    jobs = {job.name: job for job in build_jobs([ref])}
    op = name.removeprefix("lance_")
    config = {"conflict_pause_seconds": 0.0, **config}
    return jobs[name].execute_in_process(
        run_config={"ops": {op: {"config": config}}},
        partition_key=ref.name,
        instance=instance,
        resources={"lance_store": store},
        raise_on_error=False,
    )


def materializations(instance: dg.DagsterInstance, ref: LanceDatasetRef) -> list[dg.AssetMaterialization]:
    """Events of a dataset, oldest first."""
    found = instance.fetch_materializations(ref.key, limit=1000, ascending=True).records
    return [record.asset_materialization for record in found]


def published_versions(instance: dg.DagsterInstance, ref: LanceDatasetRef) -> list[int]:
    """Versions in the event log, in the order of their events."""
    return [int(event.tags["lance/version"]) for event in materializations(instance, ref)]


def evaluations(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    """The last evaluation of each check in a run."""
    return {own_name(item.check_name): item for item in result.get_asset_check_evaluations()}


def output_metadata(result: dg.ExecuteInProcessResult) -> Mapping[str, dg.MetadataValue]:
    """Metadata of the output of a job's only step."""
    (event,) = [event for event in result.all_events if event.event_type_value == "STEP_OUTPUT"]
    return event.step_output_data.metadata


def failure_of(result: dg.ExecuteInProcessResult):
    """(description, plain metadata) of the failure of a job's only step."""
    (event,) = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    data = event.step_failure_data.user_failure_data
    return data.description, {name: value.value for name, value in data.metadata.items()}


class Told:
    """A notifier that remembers, and refuses everything or the alerts of some datasets.

    Alerts that came as one message are in `alerts` one by one, as those that came alone.
    """

    def __init__(self) -> None:
        self.alerts: list[Alert] = []
        self.messages: list[Alert | Message] = []
        self.asked = 0
        self.deaf = False
        self.refused: set[str] = set()

    def notify(self, alert: Alert | Message) -> None:
        self.asked += 1
        alerts = list(alert.alerts.values()) if isinstance(alert, Message) else [alert]
        if self.deaf or any(item.dataset in self.refused for item in alerts):
            raise AlertNotDeliveredError("deaf")
        self.messages.append(alert)
        self.alerts += alerts


@dataclass
class Daemon:
    """Ticks a sensor and does with the result what Dagster's daemon does, in its order."""

    sensor: dg.SensorDefinition
    instance: dg.DagsterInstance
    resources: Mapping[str, object] = field(default_factory=lambda: {"lance_store": STORE})
    cursor: str | None = None
    run_keys: list[str] = field(default_factory=list)
    repository: dg.RepositoryDefinition | None = None

    def tick(self, *, dies_before_cursor: bool = False) -> dg.SensorResult:
        """Evaluate; store the events, start runs with unknown keys, then keep the cursor.

        The result has the requests of runs that Dagster starts.
        """
        with dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursor,
            resources=dict(self.resources),
            repository_def=self.repository,
        ) as context:
            result = self.sensor(context)
        assert isinstance(result, dg.SensorResult)
        for event in result.asset_events:
            self.instance.report_runless_asset_event(event)
        new = [request for request in result.run_requests or [] if request.run_key not in self.run_keys]
        self.run_keys += [str(request.run_key) for request in new]
        if not dies_before_cursor:
            self.cursor = result.cursor
        return result._replace(run_requests=new)

    def failed_tick(self) -> str:
        """Evaluate a tick that has to fail; returns its error. The cursor stays as it was."""
        try:
            self.tick()
        except AlertNotDeliveredError as error:
            return str(error)
        raise AssertionError("the tick did not fail")

    def remembered(self, name: str) -> DatasetCursor:
        """What the sensor knows of a dataset by now, in the cursor or beside it."""
        cursor = parse_cursor(self.cursor)
        return SensorMemory.recall(self.instance, f"{self.sensor.name}\n", cursor, {name}).of(name)


def tell(ref: LanceDatasetRef, instance: dg.DagsterInstance) -> None:
    """Let the manifest sensor publish what others committed."""
    Daemon(build_manifest_sensor([ref]), instance).tick()


def versions_of(events: Sequence[object]) -> list[int]:
    """Versions of the materializations among the events of a tick."""
    return [
        int(event.tags["lance/version"]) for event in events if isinstance(event, dg.AssetMaterialization)
    ]


def checks_of(events: Sequence[object]) -> dict[str, dg.AssetCheckEvaluation]:
    """The check evaluations among the events of a tick, by name."""
    return {
        own_name(event.check_name): event for event in events if isinstance(event, dg.AssetCheckEvaluation)
    }
