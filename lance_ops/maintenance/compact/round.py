"""Round of a compaction: the groups of one planning with their tasks, and how far each of them is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lance_ops.errors import RetryableCommitConflictError
from lance_ops.maintenance.compact.groups import CompactionGroup, output_version
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.passing import watches_of
from lance_ops.maintenance.compact.plan import routes_of
from lance_ops.maintenance.compact.rewrite import RewriteResult, RewriteTask
from lance_ops.maintenance.jobs.results import TaskName
from lance_ops.maintenance.text import ids_text
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE
from lance_ops.table.dataset import Dataset
from lance_ops.table.row_lineage.read import spill_limit


def rewrite_tasks(
    dataset: Dataset,
    groups: Sequence[CompactionGroup],
    options: CompactionOptions,
    job_key: str | None = None,
) -> list[RewriteTask]:
    """The tasks of groups planned from a version; their files are named for the key, if there is one."""
    watches = watches_of(dataset, routes_of(dataset, options), groups) if groups else []
    return [
        RewriteTask(
            snapshot=dataset.narrowed(group.fragments),
            storage_version=output_version(dataset, options),
            group=group,
            batch_rows=options.batch_rows,
            max_bytes_per_file=options.max_bytes_per_file or MAX_BYTES_PER_FILE,
            spill_limit=spill_limit(dataset.config),
            job_key=job_key,
            watches=watched,
        )
        for group, watched in zip(groups, watches, strict=True)
    ]


@dataclass(slots=True)
class Round:
    """The groups of one planning, and how far each of them is.

    Attributes:
        planned: The version that they were planned from.
        tasks: A task for each.
        names: Of their results, under a job.
        outdated: Others were planned, too, and changed since then: another planning follows.
        results: Of those that are done and not committed, by their places.
        settled: Places of those that are committed, failed or lost.
        failures: Errors of those that failed, by their places.
        lost: The last conflict that cost some of them.
    """

    planned: Dataset
    tasks: list[RewriteTask]
    names: list[TaskName]
    outdated: bool
    results: dict[int, RewriteResult] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    failures: dict[int, Exception] = field(default_factory=dict)
    lost: RetryableCommitConflictError | None = None

    def ready(self) -> list[int]:
        """Places of the first groups that can be committed in the order of the plan."""
        places = []
        for place in range(len(self.tasks)):
            if place in self.results:
                places.append(place)
            elif place not in self.settled:
                break
        return places

    def undone(self) -> list[int]:
        """Places of the groups that are still to be rewritten."""
        return [
            place
            for place in range(len(self.tasks))
            if place not in self.results and place not in self.settled
        ]

    def is_last(self, places: Sequence[int]) -> bool:
        """Whether nothing is left to do, now or later, when these are committed."""
        is_all = len(self.settled.union(places)) == len(self.tasks)
        return is_all and not (self.failures or self.outdated) and self.lost is None

    @property
    def bytes_total(self) -> int:
        """Size of what the groups read."""
        return sum(task.group.data_bytes for task in self.tasks)

    def bytes_of(self, places: Iterable[int]) -> int:
        """Size of what some of them read."""
        return sum(self.tasks[place].group.data_bytes for place in places)


def overtaken(planned: Dataset, head: Dataset, group: CompactionGroup) -> RetryableCommitConflictError:
    """The conflict of a group that others changed between two versions."""
    return RetryableCommitConflictError(
        "other writers changed fragments while they were rewritten",
        ours=f"Rewrite of fragments {ids_text(group.fragment_ids)} (read version {planned.version})",
        theirs=f"commits after version {planned.version}",
        version=head.version,
        path=head.uri,
    )
