"""Options of `spark-submit` and of the exchange with the program."""

from typing import Literal

import dagster as dg
from pydantic import Field


class SparkSubmit(dg.Config):
    """Options of submitted programs, beside master and settings, which a local Spark session has as well."""

    deploy_mode: Literal["client", "cluster"] = Field(
        default="client", description="Deploy mode: the driver runs on the step's machine, or in the cluster."
    )
    command: list[str] = Field(
        default_factory=list,
        description="The submitting program, e.g. [/opt/spark/bin/spark-submit]; default that of "
        "pyspark, or of SPARK_HOME.",
    )
    packages: list[str] = Field(default_factory=list, description="Maven coordinates: --packages.")
    jars: list[str] = Field(default_factory=list, description="Jars for driver and executors: --jars.")
    py_files: list[str] = Field(
        default_factory=list, description="Python files, zips and eggs to import from: --py-files."
    )
    files: list[str] = Field(default_factory=list, description="Files for each executor: --files.")
    archives: list[str] = Field(
        default_factory=list, description="Archives to unpack, e.g. an environment: --archives."
    )
    arguments: list[str] = Field(
        default_factory=list, description="More arguments of spark-submit, unchanged."
    )
    environment: dict[str, str] = Field(
        default_factory=dict, description="More variables of the submitting process; secrets as EnvVar."
    )
    exchange: str = Field(
        default="",
        description="A folder shared by the step and the driver under the same path, for requests and "
        "results. Required for the deploy mode 'cluster'; default a temporary folder.",
    )
    termination_seconds: float = Field(
        default=30.0, gt=0, description="Time that a program has to end after the run is terminated."
    )
