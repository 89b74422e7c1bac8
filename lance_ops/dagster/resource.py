"""Resource that opens datasets and runs tasks."""

from typing import TYPE_CHECKING, Literal

import dagster as dg
from pydantic import Field, PrivateAttr

from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.submit.client import SparkSubmitClient
from lance_ops.dagster.submit.config import SparkSubmit
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.spark.submitted.request import FromEnvironment, Options
from lance_ops.storage import Store, open_store
from lance_ops.table.dataset import Dataset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LanceStoreResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # its value is itself
    """Opens datasets and chooses the runner of operations.

    Pass secrets as `dg.EnvVar`: Dagster's UI shows the values of a resource, but only the name of a variable.
    """

    storage_options: dict[str, str] = Field(
        default_factory=dict, description="Options of the object store; secrets as EnvVar."
    )
    runner: Literal["local", "spark", "spark-submit"] = Field(
        default="local",
        description="Runner of tasks: threads of the step's process, executors of its Spark session, or "
        "a submitted program, which plans and commits as well.",
    )
    threads: int | None = Field(
        default=None, description="Threads of the local runner; default one per core."
    )
    spark_master: str = Field(
        default="local[*]",
        description="Spark master: local[...] or spark://host:port; any spark-submit master with the "
        "runner 'spark-submit'.",
    )
    spark_config: dict[str, str] = Field(
        default_factory=dict, description="Spark settings; they override our own."
    )
    submit: SparkSubmit = Field(
        default_factory=SparkSubmit,
        description="Options of submitted programs, for the runner 'spark-submit'.",
    )

    _started: "SparkSession | None" = PrivateAttr(default=None)

    def __repr__(self) -> str:
        shown = dict.fromkeys(self.storage_options, "***")
        return f"LanceStoreResource(runner={self.runner!r}, storage_options={shown!r})"

    __str__ = __repr__

    def open(self, ref: LanceDatasetRef, version: int | str | None = None) -> Dataset:
        """Open the dataset at a version or tag; at its newest version by default.

        Raises:
            DatasetNotFoundError: There is none yet.
        """
        return Dataset.open(ref.uri, version, self.options_of(ref))

    def open_store(self, ref: LanceDatasetRef) -> Store:
        """Open the store of a dataset, which may not exist yet."""
        return open_store(ref.uri, self.options_of(ref))

    def options_of(self, ref: LanceDatasetRef) -> dict[str, str]:
        """Return the store options of a dataset: those of the resource, overridden by its own.

        Raises:
            InvalidArgumentError: An environment variable that they name is not set.
        """
        options = dict(self.storage_options)
        for name, value in ref.storage_options.items():
            found = value.get_value() if isinstance(value, dg.EnvVar) else value
            if found is None:
                variable = value.env_var_name if isinstance(value, dg.EnvVar) else name
                raise InvalidArgumentError(
                    f"storage option {name!r} of {ref.name} refers to the environment variable {variable}, "
                    "which is not set",
                    field="storage_options",
                    hint=f"set {variable} in the environment of Dagster",
                )
            options[name] = found
        return options

    def submitted_options(self, ref: LanceDatasetRef) -> Options:
        """Return `options_of` for a submitted program: secrets in variables are passed by name."""
        own = {
            name: FromEnvironment(value.env_var_name) if isinstance(value, dg.EnvVar) else value
            for name, value in ref.storage_options.items()
        }
        return {**self.storage_options, **own}

    @property
    def submits(self) -> bool:
        """True if operations run in submitted programs."""
        return self.runner == "spark-submit"

    def submit_client(self) -> SparkSubmitClient:
        """Return a Dagster Pipes client that submits programs, including your own, see its `run`."""
        return SparkSubmitClient(self.spark_master, config=self.spark_config, submit=self.submit)

    def build_runner(self) -> Runner:
        """Return the runner for the operations of this run."""
        if self.runner != "spark":
            # Metadata operations, and rows in this process, are not submitted.
            return LocalRunner(self.threads)
        from lance_ops.spark import SparkRunner

        return SparkRunner(self.spark_session())

    def spark_session(self) -> "SparkSession":
        """Return the Spark session of this process; starts one if needed."""
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
