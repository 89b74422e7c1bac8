"""Results of column operations."""

from dataclasses import dataclass
from typing import ClassVar

from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.text import bytes_text, count_text


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumnsResult(OperationResult):
    """Result of `add_columns` and `merge`.

    Attributes:
        columns: Names of the new columns.
        fragments_updated: Fragments that got a new data file; 0 if all values are null.
        fragments_resumed: Those of them whose file an earlier run of the job had written.
        bytes_written: Size of these files.
    """

    operation: ClassVar[str] = "add_columns"

    columns: tuple[str, ...] = ()
    fragments_updated: int = 0
    fragments_resumed: int = 0
    bytes_written: int = 0

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        files = f"files in {count_text(self.fragments_updated, 'fragment')}, {bytes_text(self.bytes_written)}"
        return f"added {', '.join(self.columns)}: {files if self.fragments_updated else 'all null, no file'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterColumnsResult(OperationResult):
    """Result of `alter_columns`.

    Attributes:
        changes: Change of each column.
        fragments_updated: Fragments that got a new data file; 0 if no type changed.
        bytes_written: Size of these files.
    """

    operation: ClassVar[str] = "alter_columns"

    changes: tuple[str, ...] = ()
    fragments_updated: int = 0
    bytes_written: int = 0

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        files = f"files in {count_text(self.fragments_updated, 'fragment')}, {bytes_text(self.bytes_written)}"
        return f"{'; '.join(self.changes)}: {files if self.fragments_updated else 'no file'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceColumnsResult(OperationResult):
    """Result of `replace_columns`.

    Attributes:
        columns: Names of the replaced columns.
        fragments_updated: Fragments that got a new data file.
        fragments_resumed: Those of them whose file an earlier run of the job had written.
        bytes_written: Size of these files.
    """

    operation: ClassVar[str] = "replace_columns"

    columns: tuple[str, ...] = ()
    fragments_updated: int = 0
    fragments_resumed: int = 0
    bytes_written: int = 0

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        files = f"files in {count_text(self.fragments_updated, 'fragment')}, {bytes_text(self.bytes_written)}"
        return f"replaced {', '.join(self.columns)}: {files}"
