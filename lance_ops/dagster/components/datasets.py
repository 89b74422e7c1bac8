"""Datasets from YAML: a component that names some, with their thresholds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import dagster as dg
from dagster.components import Scaffolder, ScaffoldRequest, scaffold_component

from lance_ops.dagster.components.values import LocalPath, runner_of
from lance_ops.dagster.dataset_ref import LanceDatasetRef, slugify
from lance_ops.dagster.factory import build_lance_definitions
from lance_ops.dagster.lineage import ColumnSources
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.submit.config import SparkSubmit
from lance_ops.errors import InvalidArgumentError
from lance_ops.fleet.policy.quantities import parse_duration
from lance_ops.maintenance.health.policy import MaintenancePolicy


@dataclass
class DatasetModel(dg.Resolvable):
    """One dataset.

    Attributes:
        name: Path of its asset key, parts joined by "/".
        uri: Where it lies; a path from the folder of the YAML file on.
        description: Markdown for the asset's page.
        group: Asset group.
        owners: E-mail addresses or `team:<name>`.
        tags: Asset tags.
        deps: Keys of assets that the data come from.
        policy: Thresholds of `MaintenancePolicy` by name; times as `14d` or `12h`.
        storage_options: Of the object store; secrets as `{{ env.NAME }}`.
        columns_from: Which columns of other assets feed which of its own: {column: [[asset, column]]}.
    """

    name: str
    uri: LocalPath
    description: str = ""
    group: str | None = None
    owners: list[str] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    deps: list[str] = field(default_factory=list)
    policy: dict[str, Any] = field(default_factory=dict)
    storage_options: dict[str, str] = field(default_factory=dict, repr=False)
    columns_from: dict[str, list[list[str]]] = field(default_factory=dict)

    def ref(self) -> LanceDatasetRef:
        """The dataset as the rest of the plugin knows it.

        Raises:
            InvalidArgumentError: A value makes no sense.
        """
        return LanceDatasetRef(
            self.name,
            self.uri,
            description=self.description,
            group=self.group,
            owners=self.owners,
            tags=self.tags,
            deps=[dg.AssetKey(key.split("/")) for key in self.deps],
            policy=_thresholds(self.name, self.policy),
            storage_options=self.storage_options,
            columns_from=cast("ColumnSources", self.columns_from),
        )


_DEFS_FILE = "defs.yaml"
_MORE = """\
    # More of the first dataset; all of it may be left out:
    #   description: One row an order.
    #   group: sales
    #   owners: [team:data]
    #   deps: [raw/orders]
    #   policy: {max_small_fragments: 20, older_than: 14d}
    #   storage_options: {aws_secret_access_key: "{{ env.LAKE_SECRET }}"}
    # and of the component, beside `datasets`:
    #   running: true
    #   runner: spark
    #   spark_master: local[*]
"""


class LanceDatasetScaffolder(Scaffolder[Any]):
    """What `dg scaffold defs` makes of some datasets: the YAML of the component with one to fill in."""

    def scaffold(self, request: ScaffoldRequest[Any]) -> None:
        """Write the file. Its prefix lets it stand beside other components of the project."""
        name = slugify(request.target_path.name)
        dataset = {"name": f"{request.target_path.name}/orders", "uri": "orders.lance"}
        scaffold_component(request, {"prefix": name, "datasets": [dataset]})
        made = request.target_path / _DEFS_FILE
        if made.exists():
            made.write_text(made.read_text(encoding="utf-8").rstrip() + "\n" + _MORE, encoding="utf-8")


@dg.scaffold_with(LanceDatasetScaffolder)
@dataclass
class LanceDatasetComponent(dg.Component, dg.Resolvable):
    """Some datasets, with checks, jobs, schedules and sensors.

    Attributes:
        datasets: The datasets.
        runner: "local", "spark" or "spark-submit": who runs tasks.
        spark_master: Spark master: local[...] or spark://host:port, or what spark-submit takes.
        spark_config: Settings of Spark.
        submit: How programs are submitted: fields of `SparkSubmit` by name.
        running: Sensors run from the start.
        prefix: Before the names of jobs, schedules, sensors and resource. Of several components in a project
            each but one needs a prefix of its own.
    """

    datasets: list[DatasetModel]
    runner: str = "local"
    spark_master: str = "local[*]"
    spark_config: dict[str, str] = field(default_factory=dict)
    submit: dict[str, Any] = field(default_factory=dict)
    running: bool = False
    prefix: str = ""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002 - Dagster's signature
        """Definitions of the datasets."""
        return build_lance_definitions(
            [item.ref() for item in self.datasets],
            store=LanceStoreResource(
                runner=runner_of(self.runner),
                spark_master=self.spark_master,
                spark_config=self.spark_config,
                submit=SparkSubmit(**self.submit),
            ),
            running=self.running,
            prefix=self.prefix,
        )


def _thresholds(dataset: str, given: Mapping[str, Any]) -> MaintenancePolicy:
    known = MaintenancePolicy.__dataclass_fields__
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise InvalidArgumentError(
            f"dataset {dataset!r}: the policy has no {', '.join(unknown)}",
            field="policy",
            hint=f"one of {', '.join(known)}",
        )
    values = dict(given)
    for name, value in given.items():
        if isinstance(getattr(MaintenancePolicy(), name), timedelta):
            try:
                values[name] = parse_duration(value)
            except ValueError as error:
                raise InvalidArgumentError(
                    f"dataset {dataset!r}, policy {name}: {error}", field="policy"
                ) from None
    return MaintenancePolicy(**values)
