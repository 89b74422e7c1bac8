"""Process-wide cache: entries of many kinds under one budget in bytes, the least recently used evicted first.

A cache is a mapping that may lose entries at any time. Its entries end with it: what belongs to a dataset is
kept in a cache that the dataset holds, and is freed with the dataset.
"""

import os
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from itertools import count, islice
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import ref

from lance_ops.errors import InvalidArgumentError, public
from lance_ops.storage.fork_safe import new_lock

P = ParamSpec("P")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")

BUDGET_VARIABLE = "LANCE_OPS_CACHE_BYTES"
DEFAULT_BUDGET = 1 << 30

_ENTRY_BYTES = 256
"""Added to the size of each entry for the tables that hold it."""
_SAMPLE = 32
"""Items of a collection that are measured to estimate the size of all of them."""
_DEEPEST = 5


@dataclass(frozen=True, slots=True)
class CacheUse:
    """Use of the cache by one kind of entry.

    Attributes:
        entries: Entries held now.
        size_bytes: Estimated memory of these, in bytes.
        hits: Lookups that found an entry, since the process started.
        misses: Lookups that found none.
        evictions: Entries that were dropped to make room.
    """

    entries: int
    size_bytes: int
    hits: int
    misses: int
    evictions: int


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What the cache of this process holds.

    Attributes:
        budget_bytes: Upper bound of `size_bytes`.
        size_bytes: Estimated memory of all entries, in bytes.
        kinds: Use by kind of entry, by name.
    """

    budget_bytes: int
    size_bytes: int
    kinds: Mapping[str, CacheUse]


@dataclass(slots=True)
class _Counts:
    entries: int = 0
    size_bytes: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0


@dataclass(slots=True)
class _Place:
    """Entry of a cache as the order of all entries names it: not its value, which belongs to the cache."""

    cache: "ref[Cache[Any, Any]]"
    counts: _Counts
    key: Hashable
    size: int


def _budget_of_environment() -> int:
    text = os.environ.get(BUDGET_VARIABLE, "").strip()
    if text and not text.isdecimal():
        raise InvalidArgumentError(
            f"{BUDGET_VARIABLE} must be a number of bytes, got {text!r}",
            field=BUDGET_VARIABLE,
            hint="set it to a whole number such as 536870912; 0 turns caching off",
        )
    return int(text) if text else DEFAULT_BUDGET


_lock = new_lock()
_budget = _budget_of_environment()
_total = 0
_kinds: dict[str, _Counts] = {}
_order: "OrderedDict[int, _Place]" = OrderedDict()
_next_number = count().__next__
_ended: "deque[list[int]]" = deque()
"""Numbers of the entries of caches that ended: a destructor may run while this thread holds the lock."""


def size_of(value: object, depth: int = 0) -> int:
    """Estimate the memory of a value in bytes: arrays, strings, collections and dataclasses of these.

    Other objects count as themselves, without what they refer to.
    """
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size + sys.getsizeof(object())
    own = sys.getsizeof(value)
    if depth == _DEEPEST:
        return own
    if type(value) in (list, tuple, set, frozenset):
        items: Any = value
    elif type(value) is dict:
        items = value.items()
    elif is_dataclass(value):
        parts = (getattr(value, field.name, None) for field in fields(value))
        return own + sum(size_of(part, depth + 1) for part in parts)
    else:
        return own
    some = [size_of(item, depth + 1) for item in islice(items, _SAMPLE)]
    return own + (sum(some) * len(items) // len(some) if some else 0)


class Cache(Generic[K, V]):
    """Mapping whose entries are evicted when the process holds more than its budget; thread-safe.

    Args:
        kind: Name of the kind of entry in `cache_stats`, shared by all caches of this kind.
        most: Entries of this cache at most; no bound of its own when None, nothing is kept when 0.
        largest: Bytes of an entry at most; that of the budget when None.
    """

    __slots__ = ("__weakref__", "_counts", "_entries", "_largest", "_most", "_ref")

    def __init__(self, kind: str, most: int | None = None, largest: int | None = None) -> None:
        self._counts = _kinds.setdefault(kind, _Counts())
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._most = most
        self._largest = largest
        self._ref = ref(self)

    def __del__(self, _ended: "deque[list[int]]" = _ended) -> None:
        if self._entries:
            _ended.append([number for _, number in self._entries.values()])

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> list[tuple[K, V]]:
        """Return all keys and values, the least recently used first; none is used by that."""
        with _lock:
            return [(key, value) for key, (value, _) in self._entries.items()]

    def get(self, key: K) -> V | None:
        """Return the value of a key; None when it is not kept."""
        with _lock:
            entry = self._entries.get(key)
            if entry is None:
                self._counts.misses += 1
                return None
            self._counts.hits += 1
            self._entries.move_to_end(key)
            _order.move_to_end(entry[1])
            return entry[0]

    def put(self, key: K, value: V, size: int | None = None) -> None:
        """Keep a value that nobody changes, in place of one under the same key.

        Args:
            key: Key to find it by.
            value: The value.
            size: Memory of it in bytes; estimated when None.
        """
        global _total
        own = size_of(value) if size is None else size
        size = _ENTRY_BYTES + own
        # What is dropped here ends behind the lock: its destructor may be anybody's.
        dropped: list[object] = []
        with _lock:
            _forget_ended()
            self._drop(key, dropped)
            if size > _budget or self._most == 0 or (self._largest is not None and own > self._largest):
                return
            number = _next_number()
            self._entries[key] = value, number
            _order[number] = _Place(self._ref, self._counts, key, size)
            _total += size
            self._counts.entries += 1
            self._counts.size_bytes += size
            while self._most is not None and len(self._entries) > self._most:
                self._drop(next(iter(self._entries)), dropped)
                self._counts.evictions += 1
            _evict(dropped)

    def load(self, key: K, make: Callable[[], V], size: Callable[[V], int] | None = None) -> V:
        """Return the value of a key, made if it is not kept; no lock is held meanwhile.

        Args:
            key: Key to find it by.
            make: Makes the value. Threads that ask at the same time may make it twice.
            size: Memory of it in bytes; estimated when None.
        """
        found = self.get(key)
        if found is not None:
            return found
        made = make()
        self.put(key, made, None if size is None else size(made))
        return made

    def load_for(
        self: "Cache[Any, Any]",
        known: tuple[object, ...],
        make: Callable[[], T],
        size: Callable[[T], int] = size_of,
    ) -> T:
        """See `load`: the key is the identity of objects that never change, which are kept with the value."""
        # An id is unique only among objects that live.
        key = tuple(map(id, known))
        found = self.get(key)
        if found is not None:
            value: T = found[1]
            return value
        made = make()
        self.put(key, (known, made), size(made))
        return made

    def _drop(self, key: K, dropped: list[object]) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            dropped.append(entry)
            _forget(entry[1])


class IdentityCache(Generic[P, V]):
    """Values that follow from objects that never change, computed once for these very objects.

    Args:
        kind: Name in `cache_stats`.
        compute: Computes a value from one or more of them.
        most: Values kept at most.
    """

    def __init__(self, kind: str, compute: Callable[P, V], most: int) -> None:
        self._compute = compute
        self._cache: Cache[Any, Any] = Cache(kind, most)

    def __call__(self, *known: P.args, **named: P.kwargs) -> V:
        """Return the value of these objects, which are given by position."""
        assert not named
        return self._cache.load_for(known, lambda: self._compute(*known, **named))


@public()
def set_cache_budget(size_bytes: int) -> None:
    """Set how much memory the caches of this process may hold together, in place of `LANCE_OPS_CACHE_BYTES`.

    Args:
        size_bytes: Bytes; entries above it are dropped at once. 0 turns caching off.

    Raises:
        InvalidArgumentError: It is not a whole number of at least 0.

    Example:
        >>> import lance_ops as lo
        >>> lo.set_cache_budget(512 << 20)
        >>> lo.cache_stats().budget_bytes
        536870912
    """
    global _budget
    if type(size_bytes) is not int or size_bytes < 0:
        raise InvalidArgumentError(
            f"size_bytes must be a whole number of at least 0, got {size_bytes!r}", field="size_bytes"
        )
    dropped: list[object] = []
    with _lock:
        _forget_ended()
        _budget = size_bytes
        _evict(dropped)


def cache_stats() -> CacheStats:
    """Return what the caches of this process hold, and how often they helped, by kind of entry.

    Example:
        >>> import lance_ops as lo
        >>> stats = lo.cache_stats()
        >>> stats.size_bytes <= stats.budget_bytes
        True
    """
    with _lock:
        _forget_ended()
        kinds = {
            kind: CacheUse(used.entries, used.size_bytes, used.hits, used.misses, used.evictions)
            for kind, used in sorted(_kinds.items())
        }
        return CacheStats(_budget, _total, kinds)


def _forget_ended() -> None:
    while _ended:
        for number in _ended.popleft():
            _forget(number)


def _forget(number: int) -> _Place | None:
    global _total
    place = _order.pop(number, None)
    if place is not None:
        _total -= place.size
        place.counts.entries -= 1
        place.counts.size_bytes -= place.size
    return place


def _evict(dropped: list[object]) -> None:
    while _total > _budget and _order:
        place = _forget(next(iter(_order)))
        assert place is not None
        place.counts.evictions += 1
        cache = place.cache()
        if cache is not None:
            dropped.append(cache._entries.pop(place.key, None))  # noqa: SLF001 - of this module
            # The last reference may be this one.
            dropped.append(cache)
