"""Rebase context: inputs and written files of the rebase of one operation.

The conflict matrix uses the transactions of the other writers. In a rebase the fragments themselves are
compared between the read version and the head.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from lance_ops.errors import NotFoundError, RetryableCommitConflictError
from lance_ops.storage import Store
from lance_ops.storage.prefetch import read_small
from lance_ops.table.commit.concurrent_commits import Passed, base_conflict, conflict
from lance_ops.table.commit.rebase.rank_order import NO_ROWS, RankedRows
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.deletion_file import write_deletion_file
from lance_ops.table.manifest.deletion_vector import DeletionVector, read_deletion_vector
from lance_ops.table.manifest.fragment import DeletionFile, Fragment
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.snapshot import Snapshot
from lance_ops.table.transaction.operations import RewriteGroup
from lance_ops.table.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True)
class MergedDeletions:
    """Deletion files that rebases of one commit wrote.

    Attributes:
        paths: All of them, relative to the root of the dataset.
        fragments: The fragment with the merged deletion file (None: no row is left), by fragment id and the
            deletion file that it had at the head. Later attempts reuse it.
        groups: The same for groups of a Rewrite, by the state of their old fragments.
    """

    paths: list[str] = field(default_factory=list)
    fragments: dict[tuple[int, DeletionFile | None], Fragment | None] = field(default_factory=dict)
    groups: dict[tuple[Fragment | None, ...], RewriteGroup | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rebase:
    """Inputs of a rebase.

    Attributes:
        store: Root of the dataset.
        ours: The transaction as the caller made it.
        snapshot: The read version.
        base: Manifest of the read version.
        head: Manifest to commit on top of.
        theirs: The checked commits in between, oldest first.
        emptied: Fragments that lost their last row before these.
        affected_rows: Rows that a Delete or Update deletes, by fragment, if known to the caller.
        options: Storage options, for deletion files in other bases.
        merged: Files written by earlier attempts.
        mark: See `write_deletion_file`.
    """

    store: Store
    ours: Transaction
    snapshot: Snapshot
    base: Manifest
    head: Manifest
    theirs: Sequence[Passed]
    emptied: frozenset[int] = frozenset()
    affected_rows: Mapping[int, DeletionVector] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    merged: MergedDeletions = field(default_factory=MergedDeletions)
    mark: int | None = None

    def conflict(self, fragment_id: int, what: str) -> RetryableCommitConflictError:
        """Return the error for a fragment, naming the newest commit that changed it."""
        reason = f"fragment {fragment_id} {what}"
        for passed in reversed(self.theirs):
            if fragment_id in passed.changed:
                return conflict(self.ours, passed, reason)
        return base_conflict(self.ours, reason, self.head.version)

    def deleted_rows(self, fragment: Fragment) -> DeletionVector:
        """Return the deleted rows of a fragment of any version since the read version.

        Raises:
            RetryableCommitConflictError: Its deletion file was cleaned up concurrently.
        """
        # Bases are added, and never changed.
        bases = Bases(self.store, self.head.base_paths, self.options)
        try:
            return read_deletion_vector(bases, fragment) or NO_ROWS
        except NotFoundError as error:
            if fragment in self.head.fragments:
                raise
            raise self.conflict(
                fragment.id, f"changed, and {error.path} was removed by a concurrent cleanup"
            ) from error

    def ranked(self, fragments: Sequence[Fragment]) -> list[RankedRows]:
        """Return the rows of fragments with ranks; slow stores read deletion files concurrently."""
        reads = (partial(self.deleted_rows, fragment) for fragment in fragments)
        return [
            RankedRows(fragment.physical_rows, deleted)
            for fragment, deleted in zip(fragments, read_small(self.store, reads), strict=True)
        ]

    def with_deleted(self, fragment: Fragment, deleted: DeletionVector) -> Fragment | None:
        """Return a fragment of the next version with a new deletion file; None if no row is left."""
        if len(deleted) >= fragment.physical_rows:
            return None
        stored = write_deletion_file(
            self.store,
            fragment.id,
            self.head.version,
            deleted,
            physical_rows=fragment.physical_rows,
            mark=self.mark,
        )
        self.merged.paths.append(stored.file.path(fragment.id))
        return fragment.replace(deletion_file=stored.file)
