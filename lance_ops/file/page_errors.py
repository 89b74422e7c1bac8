"""Errors of decoding a page, with the names of the file and the page."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa

from lance_ops.errors import CorruptFileError, UnsupportedError


class Located(Protocol):
    """Something that knows where it is."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def where(self) -> str:
        """Column and page."""


@contextmanager
def page_errors(page: Located) -> Iterator[None]:
    """Name the file and page in errors of decoding, and give Arrow's own errors a type.

    Nothing inside reads from a store, so that any error means that the bytes are not what the format says.
    """
    try:
        yield
    except (CorruptFileError, UnsupportedError) as error:
        if error.path is not None:
            raise
        raise type(error)(error.message, path=page.path, field=page.where, hint=error.hint) from error
    except (pa.ArrowException, ValueError, OverflowError, MemoryError, IndexError) as error:
        raise CorruptFileError(
            f"a page cannot be decoded: {error}", path=page.path, field=page.where
        ) from error
