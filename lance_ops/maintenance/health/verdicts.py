"""Verdicts on maintenance: not needed, due, or due without effect (blocked).

Thresholds alone would repeat operations without effect: an index that cannot be remapped blocks its
fragments, an unsupported kind of index is never refreshed, versions are too young for removal. So if a
threshold is passed the operation is planned, which reads metadata only, and an empty plan has the reason.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from lance_ops.errors import InconsistentStoreError, LanceOpsError, NotFoundError, StorageError
from lance_ops.index.coverage import coverage
from lance_ops.maintenance.cleanup.line import Line, age_text
from lance_ops.maintenance.column_files.plan import ColumnFilesPlan, plan_column_files
from lance_ops.maintenance.compact.options import CompactionOptions, resolve_options
from lance_ops.maintenance.compact.plan import CompactionPlan, plan_compaction
from lance_ops.maintenance.health.measure import DatasetHealth, compaction_options, measure_health
from lance_ops.maintenance.health.policy import MaintenancePolicy, Verdict, judge_health
from lance_ops.maintenance.index.refresh_plan import plan_optimize_indices
from lance_ops.maintenance.text import count_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.summary import read_summary
from lance_ops.table.manifest.listing import list_versions


def judge_dataset(
    dataset: Dataset,
    policy: MaintenancePolicy,
    health: DatasetHealth | None = None,
    *,
    plan: Callable[[], CompactionPlan] | None = None,
) -> tuple[Verdict, ...]:
    """Return verdicts on compaction, index refresh and cleanup, in this order.

    Args:
        dataset: The newest version.
        policy: Its thresholds.
        health: Result of `measure_health`, if already known.
        plan: Returns a compaction plan for the policy, if the caller needs it, too; called if one may be due.

    Raises:
        StorageError: The store fails.
    """
    if health is None:
        health = measure_by_policy(dataset, policy)
    plan = plan or (lambda: plan_compaction(dataset, options_of_policy(dataset, policy)))
    blocked_by: dict[str, Callable[[], str]] = {
        "compact": lambda: _compaction(plan(), partial(plan_columns_of_policy, dataset, policy)),
        "index": lambda: _index(dataset, policy, health),
        "cleanup": lambda: _cleanup(dataset, policy),
    }
    verdicts = []
    for verdict in judge_health(health, policy):
        reason = ""
        if verdict.due:
            try:
                reason = blocked_by[verdict.operation]()
            except StorageError:
                raise
            except LanceOpsError as error:
                reason = str(error)
        verdicts.append(verdict.but_blocked(reason) if reason else verdict)
    return tuple(verdicts)


def measure_by_policy(
    dataset: Dataset, policy: MaintenancePolicy, *, samples_indices: bool = True
) -> DatasetHealth:
    """Measure a version by the rules of its policy: small is what its compaction would merge.

    Args:
        dataset: The version.
        policy: Its policy.
        samples_indices: Read samples of the indices, for their degradation; else it is unknown.
    """
    return measure_health(
        dataset,
        compaction=compaction_options(dataset, policy.compaction_options()),
        limits=policy.wear_limits if samples_indices else None,
    )


def options_of_policy(dataset: Dataset, policy: MaintenancePolicy) -> CompactionOptions:
    """Return options for a compaction that reaches the thresholds of a policy."""
    options, _ = resolve_options(dataset.config, policy.compaction_options())
    return options


def plan_columns_of_policy(
    dataset: Dataset, policy: MaintenancePolicy, max_bytes: int | None = None
) -> ColumnFilesPlan:
    """Return the plan of a compaction of columns that reaches the thresholds of a policy."""
    return plan_column_files(dataset, **policy.column_files_options(), max_bytes=max_bytes)


def _compaction(rows: CompactionPlan, columns: Callable[[], ColumnFilesPlan]) -> str:
    if rows.groups:
        return ""
    found = columns()
    if found.fragments:
        return ""
    return "; ".join((*rows.notes, *found.notes)) or "no fragment may be rewritten"


def _index(dataset: Dataset, policy: MaintenancePolicy, health: DatasetHealth) -> str:
    behind = [
        item.name
        for item in coverage(dataset)
        if item.ratio < policy.min_index_coverage or len(item.segments) > policy.max_index_segments
    ]
    if health.worn_indices or health.short_indices:
        behind = [item.name for item in coverage(dataset)]
    skipped: list[str] = []
    if behind:
        plan = plan_optimize_indices(
            dataset, behind, most_segments=policy.most_segments, limits=policy.wear_limits
        )
        if plan.segments or plan.trim is not None:
            return ""
        skipped += plan.skipped
    reuse = dataset.fragment_reuse
    if reuse is not None and len(reuse.generations) > policy.max_deferred_compactions:
        # Any index may be behind, and one that cannot be remapped blocks them all.
        plan = plan_optimize_indices(dataset, most_segments=policy.most_segments, limits=policy.wear_limits)
        if plan.trim is not None:
            return ""
        skipped += plan.skipped
    return "; ".join(dict.fromkeys(skipped)) or "no index may be refreshed"


def _cleanup(dataset: Dataset, policy: MaintenancePolicy) -> str:
    """Check the oldest versions only: if the first one without a reference cannot be removed, none can."""
    named = Line(dataset.store, dataset.root, dataset.branch).named(datetime.now(UTC)).names
    locations = list_versions(dataset.store)
    for location in locations[: max(0, len(locations) - policy.retain_versions)]:
        if location.version in named:
            continue
        try:
            age = datetime.now(UTC) - read_summary(dataset.store, location).timestamp
        except (NotFoundError, InconsistentStoreError):
            continue
        # A clock that was ahead proves nothing about the age.
        if age >= policy.older_than or age.total_seconds() < 0:
            return ""
        return f"no removable version is older than {age_text(policy.older_than)}"
    kept = count_text(policy.retain_versions, "newest version")
    return f"{kept} are kept by the policy, and all others have references"
