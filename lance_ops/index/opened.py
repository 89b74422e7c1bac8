"""Segments that a dataset has opened for its searches: kept as long as it is, so that the next one is warm.

The files of a segment never change under its UUID, but whoever opens the dataset anew looks at them anew.
Only searches take what is kept here: what is built, moved or checked reads the files themselves.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.snapshot import Snapshot

T = TypeVar("T")

_MOST = 64
"""Segments of one dataset that are kept; the one that was not asked for longest goes."""

_kept: WeakKeyDictionary[Snapshot, OrderedDict[tuple[UUID, str], Any]] = WeakKeyDictionary()
_lock = Lock()


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
        kept = _kept.setdefault(dataset, OrderedDict())
        if key in kept:
            kept.move_to_end(key)
            found: T = kept[key]
            return found
    made = open_it()
    with _lock:
        kept[key] = made
        while len(kept) > _MOST:
            kept.popitem(last=False)
    return made
