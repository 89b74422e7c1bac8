"""Replacement of the rows that match a predicate by new ones, in one commit.

The new rows are written first; the old rows are searched last, and again after every conflict, so that rows
of a concurrent writer are replaced as well or the commit comes before theirs. Only new or changed fragments
are searched again, so that the search soon becomes shorter than the pauses of busy writers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.filter import Expression, select
from lance_ops.maintenance.delete.operation import find_matches, write_deletion_files
from lance_ops.maintenance.delete.plan import DeletePlan, FragmentMatch, plan_delete
from lance_ops.maintenance.engine import Attempt
from lance_ops.maintenance.progress import Reporter
from lance_ops.maintenance.runner import Runner
from lance_ops.maintenance.tasks import reading
from lance_ops.maintenance.text import count_text
from lance_ops.table.commit.request import CommitRequest, CommitResult
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.transaction.operations import Update

PREDICATE_KEY = "lance_ops.replace_where"
"""Property of the transaction with the predicate of the replaced rows."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """Input of a replacement.

    Attributes:
        predicate: SQL; rows for which it is true are deleted.
        fragments: The new rows, written, without ids.
        allow_empty: Allow no new rows although rows are deleted.
    """

    predicate: str
    fragments: tuple[Fragment, ...]
    allow_empty: bool = False


@dataclass(frozen=True, slots=True)
class Replaced:
    """Result of a replacement.

    Attributes:
        done: The commit; None if there was nothing to do.
        rows_deleted: Rows that matched the predicate.
        fragments_updated: Fragments that lost some of their rows.
        fragments_removed: Fragments that lost all of them.
    """

    done: CommitResult | None = None
    rows_deleted: int = 0
    fragments_updated: int = 0
    fragments_removed: int = 0


@dataclass(frozen=True, slots=True)
class ReplacePlan:
    """Plan of a replacement; prints as a table.

    Attributes:
        uri: The dataset.
        predicate: The predicate as written.
        deletion: The rows to delete; None without a dataset.
    """

    uri: str
    predicate: str
    deletion: DeletePlan | None

    def to_dict(self) -> dict[str, object]:
        """Numbers and ids as JSON values."""
        if self.deletion is None:
            return {"operation": "append", "mode": "create", "dry_run": True, "uri": self.uri}
        return {**self.deletion.to_dict(), "operation": "append", "mode": "replace_where"}

    def __str__(self) -> str:
        if self.deletion is None:
            return f"replace_where {self.predicate!r}: there is no dataset, it is created as {self.uri}"
        return f"replace_where, the data replaces these rows:\n{self.deletion}"


@dataclass(slots=True)
class Search:
    """Search of a replacement at the head, over its attempts.

    Attributes:
        found: The searched fragments, and the matches in each.
        schema: Schema of the search.
    """

    found: dict[int, tuple[Fragment, FragmentMatch | None]] = field(default_factory=dict)
    schema: Schema | None = None

    def find(self, dataset: Dataset, predicate: str, runner: Runner, report: Reporter) -> DeletePlan:
        """Return the plan of a delete, with the matching rows."""
        if self.schema != dataset.lance_schema:
            self.found.clear()
            self.schema = dataset.lance_schema
        new = [fragment for fragment in dataset.fragments if not self._knows(fragment)]
        plan = find_matches(plan_delete(dataset, predicate, fragments=new), runner, report)
        matches = {match.fragment.id: match for match in plan.matches or ()}
        self.found |= {fragment.id: (fragment, matches.get(fragment.id)) for fragment in new}
        known = (self.found[fragment.id][1] for fragment in dataset.fragments)
        return replace(plan, matches=tuple(match for match in known if match is not None))

    def _knows(self, fragment: Fragment) -> bool:
        return fragment.id in self.found and self.found[fragment.id][0] == fragment


def plan_replacement(
    uri: str, dataset: Dataset | None, predicate: str, runner: Runner, report: Reporter
) -> ReplacePlan:
    """Find the rows to delete; nothing is written.

    Raises:
        PredicateError: The predicate does not parse, or names a column that is not there.
    """
    found = None if dataset is None else find_matches(plan_delete(dataset, predicate), runner, report)
    return ReplacePlan(uri, predicate, found)


def check_replacing(batches: Iterable[pa.RecordBatch], predicate: Expression) -> Iterator[pa.RecordBatch]:
    """Pass on batches; each row must match the predicate of the replaced rows.

    Raises:
        InvalidArgumentError: One does not: the next replacement would keep it and add it again.
    """
    for batch in batches:
        wrong = batch.num_rows - (pc.sum(select(predicate, batch)).as_py() or 0)
        if wrong:
            raise InvalidArgumentError(
                f"{count_text(wrong, 'row')} of a batch of {batch.num_rows:,} do not match the predicate of "
                "the replaced rows",
                field="predicate",
                hint="return only rows that match this predicate, or choose a wider one",
            )
        yield batch


def commit_replacement(attempt: Attempt, work: Replacement, search: Search) -> Replaced:
    """Find the rows to delete, write their deletion files, and commit both sides as one Update.

    Args:
        attempt: Attempt on the version to search.
        work: The replacement.
        search: Matches of earlier attempts.

    Raises:
        RetryableCommitConflictError: Another writer was faster; the new rows are kept for the next attempt.
        InvalidArgumentError: Rows would be replaced by none.
    """
    dataset, run = attempt.dataset, attempt.run
    with reading(dataset, "a search"):
        plan = search.find(dataset, work.predicate, run.runner, run.report)
    matches = plan.matches or ()
    if not work.fragments:
        if not matches:
            return Replaced()
        if not work.allow_empty:
            raise InvalidArgumentError(
                f"the data has no rows, and would replace {count_text(plan.rows_matched, 'row')} where "
                f"{work.predicate}; nothing was changed",
                path=dataset.uri,
                field="data",
                hint="use allow_empty=True, or delete, to remove these rows",
            )
    updated = tuple(item.fragment for item in write_deletion_files(attempt, matches))
    emptied = tuple(match.fragment.id for match in matches if match.empties)
    done = attempt.commit(
        CommitRequest(
            Update(emptied, updated, work.fragments),
            properties={PREDICATE_KEY: work.predicate},
            affected_rows={match.fragment.id: match.matched for match in matches},
        )
    )
    return Replaced(done, plan.rows_matched, len(updated), len(emptied))
