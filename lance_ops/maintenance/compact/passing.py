"""Inline index build: indices that need the new rows collect them while a compaction writes them."""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.index.column import leaf_values, value_type
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import WatchingKind
from lance_ops.index.registry import kind_by_name
from lance_ops.index.upkeep.remap import watch_of
from lance_ops.index.upkeep.routes import Route, SegmentRoute
from lance_ops.index.watch import Noted, Observer, Watch
from lance_ops.maintenance.compact.groups import CompactionGroup
from lance_ops.table.dataset import Dataset

_CARRIED_BYTES = 64 << 20
"""Maximum bytes of collected notes on the driver; beyond that, indices read the new rows."""


def watches_of(
    dataset: Dataset, routes: Iterable[SegmentRoute], groups: Sequence[CompactionGroup]
) -> list[tuple[Watch, ...]]:
    """Return what to collect for each group.

    Args:
        dataset: The version of the plan.
        routes: Remap strategy of its index segments.
        groups: The rewritten groups.
    """
    found: list[list[Watch]] = [[] for _ in groups]
    left = float(_CARRIED_BYTES)
    rows = {fragment.id: fragment.physical_rows for fragment in dataset.fragments}
    for item in routes:
        if item.route is not Route.LOOK:
            continue
        covered = effective_fragments(dataset.manifest, item.segment)
        named = sum(rows[fragment_id] for fragment_id in covered)
        touched = [place for place, group in enumerate(groups) if covered.issuperset(group.fragment_ids)]
        watch = watch_of(dataset, item) if touched and named else None
        if watch is None:
            continue
        for place in touched:
            left -= item.segment.size_bytes * groups[place].live_rows / named
            if left < 0:
                break
            if watch not in found[place]:
                found[place].append(watch)
    return [tuple(watches) for watches in found]


@dataclass(frozen=True, slots=True)
class _Watcher:
    """A watch whose column is written, and access to it."""

    kind: WatchingKind
    watch: Watch
    names: tuple[str, ...]
    values: pa.DataType


class PassingRows:
    """Passes the rows of new fragments to watches while they are written.

    Args:
        watches: Data to collect.
        schema: The written columns.
    """

    def __init__(self, watches: Iterable[Watch], schema: Schema) -> None:
        self._watchers: list[_Watcher] = []
        for watch in watches:
            kind = kind_by_name(watch.kind)
            assert isinstance(kind, WatchingKind)
            # A column in no file of the group is not written: watches read it later.
            with suppress(InvalidArgumentError):
                path = schema.path(watch.field_id)
                names = tuple(field.name for field in schema.ancestry(path))
                self._watchers.append(_Watcher(kind, watch, names, value_type(schema.field(path))))
        self._notes: list[list[bytes | None]] = [[] for _ in self._watchers]
        self._observers: list[Observer] = []

    def one_fragment(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one fragment, passing them to the watches."""
        self._observers = [item.kind.observer(item.watch, item.values) for item in self._watchers]
        for batch in batches:
            for item, observer in zip(self._watchers, self._observers, strict=True):
                observer.add(_column(batch, item))
            yield batch

    def written(self, fragments: int) -> None:
        """Record the collected data; with several fragments the assignment of rows is unknown."""
        for notes, observer in zip(self._notes, self._observers, strict=True):
            notes += [observer.finish()] if fragments == 1 else [None] * fragments
        self._observers = []

    @property
    def noted(self) -> tuple[Noted, ...]:
        """Return all collected data."""
        return tuple(
            Noted(item.watch, tuple(notes)) for item, notes in zip(self._watchers, self._notes, strict=True)
        )


def _column(batch: pa.RecordBatch, item: _Watcher) -> pa.Array:
    values = leaf_values(batch.column(item.names[0]), item.names)
    return values if values.type == item.values else values.cast(item.values)


def notes_by_watch(results: Iterable[tuple[Sequence[int], Sequence[Noted]]]) -> dict[Watch, dict[int, bytes]]:
    """Return the collected data of rewritten groups by watch and fragment.

    Args:
        results: Ids and collected data of the new fragments of each group.
    """
    found: dict[Watch, dict[int, bytes]] = {}
    for fragment_ids, noted in results:
        for item in noted:
            known = found.setdefault(item.watch, {})
            for fragment_id, note in zip(fragment_ids, item.notes, strict=True):
                if note is not None:
                    known[fragment_id] = note
    return found


def encode_notes(noted: Iterable[Noted]) -> list[dict[str, Any]]:
    """Return notes as JSON values."""
    return [
        {
            "kind": item.watch.kind,
            "field": item.watch.field_id,
            "parameters": dict(item.watch.parameters),
            "notes": [None if note is None else base64.b64encode(note).decode() for note in item.notes],
        }
        for item in noted
    ]


def decode_notes(values: Iterable[Mapping[str, Any]]) -> tuple[Noted, ...]:
    """Read notes from JSON values."""
    return tuple(
        Noted(
            Watch(item["kind"], item["field"], tuple(sorted(item["parameters"].items()))),
            tuple(None if note is None else base64.b64decode(note) for note in item["notes"]),
        )
        for item in values
    )
