"""Maintenance operators: compact, index, cleanup, fsck, due operations, and a fleet."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

import lance_ops as lo
from lance_ops.airflow.operators.base import LanceOperator
from lance_ops.errors import FormatError
from lance_ops.fleet.alerts.operation import tell_alerts
from lance_ops.fleet.policy.load import load_policy
from lance_ops.fleet.policy.quantities import parse_bytes
from lance_ops.fleet.run.operation import RunOptions, run_fleet


class LanceCompactOperator(LanceOperator):
    """Compact small fragments and those with deletions.

    Args:
        options: Of `lance_ops.compact`, e.g. {"target_rows_per_fragment": 1_000_000}.
        dry_run: Plan without compacting.
        **kwargs: See `LanceOperator`.
    """

    template_fields: Sequence[str] = ("dataset", "options")

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
    """Build an index on a column, or refresh it where it is there; or refresh all indices.

    Args:
        column: Column of the index; None to refresh all existing ones.
        kind: Kind of the index.
        options: More arguments of `lance_ops.create_index` or `lance_ops.optimize_indices`. With
            `{"replace": True}` an index that is there is built again.
        **kwargs: See `LanceOperator`.
    """

    template_fields: Sequence[str] = ("dataset", "column", "kind", "options")

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
        built = None if self.options.get("replace") else self._built(uri, common["storage_options"])
        if built is not None:
            # A DAG runs every day: its index is built by the first run and covers new rows after the others.
            return lo.optimize_indices(uri, [built], **common)
        return lo.create_index(uri, self.column, self.kind, **self.options, **common)

    def _built(self, uri: str, storage_options: Mapping[str, str]) -> str | None:
        """Return the name of the index on the column, of this kind and name; None if there is none."""
        wanted = _letters(self.kind)
        for index in lo.describe_indices(uri, storage_options=storage_options):
            is_same = index.field_names == (self.column,) and _letters(index.index_type) == wanted
            if is_same and self.options.get("name") in (None, index.name):
                return index.name
        return None


def _letters(kind: str) -> str:
    """Return a kind of index as its letters: descriptions write LABEL_LIST as pylance does, LabelList."""
    return kind.replace("_", "").lower()


class LanceCompactWalOperator(LanceOperator):
    """Fold flushed generations of MemWAL into the dataset, and remove those that no reader needs.

    Args:
        options: Of `lance_ops.compact_wal`, e.g. {"max_bytes": 1 << 30}.
        dry_run: Plan without folding.
        **kwargs: See `LanceOperator`.
    """

    template_fields: Sequence[str] = ("dataset", "options")

    def __init__(
        self, *, options: Mapping[str, Any] | None = None, dry_run: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.options = dict(options or {})
        self.plan_only = dry_run

    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """See `LanceOperator.operate`."""
        return lo.compact_wal(uri, dry_run=self.plan_only, **self.options, **common)


class LanceCleanupOperator(LanceOperator):
    """Remove old versions and the files that only they use.

    Args:
        older_than: Minimum age of removed versions.
        retain_versions: Number of newest versions to keep.
        grace: Time for which removed versions stay in the trash with their files; see `lance_ops.cleanup`.
        dry_run: Plan without removing.
        **kwargs: See `LanceOperator`.
    """

    def __init__(
        self,
        *,
        older_than: timedelta = timedelta(days=14),
        retain_versions: int = 10,
        grace: timedelta = timedelta(0),
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.older_than = older_than
        self.retain_versions = retain_versions
        self.grace = grace
        self.plan_only = dry_run

    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """See `LanceOperator.operate`."""
        return lo.cleanup(
            uri,
            older_than=self.older_than,
            retain_versions=self.retain_versions,
            grace=self.grace,
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
    """Compact, refresh indices and clean up, in this order, if due; see `lance_ops.maintain`.

    The task fails if an operation failed, after the others were run.

    Args:
        policy: Thresholds.
        budget_bytes: Maximum bytes read and written by the estimates.
        budget_seconds: Maximum duration by the estimates.
        dry_run: Plan without changing anything.
        **kwargs: See `LanceOperator`.
    """

    def __init__(
        self,
        *,
        policy: lo.MaintenancePolicy | None = None,
        budget_bytes: int | None = None,
        budget_seconds: float | None = None,
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.policy = policy or lo.MaintenancePolicy()
        self.budget_bytes = budget_bytes
        self.budget_seconds = budget_seconds
        self.plan_only = dry_run

    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """See `LanceOperator.operate`."""
        done = lo.maintain(
            uri,
            self.policy,
            budget_bytes=self.budget_bytes,
            budget_seconds=self.budget_seconds,
            dry_run=self.plan_only,
            **common,
        )
        if isinstance(done, lo.MaintainResult) and not done.complete:
            self.log.error("%s", done)
            if done.error is not None:
                raise done.error
            failed = [item for item in done.outcomes if item.state == "failed"]
            raise AirflowException("; ".join(f"{item.operation}: {item.reason}" for item in failed))
        return done


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
