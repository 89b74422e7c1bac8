"""Conflict check: commits since the read version, and whether ours may follow them.

Carried fields: columns that our new files hold by field id, tracked through concurrent commits.

New files name their columns by field id. If another writer dropped a column, cast it, or gave its id to
another column since the read version, the same id has another meaning at the head, and the operation must be
planned again. A rename keeps the id, and the files stay valid.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from lance_ops.errors import CommitConflictError, InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.storage import Store
from lance_ops.table.commit.concurrent_commits import (
    Committed,
    Passed,
    base_conflict,
    conflict,
    contradiction,
    read_intervening,
)
from lance_ops.table.commit.conflict_matrix import Outcome, judge
from lance_ops.table.commit.jobs.job_keys import find_left_over, stands
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import DeletionFile
from lance_ops.table.manifest.listing import ManifestLocation, locate
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.field_trace import FieldTrace, is_stored_alike
from lance_ops.table.transaction.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Project,
    Restore,
    Rewrite,
    Update,
    UpdateConfig,
)
from lance_ops.table.transaction.transaction import JOB_WORK, Transaction


@dataclass(slots=True)
class CarriedFields:
    """The fields that an operation depends on, and how concurrent commits changed them.

    Attributes:
        ids: Field ids of the read version that the operation uses.
        trace: Of the last version that was checked.
        dropped: Paths of the fields that others dropped and did not replace, by field id.
    """

    ids: frozenset[int]
    trace: FieldTrace
    dropped: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, operation: Operation, base: Dataset | None) -> "CarriedFields":
        """Return the fields of an operation planned on a version; none if it creates the dataset."""
        if base is None:
            return cls(frozenset(), FieldTrace.begin(Schema(())))
        used = fields_used(operation).intersection(prepare_schema(base.lance_schema).ids)
        return cls(used, FieldTrace.begin(base.lance_schema, base.manifest.fragments))

    def judge(self, operation: Operation) -> str | None:
        """Track the fields through a commit of another writer.

        Returns:
            Reason why the operation conflicts with it; None if it does not.
        """
        if not self.ids or not isinstance(operation, Merge | Project):
            return None
        before = self.trace
        self.trace = before.follow(operation)
        if isinstance(operation, Merge) and self.dropped:
            path = next(iter(self.dropped.values()))
            return f"column {path!r} was dropped, and the schema has changed again since then"
        present = {node.id for node in operation.schema.walk()}
        lost = self.ids - self.trace.kept - self.dropped.keys()
        replaced = {number for number in lost if number in present or isinstance(operation, Merge)}
        if replaced:
            number = min(replaced)
            what = (
                "was replaced by another column or cast to another type"
                if number in present
                else "was replaced"
            )
            return f"column {before.schema.path(number)!r} (field {number}) {what}"
        # A plain drop removes the values of these rows too, as it would after our commit.
        self.dropped.update((number, before.schema.path(number)) for number in sorted(lost))
        return None

    def judge_head(self, schema: Schema) -> str | None:
        """Compare the fields with the schema of the head, independent of the transactions in between."""
        nodes = {node.id: node for node in schema.walk()}
        for node in self.trace.schema.walk():
            now = nodes.get(node.id)
            if node.id not in self.ids or node.id in self.dropped or now is node:
                continue
            if now is None or now.parent_id != node.parent_id or not is_stored_alike(now, node):
                column = f"column {self.trace.schema.path(node.id)!r} (field {node.id})"
                return f"{column} has changed since the read version"
        return None


def fields_used(operation: Operation) -> frozenset[int]:
    """Field ids that the new files, index segments or metadata of an operation refer to."""
    if isinstance(operation, CreateIndex):
        return frozenset(number for index in operation.new_indices for number in index.fields)
    if isinstance(operation, UpdateConfig):
        return frozenset(operation.field_metadata)
    if isinstance(operation, DataReplacement):
        return operation.fields
    fragments = operation.fragments if isinstance(operation, Append) else ()
    if isinstance(operation, Rewrite | Update):
        fragments = operation.new_fragments
    used = {number for fragment in fragments for file in fragment.files for number in file.fields}
    return frozenset(used.union(operation.fields_modified if isinstance(operation, Update) else ()))


_ABSENT = object()


@dataclass(slots=True)
class JudgedCommits:
    """The commits that ours was rebased over so far.

    Attributes:
        store: Root of the dataset.
        brought: Files that ours adds.
        carried: The fields that ours depends on.
        also_judge: See `CommitHooks.judge`.
        passed: What is kept of each, in their order.
        passed_restore: One of them went back to an earlier version.
    """

    store: Store
    brought: tuple[str, ...]
    carried: CarriedFields
    also_judge: Callable[[Transaction], str | None] | None = None
    passed: list[Passed] = field(default_factory=list)
    passed_restore: bool = False

    def __bool__(self) -> bool:
        return bool(self.passed)

    def __iter__(self) -> Iterator[Passed]:
        return iter(self.passed)

    def judge_since(
        self, ours: Transaction, known: int, head: ManifestLocation, manifest: Manifest
    ) -> ManifestLocation | None:
        """Check the commits after `known`; a commit of the same job ends the check.

        Returns:
            Location of that commit; None if there is none, and ours may follow.

        Raises:
            InvalidArgumentError: Another commit added some of the files of ours, or used them differently:
                rows would be duplicated or lost.
            CommitConflictError: Ours may not follow. It is retryable if another run of the job committed some
                of these files: they are done.
        """
        collision: CommitConflictError | None = None
        taken: InvalidArgumentError | None = None
        for committed in read_intervening(self.store, ours, known, head, manifest):
            is_ours, shared = self._is_ours(ours, committed.transaction), self._shared(committed.transaction)
            if (is_ours or shared) and stands(
                self.store, head, manifest, committed.version, committed.transaction.uuid
            ):
                if is_ours:
                    return locate(self.store, committed.version)
                if not _is_same_work(ours, committed.transaction):
                    taken = taken or self._taken(committed, shared[0])
                elif collision is None:
                    collision = conflict(
                        ours, committed, "another run of the job committed some of its files"
                    )
            self.passed.append(Passed.of(committed))
            self.passed_restore |= isinstance(committed.transaction.operation, Restore)
            # Report the first conflict, unless a later commit turns out to be our own.
            if collision is None:
                collision = self._collision(ours, committed)
        if taken is not None:
            # Checked before conflicts: no other plan solves it.
            raise taken
        if collision is not None:
            raise collision
        reason = self.carried.judge_head(manifest.schema) if self.passed else None
        if reason is not None:
            raise conflict(ours, self.passed[-1], reason)
        return None

    def check_left_over(self, ours: Transaction) -> None:
        """Detect a cleanup that removed our files because another run of the job was committed.

        Raises:
            CommitConflictError: It did.
        """
        if ours.job_key is None or not self.passed_restore:
            return
        lost = find_left_over(self.store, [*self.brought, ours.path])
        if lost is not None:
            reason = f"a cleanup removed {lost} while another run of job {ours.job_key!r} was committed"
            raise base_conflict(ours, reason, self.passed[-1].version)

    def _collision(self, ours: Transaction, committed: Committed) -> CommitConflictError | None:
        verdict = judge(ours, committed.transaction)
        if verdict.outcome is Outcome.RETRYABLE:
            return conflict(ours, committed, verdict.reason)
        if verdict.outcome is Outcome.INCOMPATIBLE:
            return contradiction(ours, committed, verdict.reason)
        theirs = committed.transaction
        reason = self.carried.judge(theirs.operation)
        if reason is None and self.also_judge is not None:
            reason = self.also_judge(theirs)
        return None if reason is None else conflict(ours, committed, reason)

    def _taken(self, theirs: Committed, path: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"file {path!r} already belongs to the dataset, by another commit ({theirs.describe()})",
            path=f"{self.store.uri}/{path}",
            field="operation",
            hint="commit only files that no version uses yet",
        )

    def _is_ours(self, ours: Transaction, theirs: Transaction) -> bool:
        """Return whether a commit is of the same job, or used the same files in the same way."""
        if ours.uuid == theirs.uuid or (ours.job_key is not None and theirs.job_key == ours.job_key):
            return True
        if not self._shared(theirs) or ours.operation.kind != theirs.operation.kind:
            return False
        mine, other = ours.operation, theirs.operation
        if _lasting(mine.files()) != _lasting(other.files()):
            return False
        # Rebased commits have other deletion files where concurrent commits changed them.
        before, after = _changes(mine), _changes(other)
        differing = {
            number
            for number in before.keys() | after.keys()
            if before.get(number, _ABSENT) != after.get(number, _ABSENT)
        }
        for passed in self.passed:
            differing -= passed.changed
            differing.difference_update(part.id for group in passed.groups for part in group.new_fragments)
        return not differing

    def _shared(self, theirs: Transaction) -> list[str]:
        """Return files of ours that another commit already added."""
        return sorted(theirs.operation.files().intersection(self.brought))


def _is_same_work(ours: Transaction, theirs: Transaction) -> bool:
    """Return whether both were made by runs of one job, which share its files."""
    work = ours.properties.get(JOB_WORK)
    return work is not None and theirs.properties.get(JOB_WORK) == work


def _lasting(files: Iterable[str]) -> frozenset[str]:
    """Return the files that a rebase never replaces."""
    return frozenset(path for path in files if not path.startswith("_deletions/"))


def _changes(operation: Operation) -> dict[int, DeletionFile | None]:
    """Map fragments to their new deletion files, None if all rows are deleted."""
    if not isinstance(operation, Delete | Update):
        return {}
    changes: dict[int, DeletionFile | None] = dict.fromkeys(operation.emptied_fragments())
    changes.update({fragment.id: fragment.deletion_file for fragment in operation.updated_fragments})
    return changes
