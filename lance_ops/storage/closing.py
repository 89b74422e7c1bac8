"""Closing: what the writers of all stores do at the end of a `with` block."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class ClosingWriter(ABC):
    """A writer that closes on success and aborts on any exception; see `StoreWriter`."""

    @abstractmethod
    def close(self) -> None:
        """See `StoreWriter.close`."""

    @abstractmethod
    def abort(self) -> None:
        """See `StoreWriter.abort`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()
