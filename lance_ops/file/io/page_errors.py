"""Page errors: add file and page to decoding errors."""

from types import TracebackType
from typing import Protocol

import pyarrow as pa

from lance_ops.errors import CorruptFileError, LanceOpsError, UnsupportedError


class Located(Protocol):
    """Object with a location for errors."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def where(self) -> str:
        """Column and page."""


class page_errors:  # noqa: N801 - used like a function
    """Context manager that adds file and page to decoding errors, and converts those of Arrow.

    Nothing inside reads from a store, so any error means that the bytes do not match the format. A class,
    because a generator-based context manager takes several times as long, for each page.

    Args:
        page: The decoded page.
        last: The last page, if several are decoded as one.
    """

    __slots__ = ("_last", "_page")

    def __init__(self, page: Located, last: Located | None = None) -> None:
        self._page = page
        self._last = page if last is None else last

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Add the page to the error."""
        if error is None:
            return
        page, last = self._page, self._last
        where = page.where if page is last else f"{page.where} to {last.where}"
        if isinstance(error, CorruptFileError | UnsupportedError):
            if error.path is None:
                raise type(error)(error.message, path=page.path, field=where, hint=error.hint) from error
        elif isinstance(error, pa.ArrowException | ValueError | OverflowError | MemoryError | IndexError):
            raise CorruptFileError(
                f"a page cannot be decoded: {error}", path=page.path, field=where
            ) from error


def broken(problem: str, name: str) -> LanceOpsError:
    """Return the error for a page or file written by us that other readers would not understand."""
    return LanceOpsError(
        f"the writer produced data that readers would not understand: {problem}",
        field=name,
        hint="nothing was written; please report this with the schema of the data",
    )
