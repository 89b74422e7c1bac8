"""Segment cache: open segments of a dataset, cached for the next search.

The files of a segment never change under its UUID, but a dataset that is opened again looks at them again.
What is built, moved or checked does not rely on what a search has found: it reads the files themselves, once
for all of its steps.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.snapshot import Snapshot

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_SEGMENTS, _PARTS = "index segments", "index parts"


def opened(
    dataset: Snapshot,
    segment: IndexMetadata,
    open_it: Callable[[], T],
    *,
    part: str = "",
    size_bytes: Callable[[T], int] | None = None,
) -> T:
    """What a kind keeps of a segment between searches.

    Args:
        dataset: The searched version.
        segment: One of its `indices`.
        open_it: Opens it, if it is not kept.
        part: Which of several things that are kept of one segment.
        size_bytes: What it takes in memory, where that cannot be seen.

    Raises:
        LanceOpsError: Raised by `open_it`; nothing is cached then.
    """
    found: T = dataset.origin.cache(_SEGMENTS).load((segment.uuid, part), open_it, size_bytes)
    return found


def keep(dataset: Snapshot, segment: IndexMetadata, made: object, *, part: str = "") -> None:
    """Keep what was just opened, instead of what may be kept; see `opened`."""
    dataset.origin.cache(_SEGMENTS).put((segment.uuid, part), made)


def opened_parts(
    dataset: Snapshot,
    segment: IndexMetadata,
    numbers: Sequence[K],
    read: Callable[[list[K]], Sequence[T]],
    size_bytes: Callable[[T], int],
) -> list[T]:
    """Parts of a segment, such as partitions, which are kept between searches of a dataset.

    Args:
        dataset: The searched version.
        segment: One of its `indices`.
        numbers: Distinct numbers or other unique names of the parts.
        read: Reads those that are not cached, all at once, in the given order.
        size_bytes: Bytes of a part in memory.

    Raises:
        LanceOpsError: Raised by `read`; nothing is cached then.
    """
    parts = dataset.origin.cache(_PARTS)
    kept: dict[K, Any] = {number: parts.get((segment.uuid, number)) for number in numbers}
    missing = [number for number, part in kept.items() if part is None]
    if missing:
        for number, part in zip(missing, read(missing), strict=True):
            kept[number] = part
            parts.put((segment.uuid, number), part, size_bytes(part))
    return [kept[number] for number in numbers]
