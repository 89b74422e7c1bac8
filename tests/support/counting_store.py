"""A store that counts what is asked of it, and maps nothing, like one behind a network."""

from collections.abc import Sequence

import pyarrow as pa

from lance_ops.storage import Store


class CountingStore:
    """Counts the requests for bytes to a store.

    Args:
        inner: The store that has the bytes.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.requests: list[Sequence[tuple[int, int]]] = []

    def __getattr__(self, name: str) -> object:
        if name == "map_file":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        found = self.inner.read(path, offset, length)
        self.requests.append([(offset, found.size)])
        return found

    def read_tail(self, path: str, length: int) -> tuple[pa.Buffer, int]:
        found, size = self.inner.read_tail(path, length)
        self.requests.append([(size - found.size, found.size)])
        return found, size

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        self.requests.append(ranges)
        return self.inner.read_ranges(path, ranges)

    @property
    def num_ranges(self) -> int:
        """Ranges asked for."""
        return sum(len(ranges) for ranges in self.requests)

    @property
    def num_bytes(self) -> int:
        """Bytes asked for."""
        return sum(length for ranges in self.requests for _, length in ranges)

    def reset(self) -> None:
        """Forget what was asked for."""
        self.requests.clear()
