"""Column work: files of new columns for every fragment, kept over repeated plans.

Adding columns conflicts with rows that others add. Then it is planned again, with the computed files:
unchanged fragments need no recomputation, and deleted rows do no harm.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from lance_ops.errors import (
    CommitConflictError,
    JobCancelledError,
    LanceOpsError,
    TaskFailedError,
    UnsupportedError,
)
from lance_ops.file.schema.model import Schema
from lance_ops.maintenance.columns.compute import ComputeTask
from lance_ops.maintenance.columns.recorded import (
    ColumnFile,
    RecordedCompute,
    compute_file,
    compute_recorded,
    decode,
    rows_digest,
    task_digest,
)
from lance_ops.maintenance.columns.transform import ReaderValues, Transform
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.jobs.folder import PLAN, READER
from lance_ops.maintenance.jobs.lease import Driver
from lance_ops.maintenance.jobs.results import TaskName, lost_files, newest_results, put_intent, read_result
from lance_ops.maintenance.progress import ByteProgress
from lance_ops.maintenance.tasks import reading, remove_files, said_by_rows
from lance_ops.table.commit.request import CommitHooks, CommitRequest, CommitResult
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.deletion_vector import read_deletion_vector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.transaction.apply_mem_wal import mem_wal_details
from lance_ops.table.transaction.operations import DataReplacement, Merge, Operation, present_files

_MESSAGE = "computing columns"

Note: TypeAlias = Callable[[int, ColumnFile], None]


@dataclass(slots=True)
class ColumnWork:
    """One call that computes columns.

    Attributes:
        run: The call.
        transform: Source of the values.
        driver: Driver of the job, if it has records.
        resumed: Fragments with a file of an earlier run of the job.
    """

    run: Run
    transform: Transform
    driver: Driver | None = None
    resumed: int = 0
    _made: dict[str, ColumnFile] = field(default_factory=dict)
    _names: dict[str, TaskName] = field(default_factory=dict)
    _intents: int = 0

    def commit(
        self, attempt: Attempt, new: Schema, whole: Schema, *, preserves_nullability: bool
    ) -> tuple[CommitResult, int]:
        """Compute what is missing, and commit.

        Args:
            attempt: Attempt of the operation.
            new: The columns to compute, with ids from `first_free_id` on.
            whole: The new schema of the dataset.
            preserves_nullability: See `Merge`.

        Returns:
            The commit, and the size of the new files.
        """
        parts = attempt.dataset.fragments
        made = self._compute(attempt, new, parts)
        fragments = tuple(
            fragment.replace(files=(*fragment.files, item.file))
            for fragment, item in zip(parts, made, strict=True)
        )
        operation = Merge(fragments, whole, preserves_nullability=preserves_nullability)
        return self._commit(attempt, operation, new, parts), _size(made)

    def commit_replacement(
        self, attempt: Attempt, columns: Schema, fragment_ids: frozenset[int]
    ) -> tuple[CommitResult, int]:
        """Recompute existing columns for some fragments, and commit; see `commit`.

        Args:
            attempt: Attempt of the operation.
            columns: Columns of the dataset.
            fragment_ids: Ids of the fragments.
        """
        parts = tuple(part for part in attempt.dataset.fragments if part.id in fragment_ids)
        made = self._compute(attempt, columns, parts)
        swapped = tuple((part.id, item.file) for part, item in zip(parts, made, strict=True))
        return self._commit(attempt, DataReplacement(swapped), columns, parts), _size(made)

    def _commit(
        self, attempt: Attempt, operation: Operation, new: Schema, parts: Sequence[Fragment]
    ) -> CommitResult:
        if self.driver is None:
            done = attempt.commit(CommitRequest(operation))
        else:
            self._intents += 1
            digests = [task_digest(self._task(attempt.dataset, fragment, new)) for fragment in parts]
            names = [self._names[digest] for digest in digests]
            put_intent(self.driver.job, self.driver.id, self._intents, attempt.dataset.version, names)
            done = attempt.commit(
                CommitRequest(operation, hooks=CommitHooks(guard=self.driver.job.check_open))
            )
        self._discard_unused(done)
        return done

    def discard(self) -> None:
        """Remove the written files, if they are known to be uncommitted."""
        if self.driver is None:
            remove_files(self.run.store, [item.path for item in self._made.values()])

    @property
    def committed(self) -> Mapping[TaskName, Iterable[str]]:
        """Return files of results by name, once they are committed."""
        return {self._names[digest]: (item.path,) for digest, item in self._made.items()}

    def _discard_unused(self, done: CommitResult) -> None:
        if self.driver is None:
            present = present_files(done.dataset.manifest)
            remove_files(
                self.run.store, [item.path for item in self._made.values() if item.path not in present]
            )

    def _task(self, dataset: Dataset, fragment: Fragment, new: Schema) -> ComputeTask:
        key = self.run.commits.job_key if self.driver is None else self.driver.job.names
        version = dataset.data_storage_version
        return ComputeTask(dataset.narrowed([fragment]), new, self.transform, version, key)

    def _compute(self, attempt: Attempt, new: Schema, parts: Sequence[Fragment]) -> list[ColumnFile]:
        dataset = attempt.dataset
        if isinstance(self.transform, ReaderValues) and not self.transform.taken:
            self._check_rows(dataset, parts)
        tasks = [self._task(dataset, fragment, new) for fragment in parts]
        digests = [task_digest(task) for task in tasks]
        self._take_over(attempt, tasks, digests)
        places = []
        for place, task in enumerate(tasks):
            known = self._made.get(digests[place])
            if known is None:
                places.append(place)
            elif not _covers(dataset, task.fragment, known):
                places.append(place)
                self._forget(digests[place])
        sizes = [task.fragment.data_bytes for task in tasks]
        progress = ByteProgress(self.run.report, _MESSAGE, len(tasks), sum(sizes))
        missing = set(places)
        progress.start(len(tasks) - len(places), sum(sizes[p] for p in range(len(tasks)) if p not in missing))

        def note(number: int, made: ColumnFile) -> None:
            place = places[number]
            self._made[digests[place]] = made
            progress.add(sizes[place])
            if self.driver is not None:
                self.driver.check()

        try:
            with reading(dataset, "new columns"), said_by_rows():
                if isinstance(self.transform, ReaderValues):
                    self._read_in_turn(tasks, digests, note)
                else:
                    self._run([tasks[place] for place in places], [digests[place] for place in places], note)
        except BaseException as error:
            if not isinstance(error, Exception):
                # An interrupt: nothing is committed yet.
                self.discard()
            raise
        return [self._made[digest] for digest in digests]

    def _check_rows(self, dataset: Dataset, parts: Sequence[Fragment]) -> None:
        """Check that a reader, which is read from its start, meets the rows of the job's first run.

        It may be the reader of that time or one for the present rows: this is unknown, so neither is
        accepted.
        """
        if self.driver is None or self.driver.job.put(READER, READER, {"rows": rows_digest(parts)}):
            return
        raise CommitConflictError(
            "the job was started on other rows than the present ones",
            ours="new columns from a reader, resumed",
            theirs="commits of other writers since the job was started",
            version=dataset.version,
            path=dataset.uri,
            hint="cancel the job (cancel_job), and pass a reader with a row for each present live row",
        )

    def _read_in_turn(self, tasks: Sequence[ComputeTask], digests: Sequence[str], note: Note) -> None:
        """Compute one fragment after the other, in the order of the reader's rows."""
        transform = self.transform
        assert isinstance(transform, ReaderValues)
        missing = [place for place, digest in enumerate(digests) if digest not in self._made]
        if transform.taken:
            if missing:
                raise CommitConflictError(
                    "rows were added or moved meanwhile, and the reader has already been read",
                    ours="new columns from a reader",
                    theirs="commits of other writers since the start",
                    version=self.run.dataset.version,
                    path=self.run.store.uri,
                    hint="pass the reader again, with rows for all of them",
                )
            return
        for place, (task, digest) in enumerate(zip(tasks, digests, strict=True)):
            if digest in self._made:
                transform.skip(task.fragment.num_rows)
            else:
                made = (
                    compute_file(task)
                    if self.driver is None
                    else compute_recorded(self._recorded(task, digest))
                )
                note(missing.index(place), made)
        transform.check_ended()

    def _run(self, tasks: Sequence[ComputeTask], digests: Sequence[str], note: Note) -> None:
        runner = self.run.runner
        try:
            if self.driver is None:
                runner.map(compute_file, tasks, on_done=note)
            else:
                recorded = list(map(self._recorded, tasks, digests))
                runner.map(compute_recorded, recorded, on_done=note)
        except TaskFailedError as error:
            # Not the failure of one task: the dataset changed, or the whole job ended.
            if isinstance(error.__cause__, UnsupportedError | JobCancelledError):
                raise error.__cause__ from None
            raise

    def _recorded(self, task: ComputeTask, digest: str) -> RecordedCompute:
        assert self.driver is not None
        return RecordedCompute(task, self.driver.job, self._names[digest])

    def _forget(self, digest: str) -> None:
        """Recompute a result: rows were restored that it did not include."""
        made = self._made.pop(digest)
        if self.driver is None:
            remove_files(self.run.store, [made.path])
        else:
            self._names[digest] = self._names[digest].next

    def _take_over(self, attempt: Attempt, tasks: Sequence[ComputeTask], digests: Sequence[str]) -> None:
        """Use results of earlier or concurrent runs."""
        if self.driver is None:
            return
        job = self.driver.job
        newest = newest_results(job.list())
        for digest in digests:
            if digest in self._made:
                continue
            name = newest.get(digest)
            record = None if name is None else read_result(job, name)
            if record is not None and not lost_files(job, [record]):
                self._made[digest] = decode(record)
                self.resumed += 1
            elif name is not None:
                # Truncated, or its file was removed by a tool without support for jobs.
                name = name.next
            self._names[digest] = name or TaskName(digest)
        groups = [
            {"fragments": [task.fragment.id], "task": digest, "bytes": task.fragment.data_bytes}
            for task, digest in zip(tasks, digests, strict=True)
        ]
        version = attempt.dataset.version
        job.put(f"{PLAN}-columns-{version}", PLAN, {"version": version, "groups": groups})


def _size(made: Iterable[ColumnFile]) -> int:
    return sum(item.file.stored_bytes for item in made)


def _covers(dataset: Dataset, fragment: Fragment, made: ColumnFile) -> bool:
    """Return whether every live row of a fragment was live when its columns were computed."""
    if made.deletions in (None, fragment.deletion_file):
        return True
    if fragment.deletion_file is None:
        return False
    try:
        before = read_deletion_vector(dataset.bases, fragment.replace(deletion_file=made.deletions))
        now = dataset.deletion_vector(fragment)
    except LanceOpsError:
        return False
    return before is None or (now is not None and len(now.union(before)) == len(now))


FILL_LATER = "add a column of nulls, let the writers write it, and update the rows of the table"


def refuse_mem_wal(dataset: Dataset, what: str, hint: str) -> None:
    """Refuse an operation that gives values to a new field of a table with MemWAL, as pylance does.

    Rows of log writers would have nulls there, and would replace the values when they are folded.

    Raises:
        UnsupportedError: The table has MemWAL.
    """
    if mem_wal_details(dataset.manifest.indices) is not None:
        raise UnsupportedError(
            f"{what} in a table with MemWAL: rows that are not in the table would have nulls there",
            path=dataset.uri,
            hint=hint,
        )
