"""Round of a compaction: the groups of one plan with their tasks and states."""

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
    """Return the tasks of groups planned from a version; their files are named by the job key, if any."""
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
    """The groups of one plan, and their states.

    Attributes:
        planned: The version of the plan.
        tasks: A task for each.
        names: Names of their results, with a job.
        outdated: Others were planned, too, and changed since: another round follows.
        results: Uncommitted results, by position.
        settled: Positions of those that are committed, failed or in conflict.
        failures: Errors of failed ones, by position.
        lost: The last conflict.
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
        """Positions of the first groups that can be committed in the order of the plan."""
        places = []
        for place in range(len(self.tasks)):
            if place in self.results:
                places.append(place)
            elif place not in self.settled:
                break
        return places

    def undone(self) -> list[int]:
        """Positions of the groups still to be rewritten."""
        return [
            place
            for place in range(len(self.tasks))
            if place not in self.results and place not in self.settled
        ]

    def is_last(self, places: Sequence[int]) -> bool:
        """Return whether nothing is left to do after committing these."""
        is_all = len(self.settled.union(places)) == len(self.tasks)
        return is_all and not (self.failures or self.outdated) and self.lost is None

    @property
    def bytes_total(self) -> int:
        """Bytes read by the groups."""
        return sum(task.group.data_bytes for task in self.tasks)

    def bytes_of(self, places: Iterable[int]) -> int:
        """Return the bytes read by some of them."""
        return sum(self.tasks[place].group.data_bytes for place in places)


def overtaken(planned: Dataset, head: Dataset, group: CompactionGroup) -> RetryableCommitConflictError:
    """Return the conflict of a group whose fragments others changed between two versions."""
    return RetryableCommitConflictError(
        "other writers changed fragments while they were rewritten",
        ours=f"Rewrite of fragments {ids_text(group.fragment_ids)} (read version {planned.version})",
        theirs=f"commits after version {planned.version}",
        version=head.version,
        path=head.uri,
    )
