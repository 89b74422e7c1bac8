"""Results of a job's tasks: written by the task itself; the first one counts, and a lost one is replaced.

A result is named by a digest of its input, and by the number of earlier losses: another library's cleanup may
remove unused files, and then the task runs again and writes the next result.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lance_ops.maintenance.jobs.folder import COMMIT, DONE, JobFolder

_NAME = re.compile(rf"{DONE}-([0-9a-f]+)\.([0-9]+)")


@dataclass(frozen=True, slots=True)
class TaskName:
    """Name of a result.

    Attributes:
        task: Digest of the input of the task.
        lost: Number of its earlier lost results.
    """

    task: str
    lost: int = 0

    @property
    def record(self) -> str:
        """Name of the record."""
        return f"{DONE}-{self.task}.{self.lost}"

    @property
    def next(self) -> "TaskName":
        """The name of the next result after this one is lost."""
        return TaskName(self.task, self.lost + 1)


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A recorded result of a task.

    Attributes:
        name: Its name.
        files: Sizes of its files, by path.
        values: Other values, for the operation.
    """

    name: TaskName
    files: Mapping[str, int]
    values: Mapping[str, Any]


def parse_name(record: str) -> TaskName | None:
    """Parse the name of a result; None for another record."""
    match = _NAME.fullmatch(record)
    return None if match is None else TaskName(match[1], int(match[2]))


def newest_results(records: Iterable[str]) -> dict[str, TaskName]:
    """Return the last result of each task, by task."""
    found: dict[str, TaskName] = {}
    for name in filter(None, map(parse_name, records)):
        if name.task not in found or found[name.task].lost < name.lost:
            found[name.task] = name
    return found


def put_result(job: JobFolder, record: TaskRecord) -> bool:
    """Write a result; returns False if another one was written before."""
    return job.put(record.name.record, DONE, {"files": dict(record.files), "values": dict(record.values)})


def read_result(job: JobFolder, name: TaskName) -> TaskRecord | None:
    """Read a result; None if missing or truncated."""
    values = job.read(name.record, DONE)
    if values is None:
        return None
    return TaskRecord(name, values["files"], values["values"])


def put_intent(job: JobFolder, driver: str, number: int, version: int, results: Collection[TaskName]) -> str:
    """Record which results are about to be committed.

    Args:
        job: The job.
        driver: The committing driver.
        number: Number of the commit, from 1.
        version: Read version of the commit.
        results: The results.

    Returns:
        The name of the record, which is removed when the commit is known to have failed.
    """
    name = f"{COMMIT}-{driver}-{number}"
    job.put(name, COMMIT, {"version": version, "results": sorted(result.record for result in results)})
    return name


@dataclass(frozen=True, slots=True)
class Intents:
    """Results that may have been committed.

    Attributes:
        results: Names of records.
        version: The lowest read version of these commits.
        unknown: A record is unreadable.
    """

    results: frozenset[str]
    version: int
    unknown: bool


def read_intents(job: JobFolder, records: Iterable[str]) -> Intents:
    """Read the records of drivers before their commits."""
    results: set[str] = set()
    versions: list[int] = []
    unknown = False
    for record in records:
        if record.startswith(f"{COMMIT}-"):
            values = job.read(record, COMMIT)
            if values is None:
                unknown = True
                continue
            results.update(values["results"])
            versions.append(int(values["version"]))
    return Intents(frozenset(results), min(versions, default=0), unknown)


def lost_files(job: JobFolder, records: Iterable[TaskRecord]) -> set[str]:
    """Return missing or changed files of results: another library's cleanup removed them."""
    wanted = {path: size for record in records for path, size in record.files.items()}
    if not wanted:
        return set()
    there = {info.path: info.size for info in job.files()}
    return {path for path, size in wanted.items() if there.get(path) != size}
