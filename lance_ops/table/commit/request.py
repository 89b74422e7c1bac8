"""Commit request: what a caller asks of the commit loop, and what it gets."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from lance_ops.errors import InvalidArgumentError, RetryableCommitConflictError, VersionNotFoundError
from lance_ops.storage import Store
from lance_ops.table.commit.committer import Committer
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.listing import is_detached
from lance_ops.table.transaction.operations import Operation, Overwrite
from lance_ops.table.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A commit that stands.

    Attributes:
        dataset: The version that it made.
        version: Its number.
        transaction: What was committed, after rebasing.
        attempts: Manifests that were put together for it.
        conflicts: One line for each transaction of another writer that it was carried over.
        already_committed: An earlier or concurrent run of the same job, or an earlier call with the same
            files, had made `version`. This call changed nothing.
        orphans: Files, relative to the root of the dataset, that were written for this call and that the
            version does not refer to; only when it was already committed.
        settle: Proves that it stands, where that was left to the caller; see `CommitChain`.
    """

    dataset: Dataset
    version: int
    transaction: Transaction
    attempts: int
    conflicts: tuple[str, ...] = ()
    already_committed: bool = False
    orphans: tuple[str, ...] = ()
    settle: Callable[[], None] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitHooks:
    """Checks of the caller inside a commit.

    Attributes:
        judge: Called once for each commit since the read version that the conflict matrix lets pass; a reason
            is a conflict that planning again may solve.
        guard: Called in each attempt, after the newest version was read and before the next one is stored;
            raises what ends the commit.
    """

    judge: Callable[[Transaction], str | None] | None = None
    guard: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChain:
    """Commits of one caller, each on top of the one before: a compaction reserves ids, then uses them.

    Attributes:
        after: What the caller committed on top of the read version just now: while no version follows it, the
            newest version is not read again. Its `settle` is called here.
        seen: A version after the read version in which the caller found all that the operation builds on, but
            for rows that were deleted: the commits up to it are not judged. For a Rewrite.
        settle_later: The caller commits on top of the version at once: where requests take long, the result
            has a `settle` that proves whether it stands, and that is called in any case.
    """

    after: CommitResult | None = None
    seen: Dataset | None = None
    settle_later: bool = False

    @property
    def newest(self) -> Dataset | None:
        """The newest version that the caller knows, if it is not the read version."""
        return self.seen if self.after is None else self.after.dataset

    @property
    def settle(self) -> Callable[[], None] | None:
        """Proves that `after` stands, if that is still open."""
        return None if self.after is None else self.after.settle


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """One commit.

    Attributes:
        operation: What to commit. Its files must be in the store.
        read_version: Version that the operation is based on, if it is not that of the target.
        properties: Notes to store with the transaction.
        job_key: Key of the job. If a commit in the lineage of the newest version carries it, whether its
            version still exists or not, that one is returned and nothing is committed; see `job_keys`.
        job_is_new: The caller looked for the job in the lineage of the read version and did not find it:
            only later versions are asked.
        max_attempts: How often to try while other writers are faster; at least 1.
        committer: Decides races; the store itself when None.
        affected_rows: Row offsets that a Delete or Update deletes, by fragment id; read from its deletion
            files when they are needed and not given.
        storage_options: For opening a URI.
        data_storage_version: Version of data files to come, when an Overwrite brings none.
        stable_row_ids: Create the dataset with stable row ids.
        hooks: Checks of the caller.
        chain: How the commit follows others of the caller.
    """

    operation: Operation
    _: KW_ONLY
    read_version: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    job_key: str | None = None
    job_is_new: bool = False
    max_attempts: int = 20
    committer: Committer | None = None
    affected_rows: Mapping[int, DeletionVector] = field(default_factory=dict)
    storage_options: Mapping[str, str] | None = None
    data_storage_version: str | None = None
    stable_row_ids: bool = False
    hooks: CommitHooks = CommitHooks()
    chain: CommitChain = CommitChain()


def read_version_of(target: Dataset | Store, request: CommitRequest) -> Dataset | None:
    """Return the snapshot that an operation is based on; None when it creates the dataset.

    Raises:
        RetryableCommitConflictError: That version was removed.
        InvalidArgumentError: It is detached, and has no successors.
    """
    operation, version = request.operation, request.read_version
    if isinstance(target, Dataset):
        base = target
    elif version is None and isinstance(operation, Overwrite):
        return None
    else:
        base = Dataset.open(target, storage_options=request.storage_options)
    if version is not None and version != base.version:
        try:
            base = base.checkout_version(version)
        except VersionNotFoundError as error:
            raise RetryableCommitConflictError(
                f"the read version {version} was removed",
                ours=operation.name,
                theirs=f"version {version}: unknown",
                version=version,
                hint="plan the operation again from the newest version",
            ) from error
    if is_detached(base.version):
        raise InvalidArgumentError(
            "a detached version has no successors", path=base.uri, hint="commit to a version of the history"
        )
    return base
