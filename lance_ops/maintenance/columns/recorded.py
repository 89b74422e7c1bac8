"""Column jobs: what the tasks of new columns have written, as records from which another run goes on."""

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
        deletions: The deletion file that the fragment had: rows that are deleted in it were not computed.
    """

    file: DataFile
    deletions: DeletionFile | None

    @property
    def path(self) -> str:
        """Of the file, relative to the root of the dataset."""
        return f"data/{self.file.path}"


@dataclass(frozen=True, slots=True)
class RecordedCompute:
    """A task whose result is to be a record; travels to executors.

    Attributes:
        task: What to compute.
        job: Whose records these are.
        name: Of the result.
    """

    task: ComputeTask
    job: JobFolder
    name: TaskName


def compute_file(task: ComputeTask) -> ColumnFile:
    """Compute the columns of a fragment; see `compute_columns`."""
    return ColumnFile(compute_columns(task), task.fragment.deletion_file)


def compute_recorded(recorded: RecordedCompute) -> ColumnFile:
    """Compute the columns of a fragment, unless another attempt has done so, and write down what came of it.

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
    """A result as a record."""
    deletions = None if made.deletions is None else _text(made.deletions.to_proto().SerializeToString())
    values = {"file": _text(made.file.to_proto().SerializeToString()), "deletions": deletions}
    return TaskRecord(name, {made.path: made.file.size_bytes}, values)


def decode(record: TaskRecord) -> ColumnFile:
    """The result that a record tells of."""
    file = table_pb2.DataFile.FromString(base64.b64decode(record.values["file"]))
    kept = record.values["deletions"]
    deletions = None
    if kept is not None:
        deletions = DeletionFile.from_proto(table_pb2.DeletionFile.FromString(base64.b64decode(kept)))
    return ColumnFile(DataFile.from_proto(file), deletions)


def task_digest(task: ComputeTask) -> str:
    """Digest of all that decides what a task writes, up to names of files and to deleted rows."""
    digest = blake2b(task.transform.name.encode(), digest_size=12)
    rows = fragment_key(task.fragment)
    for part in (task.storage_version.encode(), repr(task.schema).encode(), rows):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def fragment_key(fragment: Fragment) -> bytes:
    """Tells the rows and values of a fragment, whichever of the rows are deleted."""
    return fragment.replace(deletion_file=None, last_updated_at_versions=None).to_bytes()


def rows_digest(fragments: Iterable[Fragment]) -> str:
    """Digest of the live rows of fragments, in their order: beside these, a reader puts its values."""
    digest = blake2b(digest_size=16)
    for fragment in fragments:
        part = fragment.replace(last_updated_at_versions=None).to_bytes()
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
