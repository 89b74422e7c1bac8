"""Automation conditions for assets downstream of datasets: data changes count, layout changes do not.

`AutomationCondition.eager()` is wrong here. It counts events, and a compaction is an event. Dagster's
`since_last_handled()` is wrong as well: it forgets a change that is published during the requested run,
because the end of that run counts as handling the change.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import dagster as dg

from lance_ops.maintenance.health.policy import MaintenancePolicy

LABEL = "lance_data_changed"
Condition = dg.AutomationCondition[Any]


def lance_data_changed(*, require_checks: bool = False) -> Condition:
    """Return the condition for assets downstream of datasets.

    It holds when the data version of a dependency changed after the asset was last requested, once no related
    run is in progress: a change during a run requests another run. Rewrites, new indices and config changes
    keep the data version. Runs that computed nothing are retried by `build_retry_sensor`.

    Args:
        require_checks: Also wait until the blocking checks of all dependencies have passed.
    """
    condition = dg.AutomationCondition
    changed = condition.any_deps_match(condition.data_version_changed())
    # A change found together with the last request is newer than it, so the request does not reset it.
    pending = changed.since(condition.newly_requested() & ~changed)
    holds = pending & ~condition.in_progress() & ~condition.any_deps_in_progress()
    if require_checks:
        holds &= condition.all_deps_blocking_checks_passed()
    return holds.with_label(LABEL)


def maintained_by(name: str, policy: MaintenancePolicy) -> Condition:
    """Return a condition that never holds: the page of a reported asset shows its label.

    Dagster has no other way to name the maintenance of an asset that it does not execute: schedules and jobs
    of operations have no assets. It creates no sensor for conditions of such assets, and evaluates none.

    Args:
        name: Name of the maintenance.
        policy: Its thresholds, shown as the parts of the condition.
    """
    condition = dg.AutomationCondition
    never = condition.in_progress() & ~condition.in_progress()
    due = (
        f"compact: over {policy.max_small_fragments:,} small fragments",
        f"compact: over {policy.max_deleted_ratio:.1%} of rows deleted",
        f"index: coverage under {policy.min_index_coverage:.1%}",
        f"cleanup: over {policy.max_versions:,} versions",
    )
    first, *others = (never.with_label(text) for text in due)
    return reduce(or_, others, first).with_label(name)


def build_automation_sensor(
    assets: Sequence[dg.AssetKey],
    *,
    name: str = "lance_automation_sensor",
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.RUNNING,
) -> dg.AutomationConditionSensorDefinition:
    """Build the sensor that evaluates the conditions of some assets; Dagster's own starts stopped.

    Args:
        assets: Keys of the assets that have a condition.
        name: Name of the sensor.
        minimum_interval_seconds: Seconds between evaluations.
        default_status: Initial status.
    """
    return dg.AutomationConditionSensorDefinition(
        name,
        target=dg.AssetSelection.assets(*assets),
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
    )
