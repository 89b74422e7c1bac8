"""Adapter: what the scenes ask of an implementation of Lance tables."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

Rows: TypeAlias = Mapping[int, int]
"""Rows of the tables of the scenes: `k` by `id`, both int64."""

Meanwhile: TypeAlias = Callable[[], object]
"""What other writers do after an operation was planned and before it is committed."""


class Unsupported(Exception):  # noqa: N818 - it stands for a scene that is left out
    """The implementation cannot play a part; scenes that need it are skipped."""


class TableAdapter(Protocol):
    """An implementation of Lance tables in local folders.

    Each operation opens the newest version, plans and writes all that it needs, calls `meanwhile`, and then
    commits. It raises when the commit is refused; which exception does not matter. It raises `Unsupported`
    when it has no way to do this.
    """

    name: str

    def create(self, uri: str, rows: Rows, *, rows_per_file: int) -> None:
        """Create a table with the columns `id` and `k`, int64."""

    def newest(self, uri: str) -> int:
        """Return the number of the newest version."""

    def read(
        self, uri: str, *, version: int | None = None, where: str | None = None
    ) -> list[tuple[int, int]]:
        """Read `(id, k)` of all rows.

        Args:
            uri: The table.
            version: The newest one by default.
            where: A condition in SQL; indices may answer it.
        """

    def append(self, uri: str, rows: Rows, meanwhile: Meanwhile) -> None:
        """Add rows."""

    def append_twice(self, uri: str, rows: Rows) -> None:
        """Write files once, and commit them twice as two drivers do that were told to finish the same job."""

    def overwrite(self, uri: str, rows: Rows, meanwhile: Meanwhile) -> None:
        """Replace all rows."""

    def delete(self, uri: str, where: str, meanwhile: Meanwhile) -> None:
        """Delete rows."""

    def update(self, uri: str, plus: int, where: str, meanwhile: Meanwhile) -> None:
        """Add a number to `k` of some rows."""

    def upsert(self, uri: str, rows: Rows, meanwhile: Meanwhile) -> None:
        """Replace the rows with the same `id`, and add the others."""

    def compact(self, uri: str, meanwhile: Meanwhile) -> None:
        """Merge all files into one, without deleted rows."""

    def create_index(self, uri: str, column: str, meanwhile: Meanwhile) -> None:
        """Build a BTREE index, in the place of an earlier one."""

    def restore(self, uri: str, version: int, meanwhile: Meanwhile) -> None:
        """Make an earlier version the newest one."""

    def tag(self, uri: str, name: str, version: int, meanwhile: Meanwhile) -> None:
        """Give a version a name that keeps it."""

    def cleanup(self, uri: str) -> None:
        """Remove all versions but the newest one, and the files that only they used."""
