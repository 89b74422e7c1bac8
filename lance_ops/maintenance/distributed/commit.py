"""Commit: an operation of any engine becomes the next version, after a check of its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Unpack, overload

from lance_ops.errors import (
    DatasetExistsError,
    DatasetNotFoundError,
    InvalidArgumentError,
    TaskFailedError,
    UnsupportedError,
    check_type,
    public,
)
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.distributed.check import (
    CheckedFiles,
    CheckTask,
    check_fragment,
    check_segments,
    check_tasks,
)
from lance_ops.maintenance.engine import Run
from lance_ops.maintenance.metadata.result import MetadataResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.target import Target, check_changeable, open_target
from lance_ops.maintenance.tasks import run_tasks
from lance_ops.maintenance.text import bytes_text, count_text
from lance_ops.maintenance.versions_made import commit as commit_operation
from lance_ops.storage import Store
from lance_ops.table.commit.detached import commit_detached
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.dataset import Dataset, snapshot_of
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.transaction.operations import CommittedOperation, Operation, Overwrite, Restore
from lance_ops.table.transaction.transaction import JOB_KEY, Transaction

MESSAGE_KEY = "__lance_commit_message"
"""Property of a transaction with the message of its author, as in pylance."""


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """Plan of a commit; prints as text.

    Attributes:
        uri: The dataset.
        version: Its read version; 0 if it creates the dataset.
        operation: The operation.
        files: Number of checked new files.
        bytes: Size of the data files among them, with blobs outside of them.
    """

    uri: str
    version: int
    operation: Operation
    files: int
    bytes: int

    def to_dict(self) -> dict[str, object]:
        """Return numbers and ids as JSON values."""
        return {
            "operation": "commit",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.version,
            "change": self.operation.describe(),
            "files": self.files,
            "bytes": self.bytes,
        }

    def __str__(self) -> str:
        files = f"{count_text(self.files, 'new file')}, {bytes_text(self.bytes)}"
        return f"commit on version {self.version} of {self.uri}: {self.operation.describe()} ({files})"


class CommitArguments(RunOptions, total=False):
    """Keyword arguments of `commit`, beside `RunOptions`; see there.

    Attributes:
        commit_message: Stored in the transaction.
        max_retries: Maximum retries after conflicts with other writers.
        data_storage_version: Storage version of later data files.
        enable_stable_row_ids: Create the dataset with them.
        detached: Commit a detached version.
    """

    commit_message: str | None
    max_retries: int
    data_storage_version: str | None
    enable_stable_row_ids: bool
    detached: bool


@overload
def commit(
    uri_or_dataset: Target,
    operation: Operation | Transaction,
    read_version: int | None = None,
    *,
    dry_run: Literal[False] = False,
    **arguments: Unpack[CommitArguments],
) -> MetadataResult: ...
@overload
def commit(
    uri_or_dataset: Target,
    operation: Operation | Transaction,
    read_version: int | None = None,
    *,
    dry_run: Literal[True],
    **arguments: Unpack[CommitArguments],
) -> CommitPlan: ...
@overload
def commit(
    uri_or_dataset: Target,
    operation: Operation | Transaction,
    read_version: int | None = None,
    *,
    dry_run: bool,
    **arguments: Unpack[CommitArguments],
) -> MetadataResult | CommitPlan: ...
@public(target="uri_or_dataset", base_uri="uri_or_dataset")
@cleans_up
def commit(
    uri_or_dataset: Target,
    operation: Operation | Transaction,
    read_version: int | None = None,
    *,
    commit_message: str | None = None,
    max_retries: int = 20,
    data_storage_version: str | None = None,
    enable_stable_row_ids: bool = False,
    detached: bool = False,
    dry_run: bool = False,
    **run: Unpack[RunOptions],
) -> MetadataResult | CommitPlan:
    """Commit the files of tasks of any engine as one version, such as `write_fragments` here or in pylance.

    The input is checked first: its files exist, have the stated version and number of rows, and contain the
    stated columns; the operation fits the version. Commits since the read version are either kept or
    conflict. After a failure the files are kept: another call may commit them.

    Args:
        uri_or_dataset: URI or path of the dataset; or a `Dataset`, the version that the operation was planned
            for.
        operation: One of `lance_ops.operations`, or a transaction, as `write_fragments` returns it.
        read_version: The version from which the operation was planned. Only an `Overwrite` and a `Restore`
            need none; an `Overwrite` creates the dataset if there is none.
        commit_message: Stored in the transaction.
        max_retries: Maximum retries after conflicts with other writers.
        data_storage_version: Storage version of later data files, for an `Overwrite` without files.
        enable_stable_row_ids: Create the dataset with stable row ids.
        detached: Commit a version outside of the history, which is never the newest one and conflicts with
            nothing; it has a random number, is opened by it (`dataset(uri, number)`), and is listed only by
            `Dataset.detached_versions`.
        dry_run: Check everything, and return the plan.
        **run: See `RunOptions`. The runner checks the files. There is no new plan after a conflict.

    Raises:
        InvalidArgumentError: A file differs from its description, the operation does not fit the version, or
            it requires a read version. Nothing changed.
        DatasetExistsError: The transaction was made for a new dataset, which exists by now.
        UnsupportedError: The operation is only supported in history.
        DatasetNotFoundError: There is no dataset, and the operation creates none.
        CommitConflictError: Another commit stands in the way.
        CommitOutcomeUnknownError: It is unknown whether the version is there. Delete nothing.

    Examples:
        >>> from lance_ops.operations import Append
        >>> fragments = lo.write_fragments(pa.table({"id": [10]}), "events.lance", fill_missing=True)
        >>> lo.commit("events.lance", Append(fragments), read_version=2).version
        3
    """
    notes: dict[str, str] = dict(run.get("properties") or {})
    creates = False
    if isinstance(operation, Transaction):
        creates = isinstance(operation.operation, Overwrite) and not (read_version or operation.read_version)
        notes = {**operation.properties, **notes}
        if read_version is None and operation.read_version:
            read_version = operation.read_version
        if run.get("job_key") is None and JOB_KEY in operation.properties:
            run["job_key"] = operation.properties[JOB_KEY]
        operation = operation.operation
    check_type(operation, Operation, "one of lance_ops.operations, or a transaction", field="operation")
    if not isinstance(operation, CommittedOperation):
        raise UnsupportedError(
            f"{operation.kind} is supported in history only, not for commits", field="operation"
        )
    if commit_message is not None:
        notes[MESSAGE_KEY] = commit_message
    if detached and run.get("job_key") is not None:
        raise InvalidArgumentError("a detached version is no proof that a job is done", field="job_key")
    store, base = _read_version(uri_or_dataset, operation, read_version, run.get("storage_options"))
    call = Run.on("commit", store, base, run, max_replans=0, is_newest=False)
    found = None if base is None else call.find_job(by_now=True)
    if found is not None:
        assert base is not None
        return MetadataResult(**found, operation="commit", dataset=base.latest())
    if creates and base is not None:
        raise DatasetExistsError(
            "the dataset exists by now; it did not when the transaction was made",
            path=store.uri,
            field="operation",
            hint="write the rows again with mode 'append', or pass read_version to replace the dataset",
        )
    checked = _check(call, operation)
    if dry_run:
        version = 0 if base is None else base.version
        return CommitPlan(store.uri, version, operation, checked.files, checked.size)
    call.report("committing", 0, 1)
    if detached:
        return _detached(call, operation, notes)
    done = commit_operation(
        store if base is None else base,
        CommitRequest(
            operation,
            properties=notes,
            job_key=call.commits.job_key,
            max_attempts=max_retries + 1,
            committer=call.commits.committer,
            storage_options=call.commits.storage_options,
            data_storage_version=data_storage_version,
            stable_row_ids=enable_stable_row_ids and base is None,
        ),
    )
    call.report("committed", 1, 1)
    common = call.common(
        done.version,
        attempts=0 if done.already_committed else done.attempts,
        conflicts=done.conflicts,
        rebased_over=done.conflicts,
        already_committed=done.already_committed,
    )
    change = done.transaction.operation.describe()
    return MetadataResult(**common, operation="commit", change=change, dataset=done.dataset)


def _detached(call: Run, operation: CommittedOperation, notes: Mapping[str, str]) -> MetadataResult:
    if call.head is None:
        raise DatasetNotFoundError("a detached version requires an existing dataset", path=call.store.uri)
    committer = call.commits.committer
    done = commit_detached(call.head, operation, properties=notes, committer=committer)
    common = call.common(done.version)
    return MetadataResult(**common, operation="commit", change=operation.describe(), dataset=done.dataset)


def _read_version(
    target: Target,
    operation: Operation,
    read_version: int | None,
    storage_options: Mapping[str, str] | None,
) -> tuple[Store, Dataset | None]:
    """Return the read version of an operation; None if it creates the dataset."""
    given = snapshot_of(target)
    if given is not None:
        store, base = given.store, given
    else:
        store, head = open_target(target, storage_options)
        if head is None:
            if isinstance(operation, Overwrite) and not read_version:
                return store, None
            raise DatasetNotFoundError("no dataset here; only an Overwrite creates one", path=store.uri)
        if read_version is None and not isinstance(operation, (Overwrite, Restore)):
            raise InvalidArgumentError(
                f"{operation.kind} requires its read_version",
                path=store.uri,
                field="read_version",
                hint=f"the newest version is {head.version}",
            )
        base = head
    if read_version is not None and read_version != base.version:
        base = base.checkout_version(read_version)
    check_changeable(base)
    return store, base


def _check(call: Run, operation: CommittedOperation) -> CheckedFiles:
    if call.head is None:
        bases = Bases(call.store, operation.initial_bases if isinstance(operation, Overwrite) else ())
        manifest = None
    else:
        bases, manifest = call.head.bases, call.head.manifest
        # By metadata alone, so that nothing is opened for invalid operations.
        operation.check(manifest)
    check_segments(operation, bases)
    tasks: Sequence[CheckTask] = check_tasks(operation, manifest, bases)
    if not tasks:
        return CheckedFiles()
    try:
        found = run_tasks(
            call.runner, check_fragment, tasks, report=call.report, message="checking new files"
        )
    except TaskFailedError as error:
        cause: BaseException | None = error
        while isinstance(cause, TaskFailedError):
            cause = cause.__cause__
        if isinstance(cause, InvalidArgumentError):
            raise cause from None
        raise
    return CheckedFiles(sum(item.files for item in found), sum(item.size for item in found))
