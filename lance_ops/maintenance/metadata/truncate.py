"""Truncate: delete all rows in one commit, by metadata alone; schema, config and history are kept."""

from dataclasses import dataclass
from typing import Literal, Unpack, overload

from lance_ops.errors import public
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.results import DeleteResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.target import Target
from lance_ops.maintenance.text import count_text
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.operations import Delete

EVERYTHING = "true"


@dataclass(frozen=True, slots=True)
class TruncatePlan:
    """Plan of a truncate; prints as text.

    Attributes:
        uri: The dataset.
        version: Version of the plan.
        rows: Live rows.
        fragment_ids: All fragments.
    """

    uri: str
    version: int
    rows: int
    fragment_ids: tuple[int, ...]

    def to_dict(self) -> dict[str, object]:
        """Numbers and ids as JSON values."""
        return {
            "operation": "truncate",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.version,
            "rows": self.rows,
            "fragments": len(self.fragment_ids),
        }

    def __str__(self) -> str:
        what = f"{count_text(self.rows, 'row')} in {count_text(len(self.fragment_ids), 'fragment')}"
        return f"truncate version {self.version} of {self.uri}: {what} would be deleted"


@overload
def truncate(
    uri_or_dataset: Target, *, dry_run: Literal[False] = False, **run: Unpack[RunOptions]
) -> DeleteResult: ...
@overload
def truncate(
    uri_or_dataset: Target, *, dry_run: Literal[True], **run: Unpack[RunOptions]
) -> TruncatePlan: ...
@overload
def truncate(
    uri_or_dataset: Target, *, dry_run: bool, **run: Unpack[RunOptions]
) -> DeleteResult | TruncatePlan: ...
@public(target="uri_or_dataset")
@cleans_up
def truncate(
    uri_or_dataset: Target, *, dry_run: bool = False, **run: Unpack[RunOptions]
) -> DeleteResult | TruncatePlan:
    """Delete all rows, without reading any. The schema is kept, and earlier versions keep their rows.

    Rows appended concurrently are kept, too.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        dry_run: Return the plan.
        **run: See `RunOptions`.

    Raises:
        CommitConflictError: Another commit stands in the way.

    Examples:
        >>> lo.truncate("events.lance").rows_deleted
        10
    """
    call = Run.start("truncate", uri_or_dataset, run, max_replans=10)
    if dry_run:
        return _plan(call.dataset)
    return call.execute(_plan, _commit, DeleteResult)


def _plan(dataset: Dataset) -> TruncatePlan:
    ids = tuple(fragment.id for fragment in dataset.fragments)
    return TruncatePlan(dataset.uri, dataset.version, dataset.count_rows(), ids)


def _commit(attempt: Attempt, plan: TruncatePlan) -> DeleteResult:
    if not plan.fragment_ids:
        return DeleteResult(**attempt.common(), predicate=EVERYTHING)
    done = attempt.commit(CommitRequest(Delete((), plan.fragment_ids, EVERYTHING)))
    if done.already_committed:
        return DeleteResult(**attempt.common(done), predicate=EVERYTHING)
    return DeleteResult(
        **attempt.common(done),
        predicate=EVERYTHING,
        rows_deleted=plan.rows,
        fragments_removed=len(plan.fragment_ids),
    )
