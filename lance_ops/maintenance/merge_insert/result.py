"""Merge result in numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.text import bytes_text, count_text


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult(OperationResult):
    """Result of `merge_insert`.

    Attributes:
        on: Key columns.
        rows_inserted: Inserted rows of the source.
        rows_updated: Rows updated from the source.
        rows_deleted: Deleted rows, matched or unmatched.
        fragments_added: Fragments with the inserted and updated rows.
        fragments_updated: Fragments with a new deletion file.
        fragments_removed: Fragments without remaining rows.
        bytes_written: Size of the new data and deletion files.
        transaction_uuid: Transaction of the commit; empty without one.
    """

    operation: ClassVar[str] = "merge_insert"
    other_names: ClassVar[Mapping[str, str]] = {
        "num_inserted_rows": "rows_inserted",
        "num_updated_rows": "rows_updated",
        "num_deleted_rows": "rows_deleted",
    }

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
            return "no rows to insert, update or delete; nothing was changed"
        return (
            f"inserted {count_text(self.rows_inserted, 'row')}, updated {self.rows_updated:,}, "
            f"deleted {self.rows_deleted:,}: {count_text(self.fragments_added, 'fragment')} added, "
            f"{self.fragments_updated:,} updated, {self.fragments_removed:,} removed, "
            f"{bytes_text(self.bytes_written)}"
        )
