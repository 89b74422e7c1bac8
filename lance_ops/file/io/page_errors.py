"""Page errors: what goes wrong in decoding, with the names of the file and the page."""

from types import TracebackType
from typing import Protocol

import pyarrow as pa

from lance_ops.errors import CorruptFileError, LanceOpsError, UnsupportedError


class Located(Protocol):
    """Something that knows where it is."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def where(self) -> str:
        """Column and page."""


class page_errors:  # noqa: N801 - used like a function
    """Name the file and page in errors of decoding, and give Arrow's own errors a type.

    Nothing inside reads from a store, so that any error means that the bytes are not what the format says.
    A class of its own, because one made of a generator takes several times as long, for each page.

    Args:
        page: What is decoded.
        last: The last page, where several are decoded as one.
    """

    __slots__ = ("_last", "_page")

    def __init__(self, page: Located, last: Located | None = None) -> None:
        self._page = page
        self._last = page if last is None else last

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Name the page."""
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
    """What a writer says of a page or file of its own that other readers would not understand."""
    return LanceOpsError(
        f"the writer made something that readers would not understand: {problem}",
        field=name,
        hint="nothing was written; please report this with the schema of the data",
    )
