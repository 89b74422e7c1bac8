"""Flushed later: a store whose writes outlive a power cut once something durable is put behind them.

For who writes many files that nobody knows of before a commit names them, through the same store.
"""

from typing import Any, cast

from lance_ops.storage.store import BytesLike, Durability, Store, StoreWriter


def flushed_later(store: Store) -> Store:
    """The store, which takes "now" for "later" (see `Store.put`). Pickled, it is the store itself."""
    return cast("Store", FlushedLater(store))


class FlushedLater:
    """A store that does not wait for the disk; all else is the store's own doing.

    Args:
        inner: The store.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            # Of an object that is being made: there is nothing to ask yet.
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __reduce__(self) -> tuple[object, ...]:
        # Elsewhere nobody puts anything durable behind what is written.
        return (_itself, (self._inner,))

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, durable: Durability = "now"
    ) -> None:
        """See `Store.put`."""
        self._inner.put(path, data, if_absent=if_absent, durable=_later(durable))

    def open_writer(self, path: str, *, durable: Durability = "now") -> StoreWriter:
        """See `Store.open_writer`."""
        return self._inner.open_writer(path, durable=_later(durable))


def _later(durable: Durability) -> Durability:
    return "later" if durable == "now" else durable


def _itself(store: Store) -> Store:
    return store
