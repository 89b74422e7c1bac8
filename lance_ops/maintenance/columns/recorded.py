"""Column jobs: results of tasks as records, from which another run continues."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from lance_ops.maintenance.columns.compute import ComputeTask, compute_columns
from lance_ops.maintenance.jobs.folder import JobFolder
from lance_ops.maintenance.jobs.recorded import do_recorded
from lance_ops.maintenance.jobs.results import TaskName, TaskRecord
from lance_ops.maintenance.tasks import remove_files
from lance_ops.pb import table_pb2
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import DeletionFile, Fragment


@dataclass(frozen=True, slots=True)
class ColumnFile:
    """The new columns of a fragment.

    Attributes:
        file: The data file that holds them.
        deletions: The deletion file of the fragment at that time: rows deleted in it were not computed.
    """

    file: DataFile
    deletions: DeletionFile | None

    @property
    def path(self) -> str:
        """Path of the file, relative to the root of the dataset."""
        return f"data/{self.file.path}"


@dataclass(frozen=True, slots=True)
class RecordedCompute:
    """A task that records its result; serializable for executors.

    Attributes:
        task: The computation.
        job: The job of the records.
        name: Name of the result.
    """

    task: ComputeTask
    job: JobFolder
    name: TaskName


def compute_file(task: ComputeTask) -> ColumnFile:
    """Compute the columns of a fragment; see `compute_columns`."""
    return ColumnFile(compute_columns(task), task.fragment.deletion_file)


def compute_recorded(recorded: RecordedCompute) -> ColumnFile:
    """Compute the columns of a fragment, unless another attempt has done so, and record the result.

    Raises:
        JobCancelledError: The job has ended; nothing of this attempt is left.
        LanceOpsError: As `compute_columns`.
    """
    job = recorded.job
    return do_recorded(
        job,
        recorded.name,
        lambda: compute_file(recorded.task),
        encode=lambda made: encode(recorded.name, made),
        decode=decode,
        discard=lambda made: remove_files(job.store, [made.path]),
    )


def encode(name: TaskName, made: ColumnFile) -> TaskRecord:
    """Convert a result to a record."""
    deletions = None if made.deletions is None else _text(made.deletions.to_proto().SerializeToString())
    values = {"file": _text(made.file.to_proto().SerializeToString()), "deletions": deletions}
    return TaskRecord(name, {made.path: made.file.size_bytes}, values)


def decode(record: TaskRecord) -> ColumnFile:
    """Read a result from a record."""
    file = table_pb2.DataFile.FromString(base64.b64decode(record.values["file"]))
    kept = record.values["deletions"]
    deletions = None
    if kept is not None:
        deletions = DeletionFile.from_proto(table_pb2.DeletionFile.FromString(base64.b64decode(kept)))
    return ColumnFile(DataFile.from_proto(file), deletions)


def task_digest(task: ComputeTask) -> str:
    """Return a digest of all that determines a task's result, except file names and deleted rows."""
    digest = blake2b(task.transform.name.encode(), digest_size=12)
    rows = fragment_key(task.fragment)
    for part in (task.storage_version.encode(), repr(task.schema).encode(), rows):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def fragment_key(fragment: Fragment) -> bytes:
    """Return a key of the rows and values of a fragment, independent of deleted rows."""
    return fragment.replace(deletion_file=None, last_updated_at_versions=None).to_bytes()


def rows_digest(fragments: Iterable[Fragment]) -> str:
    """Return a digest of the live rows of fragments, in order: a reader has its values in this order."""
    digest = blake2b(digest_size=16)
    for fragment in fragments:
        part = fragment.replace(last_updated_at_versions=None).to_bytes()
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
