"""Call of an operation by a step: dataset, options, and notes for its commits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.jobs.run_report import RunNotes, build_progress
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.submit.operation import submit_operation
from lance_ops.spark.submitted.operations import operate
from lance_ops.spark.submitted.request import Request


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operation by a step."""

    context: dg.OpExecutionContext
    ref: LanceDatasetRef
    store: LanceStoreResource
    notes: RunNotes

    @property
    def job_key(self) -> str:
        """The same for all retries of the step, which find the commit of an earlier attempt."""
        return f"{self.notes.job}|{self.notes.run_id}|{self.notes.step}"

    def perform(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        job_key: str | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> object:
        """Run an operation of `OPERATIONS`: in this process, or by a submitted program.

        Args:
            operation: Its name.
            arguments: Its arguments, as JSON values.
            job_key: Replaces that of the step.
            notes: Additional properties of the transaction.
        """
        request = Request(
            operation,
            self.ref.uri,
            arguments,
            job_key or self.job_key,
            {**self.notes.properties, **(notes or {})},
        )
        progress = build_progress(self.context, self.ref)
        if self.store.submits:
            return submit_operation(
                self.store.submit_client(),
                self.context,
                request,
                self.store.submitted_options(self.ref),
                progress,
            )
        return operate(
            request,
            runner=self.store.build_runner(),
            progress=progress,
            storage_options=self.store.options_of(self.ref),
        )

    def options(self) -> dict[str, Any]:
        """Return the options of metadata operations, which run in this process."""
        return {
            "runner": self.store.build_runner(),
            "job_key": self.job_key,
            "properties": self.notes.properties,
            "progress": build_progress(self.context, self.ref),
            "storage_options": self.store.options_of(self.ref),
        }
