"""Result of an index operation."""

from dataclasses import dataclass
from typing import ClassVar

from lance_ops.maintenance.index.plan import SegmentChoice
from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.text import bytes_text, count_text, share_text


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexResult(OperationResult):
    """Result of `create_index`, `optimize_indices` and `drop_index`.

    Attributes:
        indices: Names of the indices that changed.
        rows_indexed: Live rows read from the table.
        segments_added: Segments written.
        segments_removed: Segments replaced or dropped.
        bytes_written: Size of the index files.
        coverage_before: Share of live rows covered by these indices before, 0 to 1; by all examined ones if
            none changed.
        coverage_after: The same afterwards, at the committed version.
        skipped: Unchanged indices, with coverage and reason.
        rebuilt: Indices that were rebuilt without a request, with the reason.
        compactions_caught_up: Compactions whose deferred remap is now applied to all indices.
        former_name: Name before a rename; empty if not renamed.
        choices: Choice for each existing segment, with the reason.
    """

    operation: ClassVar[str] = "index"

    indices: tuple[str, ...] = ()
    rows_indexed: int = 0
    segments_added: int = 0
    segments_removed: int = 0
    bytes_written: int = 0
    coverage_before: float = 1.0
    coverage_after: float = 1.0
    skipped: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()
    compactions_caught_up: int = 0
    former_name: str = ""
    choices: tuple[SegmentChoice, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """See `Result.to_dict`."""
        # Named: the decorator of a class with slots makes another class, which `super()` does not know.
        values = OperationResult.to_dict(self)
        return {**values, "choices": [choice.to_dict() for choice in self.choices]}

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        if not self.changed:
            if self.coverage_after < 1:
                return f"nothing can be done, coverage {share_text(self.coverage_after)}"
            return "every index covers all rows"
        if self.former_name:
            return f"renamed {self.former_name} to {', '.join(self.indices)}"
        parts = []
        if self.segments_added:
            parts.append(
                f"{', '.join(self.indices)}: read {count_text(self.rows_indexed, 'row')}, wrote "
                f"{count_text(self.segments_added, 'segment')} of {bytes_text(self.bytes_written)}, "
                f"coverage {share_text(self.coverage_before)} -> {share_text(self.coverage_after)}"
            )
        elif self.segments_removed:
            parts.append(f"dropped {', '.join(self.indices)}")
        if self.compactions_caught_up:
            parts.append(
                f"no index has a deferred remap of {count_text(self.compactions_caught_up, 'compaction')} "
                "any more"
            )
        return "; ".join(parts or ["removed an unused fragment reuse index"])

    def remarks(self) -> tuple[str, ...]:
        """See `OperationResult.remarks`."""
        return (
            *(f"skipped: {line}" for line in self.skipped),
            *(f"rebuilt: {line}" for line in self.rebuilt),
        )
