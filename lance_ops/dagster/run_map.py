"""Run map: datasets and fleets of a run, for each way to start it.

| started by | identified by |
|---|---|
| a maintenance job, a schedule, an ingest job | the tag `lance_ops/dataset` |
| the manifest sensor, for a downstream job | the tag `lance_ops/trigger`, or the name of the job |
| the page of an asset, a backfill, automation | the assets that it selects: dataset, ingest, writer, reader |
| the page of a check | the asset of the check |
| the schedule of a fleet | the name of the job |
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.conditions import LABEL
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.downstream import LanceDownstream
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.dagster.place import CodePlace, asset_command, job_command


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of a run: a dataset, or a fleet, which has the name of its job.

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


class RunMap:
    """Maps runs and their steps to datasets and fleets.

    Args:
        refs: The datasets.
        ingests: Ingests into some of them.
        assets: Assets that write some of them through an IO manager, or read them.
        downstream: Jobs that read some of them.
        fleets: Fleet jobs, with the location of their policies.
        place: Location of the jobs: another code location may have others with these names.
    """

    def __init__(
        self,
        refs: Iterable[LanceDatasetRef],
        *,
        ingests: Iterable[LanceIngest] = (),
        assets: Iterable[dg.AssetsDefinition] = (),
        downstream: Iterable[LanceDownstream] = (),
        fleets: Mapping[str, str] | None = None,
        place: CodePlace | None = None,
    ) -> None:
        known = list(refs)
        self._subjects = {ref.name: Subject(ref.name, ref.uri, tuple(ref.owners), ref.key) for ref in known}
        self._fleets = {job: Subject(job, uri) for job, uri in (fleets or {}).items()}
        self._place = place
        self._by_asset: dict[dg.AssetKey, list[str]] = {ref.key: [ref.name] for ref in known}
        self._by_job: dict[str, list[str]] = {}
        self._ingested: dict[str, dg.AssetKey] = {}
        self._steps: dict[dg.AssetKey, str] = {}
        for ingest in ingests:
            self._by_asset[ingest.key] = [ingest.ref.name]
            self._by_job[ingest.job_name] = [ingest.ref.name]
            self._ingested[ingest.job_name] = ingest.key
            self._steps[ingest.key] = ingest.step_name
        for item in downstream:
            self._by_job.setdefault(item.job.name, []).extend(item.datasets)
        self._written = dict(self._by_asset)
        for asset in assets:
            self.add_readers(asset)
        self._by_step = self._datasets_by_step()

    def add_readers(self, asset: dg.AssetsDefinition) -> None:
        """Add an asset: its runs concern its datasets, or else the datasets it depends on."""
        for spec in asset.specs:
            read = [name for dep in spec.deps for name in self._by_asset.get(dep.asset_key, ())]
            if spec.key not in self._by_asset and read:
                self._by_asset[spec.key] = list(dict.fromkeys(read))
        if asset.is_executable:
            self._steps |= dict.fromkeys(asset.keys, asset.node_def.name)
        self._by_step = self._datasets_by_step()

    def _datasets_by_step(self) -> dict[str, list[str]]:
        """Return datasets by step: a step may compute several assets."""
        found: dict[str, list[str]] = {}
        for key, names in self._by_asset.items():
            found.setdefault(self._step_of(key), []).extend(names)
        return found

    def of_run(self, run: dg.DagsterRun) -> list[Subject]:
        """Return the subjects of a run; empty for other runs."""
        fleet = self._fleet_of(run)
        if fleet is not None:
            return [fleet]
        return [self._subjects[name] for name in self.datasets_of(run)]

    def datasets_of(self, run: dg.DagsterRun) -> list[str]:
        """Return the names of the datasets of a run."""
        names = self._named_by(run)
        for key in self.assets_of(run):
            names += self._by_asset.get(key, ())
        return [name for name in dict.fromkeys(names) if name in self._subjects]

    def datasets_written_by(self, run: dg.DagsterRun) -> list[str]:
        """Return the names of the datasets that a run writes."""
        names = [name for key in run.asset_selection or () for name in self._written.get(key, ())]
        return list(dict.fromkeys(names))

    def _named_by(self, run: dg.DagsterRun) -> list[str]:
        """Return the datasets of a run by its tags and its job."""
        names = [run.tags.get(keys.DATASET_TAG, ""), run.tags.get(keys.TRIGGER_TAG, "").rpartition("@")[0]]
        return [*names, *(self._by_job.get(run.job_name, ()) if self._is_here(run) else ())]

    @staticmethod
    def assets_of(run: dg.DagsterRun) -> list[dg.AssetKey]:
        """Return the assets that a run selects, and those whose checks it selects."""
        checked = (key.asset_key for key in run.asset_check_selection or ())
        return sorted({*(run.asset_selection or ()), *checked})

    def of_step(self, run: dg.DagsterRun, step: str, metadata: Mapping[str, object]) -> Sequence[Subject]:
        """Return the subject of a failed step: by its metadata, its asset, or its run.

        Args:
            run: The run.
            step: Name of the step.
            metadata: Metadata of its failure.
        """
        named = self._subjects.get(str(metadata.get(keys.DATASET)))
        if named is not None:
            return [named]
        fleet = self._fleet_of(run)
        if fleet is not None:
            return [fleet]
        # In a run of several assets, a step of none has no subject; one of checks has that of their asset.
        whole = self._named_by(run) if run.asset_selection else self.datasets_of(run)
        names = self._by_step.get(asset_step(step)) or whole
        return [self._subjects[name] for name in dict.fromkeys(names) if name in self._subjects]

    def steps_of(self, run: dg.DagsterRun) -> set[str]:
        """Return the known steps of the assets that a run should compute."""
        selected = set(run.asset_selection or ())
        whole = not selected and not run.asset_check_selection
        if whole and run.job_name in self._ingested and self._is_here(run):
            selected = {self._ingested[run.job_name]}
        return {self._step_of(key) for key in selected if key in self._by_asset}

    def restart_command(self, run: dg.DagsterRun, partition: str) -> str:
        """Return the command that repeats the work of a run; "" if a schedule of ours does.

        Args:
            run: The run.
            partition: Its partition or range of partitions; "" without.
        """
        known = self._fleets.keys() | self._by_job.keys()
        job = run.job_name if run.job_name in known and self._is_here(run) else ""
        assets = [key for key in run.asset_selection or () if key in self._by_asset]
        if not (job or assets):
            return ""
        place = CodePlace.of_run(run) or self._place
        return restart_command(self._ingested, place, job=job, assets=assets, partition=partition)

    def computes(self, step: str, dataset: str) -> bool:
        """Return whether a step computes an asset that is or reads a dataset, in any job."""
        return dataset in self._by_step.get(asset_step(step), ())

    def _step_of(self, key: dg.AssetKey) -> str:
        """Return Dagster's name of the step that materializes an asset."""
        return self._steps.get(key, "__".join(key.path))

    def _fleet_of(self, run: dg.DagsterRun) -> Subject | None:
        fleet = self._fleets.get(run.job_name)
        return fleet if fleet is not None and self._is_here(run) else None

    def _is_here(self, run: dg.DagsterRun) -> bool:
        """Return whether the job of a run is defined in this location, as far as known."""
        return self._place is None or CodePlace.of_run(run) in (None, self._place)


def restart_command(
    ingests: Mapping[str, dg.AssetKey],
    place: CodePlace | None,
    *,
    job: str,
    assets: Sequence[dg.AssetKey],
    partition: str,
) -> str:
    """Return the shell command that repeats the work of a run.

    Args:
        ingests: Assets of ingests by the names of their jobs.
        place: Where the job and the assets are defined, as far as that is known.
        job: Name of the job; "" for assets.
        assets: Assets that the run computes.
        partition: Its partition, or the first and the last of a range with "..." between; "" without.
    """
    jobs = [name for name, key in ingests.items() if key in assets]
    name = job or (jobs[0] if len(jobs) == len(assets) == 1 else "")
    first, _, last = partition.partition("...")
    if name:
        return job_command(place, name, [first] if first else [], last)
    return asset_command(place, assets, partition)


def asset_step(step: str) -> str:
    """Return the name of the asset that a step computes: in a graph, it precedes the name of the step."""
    return step.partition("[")[0].split(".")[0]


def conditional_assets(context: dg.SensorEvaluationContext) -> dict[dg.AssetKey, dg.AssetsDefinition]:
    """Return the assets of a sensor's repository with the condition `lance_data_changed`."""
    repository = context.repository_def
    found: dict[dg.AssetKey, dg.AssetsDefinition] = {}
    for key, asset in ({} if repository is None else repository.assets_defs_by_key).items():
        conditions = [spec.automation_condition for spec in asset.specs if spec.key == key]
        if any(condition is not None and condition.get_label() == LABEL for condition in conditions):
            found[key] = asset
    return found
