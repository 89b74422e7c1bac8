"""Results of a job's tasks: written by the task itself, the first one counts, and a lost one is replaced.

A result is named for what went into it, and for how often it was lost: another library's cleanup may remove
files that no version uses yet, and then the task is done again and writes the next result.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lance_ops.maintenance.jobs.folder import COMMIT, DONE, JobFolder

_NAME = re.compile(rf"{DONE}-([0-9a-f]+)\.([0-9]+)")


@dataclass(frozen=True, slots=True)
class TaskName:
    """Which result of which task.

    Attributes:
        task: Digest of what goes into the task.
        lost: How many results of it were lost before.
    """

    task: str
    lost: int = 0

    @property
    def record(self) -> str:
        """Name of the record."""
        return f"{DONE}-{self.task}.{self.lost}"

    @property
    def next(self) -> "TaskName":
        """The result after this one is lost."""
        return TaskName(self.task, self.lost + 1)


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A result that a task wrote.

    Attributes:
        name: Which one.
        files: Sizes of the files that it brought, by their paths.
        values: The rest, for the operation.
    """

    name: TaskName
    files: Mapping[str, int]
    values: Mapping[str, Any]


def parse_name(record: str) -> TaskName | None:
    """The name of a result; None for another record."""
    match = _NAME.fullmatch(record)
    return None if match is None else TaskName(match[1], int(match[2]))


def newest_results(records: Iterable[str]) -> dict[str, TaskName]:
    """The last result of each task, by the task."""
    found: dict[str, TaskName] = {}
    for name in filter(None, map(parse_name, records)):
        if name.task not in found or found[name.task].lost < name.lost:
            found[name.task] = name
    return found


def put_result(job: JobFolder, record: TaskRecord) -> bool:
    """Write a result; whether it counts, and not one that was there before."""
    return job.put(record.name.record, DONE, {"files": dict(record.files), "values": dict(record.values)})


def read_result(job: JobFolder, name: TaskName) -> TaskRecord | None:
    """Read a result; None when there is none, or it was torn."""
    values = job.read(name.record, DONE)
    if values is None:
        return None
    return TaskRecord(name, values["files"], values["values"])


def put_intent(job: JobFolder, driver: str, number: int, version: int, results: Collection[TaskName]) -> str:
    """Say which results are about to be committed.

    Args:
        job: The job.
        driver: Who is about to.
        number: Of the commit, from 1.
        version: That they are committed on.
        results: What is committed.

    Returns:
        The name of the record, which goes when it is certain that nothing was committed.
    """
    name = f"{COMMIT}-{driver}-{number}"
    job.put(name, COMMIT, {"version": version, "results": sorted(result.record for result in results)})
    return name


@dataclass(frozen=True, slots=True)
class Intents:
    """What was about to be committed, and may have been.

    Attributes:
        results: Names of records.
        version: The lowest version that any of it was to be committed on.
        unknown: One of them cannot be read.
    """

    results: frozenset[str]
    version: int
    unknown: bool


def read_intents(job: JobFolder, records: Iterable[str]) -> Intents:
    """Read what drivers said before they committed."""
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
    """Files of results that are gone, or of another size: another library's cleanup removed them."""
    wanted = {path: size for record in records for path, size in record.files.items()}
    if not wanted:
        return set()
    there = {info.path: info.size for info in job.files()}
    return {path for path, size in wanted.items() if there.get(path) != size}
