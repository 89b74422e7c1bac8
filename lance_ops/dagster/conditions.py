"""When to recompute what depends on a dataset: when its data changed, not when its layout did.

`AutomationCondition.eager()` is wrong here. It looks at events, and a compaction is an event.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg

LABEL = "lance_data_changed"


def lance_data_changed(*, require_checks: bool = False) -> dg.AutomationCondition[Any]:
    """The condition for assets downstream of datasets.

    It holds when the data version of a dependency moved since the asset was last computed, once nothing that
    it concerns is running. Rewrites, new indices and config changes keep the data version.

    Args:
        require_checks: Also wait until the blocking checks of all dependencies have passed.
    """
    condition = dg.AutomationCondition
    changed = condition.any_deps_match(condition.data_version_changed()).since_last_handled()
    holds = changed & ~condition.in_progress() & ~condition.any_deps_in_progress()
    if require_checks:
        holds &= condition.all_deps_blocking_checks_passed()
    return holds.with_label(LABEL)


def build_automation_sensor(
    assets: Sequence[dg.AssetKey],
    *,
    name: str = "lance_automation_sensor",
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.RUNNING,
) -> dg.AutomationConditionSensorDefinition:
    """The sensor that evaluates the conditions of some assets; Dagster's own starts stopped.

    Args:
        assets: Keys of the assets that have a condition.
        name: Name of the sensor.
        minimum_interval_seconds: Pause between evaluations.
        default_status: Whether it runs from the start.
    """
    return dg.AutomationConditionSensorDefinition(
        name,
        target=dg.AssetSelection.assets(*assets),
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
    )
