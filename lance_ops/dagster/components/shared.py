"""What components of datasets and fleets share: who does the work, who is told, how assets look."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import dagster as dg

from lance_ops.dagster.alerts.options import AlertOptions
from lance_ops.dagster.components.values import IMPORTED, TRANSLATED, Translation, runner_of, settings_of
from lance_ops.dagster.conditions import lance_data_changed
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.sensor.manifest_sensor import SensorOptions
from lance_ops.dagster.spec import LanceDatasetTranslator
from lance_ops.dagster.submit.config import SparkSubmit


@dataclass(kw_only=True)
class LanceComponent(dg.Resolvable):
    """Attributes and hooks of every component.

    Attributes:
        runner: "local", "spark" or "spark-submit": who runs tasks.
        spark_master: Spark master: local[...] or spark://host:port, or what spark-submit takes.
        spark_config: Settings of Spark.
        submit: How programs are submitted: fields of `SparkSubmit` by name.
        store: More of `LanceStoreResource`, by name: `threads`, `storage_options`.
        notifier: Who gets alerts: a notifier as `module:name` or template, or several by name. Channels that
            rules of `alerts` name themselves (`slack`, `webhook`, `email`, ...) need none.
        alerts: Which alerts are sent, to whom and when: fields of `AlertOptions` by name.
        sensor_options: Limits of the manifest sensor's tick: fields of `SensorOptions` by name.
        running: Sensors run from the start.
        schedules_running: Schedules run from the start.
        translation: How datasets look as assets: attributes of an asset, with `{{ dataset }}`, the
            `LanceDatasetRef`, and `{{ spec }}`, the asset before.
        select: Which datasets are assets, as they are translated, in Dagster's syntax: `tag:tier=gold`,
            `owner:"team:sales"`, `key:"sales/*"`.
        exclude: Which of these are not.
        prefix: Before the names of jobs, schedules, sensors and resource. Of several components in a project
            each but one needs a prefix of its own.
    """

    runner: str = "local"
    spark_master: str = "local[*]"
    spark_config: dict[str, str] = field(default_factory=dict)
    submit: dict[str, Any] = field(default_factory=dict)
    store: dict[str, Any] = field(default_factory=dict, repr=False)
    notifier: Annotated[Any, IMPORTED] = None
    alerts: Annotated[AlertOptions | None, settings_of(AlertOptions)] = None
    sensor_options: Annotated[SensorOptions | None, settings_of(SensorOptions)] = None
    running: bool = False
    schedules_running: bool = False
    translation: Annotated[Translation | None, TRANSLATED] = None
    select: str | None = None
    exclude: str | None = None
    prefix: str = ""

    @classmethod
    def get_additional_scope(cls) -> Mapping[str, Any]:
        """What templates may name beside Dagster's own."""
        return {"lance_data_changed": lance_data_changed}

    def get_asset_spec(self, ref: LanceDatasetRef) -> dg.AssetSpec:
        """The spec of a dataset's asset; override it, call the base, change what it returns.

        Args:
            ref: The dataset.
        """
        spec = LanceDatasetTranslator().get_asset_spec(ref)
        return spec if self.translation is None else self.translation(spec, {"dataset": ref})

    def get_ingest_spec(self, ingest: LanceIngest) -> dg.AssetSpec:
        """The spec of an ingest's asset; override it, call the base, change what it returns.

        Args:
            ingest: How rows come into a dataset.
        """
        return LanceDatasetTranslator().get_ingest_spec(ingest)

    def build_store(self) -> LanceStoreResource:
        """The resource by which datasets are reached."""
        return LanceStoreResource(
            **{
                "runner": runner_of(self.runner),
                "spark_master": self.spark_master,
                "spark_config": self.spark_config,
                "submit": SparkSubmit(**self.submit),
                **self.store,
            }
        )


class ComponentTranslator(LanceDatasetTranslator):
    """Asks a component how its datasets and ingests look.

    Args:
        datasets: Gives the spec of a dataset.
        ingests: Gives the spec of an ingest.
    """

    def __init__(
        self,
        datasets: Callable[[LanceDatasetRef], dg.AssetSpec],
        ingests: Callable[[LanceIngest], dg.AssetSpec],
    ) -> None:
        self._datasets, self._ingests = datasets, ingests

    def get_asset_spec(self, ref: LanceDatasetRef) -> dg.AssetSpec:
        """See `LanceDatasetTranslator.get_asset_spec`."""
        return self._datasets(ref)

    def get_ingest_spec(self, ingest: LanceIngest) -> dg.AssetSpec:
        """See `LanceDatasetTranslator.get_ingest_spec`."""
        return self._ingests(ingest)
