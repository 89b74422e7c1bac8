"""Segments that a dataset has opened for its searches: kept as long as it is, so that the next one is warm.

The files of a segment never change under its UUID, but whoever opens the dataset anew looks at them anew.
What is built, moved or checked does not rely on what a search has found: it reads the files themselves, but
not for each of its steps anew.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from lance_ops.storage.fork_safe import new_lock
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.snapshot import Snapshot

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_MOST = 64
"""Segments of one dataset that are kept; the one that was not asked for longest goes."""

_PART_BYTES = 256 << 20
"""Parts of segments of one dataset that are kept together; those that were not asked for longest go."""


@dataclass(slots=True)
class _Parts:
    """Parts of the segments of a dataset, each with its size, and the size of all."""

    by_key: OrderedDict[tuple[UUID, Hashable], tuple[Any, int]] = field(default_factory=OrderedDict)
    size_bytes: int = 0


_parts: WeakKeyDictionary[Snapshot, _Parts] = WeakKeyDictionary()
_kept: WeakKeyDictionary[Snapshot, OrderedDict[tuple[UUID, str], Any]] = WeakKeyDictionary()
_lock = new_lock()


def opened(dataset: Snapshot, segment: IndexMetadata, open_it: Callable[[], T], *, part: str = "") -> T:
    """What a kind keeps of a segment between searches.

    Args:
        dataset: Who searches.
        segment: One of its `indices`.
        open_it: Opens it, if it is not kept.
        part: Which of several things that are kept of one segment.

    Raises:
        LanceOpsError: What `open_it` raises; nothing is kept then.
    """
    key = (segment.uuid, part)
    with _lock:
        kept = _kept.setdefault(dataset.origin, OrderedDict())
        if key in kept:
            kept.move_to_end(key)
            found: T = kept[key]
            return found
    made = open_it()
    keep(dataset, segment, made, part=part)
    return made


def keep(dataset: Snapshot, segment: IndexMetadata, made: object, *, part: str = "") -> None:
    """Keep what was just opened, instead of what may be kept; see `opened`."""
    with _lock:
        kept = _kept.setdefault(dataset.origin, OrderedDict())
        kept[segment.uuid, part] = made
        while len(kept) > _MOST:
            kept.popitem(last=False)


def opened_parts(
    dataset: Snapshot,
    segment: IndexMetadata,
    numbers: Sequence[K],
    read: Callable[[list[K]], Sequence[T]],
    size_bytes: Callable[[T], int],
) -> list[T]:
    """Parts of a segment, such as partitions; up to 256 MB of them are kept between searches of a dataset.

    Args:
        dataset: Who searches.
        segment: One of its `indices`.
        numbers: Which parts, by numbers or other names that are theirs alone, none twice.
        read: Reads those that are not kept, all of them at once, in the order of the numbers it is given.
        size_bytes: What a part takes in memory.

    Raises:
        LanceOpsError: What `read` raises; nothing is kept then.
    """
    with _lock:
        parts = _parts.setdefault(dataset.origin, _Parts())
        found: dict[K, T] = {}
        for number in numbers:
            key: tuple[UUID, Hashable] = (segment.uuid, number)
            if key in parts.by_key:
                parts.by_key.move_to_end(key)
                found[number] = parts.by_key[key][0]
    missing = [number for number in numbers if number not in found]
    if missing:
        fresh = dict(zip(missing, read(missing), strict=True))
        found.update(fresh)
        with _lock:
            for number, part in fresh.items():
                key = (segment.uuid, number)
                if key not in parts.by_key:
                    size = size_bytes(part)
                    parts.by_key[key] = part, size
                    parts.size_bytes += size
            while parts.by_key and parts.size_bytes > _PART_BYTES:
                _, (_, size) = parts.by_key.popitem(last=False)
                parts.size_bytes -= size
    return [found[number] for number in numbers]
