"""Sensors that raise the alarm: on lost conflicts, which fail runs, and on failed checks, which do not.

Dagster itself is silent about checks, and its failure sensors pass on a text at best. What a run knows about
a conflict travels in the metadata of its failed step.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.checks import CHECKS
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs
from lance_ops.dagster.notifier import CheckAlert, ConflictAlert, LogNotifier, Notifier
from lance_ops.errors import AlertNotDeliveredError

_NUMBERS = (int, float, str)


def build_conflict_alert_sensor(
    notifier: Notifier | None = None,
    jobs: Sequence[Any] | None = None,
    *,
    name: str = "lance_conflict_alert_sensor",
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """A sensor that hands a `ConflictAlert` to a notifier for every step that lost against another writer.

    Args:
        notifier: Who is told; the log by default.
        jobs: Whose runs to watch; all of the code location by default, ingests included.
        name: Name of the sensor.
        minimum_interval_seconds: Pause between ticks.
        default_status: Whether it runs from the start.
    """
    told = notifier or LogNotifier()

    @dg.run_failure_sensor(
        name=name,
        description="Tells when a run lost against another writer of a dataset, with both transactions.",
        monitored_jobs=jobs,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
    )
    def conflict_alert_sensor(context: dg.RunFailureSensorContext) -> dg.SkipReason:
        alerts = list(conflict_alerts(context))
        for alert in alerts:
            context.log.warning(str(alert))
            try:
                told.notify(alert)
            except AlertNotDeliveredError:
                # Raising would change nothing: Dagster does not offer a failed run twice.
                context.log.exception("an alert got lost")
        return dg.SkipReason(f"{len(alerts)} conflicts" if alerts else "the run failed for another reason")

    return conflict_alert_sensor


def conflict_alerts(context: dg.RunFailureSensorContext) -> Iterator[ConflictAlert]:
    """Alerts for the steps of a failed run that lost against another writer."""
    for event in context.get_step_failure_events():
        failure = event.step_failure_data.user_failure_data
        metadata = {} if failure is None else _plain(failure.metadata)
        if keys.CONFLICT_KIND not in metadata:
            continue
        version = metadata.get(keys.CONFLICT_VERSION)
        yield ConflictAlert(
            dataset=str(metadata.get(keys.CONFLICT_DATASET, "")),
            uri=str(metadata.get(keys.URI, "")),
            job=context.dagster_run.job_name,
            step=event.step_key or "",
            run_id=context.dagster_run.run_id,
            conflict=str(metadata[keys.CONFLICT_KIND]),
            ours=str(metadata.get(keys.CONFLICT_OURS, "")),
            theirs=str(metadata.get(keys.CONFLICT_THEIRS, "")),
            version=version if isinstance(version, int) else None,
            message=(failure.description if failure is not None else None) or "",
        )


def build_check_alert_sensor(
    refs: Sequence[LanceDatasetRef],
    notifier: Notifier | None = None,
    *,
    name: str = "lance_check_alert_sensor",
    minimum_interval_seconds: int = 60,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """A sensor that tells when a check begins to fail, once, and when it passes again.

    Args:
        refs: The datasets.
        notifier: Who is told; the log by default.
        name: Name of the sensor.
        minimum_interval_seconds: Pause between ticks.
        default_status: Whether it runs from the start.
    """
    by_name = index_refs(refs)
    told = notifier or LogNotifier()

    @dg.sensor(
        name=name,
        description="Tells when a check on a dataset begins to fail, and when it passes again.",
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
    )
    def check_alert_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        failing = _parse_failing(context.cursor)
        told_of = 0
        for ref in by_name.values():
            for alert in _changes(ref, context.instance, failing):
                try:
                    told.notify(alert)
                except AlertNotDeliveredError:
                    # It stays as it was in the cursor, so the next tick tells it again.
                    context.log.exception("an alert has to wait")
                    continue
                told_of += 1
                _note(failing, ref, alert)
        return dg.SensorResult(
            skip_reason=f"told of {told_of} changes; {len(failing)} checks fail",
            cursor=json.dumps(sorted(failing)),
        )

    return check_alert_sensor


def _changes(ref: LanceDatasetRef, instance: dg.DagsterInstance, failing: set[str]) -> Iterator[CheckAlert]:
    for check in CHECKS:
        record = instance.get_latest_asset_check_evaluation_record(dg.AssetCheckKey(ref.key, check))
        evaluation = None if record is None else record.evaluation
        if evaluation is None:
            continue
        metadata = _plain(evaluation.metadata)
        told = [entry for entry in failing if entry.partition("#")[0] == _failing_key(ref, check)]
        cause = _cause(metadata)
        news = not told or (cause and f"{_failing_key(ref, check)}#{cause}" not in told)
        if not (told if evaluation.passed else news):
            continue
        version = metadata.get(keys.VERSION)
        yield CheckAlert(
            dataset=ref.name,
            uri=ref.uri,
            check=check,
            passed=evaluation.passed,
            severity=evaluation.severity.value,
            message=evaluation.description or "",
            version=version if isinstance(version, int) else None,
            metadata=metadata,
        )


def _note(failing: set[str], ref: LanceDatasetRef, alert: CheckAlert) -> None:
    """Remember what was told: a failure once for each thing that keeps maintenance from mending it."""
    key = _failing_key(ref, alert.check)
    cause = _cause(alert.metadata)
    failing.difference_update({entry for entry in failing if entry.partition("#")[0] == key})
    if not alert.passed:
        failing.add(f"{key}#{cause}" if cause else key)


def _cause(metadata: Mapping[str, object]) -> str:
    """Digest of what blocks maintenance, without the numbers in it, which move with every version."""
    words = " ".join(re.findall(r"[^\W\d]+", str(metadata.get(keys.BLOCKED) or "")))
    return hashlib.sha256(words.encode()).hexdigest()[:12] if words else ""


def _failing_key(ref: LanceDatasetRef, check: str) -> str:
    return f"{ref.name}:{check}"


def _parse_failing(cursor: str | None) -> set[str]:
    """Checks that were told to fail; none when the cursor cannot be read, so that they are told again."""
    try:
        content = json.loads(cursor) if cursor else []
    except ValueError:
        content = []
    return {item for item in content if isinstance(item, str)} if isinstance(content, list) else set()


def _plain(metadata: Mapping[str, Any]) -> dict[str, str | int | float | None]:
    values = {name: getattr(value, "value", value) for name, value in metadata.items()}
    return {name: value for name, value in values.items() if isinstance(value, _NUMBERS)}
