"""Commits that only operations make as parts of theirs, one call each, on the version that a test holds."""

from typing import Any

from lance_ops.storage import Store
from lance_ops.table.commit import loop
from lance_ops.table.commit.request import CommitRequest, CommitResult
from lance_ops.table.dataset import Dataset, DatasetHandle
from lance_ops.table.transaction.apply_fragments import reserved_ids
from lance_ops.table.transaction.operations import CreateIndex, Operation, ReserveFragments


def commit(
    target: Dataset | DatasetHandle | Store | str, operation: Operation, **options: Any
) -> CommitResult:
    """Commit an operation with some fields of a `CommitRequest`."""
    fixed = target.snapshot() if isinstance(target, DatasetHandle) else target
    return loop.commit(fixed, CommitRequest(operation, **options))


def drop_segments(dataset: Dataset, name: str, **options: Any) -> CommitResult:
    """Drop the segments that an index has in this version."""
    return commit(dataset, CreateIndex((), tuple(x for x in dataset.indices if x.name == name)), **options)


def reserve_fragments(dataset: Dataset, number: int) -> tuple[CommitResult, range]:
    """Reserve ids of fragments; the commit and the ids."""
    done = commit(dataset, ReserveFragments(number))
    return done, reserved_ids(done.dataset.manifest, number)
