"""Evaluation of checks on a version, for steps and for sensors; errors become results."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.checks.catalog import CHECKS, Check, Examination, page_name
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.version_event import as_metadata
from lance_ops.errors import DatasetNotFoundError, LanceOpsError
from lance_ops.maintenance.fsck.remedy import hint_for
from lance_ops.maintenance.health.forecast import forecast_health
from lance_ops.maintenance.health.measure import DatasetHealth
from lance_ops.maintenance.health.policy import Verdict
from lance_ops.maintenance.health.verdicts import judge_dataset, measure_by_policy
from lance_ops.table.dataset import Dataset

_FORESEEN = frozenset({"fragmentation", "deleted_ratio", "index_coverage", "version_backlog"})


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """Result of one check.

    Attributes:
        name: Name of the check.
        passed: True if the check passed.
        description: Reason, in one line.
        severe: A failure means damage, not only due maintenance.
        metadata: Measured numbers and lists.
    """

    name: str
    passed: bool
    description: str
    severe: bool
    metadata: Mapping[str, object] = field(default_factory=dict)

    def to_result(self, key: dg.AssetKey) -> dg.AssetCheckResult:
        """Return the result for a step that executes the check."""
        return dg.AssetCheckResult(
            asset_key=key,
            check_name=page_name(self.name),
            passed=self.passed,
            severity=self.severity,
            description=self.description,
            metadata=as_metadata(self.metadata),
        )

    def to_evaluation(self, key: dg.AssetKey) -> dg.AssetCheckEvaluation:
        """Return the evaluation for a sensor, or for a step with other work."""
        return dg.AssetCheckEvaluation(
            asset_key=key,
            check_name=page_name(self.name),
            passed=self.passed,
            severity=self.severity,
            description=self.description,
            metadata=as_metadata(self.metadata),
            blocking=CHECKS[self.name].blocking,
        )

    @property
    def severity(self) -> dg.AssetCheckSeverity:
        """The severity of a failure."""
        return dg.AssetCheckSeverity.ERROR if self.severe else dg.AssetCheckSeverity.WARN


def evaluate_checks(
    ref: LanceDatasetRef,
    dataset: Dataset,
    names: Iterable[str] | None = None,
    *,
    max_files: int | None = None,
) -> list[CheckOutcome]:
    """Evaluate checks on one version. A check that raises an error has failed; nothing is raised.

    Checks that do not apply, such as those of indices where there is none, are left out: they do not pass.

    Args:
        ref: The dataset.
        dataset: The version.
        names: Names of checks; all by default.
        max_files: Skip checks that read files if there are more files than this, and expensive checks in any
            case; None evaluates all.
    """
    wanted = set(CHECKS if names is None else names)
    try:
        too_many = max_files is not None and sum(len(item.files) for item in dataset.fragments) > max_files
        health = measure_by_policy(dataset, ref.policy, samples_indices=not too_many)
        verdicts = _verdicts(ref, dataset, health)
        days_to = _days_to(ref, dataset, health) if wanted & _FORESEEN else {}
        examination = Examination(ref.uri, dataset, health, ref.policy, verdicts, days_to)
    except LanceOpsError as error:
        return not_evaluated(ref, error, names=wanted)
    return [
        _evaluate(name, check, examination)
        for name, check in CHECKS.items()
        if name in wanted
        and not (check.reads_files and too_many)
        and not (check.is_costly and max_files is not None)
        and applies(check, dataset)
    ]


def applies(check: Check, dataset: Dataset) -> bool:
    """Return whether a check has anything to examine; True if unknown."""
    try:
        return bool(check.applies(dataset))
    except Exception:  # noqa: BLE001 - the evaluation says what is wrong
        return True


def not_evaluated(
    ref: LanceDatasetRef, error: Exception, *, severe: bool = True, names: Iterable[str] = tuple(CHECKS)
) -> list[CheckOutcome]:
    """Return the results without a snapshot: `manifest_readable` failed, the others are unknown.

    A dataset that does not exist yet is not damage; its other checks were never evaluated, and are left out.
    """
    cause = unreadable(ref, error, severe=severe)
    wanted = set(names) if severe else set()
    metadata = {**cause.metadata, keys.NOT_EVALUATED: True}
    text = f"could not be evaluated: {error}"
    others = [CheckOutcome(name, False, text, False, metadata) for name in CHECKS if name != cause.name]
    return [outcome for outcome in (cause, *others) if outcome is cause or outcome.name in wanted]


def _verdicts(ref: LanceDatasetRef, dataset: Dataset, health: DatasetHealth) -> dict[str, Verdict]:
    """Return the verdicts on maintenance; empty if they cannot be determined."""
    try:
        return {verdict.operation: verdict for verdict in judge_dataset(dataset, ref.policy, health)}
    except LanceOpsError:
        return {}


def unreadable(ref: LanceDatasetRef, error: Exception, *, severe: bool = True) -> CheckOutcome:
    """Return the failure of `manifest_readable`: there is no snapshot to evaluate."""
    metadata: dict[str, object] = {keys.ERROR: f"{type(error).__name__}: {error}"}
    if isinstance(error, LanceOpsError):
        metadata |= {keys.ERROR_PATH: error.path, keys.ERROR_HINT: hint_for(error, ref.uri)}
    return CheckOutcome(keys.MANIFEST_READABLE, False, str(error), severe, metadata)


def examine(
    ref: LanceDatasetRef,
    store: LanceStoreResource,
    names: Iterable[str] | None = None,
    *,
    seen: bool = False,
) -> list[CheckOutcome]:
    """Open the newest version and evaluate checks on it; nothing is raised.

    Args:
        ref: The dataset.
        store: Opens the dataset.
        names: Names of checks; all by default.
        seen: The dataset existed before, so its absence is damage.
    """
    try:
        dataset = store.open(ref)
    except DatasetNotFoundError as error:
        return not_evaluated(ref, error, severe=seen, names=CHECKS if names is None else names)
    except Exception as error:  # noqa: BLE001 - whatever keeps us from opening it is the finding
        return not_evaluated(ref, error, names=CHECKS if names is None else names)
    return evaluate_checks(ref, dataset, names)


def _evaluate(name: str, check: Check, examination: Examination) -> CheckOutcome:
    try:
        passed, why, metadata = check.evaluate(examination)
    except Exception as error:  # noqa: BLE001 - a check that cannot be evaluated has failed
        passed, why, metadata = False, f"could not be evaluated: {error}", {keys.ERROR: repr(error)}
        if isinstance(error, LanceOpsError):
            metadata = {**metadata, keys.ERROR_HINT: hint_for(error, examination.uri)}
    values = {keys.VERSION: examination.dataset.version, **metadata}
    return CheckOutcome(name, passed, why, check.blocking, values)


def _days_to(ref: LanceDatasetRef, dataset: Dataset, health: DatasetHealth) -> dict[str, float]:
    """Return the days until thresholds are passed, by measure; empty if unknown."""
    try:
        found = forecast_health(dataset, ref.policy, health)
    except LanceOpsError:
        return {}
    return {item.measure: item.days for item in found if item.days is not None}
