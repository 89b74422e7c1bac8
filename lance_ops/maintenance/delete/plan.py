"""Delete plan: fragments to search for a predicate, and the matches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError
from lance_ops.filter import parse_filter
from lance_ops.maintenance.delete.search import Candidates, FindTask, FragmentMatch
from lance_ops.maintenance.text import count_text, table_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.pruner import Pruner, Pruning
from lance_ops.table.scan.row_columns import (
    ROW_ADDRESS,
    ROW_COLUMNS,
    ROW_CREATED_AT,
    ROW_ID,
    ROW_UPDATED_AT,
    row_column_field,
)

_ROWS_PER_TASK = 1 << 20
_FRAGMENTS_PER_TASK = 256

_CHECK_AT_MOST = 0.25
"""Share of a fragment's rows up to which reading candidates one by one is faster than reading the columns."""


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """Plan of a delete; prints as a table after the search.

    Attributes:
        uri: The dataset.
        version: Version that it was planned from.
        predicate: The predicate as written.
        columns: Columns to read.
        tasks: Searches.
        total_rows: Live rows of the dataset.
        matches: Matches by fragment; None before the search.
        names_places: True if the predicate uses row addresses, which a compaction changes.
    """

    uri: str
    version: int
    predicate: str
    columns: tuple[str, ...]
    tasks: tuple[FindTask, ...]
    total_rows: int
    matches: tuple[FragmentMatch, ...] | None = None
    names_places: bool = False

    @property
    def rows_matched(self) -> int:
        """Number of rows that would be deleted."""
        return sum(len(match.matched) for match in self.matches or ())

    @property
    def fragments_searched(self) -> int:
        """Number of fragments to read."""
        return sum(len(task.fragments) for task in self.tasks)

    def to_dict(self) -> dict[str, object]:
        """Return numbers and ids as JSON values."""
        return {
            "operation": "delete",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.version,
            "predicate": self.predicate,
            "columns": list(self.columns),
            "fragments_searched": self.fragments_searched,
            "total_rows": self.total_rows,
            "rows_matched": None if self.matches is None else self.rows_matched,
            "fragments": [
                {
                    "fragment": match.fragment.id,
                    "live_rows": match.live_rows,
                    "rows_matched": len(match.matched),
                    "removed": match.empties,
                }
                for match in self.matches or ()
            ],
        }

    def __str__(self) -> str:
        head = f"delete {self.predicate!r} at version {self.version} of {self.uri}"
        if self.matches is None:
            read = ", ".join(self.columns) or "nothing"
            return f"{head}: search {count_text(self.fragments_searched, 'fragment')}, reading {read}"
        if not self.matches:
            return f"{head}: no rows match"
        rows = [
            (
                str(match.fragment.id),
                f"{match.live_rows:,}",
                f"{len(match.matched):,}",
                "is emptied" if match.empties else f"keeps {match.live_rows - len(match.matched):,}",
            )
            for match in self.matches
        ]
        share = self.rows_matched / self.total_rows if self.total_rows else 0.0
        return "\n".join(
            [
                f"{head}: {count_text(self.rows_matched, 'row')} of {self.total_rows:,} ({share:.1%})",
                table_text(("fragment", "live rows", "matches", "then"), rows),
            ]
        )


def plan_delete(
    dataset: Dataset,
    predicate: str,
    *,
    pruners: Sequence[Pruner] = (),
    fragments: Iterable[Fragment] | None = None,
) -> DeletePlan:
    """Plan the search. Reads metadata, and the indices of pruners.

    Args:
        dataset: The version to plan from.
        predicate: SQL; rows for which it is true are deleted, rows for which it is null are kept.
        pruners: Indices that may narrow the search.
        fragments: Fragments to search; all if None.

    Raises:
        PredicateError: the predicate does not parse, or names an unknown column.
    """
    if not predicate.strip():
        raise InvalidArgumentError(
            "the predicate is empty; write 'true' to delete every row", field="predicate"
        )
    expression = parse_filter(predicate, predicate_schema(dataset))
    prunings = [found for pruner in pruners if (found := pruner.prune(dataset, expression)) is not None]
    columns = sorted(expression.columns)
    own = dataset.lance_schema.names
    row_columns = tuple(name for name in columns if name in ROW_COLUMNS and name not in own)
    schema = dataset.lance_schema.project([name for name in columns if name not in row_columns])
    tasks: list[FindTask] = []
    share: list[Fragment] = []
    candidates: list[Candidates | None] = []
    rows = 0

    def close() -> None:
        nonlocal rows
        if share:
            snapshot = dataset.narrowed(share, schema)
            tasks.append(FindTask(snapshot, expression, tuple(candidates), row_columns))
        share.clear()
        candidates.clear()
        rows = 0

    for fragment in dataset.fragments if fragments is None else fragments:
        narrowed = _candidates(fragment, prunings)
        if narrowed is not None and not len(narrowed.offsets):
            continue
        share.append(fragment)
        candidates.append(narrowed)
        rows += fragment.physical_rows if narrowed is None else len(narrowed.offsets)
        if rows >= _ROWS_PER_TASK or len(share) == _FRAGMENTS_PER_TASK:
            close()
    close()
    return DeletePlan(
        uri=dataset.uri,
        version=dataset.version,
        predicate=predicate,
        columns=tuple(columns),
        tasks=tuple(tasks),
        total_rows=sum(fragment.num_rows for fragment in dataset.fragments),
        names_places=ROW_ADDRESS in row_columns
        or (ROW_ID in row_columns and not dataset.uses_stable_row_ids),
    )


def predicate_schema(dataset: Dataset) -> pa.Schema:
    """Return what a predicate may name: columns, row ids and addresses, and recorded row versions.

    Not the offset of a row, which changes with every delete before it; nor the row versions of a table
    without records, where all rows have the first one.
    """
    names = [ROW_ID, ROW_ADDRESS]
    if dataset.uses_stable_row_ids:
        names += [ROW_CREATED_AT, ROW_UPDATED_AT]
    own = dataset.schema
    extra = [row_column_field(name) for name in names if name not in own.names]
    return pa.schema([*own, *extra], metadata=own.metadata)


def _candidates(fragment: Fragment, prunings: Sequence[Pruning]) -> Candidates | None:
    """Return the smallest candidate set of a fragment from any index."""
    best: Candidates | None = None
    for pruning in prunings:
        if fragment.id not in pruning.covered_fragment_ids:
            continue
        offsets = pruning.offsets_in(fragment.id)
        exact = fragment.id in pruning.exact
        if not exact and len(offsets) > fragment.physical_rows * _CHECK_AT_MOST:
            continue
        if best is None or (exact, -len(offsets)) > (best.exact, -len(best.offsets)):
            best = Candidates(offsets, exact)
    return best
