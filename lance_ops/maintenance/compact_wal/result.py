"""Result of a MemWAL compaction in numbers."""

from dataclasses import dataclass
from typing import ClassVar

from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.text import bytes_text, count_text


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactWalResult(OperationResult):
    """Result of `compact_wal`.

    Attributes:
        shards: Shards of the table.
        generations_merged: Generations folded into the table.
        rows_read: Rows of these generations, superseded ones and deletions included.
        rows_inserted: Inserted rows.
        rows_updated: Updated rows.
        rows_deleted: Deleted rows.
        bytes_written: Size of the new data and deletion files.
        commits: Commits that folded generations.
        generations_removed: Generations removed from the store, which all remaining versions have.
        generations_kept: Generations that the table has, kept for readers of older versions or for indices.
        files_removed: Files of removed generations.
    """

    operation: ClassVar[str] = "compact_wal"

    shards: int = 0
    generations_merged: int = 0
    rows_read: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    bytes_written: int = 0
    commits: int = 0
    generations_removed: int = 0
    generations_kept: int = 0
    files_removed: int = 0

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        left = (
            f"removed {count_text(self.generations_removed, 'generation')}, "
            f"kept {self.generations_kept:,} for readers and indices"
        )
        if not self.generations_merged:
            return f"no generation to fold; {left}"
        return (
            f"folded {count_text(self.generations_merged, 'generation')} in "
            f"{count_text(self.commits, 'commit')}: inserted {count_text(self.rows_inserted, 'row')}, "
            f"updated {self.rows_updated:,}, deleted {self.rows_deleted:,}, "
            f"{bytes_text(self.bytes_written)}; {left}"
        )
