"""Joined source: files of one storage version and one schema as the `ColumnSource` of all their pages."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.layout import Layout
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema


class JoinedSource(ABC):
    """Common part of reading single rows and all rows of joined files.

    Args:
        readers: The files, at least one, each with the same columns at the same positions.
        heads: Cached page heads.
    """

    def __init__(self, readers: Sequence[FileReader], heads: PageHeads) -> None:
        self._readers = readers
        self._layout: Layout = readers[0].layout
        self._columns: dict[int, object | None] = {}
        self._heads = heads

    @property
    def path(self) -> str:
        """Paths of all files, for errors without a page."""
        return f"{self._readers[0].path} to {self._readers[-1].path}"

    @property
    def schema(self) -> Schema:
        """The schema in the descriptors of the files."""
        return self._readers[0].schema

    @property
    def base_uris(self) -> Mapping[int, str]:
        """Return None: there are no blobs."""
        return {}

    @property
    def heads(self) -> PageHeads:
        """Cached page heads."""
        return self._heads

    def description(self, index: int) -> None:
        """Return None: each file has its own description."""
        del index

    def column(self, index: int) -> object:
        """Return a physical column of all files; see `Layout.join_columns`."""
        column = self._join(index)
        assert column is not None
        return column

    @abstractmethod
    def _join(self, index: int) -> object | None:
        """Join the column, once; None if it has to be read file by file."""
