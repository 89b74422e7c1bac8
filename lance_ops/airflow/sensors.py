"""Sensor: a task that waits for a new version of a dataset."""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from lance_ops.airflow.hook import LanceHook
from lance_ops.airflow.triggers import LanceVersionTrigger
from lance_ops.airflow.versions import events_since, watermark_of
from lance_ops.errors import DatasetNotFoundError, LanceOpsError
from lance_ops.maintenance.transient import may_pass


class LanceVersionSensor(BaseSensorOperator):  # type: ignore[misc]  # Airflow is no dependency of the type check
    """Wait until a dataset has a version after one, with changed data, and return it.

    Args:
        dataset: Path below the root of the connection, or a URI.
        after_version: The version to pass; 0 for any. A template, such as
            "{{ ti.xcom_pull('load')['version'] }}".
        lance_conn_id: The connection; None for absolute paths and URIs.
        layout: Also end at a version that changed no data: a compaction, an index.
        deferrable: Wait in the triggerer, and free the worker.
        **kwargs: Of `BaseSensorOperator`, such as `poke_interval` and `timeout`.
    """

    template_fields: Sequence[str] = ("dataset", "after_version")

    def __init__(
        self,
        *,
        dataset: str,
        after_version: int | str = 0,
        lance_conn_id: str | None = None,
        layout: bool = False,
        deferrable: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.after_version = after_version
        self.lance_conn_id = lance_conn_id
        self.layout = layout
        self.deferrable = deferrable
        self.found: dict[str, Any] | None = None

    def execute(self, context: Any) -> Any:
        """Wait, in the triggerer if `deferrable`, and return the first new version as JSON values."""
        if not self.deferrable:
            super().execute(context)
            return self.found
        if self.poke(context):
            return self.found
        self.defer(
            trigger=LanceVersionTrigger(self.dataset, self.lance_conn_id, self.poke_interval, self.layout),
            method_name="resume",
        )
        return None

    def resume(self, context: Any, event: Mapping[str, Any]) -> Any:
        """Look again after an event of the triggerer: it may be of a version that was passed already."""
        del event
        return self.execute(context)

    def poke(self, context: Any) -> bool:
        """Return whether there is a version after the one to pass."""
        del context
        try:
            after = int(self.after_version)
        except ValueError as error:
            raise AirflowFailException(
                f"after_version must be a number, got {self.after_version!r}"
            ) from error
        hook = LanceHook(self.lance_conn_id)
        try:
            seen = watermark_of(hook.uri(self.dataset), hook.storage_options, after)
            events, _ = events_since(hook.uri(self.dataset), hook.storage_options, seen, layout=self.layout)
        except DatasetNotFoundError:
            return False
        except LanceOpsError as error:
            if may_pass(error):
                self.log.warning("%s: %s", self.dataset, error)
                return False
            raise AirflowFailException(str(error)) from error
        # A removed version cannot be compared: whatever came after it counts as a change.
        new = [event for event in events if seen is not None or event.version > after]
        self.found = new[0].to_dict() if new else None
        return bool(new)
