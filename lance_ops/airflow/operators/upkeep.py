"""Maintenance operators: compact, index, cleanup, fsck, due operations, and a fleet."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

import lance_ops as lo
from lance_ops.airflow.operators.base import LanceOperator
from lance_ops.errors import FormatError
from lance_ops.fleet.alerts.operation import tell_alerts
from lance_ops.fleet.policy.load import load_policy
from lance_ops.fleet.policy.quantities import parse_bytes
from lance_ops.fleet.run.operation import RunOptions, run_fleet
from lance_ops.maintenance.health.verdicts import judge_dataset, options_of_policy


class LanceCompactOperator(LanceOperator):
    """Compact small fragments and those with deletions.

    Args:
        options: Of `lance_ops.compact`, e.g. {"target_rows_per_fragment": 1_000_000}.
        dry_run: Plan without compacting.
        **kwargs: See `LanceOperator`.
    """

    def __init__(
        self, *, options: Mapping[str, Any] | None = None, dry_run: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.options = dict(options or {})
        self.plan_only = dry_run

    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """See `LanceOperator.operate`."""
        return lo.compact(uri, dry_run=self.plan_only, **self.options, **common)


class LanceIndexOperator(LanceOperator):
    """Refresh indices, or build one on a column.

    Args:
        column: Column of a new index; None to refresh the existing ones.
        kind: Kind of the new index.
        options: More arguments of `lance_ops.create_index` or `lance_ops.optimize_indices`.
        **kwargs: See `LanceOperator`.
    """

    def __init__(
        self,
        *,
        column: str | None = None,
        kind: str = "BTREE",
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.column = column
        self.kind = kind
        self.options = dict(options or {})

    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """See `LanceOperator.operate`."""
        if self.column is None:
            return lo.optimize_indices(uri, **self.options, **common)
        return lo.create_index(uri, self.column, self.kind, **self.options, **common)


class LanceCleanupOperator(LanceOperator):
    """Remove old versions and the files that only they use.

    Args:
        older_than: Minimum age of removed versions.
        retain_versions: Number of newest versions to keep.
        dry_run: Plan without removing.
        **kwargs: See `LanceOperator`.
    """

    def __init__(
        self,
        *,
        older_than: timedelta = timedelta(days=14),
        retain_versions: int = 10,
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.older_than = older_than
        self.retain_versions = retain_versions
        self.plan_only = dry_run

    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """See `LanceOperator.operate`."""
        return lo.cleanup(
            uri,
            older_than=self.older_than,
            retain_versions=self.retain_versions,
            dry_run=self.plan_only,
            storage_options=common["storage_options"],
        )


class LanceFsckOperator(LanceOperator):
    """Check a dataset; the task fails if it is damaged.

    Args:
        deep: Also read all data.
        **kwargs: See `LanceOperator`.
    """

    def __init__(self, *, deep: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.deep = deep

    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """See `LanceOperator.operate`."""
        report = lo.fsck(uri, deep=self.deep, storage_options=common["storage_options"])
        if not report.ok:
            raise FormatError(str(report), path=uri)
        return report


class LanceMaintainOperator(LanceOperator):
    """Compact, refresh indices and clean up, in this order, if due.

    Args:
        policy: Thresholds.
        **kwargs: See `LanceOperator`.
    """

    def __init__(self, *, policy: lo.MaintenancePolicy | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.policy = policy or lo.MaintenancePolicy()

    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """See `LanceOperator.operate`."""
        done = _Maintained()
        options = common["storage_options"]
        for operation in ("compact", "index", "cleanup"):
            # Evaluated before each operation: a compaction may leave indices uncovered.
            dataset = lo.dataset(uri, storage_options=options)
            verdicts = {item.operation: item for item in judge_dataset(dataset.snapshot(), self.policy)}
            verdict = verdicts[operation]
            if not verdict.due:
                continue
            done.results[operation] = self._do(operation, uri, dataset, common)
        return done

    def _do(self, operation: str, uri: str, dataset: Any, common: dict[str, Any]) -> Any:
        keyed = {**common, "job_key": f"{common['job_key']}|{operation}"}
        if operation == "compact":
            return lo.compact(uri, options=options_of_policy(dataset, self.policy), **keyed)
        if operation == "index":
            return lo.optimize_indices(uri, **keyed)
        return lo.cleanup(
            uri,
            older_than=self.policy.older_than,
            retain_versions=self.policy.retain_versions,
            storage_options=common["storage_options"],
        )


class _Maintained:
    """Operations that were due, and their results."""

    def __init__(self) -> None:
        self.results: dict[str, Any] = {}

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {name: result.to_dict() for name, result in self.results.items()}

    def __str__(self) -> str:
        return "\n".join(map(str, self.results.values())) or "nothing was due"


class LanceFleetRunOperator(LanceOperator):
    """Run due maintenance of a fleet in order of priority, within the budget.

    Args:
        policy: The policy file.
        budget: Maximum bytes to read and write, e.g. "500 GB"; default that of the policy.
        minutes: Starts nothing after this time; default the windows of the policy.
        **kwargs: See `LanceOperator`; `dataset` and the connection come from the policy.
    """

    template_fields: Sequence[str] = ("policy", "budget")

    def __init__(
        self, *, policy: str, budget: str | None = None, minutes: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.policy = policy
        self.budget = budget
        self.minutes = minutes

    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """See `LanceOperator.operate`."""
        until = None if self.minutes is None else datetime.now(UTC) + timedelta(minutes=self.minutes)
        rules = load_policy(Path(self.policy))
        done = run_fleet(
            rules,
            RunOptions(bytes=None if self.budget is None else parse_bytes(self.budget), until=until),
            runner=common["runner"],
            progress=common["progress"],
        )
        told = tell_alerts(rules)
        if told.alerts or told.errors:
            self.log.info("alerts: %s", told)
        for error in told.errors:
            self.log.warning("alerts not sent, will be retried: %s", error)
        for remark in told.refused:
            self.log.warning("some recipients refused a message: %s", remark)
        if done.row.failed:
            failed = [item for item in done.outcomes.values() if item.state == "failed"]
            raise AirflowFailException("; ".join(f"{item.dataset}: {item.why}" for item in failed[:10]))
        return done
