"""Update plan: rows to update, and their assignments."""

from dataclasses import dataclass
from typing import Literal

from lance_ops.maintenance.delete.plan import DeletePlan, FragmentMatch
from lance_ops.maintenance.text import count_text, table_text
from lance_ops.maintenance.update.assignments import Assignment

EVERY_ROW = "true"
"""The condition of an update of all rows."""


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """Plan of an update; prints as a table.

    Attributes:
        search: The rows, as the plan of a delete.
        assignments: Assignments of the update.
        rewrite: "rows" or "columns".
        reason: Reason of the choice.
    """

    search: DeletePlan
    assignments: tuple[Assignment, ...]
    rewrite: Literal["rows", "columns"] = "rows"
    reason: str = ""

    @property
    def uri(self) -> str:
        """The dataset."""
        return self.search.uri

    @property
    def version(self) -> int:
        """Version that it was planned from."""
        return self.search.version

    @property
    def where(self) -> str:
        """The condition, as the caller wrote it."""
        return self.search.predicate

    @property
    def rows_matched(self) -> int:
        """Rows that would be updated."""
        return self.search.rows_matched

    def to_dict(self) -> dict[str, object]:
        """Numbers and ids as JSON values."""
        values = {item.column: item.sql for item in self.assignments}
        how = {"rewrite": self.rewrite, "reason": self.reason}
        return {**self.search.to_dict(), "operation": "update", "values": values, **how}

    def __str__(self) -> str:
        head = f"update at version {self.version} of {self.uri} where {self.where}"
        if not self.search.matches:
            return f"{head}: no rows match"
        matches = self.search.matches
        columns = [(item.column, item.sql) for item in self.assignments]
        rows = [
            (
                str(match.fragment.id),
                f"{match.live_rows:,}",
                f"{len(match.matched):,}",
                _what_follows(match, self.rewrite),
            )
            for match in matches
        ]
        return "\n".join(
            [
                f"{head}: {count_text(self.rows_matched, 'row')} of {self.search.total_rows:,}",
                f"rewrites {self.rewrite}: {self.reason}",
                table_text(("column", "becomes"), columns),
                table_text(("fragment", "live rows", "matches", "then"), rows),
            ]
        )


def _what_follows(match: FragmentMatch, rewrite: str) -> str:
    if rewrite == "columns":
        return "keeps all"
    return "is emptied" if match.empties else f"keeps {match.live_rows - len(match.matched):,}"
