"""Triggers: events of new versions with one poll for all datasets of a store, and pauses after conflicts."""

import asyncio
from collections.abc import AsyncIterator, Hashable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from lance_ops.airflow.hook import LanceHook
from lance_ops.airflow.versions import Newest, Watermark, events_since, head_of, newest_version
from lance_ops.errors import LanceOpsError

_WATCHING: dict[Hashable, "WeakValueDictionary[int, LanceVersionTrigger]"] = {}
"""Triggers of this process by their shared poll; Airflow drops triggers without notice."""

_AT_ONCE = 16


class LanceVersionTrigger(BaseEventTrigger):  # type: ignore[misc]  # Airflow is no dependency of the type check
    """Trigger an event for each new version of a dataset with changed data; for an `AssetWatcher`.

    All triggers of one connection share one poll. The last reported version is kept in the state of the
    watched asset (Airflow 3.3), so that a restarted triggerer continues from there: no version is skipped;
    one whose event was stored just before a crash may be repeated, with the same `uri` and `version`. Without
    that state it starts at the newest version.

    Args:
        dataset: Path below the root of the connection, or a URI.
        lance_conn_id: The connection.
        poll_seconds: Seconds between two polls.
        layout: Also report versions that changed no data: compactions, indices.
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
        self._has_begun = False
        self._looked_at: Newest | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the serialized trigger for Airflow."""
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
        """Return the key of the shared poll: connection and interval."""
        key = ("lance", self.lance_conn_id, self.poll_seconds)
        _WATCHING.setdefault(key, WeakValueDictionary())[id(self)] = self
        return key

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        """Yield the newest version of each dataset at each poll, as far as the store returned it.

        Each trigger decides what is new to it: one that starts late, or failed to read a new version, catches
        up at the next poll.
        """
        conn_id, pause = kwargs.get("lance_conn_id"), kwargs.get("poll_seconds", 30.0)
        watching = _WATCHING.setdefault(("lance", conn_id, pause), WeakValueDictionary())
        hook = LanceHook(conn_id)
        gate = asyncio.Semaphore(_AT_ONCE)

        async def look(dataset: str) -> tuple[str, Newest]:
            async with gate:
                return dataset, await asyncio.to_thread(
                    newest_version, hook.uri(dataset), hook.storage_options
                )

        while True:
            names = sorted({trigger.dataset for trigger in watching.values()})
            found: dict[str, Newest] = {}
            for item in await asyncio.gather(*(look(name) for name in names), return_exceptions=True):
                # A failing store is polled again: missed versions are reported then.
                if isinstance(item, LanceOpsError):
                    continue
                if isinstance(item, BaseException):
                    raise item
                found[item[0]] = item[1]
            yield found
            await asyncio.sleep(pause)

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """Yield the events of this dataset."""
        await self._begin()
        try:
            async for found in shared_stream:
                async for event in self._news(found):
                    yield event
        finally:
            # While another trigger is recreated, this one must not be looked up.
            _WATCHING[self.shared_stream_key()].pop(id(self), None)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the events from a poll of its own, before Airflow 3.3."""
        await self._begin()
        hook = LanceHook(self.lance_conn_id)
        uri, options = hook.uri(self.dataset), hook.storage_options
        while True:
            try:
                found = {self.dataset: await asyncio.to_thread(newest_version, uri, options)}
            except LanceOpsError as error:
                self.log.warning("%s: %s", self.dataset, error)
            else:
                async for event in self._news(found):
                    yield event
            await asyncio.sleep(self.poll_seconds)

    async def _begin(self) -> None:
        try:
            self._seen = await self._watermark()
            self._has_begun = True
        except LanceOpsError as error:
            self.log.warning("%s: %s", self.dataset, error)

    async def _news(self, found: Mapping[str, Newest]) -> AsyncIterator[TriggerEvent]:
        """Return the new versions of a poll; again at the next one after an error."""
        newest = found.get(self.dataset)
        if newest is None or newest == self._looked_at:
            return
        if not self._has_begun:
            await self._begin()
        if self._has_begun:
            try:
                async for event in self._untold():
                    yield event
                self._looked_at = newest
            except LanceOpsError as error:
                self.log.warning("%s: %s", self.dataset, error)

    async def _untold(self) -> AsyncIterator[TriggerEvent]:
        hook = LanceHook(self.lance_conn_id)
        uri, options = hook.uri(self.dataset), hook.storage_options
        events, newest = await asyncio.to_thread(events_since, uri, options, self._seen, layout=self.layout)
        for event in events:
            yield TriggerEvent(event.to_dict())
            # The event comes first: a crash in between repeats an event rather than losing it.
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
    """Resume a task after a pause; a conflict with other writers occupies no worker meanwhile.

    Args:
        seconds: The pause.
        attempt: Number of the next attempt.
    """

    def __init__(self, seconds: float, attempt: int) -> None:
        super().__init__()
        self.seconds = seconds
        self.attempt = attempt

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the serialized trigger for Airflow."""
        return (
            "lance_ops.airflow.triggers.LancePauseTrigger",
            {"seconds": self.seconds, "attempt": self.attempt},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event after the pause."""
        await asyncio.sleep(self.seconds)
        yield TriggerEvent({"attempt": self.attempt})
