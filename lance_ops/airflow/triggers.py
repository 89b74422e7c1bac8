"""Triggers: events of new versions, one poll for all datasets of a store, and a pause after a conflict."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from typing import Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from lance_ops.airflow.hook import LanceHook
from lance_ops.airflow.versions import Watermark, events_since, head_of, newest_version
from lance_ops.errors import LanceOpsError

_WATCHED: dict[Hashable, Counter[str]] = {}
"""Datasets that triggers of this process watch, by the poll that they share."""

_AT_ONCE = 16


class LanceVersionTrigger(BaseEventTrigger):  # type: ignore[misc]  # Airflow is no dependency of the type check
    """An event for each new version of a dataset whose data changed; for an `AssetWatcher`.

    All triggers of one connection share one poll. What was told last is kept in the state of the watched
    asset (Airflow 3.3), so that a triggerer that is started again goes on where it was: no version is left
    out; one whose event was stored in the moment before a crash may be told again, with the same `uri` and
    `version`. Without that state it begins with the version that is the newest then.

    Args:
        dataset: Path below the root of the connection, or a URI.
        lance_conn_id: The connection.
        poll_seconds: Pause between two looks.
        layout: Also tell versions that changed no data: compactions, indices.
    """

    def __init__(
        self,
        dataset: str,
        lance_conn_id: str | None = None,
        poll_seconds: float = 30.0,
        layout: bool = False,
    ) -> None:
        super().__init__()
        self.dataset = dataset
        self.lance_conn_id = lance_conn_id
        self.poll_seconds = poll_seconds
        self.layout = layout
        self._seen: Watermark | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How Airflow keeps it."""
        return (
            "lance_ops.airflow.triggers.LanceVersionTrigger",
            {
                "dataset": self.dataset,
                "lance_conn_id": self.lance_conn_id,
                "poll_seconds": self.poll_seconds,
                "layout": self.layout,
            },
        )

    def shared_stream_key(self) -> Hashable | None:
        """One poll for each connection and pause."""
        key = ("lance", self.lance_conn_id, self.poll_seconds)
        _WATCHED.setdefault(key, Counter())[self.dataset] += 1
        return key

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        """Datasets whose newest version is another one than at the look before: (dataset, version)."""
        conn_id, pause = kwargs.get("lance_conn_id"), kwargs.get("poll_seconds", 30.0)
        watched = _WATCHED.setdefault(("lance", conn_id, pause), Counter())
        hook = LanceHook(conn_id)
        known: dict[str, int] = {}
        gate = asyncio.Semaphore(_AT_ONCE)

        async def look(dataset: str) -> tuple[str, int]:
            async with gate:
                return dataset, await asyncio.to_thread(
                    newest_version, hook.uri(dataset), hook.storage_options
                )

        while True:
            found = await asyncio.gather(*(look(name) for name in list(watched)), return_exceptions=True)
            for item in found:
                # A store that fails now is asked again: what is missed is told then.
                if isinstance(item, LanceOpsError):
                    continue
                if isinstance(item, BaseException):
                    raise item
                if known.get(item[0]) != item[1]:
                    known[item[0]] = item[1]
                    yield item
            await asyncio.sleep(pause)

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """The events of this dataset."""
        self._seen = await self._watermark()
        async for dataset, _ in shared_stream:
            if dataset == self.dataset:
                async for event in self._news():
                    yield event

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The same with a poll of its own, before Airflow 3.3."""
        self._seen = await self._watermark()
        while True:
            try:
                async for event in self._news():
                    yield event
            except LanceOpsError as error:
                self.log.warning("%s: %s", self.dataset, error)
            await asyncio.sleep(self.poll_seconds)

    async def _news(self) -> AsyncIterator[TriggerEvent]:
        hook = LanceHook(self.lance_conn_id)
        uri, options = hook.uri(self.dataset), hook.storage_options
        events, newest = await asyncio.to_thread(events_since, uri, options, self._seen, layout=self.layout)
        for event in events:
            yield TriggerEvent(event.to_dict())
            # Told first: a crash in between repeats an event rather than leaving it out.
            await self._remember(Watermark(event.version, event.data_version))
        if newest is not None and newest != self._seen:
            await self._remember(newest)

    async def _watermark(self) -> Watermark | None:
        store = getattr(self, "asset_state_store", None)
        found = None if store is None else await store.aget(self._state_key)
        if isinstance(found, dict):
            return Watermark(int(found["version"]), str(found["data_version"]))
        hook = LanceHook(self.lance_conn_id)
        head = await asyncio.to_thread(head_of, hook.uri(self.dataset), hook.storage_options)
        if head is not None:
            await self._remember(head)
        return head

    async def _remember(self, seen: Watermark) -> None:
        self._seen = seen
        store = getattr(self, "asset_state_store", None)
        if store is not None:
            await store.aset(self._state_key, seen.to_dict())

    @property
    def _state_key(self) -> str:
        return f"lance/{self.dataset}"


class LancePauseTrigger(BaseTrigger):  # type: ignore[misc]  # Airflow is no dependency of the type check
    """Wakes a task after a pause; a conflict with other writers costs no worker meanwhile.

    Args:
        seconds: The pause.
        attempt: Number of the attempt that comes then.
    """

    def __init__(self, seconds: float, attempt: int) -> None:
        super().__init__()
        self.seconds = seconds
        self.attempt = attempt

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How Airflow keeps it."""
        return (
            "lance_ops.airflow.triggers.LancePauseTrigger",
            {"seconds": self.seconds, "attempt": self.attempt},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event after the pause."""
        await asyncio.sleep(self.seconds)
        yield TriggerEvent({"attempt": self.attempt})
