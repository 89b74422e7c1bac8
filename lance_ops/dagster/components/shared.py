"""Common attributes of the components: runner, alerts, asset translation."""

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
        runner: Runner of tasks: "local", "spark" or "spark-submit".
        spark_master: Spark master: local[...] or spark://host:port, or any master of spark-submit.
        spark_config: Settings of Spark.
        submit: Options of spark-submit: fields of `SparkSubmit` by name.
        store: Other fields of `LanceStoreResource`: `threads`, `storage_options`.
        notifier: Receives alerts: a notifier as `module:name` or template, or several by name. Channels that
            rules of `alerts` name themselves (`slack`, `webhook`, `email`, ...) need none.
        alerts: Which alerts are sent, to whom and when: fields of `AlertOptions` by name.
        sensor_options: Limits of the manifest sensor's tick: fields of `SensorOptions` by name.
        running: Sensors run from the start.
        schedules_running: Schedules run from the start.
        translation: Attributes of the datasets' assets, with `{{ dataset }}`, the
            `LanceDatasetRef`, and `{{ spec }}`, the untranslated asset.
        select: Selection of the datasets that become assets, after translation, in Dagster's syntax:
            `tag:tier=gold`,
            `owner:"team:sales"`, `key:"sales/*"`.
        exclude: Selection of datasets to exclude.
        prefix: Prefix of the names of jobs, schedules, sensors and resource. Each component of a project but
            one needs its own prefix.
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
        """Return names for templates in addition to Dagster's own."""
        return {"lance_data_changed": lance_data_changed}

    def get_asset_spec(self, ref: LanceDatasetRef) -> dg.AssetSpec:
        """Return the spec of a dataset's asset; override it and change the base result.

        Args:
            ref: The dataset.
        """
        spec = LanceDatasetTranslator().get_asset_spec(ref)
        return spec if self.translation is None else self.translation(spec, {"dataset": ref})

    def get_ingest_spec(self, ingest: LanceIngest) -> dg.AssetSpec:
        """Return the spec of an ingest's asset; override it and change the base result.

        Args:
            ingest: The ingest.
        """
        return LanceDatasetTranslator().get_ingest_spec(ingest)

    def build_store(self) -> LanceStoreResource:
        """Build the resource that opens the datasets."""
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
    """Translator with the specs of a component.

    Args:
        datasets: Returns the spec of a dataset.
        ingests: Returns the spec of an ingest.
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
