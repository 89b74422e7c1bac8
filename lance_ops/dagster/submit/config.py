"""How a program is submitted: what goes onto the command line of `spark-submit`, and how both sides talk."""

from typing import Literal

import dagster as dg
from pydantic import Field


class SparkSubmit(dg.Config):
    """How programs are submitted, beside master and settings, which a Spark of the step has as well."""

    deploy_mode: Literal["client", "cluster"] = Field(
        default="client", description="Where the driver runs: in the step's machine, or in the cluster."
    )
    command: list[str] = Field(
        default_factory=list,
        description="The program that submits, e.g. [/opt/spark/bin/spark-submit]; that of pyspark, or of "
        "SPARK_HOME, without it.",
    )
    packages: list[str] = Field(default_factory=list, description="Maven coordinates: --packages.")
    jars: list[str] = Field(default_factory=list, description="Jars for driver and executors: --jars.")
    py_files: list[str] = Field(
        default_factory=list, description="Python files, zips and eggs to import from: --py-files."
    )
    files: list[str] = Field(default_factory=list, description="Files for each executor: --files.")
    archives: list[str] = Field(
        default_factory=list, description="Archives that are unpacked, e.g. an environment: --archives."
    )
    arguments: list[str] = Field(
        default_factory=list, description="More arguments of spark-submit, as they are."
    )
    environment: dict[str, str] = Field(
        default_factory=dict, description="More variables of the process that submits; secrets as EnvVar."
    )
    exchange: str = Field(
        default="",
        description="A folder that the step and the driver both see under this path: requests and answers "
        "pass through it. Needed for the deploy mode 'cluster'; a temporary folder without it.",
    )
    termination_seconds: float = Field(
        default=30.0, gt=0, description="How long a program may take to end when the run is terminated."
    )
