"""Location of a job or a sensor; names of jobs are unique only there."""

from dataclasses import dataclass

import dagster as dg


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A repository of a code location.

    Attributes:
        location: Name of the code location.
        repository: Name of the repository in it.
    """

    location: str
    repository: str

    @classmethod
    def of_sensor(cls, context: dg.SensorEvaluationContext) -> "CodePlace | None":
        """Return the place of the sensor that is evaluated; None outside a daemon."""
        location, repository = context.code_location_origin, context.repository_name
        return None if location is None or repository is None else cls(location.location_name, repository)

    @classmethod
    def of_run(cls, run: dg.DagsterRun) -> "CodePlace | None":
        """Return the place of a run's job; None for one that no code location was asked for."""
        if run.remote_job_origin is None:
            return None
        origin = run.remote_job_origin.repository_origin
        return cls(origin.code_location_origin.location_name, origin.repository_name)
