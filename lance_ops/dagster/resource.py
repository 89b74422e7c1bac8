"""The resource through which everything in Dagster reaches datasets and Spark."""

from typing import TYPE_CHECKING, Literal

import dagster as dg
from pydantic import Field, PrivateAttr

from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.storage import Store, open_store
from lance_ops.table.dataset import Dataset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LanceStoreResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # its value is itself
    """Opens datasets and says who executes the tasks of operations.

    Give secrets as `dg.EnvVar`: Dagster's UI shows the values of a resource, but of a variable only its name.
    """

    storage_options: dict[str, str] = Field(
        default_factory=dict, description="Options of the object store; secrets as EnvVar."
    )
    runner: Literal["local", "spark"] = Field(
        default="local", description="Who runs tasks: threads of the step's process, or Spark executors."
    )
    threads: int | None = Field(
        default=None, description="Threads of the local runner; default: one per core."
    )
    spark_master: str = Field(
        default="local[*]", description="Spark master: local[...] or spark://host:port."
    )
    spark_config: dict[str, str] = Field(default_factory=dict, description="Spark settings, before our own.")

    _started: "SparkSession | None" = PrivateAttr(default=None)

    def __repr__(self) -> str:
        shown = dict.fromkeys(self.storage_options, "***")
        return f"LanceStoreResource(runner={self.runner!r}, storage_options={shown!r})"

    __str__ = __repr__

    def open(self, ref: LanceDatasetRef, version: int | str | None = None) -> Dataset:
        """The dataset at a version or tag; at its newest version by default.

        Raises:
            DatasetNotFoundError: There is none yet.
        """
        return Dataset.open(ref.uri, version, self.options_of(ref))

    def open_store(self, ref: LanceDatasetRef) -> Store:
        """The store of a dataset, whether or not there is one."""
        return open_store(ref.uri, self.options_of(ref))

    def options_of(self, ref: LanceDatasetRef) -> dict[str, str]:
        """The options of the object store for a dataset: those of the resource, and its own on top.

        Raises:
            InvalidArgumentError: An environment variable that they name is not set.
        """
        options = dict(self.storage_options)
        for name, value in ref.storage_options.items():
            found = value.get_value() if isinstance(value, dg.EnvVar) else value
            if found is None:
                variable = value.env_var_name if isinstance(value, dg.EnvVar) else name
                raise InvalidArgumentError(
                    f"storage option {name!r} of {ref.name} is in the environment variable {variable}, "
                    "which is not set",
                    field="storage_options",
                    hint=f"set {variable} where Dagster runs",
                )
            options[name] = found
        return options

    def build_runner(self) -> Runner:
        """The runner that the operations of this run use."""
        if self.runner == "local":
            return LocalRunner(self.threads)
        from lance_ops.spark.runner import SparkRunner

        return SparkRunner(self.spark_session())

    def spark_session(self) -> "SparkSession":
        """The Spark session of this process, started when there is none."""
        from lance_ops.spark.session import build_session, find_running_session

        existing = find_running_session()
        session = build_session("lance_ops", self.spark_master, config=self.spark_config)
        if existing is None:
            self._started = session
        return session

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002 - Dagster's signature
        """Stop the Spark session if this run started it."""
        if self._started is not None:
            self._started.stop()
            self._started = None
