"""Recovery: decide whether a successful run repeated the work of a failed one, which ends an incident."""

from dataclasses import dataclass, field

import dagster as dg

from lance_ops.alerts.values import ConflictAlert, FailureAlert
from lance_ops.dagster.place import CodePlace
from lance_ops.dagster.run_map import RunMap, asset_step


@dataclass(slots=True)
class Recovery:
    """A successful run.

    Attributes:
        instance: Has its events, and the failed runs.
        watched: The datasets.
        run: The successful run.
    """

    instance: dg.DagsterInstance
    watched: RunMap
    run: dg.DagsterRun
    _names: frozenset[str] = field(init=False)
    _steps: frozenset[str] | None = None

    def __post_init__(self) -> None:
        self._names = frozenset(subject.name for subject in self.watched.of_run(self.run))

    def ends(self, alert: ConflictAlert | FailureAlert) -> bool:
        """Return whether the run repeated the failed work of an alert; both have the same partition.

        Any run that computes an asset counts for failures of that asset. Otherwise it must be a run of the
        same job on the same dataset.
        """
        if alert.step and self.watched.computes(alert.step, alert.dataset):
            return self._computed({asset_step(alert.step)}, alert.dataset)
        failed = self.instance.get_run_by_id(alert.run_id)
        owed = set() if alert.step or failed is None else self.watched.steps_of(failed)
        owed = {step for step in owed if self.watched.computes(step, alert.dataset)}
        if owed:
            return self._computed(owed, alert.dataset)
        if alert.job != self.run.job_name or not self._is_beside(failed):
            return False
        if alert.dataset not in self._names and (self._names or failed is None):
            return False
        return self._covers(alert.step, failed)

    def _computed(self, owed: set[str], dataset: str) -> bool:
        # Saves reading the events of most runs.
        if self.run.asset_selection and dataset not in self._names:
            return False
        return owed <= {asset_step(step) for step in self._succeeded()}

    def _is_beside(self, failed: dg.DagsterRun | None) -> bool:
        """Return whether both jobs of that name are the same, as far as known."""
        places = {CodePlace.of_run(run) for run in (self.run, failed) if run is not None}
        return len(places - {None}) <= 1

    def _covers(self, step: str, failed: dg.DagsterRun | None) -> bool:
        """Return whether a run of the same job includes all work of the failed one, or did its step."""
        run = self.run
        selected = {*(run.asset_selection or ()), *(run.asset_check_selection or ())}
        is_part = bool(selected) or run.op_selection is not None
        if step:
            # A new attempt may include chosen steps only.
            is_part = is_part or run.parent_run_id is not None
            return not is_part or step.partition("[")[0] in {
                name.partition("[")[0] for name in self._succeeded()
            }
        if not is_part or failed is None:
            return True
        wanted = {*(failed.asset_selection or ()), *(failed.asset_check_selection or ())}
        return bool(wanted) and wanted <= selected

    def _succeeded(self) -> frozenset[str]:
        """Return the steps that succeeded."""
        if self._steps is None:
            wanted = dg.DagsterEventType.STEP_SUCCESS
            records = self.instance.get_records_for_run(self.run.run_id, of_type=wanted).records
            self._steps = frozenset(record.event_log_entry.step_key or "" for record in records)
        return self._steps
