"""Compaction with a job key: plan and results of tasks as records of the job."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any

from lance_ops.maintenance.compact.groups import CompactionGroup, make_group
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.plan import valid_groups
from lance_ops.maintenance.compact.rewrite import (
    RewriteResult,
    RewriteTask,
    decode_notes,
    discard_rewrites,
    encode_notes,
    rewrite_group,
)
from lance_ops.maintenance.jobs.folder import PLAN, JobFolder
from lance_ops.maintenance.jobs.recorded import do_recorded
from lance_ops.maintenance.jobs.results import TaskName, TaskRecord, newest_results, read_result
from lance_ops.table.commit.concurrent_commits import emptied_fragments
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import by_id
from lance_ops.table.transaction.operations import present_files

# They control when to commit, not what.
_NOT_OF_THE_WORK = frozenset({"commit_every", "commit_every_seconds"})


@dataclass(frozen=True, slots=True)
class RecordedTask:
    """A group to rewrite with a recorded result; serializable for executors.

    Attributes:
        task: The group.
        job: The job of the records.
        name: Name of the result.
    """

    task: RewriteTask
    job: JobFolder
    name: TaskName


def rewrite_recorded(recorded: RecordedTask) -> RewriteResult:
    """Rewrite a group, unless another attempt has done so, and record the result.

    Raises:
        JobCancelledError: The job has ended; files of this attempt are removed.
        LanceOpsError: As `rewrite_group`.
    """
    job, task = recorded.job, recorded.task
    return do_recorded(
        job,
        recorded.name,
        lambda: rewrite_group(task),
        encode=lambda result: encode_result(recorded.name, result),
        decode=lambda record: decode_result(record, task.group),
        discard=lambda result: discard_rewrites(job.store, [result]),
    )


def encode_result(name: TaskName, result: RewriteResult) -> TaskRecord:
    """Convert a result to a record, without deletion vectors, which can be read again."""
    files = {
        f"data/{file.path}": file.size_bytes for fragment in result.new_fragments for file in fragment.files
    }
    values = {
        "fragments": [base64.b64encode(item.to_bytes()).decode() for item in result.new_fragments],
        "purged": result.purged_rows,
        "copied": result.copied,
        "doubt": result.doubt,
        "seconds": result.seconds,
        "noted": encode_notes(result.noted),
        "sources": len(result.group.fragments),
        "rows": result.group.live_rows,
        "bytes": result.group.data_bytes,
        "side_bytes": {
            file.path: file.side_bytes
            for fragment in result.new_fragments
            for file in fragment.files
            if file.side_bytes
        },
    }
    return TaskRecord(name, files, values)


def decode_result(record: TaskRecord, group: CompactionGroup) -> RewriteResult:
    """Read a result from a record."""
    values = record.values
    fragments = (Fragment.from_bytes(base64.b64decode(item)) for item in values["fragments"])
    # Records of earlier releases have none.
    beside: dict[tuple[int | None, str], int] = {
        (None, path): size for path, size in values.get("side_bytes", {}).items()
    }
    return RewriteResult(
        group,
        tuple(fragment.with_side_bytes(beside) for fragment in fragments),
        purged_rows=values["purged"],
        copied=values["copied"],
        doubt=values["doubt"],
        seconds=values.get("seconds", 0.0),
        noted=decode_notes(values.get("noted", ())),
    )


def task_name(task: RewriteTask, options: CompactionOptions) -> str:
    """Return a digest of all that determines a task's result, except file names."""
    digest = blake2b(options_digest(options).encode(), digest_size=12)
    schema = task.snapshot.lance_schema
    for part in (task.storage_version, str(task.max_bytes_per_file), str(task.spill_limit), repr(schema)):
        digest.update(part.encode() + b"\0")
    for fragment in task.group.fragments:
        data = fragment.to_bytes()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def options_values(options: CompactionOptions) -> dict[str, Any]:
    """Return options as JSON values."""
    values = {item.name: getattr(options, item.name) for item in fields(options)}
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in values.items()}


def options_of(values: Mapping[str, Any]) -> CompactionOptions:
    """Read options from JSON values."""
    known = {item.name for item in fields(CompactionOptions)} | {"budget_money"}
    # Jobs of releases that had no strategies go on by the rule that they began with.
    given = {"strategy": "rows", **values}
    return CompactionOptions(**{name: value for name, value in given.items() if name in known})


def options_digest(options: CompactionOptions) -> str:
    """Return a digest of the options that determine the result."""
    values = {name: value for name, value in options_values(options).items() if name not in _NOT_OF_THE_WORK}
    # Plans of earlier releases are found by this digest, which includes a removed option.
    values["budget_money"] = None
    if values["strategy"] == "rows":
        # Earlier releases had no other one.
        del values["strategy"]
    return blake2b(json.dumps(values, sort_keys=True, default=str).encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    """A recorded plan.

    Attributes:
        version: Version of the plan.
        fragments: Ids of the fragments of each group.
        tasks: The digest of each group, see `task_name`.
        sizes: Bytes that each group reads.
    """

    version: int
    fragments: tuple[tuple[int, ...], ...]
    tasks: tuple[str, ...]
    sizes: tuple[int, ...]


def _plan_name(digest: str, number: int) -> str:
    return f"{PLAN}-{digest}-{number}"


def put_plan(job: JobFolder, number: int, digest: str, plan: RecordedPlan) -> bool:
    """Record a plan; returns False if another one was recorded before."""
    groups = [
        {"fragments": list(ids), "task": task, "bytes": size}
        for ids, task, size in zip(plan.fragments, plan.tasks, plan.sizes, strict=True)
    ]
    return job.put(_plan_name(digest, number), PLAN, {"version": plan.version, "groups": groups})


def read_plan(job: JobFolder, number: int, digest: str) -> RecordedPlan | None:
    """Return the plan of a round; None without one."""
    values = job.read(_plan_name(digest, number), PLAN)
    if values is None:
        return None
    groups = values["groups"]
    return RecordedPlan(
        int(values["version"]),
        tuple(tuple(group["fragments"]) for group in groups),
        tuple(group["task"] for group in groups),
        tuple(group["bytes"] for group in groups),
    )


def last_plan(records: Sequence[str], digest: str) -> int:
    """Return the number of the newest plan; 0 without one."""
    lead = f"{PLAN}-{digest}-"
    return max((int(name.removeprefix(lead)) for name in records if name.startswith(lead)), default=0)


def planned_groups(
    plan: RecordedPlan, base: Dataset, head: Dataset, options: CompactionOptions
) -> list[CompactionGroup | None]:
    """Return the groups of a plan as in a version; None for those that cannot be committed any more."""
    current = by_id(base.fragments)
    groups: list[CompactionGroup | None] = []
    for ids in plan.fragments:
        found = tuple(current[number] for number in ids if number in current)
        groups.append(make_group(base, found, options) if len(found) == len(ids) else None)
    present = [group for group in groups if group is not None]
    emptied = frozenset[int]() if base is head else emptied_fragments(base, head)
    valid = {group.fragment_ids for group in valid_groups(base, head, present, options, emptied)}
    return [group if group is not None and group.fragment_ids in valid else None for group in groups]


@dataclass(frozen=True, slots=True)
class DoneWork:
    """Recorded results.

    Attributes:
        open: Uncommitted ones, by task.
        committed: Those whose files the newest version uses.
        names: Name of the newest result of each task, even if unreadable.
    """

    open: Mapping[str, TaskRecord] = field(default_factory=dict)
    committed: tuple[TaskRecord, ...] = ()
    names: Mapping[str, TaskName] = field(default_factory=dict)

    @classmethod
    def read(cls, job: JobFolder, records: Sequence[str], head: Dataset) -> "DoneWork":
        """Read all results, concurrently with the version on which to commit them."""
        present = present_files(head.manifest)
        newest = newest_results(records)
        found = {name: read_result(job, name) for name in newest.values()}
        done = [record for record in found.values() if record is not None]
        committed = [record for record in done if record.files and present.issuperset(record.files)]
        names = {record.name for record in committed}
        left = {record.name.task: record for record in done if record.name not in names}
        # A truncated one blocks another one with its name.
        following = {name.task: name.next for name, record in found.items() if record is None}
        return cls(left, tuple(committed), newest | following)
