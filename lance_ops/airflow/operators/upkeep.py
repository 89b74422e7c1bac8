"""Operators that keep datasets healthy: compact, index, cleanup, fsck, what is due, and a whole fleet."""

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
        dry_run: Plan, and compact nothing.
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
    """Bring indices up to date, or build one on a column.

    Args:
        column: Column of a new index; None to refresh those that are there.
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
        older_than: Versions that go are at least this old.
        retain_versions: Newest versions that stay.
        dry_run: Plan, and remove nothing.
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
    """See whether a dataset is sound; the task fails when it is not.

    Args:
        deep: Read all data as well.
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
    """Compact, refresh indices and clean up, in this order, as far as it is due.

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
            # Judged anew before each: a compaction may leave indices behind.
            dataset = lo.dataset(uri, storage_options=options)
            verdicts = {item.operation: item for item in judge_dataset(dataset, self.policy)}
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
    """What was due, and what came of it."""

    def __init__(self) -> None:
        self.results: dict[str, Any] = {}

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {name: result.to_dict() for name, result in self.results.items()}

    def __str__(self) -> str:
        return "\n".join(map(str, self.results.values())) or "nothing was due"


class LanceFleetRunOperator(LanceOperator):
    """Maintain what is due in a fleet, the best first, within the budget.

    Args:
        policy: The policy file.
        budget: What it reads and writes at most, e.g. "500 GB"; the policy's without.
        minutes: It begins nothing after so many; the policy's windows without.
        **kwargs: See `LanceOperator`; `dataset` and the connection are the policy's to say.
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
            self.log.warning("alerts have to wait: %s", error)
        for remark in told.refused:
            self.log.warning("not every recipient got it: %s", remark)
        if done.row.failed:
            failed = [item for item in done.outcomes.values() if item.state == "failed"]
            raise AirflowFailException("; ".join(f"{item.dataset}: {item.why}" for item in failed[:10]))
        return done
