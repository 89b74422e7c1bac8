"""Call of an operation by a step: the dataset, how to reach it, and what its commits note."""

from dataclasses import dataclass
from typing import Any

import dagster as dg

from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.jobs.run_report import RunNotes, build_progress
from lance_ops.dagster.resource import LanceStoreResource


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operation by a step."""

    context: dg.OpExecutionContext
    ref: LanceDatasetRef
    store: LanceStoreResource
    notes: RunNotes

    @property
    def job_key(self) -> str:
        """Same for all retries of the step: a commit whose answer was lost is found again."""
        return f"{self.notes.job}|{self.notes.run_id}|{self.notes.step}"

    def options(self) -> dict[str, Any]:
        """What every operation that commits is given."""
        return {
            "runner": self.store.build_runner(),
            "job_key": self.job_key,
            "properties": self.notes.properties,
            "progress": build_progress(self.context, self.ref),
            "storage_options": self.store.options_of(self.ref),
        }
