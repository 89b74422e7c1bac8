"""The budget of all caches, for as long as a test needs another one."""

from collections.abc import Iterator
from contextlib import contextmanager

from lance_ops.cache import cache_stats, set_cache_budget


@contextmanager
def budget(size_bytes: int) -> Iterator[None]:
    """Set the budget, and the one before it at the end."""
    before = cache_stats().budget_bytes
    set_cache_budget(size_bytes)
    try:
        yield
    finally:
        set_cache_budget(before)
