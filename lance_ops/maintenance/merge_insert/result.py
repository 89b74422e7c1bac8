"""Merge result: what a merge did, in numbers."""

from dataclasses import dataclass
from typing import ClassVar

from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.text import bytes_text, count_text


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult(OperationResult):
    """Result of `merge_insert`.

    Attributes:
        on: Columns of the key.
        rows_inserted: Rows of the source whose key was new.
        rows_updated: Rows that got the values of their partners in the source.
        rows_deleted: Rows that went, for their partners or for having none.
        fragments_added: Fragments that hold the inserted and the updated rows.
        fragments_updated: Fragments with a new deletion file.
        fragments_removed: Fragments of which no row was left.
        bytes_written: Size of the new data and deletion files.
        transaction_uuid: Of the commit; empty when there was none.
    """

    operation: ClassVar[str] = "merge_insert"

    on: tuple[str, ...] = ()
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    fragments_added: int = 0
    fragments_updated: int = 0
    fragments_removed: int = 0
    bytes_written: int = 0
    transaction_uuid: str = ""

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        if not (self.rows_inserted or self.rows_updated or self.rows_deleted):
            return "no row to insert, update or delete, nothing was changed"
        return (
            f"inserted {count_text(self.rows_inserted, 'row')}, updated {self.rows_updated:,}, "
            f"deleted {self.rows_deleted:,}: {count_text(self.fragments_added, 'fragment')} added, "
            f"{self.fragments_updated:,} updated, {self.fragments_removed:,} removed, "
            f"{bytes_text(self.bytes_written)}"
        )
