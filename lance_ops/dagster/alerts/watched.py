"""Which runs are about which datasets and fleets."""

from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import slugify


@dataclass(frozen=True, slots=True)
class Subject:
    """What a run worked on: a dataset, or a fleet, which has the name of its job.

    Attributes:
        name: Of the dataset, or of the job.
        uri: Of the dataset, or of the policy.
        owners: Of the dataset.
        key: Of its asset.
    """

    name: str
    uri: str
    owners: tuple[str, ...] = ()
    key: dg.AssetKey | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job or a sensor is defined: names of jobs are unique there, and nowhere else.

    Attributes:
        location: Name of the code location.
        repository: Name of the repository in it.
    """

    location: str
    repository: str

    @classmethod
    def of_sensor(cls, context: dg.SensorEvaluationContext) -> "Place | None":
        """Of the sensor that is evaluated; None outside a daemon."""
        location, repository = context.code_location_origin, context.repository_name
        return None if location is None or repository is None else cls(location.location_name, repository)

    @classmethod
    def of_run(cls, run: dg.DagsterRun) -> "Place | None":
        """Of the job of a run; None for one that no code location was asked for."""
        if run.remote_job_origin is None:
            return None
        origin = run.remote_job_origin.repository_origin
        return cls(origin.code_location_origin.location_name, origin.repository_name)


class Watched:
    """Which runs are about which of the datasets and fleets."""

    def __init__(
        self,
        datasets: Mapping[str, Subject],
        ingests: Mapping[dg.AssetKey, str],
        fleets: Mapping[str, Subject],
        place: Place | None,
    ) -> None:
        self._datasets = datasets
        self._ingests = ingests
        self._fleets = fleets
        self._place = place
        # Dagster's name of the step that materializes an asset.
        self._steps = {"__".join(key.path): dataset for key, dataset in ingests.items()}

    def of_step(self, run: dg.DagsterRun, step: str, metadata: Mapping[str, object]) -> Subject | None:
        """What a failed step worked on; None when it is none of ours."""
        named = metadata.get(keys.DATASET) or run.tags.get(keys.DATASET_TAG) or self._steps.get(step)
        return self._datasets.get(str(named)) or self._fleet_of(run)

    def of_run(self, run: dg.DagsterRun) -> list[Subject]:
        """What a run worked on, as far as it says so itself."""
        fleet = self._fleet_of(run)
        if fleet is not None:
            return [fleet]
        names = [run.tags.get(keys.DATASET_TAG, "")]
        names += [self._ingests[key] for key in run.asset_selection or () if key in self._ingests]
        return [self._datasets[name] for name in dict.fromkeys(names) if name in self._datasets]

    def works_of(self, run: dg.DagsterRun) -> set[str]:
        """Names of what a run did: its job, and the steps of ingests, which several jobs may run."""
        steps = {
            step
            for key in self._ingests
            if key in (run.asset_selection or ()) or run.job_name == f"{slugify('/'.join(key.path))}_job"
            for step in ["__".join(key.path)]
        }
        return {run.job_name, *steps}

    def is_ingest(self, step: str) -> bool:
        """Whether a step loads a dataset."""
        return step in self._steps

    def _fleet_of(self, run: dg.DagsterRun) -> Subject | None:
        """The fleet of a run; another code location may have one under the same name."""
        fleet = self._fleets.get(run.job_name)
        if fleet is None or self._place is None:
            return fleet
        return fleet if Place.of_run(run) in (None, self._place) else None
