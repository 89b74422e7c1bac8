"""Segment cache: open segments of a dataset, cached for the next search.

The files of a segment never change, but each open dataset reads them again. Builds, remaps and checks do not
use the cache of searches: they read the files themselves, once each.
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
"""Maximum cached segments of one dataset; the least recently used is evicted."""

_PART_BYTES = 256 << 20
"""Maximum bytes of cached parts of segments of one dataset; the least recently used are evicted."""


@dataclass(slots=True)
class _Parts:
    """Parts of the segments of a dataset, each with its size, and the size of all."""

    by_key: OrderedDict[tuple[UUID, Hashable], tuple[Any, int]] = field(default_factory=OrderedDict)
    size_bytes: int = 0


_parts: WeakKeyDictionary[Snapshot, _Parts] = WeakKeyDictionary()
_kept: WeakKeyDictionary[Snapshot, OrderedDict[tuple[UUID, str], Any]] = WeakKeyDictionary()
_lock = new_lock()


def opened(dataset: Snapshot, segment: IndexMetadata, open_it: Callable[[], T], *, part: str = "") -> T:
    """Return the object that a kind caches for a segment.

    Args:
        dataset: The searched version.
        segment: One of its `indices`.
        open_it: Opens it, if it is not cached.
        part: Name of one of several cached objects of a segment.

    Raises:
        LanceOpsError: Raised by `open_it`; nothing is cached then.
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
    """Replace the cached object by one that was just opened; see `opened`."""
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
    """Return parts of a segment, such as partitions; up to 256 MB are cached between searches of a dataset.

    Args:
        dataset: The searched version.
        segment: One of its `indices`.
        numbers: Distinct numbers or other unique names of the parts.
        read: Reads those that are not cached, all at once, in the given order.
        size_bytes: Bytes of a part in memory.

    Raises:
        LanceOpsError: Raised by `read`; nothing is cached then.
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
