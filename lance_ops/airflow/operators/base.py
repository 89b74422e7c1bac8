"""Base operator: connection, runner, errors, reported results.

Each operation has a job key, so that all tries of a task commit once. A cleared task is another piece of work
and runs it again, see `tries`.

Errors: a retryable conflict is a pause (in the triggerer if the task is `deferrable`, else by Airflow's
retries), a failed store or task is retried by Airflow, and other errors fail at once.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

import lance_ops as lo
from lance_ops.airflow.hook import LanceHook
from lance_ops.airflow.operators.tries import cleared_since, key_after_clear, noted_of, work_of
from lance_ops.airflow.triggers import LancePauseTrigger
from lance_ops.errors import LanceOpsError, NotFoundError, RetryableCommitConflictError
from lance_ops.maintenance.progress import Progress, ProgressEvent
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.maintenance.transient import may_pass
from lance_ops.storage.retry import Backoff

_LONGEST_PAUSE = 600.0


class LanceOperator(BaseOperator):  # type: ignore[misc]  # Airflow is no dependency of the type check
    """Base of the operators: connection, runner, job key, errors and reported results.

    Args:
        dataset: Path below the root of the connection, or a URI.
        lance_conn_id: The connection; None for absolute paths and URIs.
        deferrable: After a retryable conflict the task waits in the triggerer and frees its worker.
        conflict_retries: Maximum number of these pauses.
        conflict_pause: Seconds of the first pause; it doubles with each.
        spark_master: Run tasks on Spark, e.g. "local[*]" or spark://host:7077; threads without it.
        **kwargs: Of `BaseOperator`.
    """

    template_fields: Sequence[str] = ("dataset",)

    def __init__(
        self,
        *,
        dataset: str = "",
        lance_conn_id: str | None = None,
        deferrable: bool = False,
        conflict_retries: int = 5,
        conflict_pause: float = 15.0,
        spark_master: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.lance_conn_id = lance_conn_id
        self.deferrable = deferrable
        self.conflict_retries = conflict_retries
        self.conflict_pause = conflict_pause
        self.spark_master = spark_master

    # Implemented by each operator

    @abstractmethod
    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """Run the operation.

        Args:
            uri: The dataset.
            common: Of `RunOptions`.
            context: Airflow's.

        Returns:
            A result or a plan of `lance_ops`.
        """

    # Common to all

    def execute(self, context: Any) -> Any:
        """Run the first attempt."""
        return self._attempt(context, 0)

    def resume(self, context: Any, event: Mapping[str, Any]) -> Any:
        """Run another attempt, after a pause."""
        return self._attempt(context, int(event["attempt"]))

    def _attempt(self, context: Any, attempt: int) -> Any:
        hook = LanceHook(self.lance_conn_id)
        try:
            uri = hook.uri(self.dataset)
            common = self._common(context, hook)
            done = self.operate(uri, common, context)
            if self.found_before_clear(done, common, context):
                done = self.repeat(uri, done, common, context)
        except LanceOpsError as error:
            self._failed(error, attempt)
        self.log.info("%s", done)
        value = done.to_dict() if hasattr(done, "to_dict") else str(done)
        self._add_to_asset_events(context, hook, uri, value)
        return value

    def job_key(self, ti: Any) -> str:
        """Return the job key: all tries share it, and a cleared task has another one.

        Args:
            ti: The task instance.
        """
        return f"{work_of(ti)}|{ti.max_tries}"

    def repeat(self, uri: str, done: Any, common: dict[str, Any], context: Any) -> Any:
        """Handle a cleared task (or one that may have been) whose job key was committed before.

        Args:
            uri: The dataset.
            done: Result of `operate`.
            common: Of `RunOptions`.
            context: Airflow's.
        """
        del done
        return self.operate(uri, {**common, "job_key": key_after_clear(context, self.retries or 0)}, context)

    def found_before_clear(self, done: Any, common: Mapping[str, Any], context: Any) -> bool:
        """Return whether a result is a commit from before the task was cleared; see `cleared_since`."""
        results = getattr(done, "results", {"": done}).values()
        return any(
            cleared_since(context, self.retries or 0, _properties(result, common))
            for result in results
            if getattr(result, "already_committed", False)
        )

    def _common(self, context: Any, hook: LanceHook) -> dict[str, Any]:
        ti = context["ti"]
        return {
            "runner": self._runner(),
            "job_key": self.job_key(ti),
            "properties": noted_of(context),
            "progress": self._progress(),
            "storage_options": hook.storage_options,
        }

    def _runner(self) -> Runner:
        if self.spark_master is None:
            return LocalRunner()
        from lance_ops.spark import SparkRunner, build_session

        return SparkRunner(build_session("lance_ops", self.spark_master))

    def _progress(self) -> Progress:
        def tell(event: ProgressEvent) -> None:
            if event.total and event.done == event.total:
                self.log.info("%s: %s (%d)", event.operation, event.message, event.total)

        return tell

    def _failed(self, error: LanceOpsError, attempt: int) -> NoReturn:
        self.log.error("%s", error)
        if isinstance(error, RetryableCommitConflictError):
            if self.deferrable and attempt < self.conflict_retries:
                backoff = Backoff(self.conflict_pause, longest=_LONGEST_PAUSE, least=0.5)
                self.defer(
                    trigger=LancePauseTrigger(backoff.pause(attempt + 1), attempt + 1),
                    method_name="resume",
                )
            raise AirflowException(str(error)) from error
        if may_pass(error):
            raise AirflowException(str(error)) from error
        raise AirflowFailException(str(error)) from error

    def _add_to_asset_events(self, context: Any, hook: LanceHook, uri: str, value: Any) -> None:
        """Add the version and its numbers to the asset events of the task."""
        events = context.get("outlet_events")
        if events is None or not self.outlets or not isinstance(value, dict):
            return
        dataset = lo.dataset(uri, storage_options=hook.storage_options)
        told = {
            "uri": uri,
            "version": dataset.version,
            "data_version": dataset.data_version,
            "rows": dataset.count_rows(),
            "fragments": len(dataset.fragments),
        }
        for asset in self.outlets:
            events[asset].extra = {
                **told,
                **{k: v for k, v in value.items() if isinstance(v, int | float | str)},
            }

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the dataset with its schema and version, for OpenLineage."""
        from airflow.providers.openlineage.extractors import OperatorLineage
        from openlineage.client.event_v2 import Dataset as LineageDataset
        from openlineage.client.facet_v2 import dataset_version_dataset, schema_dataset

        hook = LanceHook(self.lance_conn_id)
        uri = hook.uri(self.dataset)
        dataset = lo.dataset(uri, storage_options=hook.storage_options)
        scheme, _, rest = uri.rpartition("://")
        bucket, _, path = rest.partition("/")
        output = LineageDataset(
            namespace=f"{scheme}://{bucket}" if scheme else "file",
            name=path if scheme else uri,
            facets={
                "schema": schema_dataset.SchemaDatasetFacet(
                    fields=[
                        schema_dataset.SchemaDatasetFacetFields(name=item.name, type=str(item.type))
                        for item in dataset.schema
                    ]
                ),
                "version": dataset_version_dataset.DatasetVersionDatasetFacet(
                    datasetVersion=str(dataset.version)
                ),
            },
        )
        return OperatorLineage(outputs=[output])


def _properties(result: Any, common: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the properties of the commit of a result; empty if its version was removed."""
    try:
        made = lo.dataset(result.uri, version=result.version, storage_options=common["storage_options"])
        return made.read_transaction().properties
    except NotFoundError:
        return {}
