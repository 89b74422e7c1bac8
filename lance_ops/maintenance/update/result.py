"""Update result: what an update did, in numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.text import bytes_text, count_text


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult(OperationResult):
    """Result of `update`.

    Attributes:
        where: The condition, as the caller wrote it; "true" for all rows.
        columns: Columns that got other values.
        rewrite: "rows" where they moved to new fragments, "columns" where they got other values in place.
        rows_updated: Rows that have other values.
        fragments_added: Fragments that hold them now.
        fragments_updated: Fragments with a new deletion file, or with new files of columns.
        fragments_removed: Fragments of which all rows were updated.
        bytes_written: Size of the new data and deletion files.
    """

    operation: ClassVar[str] = "update"
    other_names: ClassVar[Mapping[str, str]] = {"num_rows_updated": "rows_updated"}

    where: str = ""
    columns: tuple[str, ...] = ()
    rewrite: str = "rows"
    rows_updated: int = 0
    fragments_added: int = 0
    fragments_updated: int = 0
    fragments_removed: int = 0
    bytes_written: int = 0

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        if not self.rows_updated:
            return "no rows match, nothing was changed"
        if self.rewrite == "columns":
            return (
                f"updated {count_text(self.rows_updated, 'row')} in place "
                f"in {count_text(self.fragments_updated, 'fragment')}, {bytes_text(self.bytes_written)}"
            )
        return (
            f"updated {count_text(self.rows_updated, 'row')} "
            f"in {count_text(self.fragments_updated + self.fragments_removed, 'fragment')}, "
            f"now in {count_text(self.fragments_added, 'new fragment')}, {bytes_text(self.bytes_written)}"
        )
