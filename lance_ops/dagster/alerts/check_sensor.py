"""A sensor that tells when checks begin to fail, and when they pass again.

Dagster stores the newest evaluation of each check, so what could not be delivered needs no queue: the cursor
says what was told and what waits, and the next tick finds the difference again.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from lance_ops.alerts.notifier import LogNotifier, Notifier
from lance_ops.alerts.values import CheckAlert
from lance_ops.dagster import keys
from lance_ops.dagster.alerts.delivery import deliver
from lance_ops.dagster.checks.records import REPORTED, CheckRecord, latest_records
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs
from lance_ops.dagster.event_log import LogPosition, read_since
from lance_ops.dagster.version_event import plain_metadata
from lance_ops.errors import DatasetNotFoundError


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
        cursor = _parse_cursor(context.cursor)
        failing = set(cursor.failing)
        news, position = _news(context.instance, list(by_name.values()), cursor)
        found = [
            alert for name, records in news.items() for alert in _changes(by_name[name], records, failing)
        ]
        # In the order that the last tick left: what was refused comes last, and keeps nothing else back.
        turn = {key: position for position, key in enumerate(cursor.waiting, 1)}
        found.sort(key=lambda alert: turn.get(_key(alert), 0))
        left = deliver(found, told, context.log)
        waiting = [_key(alert) for alert in left if isinstance(alert, CheckAlert)]
        for alert in found:
            if _key(alert) not in waiting:
                _note(failing, alert)
        rest = f"; {len(waiting)} wait" if waiting else ""
        return dg.SensorResult(
            skip_reason=f"told of {len(found) - len(left)} changes; {len(failing)} checks fail{rest}",
            cursor=_Cursor(tuple(sorted(failing)), tuple(waiting), position).serialize(),
        )

    return check_alert_sensor


def _news(
    instance: dg.DagsterInstance, refs: Sequence[LanceDatasetRef], cursor: "_Cursor"
) -> tuple[dict[str, dict[str, CheckRecord]], LogPosition]:
    """Evaluations that may not have been told of, the newest of each check, by dataset and check.

    A tick that dies leaves the cursor before it, so that they are found again.
    """
    events, position = read_since(instance, cursor.position, dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    if events is None:
        return latest_records(instance, refs), position
    waiting = {entry.rpartition(":")[0] for entry in cursor.waiting}
    anew = [*cursor.position.share(refs), *(ref for ref in refs if ref.name in waiting)]
    found = latest_records(instance, list({ref.name: ref for ref in anew}.values()))
    others = {ref.key: ref.name for ref in refs if ref.name not in found}
    for event in events.values():
        evaluation = event.asset_check_evaluation
        if evaluation is not None and evaluation.asset_key in others and evaluation.check_name in REPORTED:
            records = found.setdefault(others[evaluation.asset_key], {})
            records[evaluation.check_name] = CheckRecord(evaluation, event.timestamp)
    return {ref.name: found[ref.name] for ref in refs if ref.name in found}, position


def _changes(
    ref: LanceDatasetRef, records: Mapping[str, CheckRecord], failing: set[str]
) -> Iterator[CheckAlert]:
    for check, record in records.items():
        evaluation = record.evaluation
        metadata = plain_metadata(evaluation.metadata)
        told = [entry for entry in failing if entry.partition("#")[0] == f"{ref.name}:{check}"]
        cause = _cause(metadata)
        news = not told or (cause and f"{ref.name}:{check}#{cause}" not in told)
        if not (told if evaluation.passed else news and not _is_still_to_come(evaluation, metadata)):
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
            hint=str(metadata.get(keys.ERROR_HINT) or ""),
        )


def _is_still_to_come(evaluation: Any, metadata: Mapping[str, object]) -> bool:
    """Whether there is no dataset and never was one: what vanished is an error, and told.

    Or a check could not be evaluated: the failure of `manifest_readable` tells why.
    """
    if metadata.get(keys.NOT_EVALUATED):
        return True
    error = str(metadata.get(keys.ERROR) or "").partition(":")[0]
    warning = evaluation.severity is dg.AssetCheckSeverity.WARN
    return bool(warning) and error == DatasetNotFoundError.__name__


def _note(failing: set[str], alert: CheckAlert) -> None:
    """Remember what was told: a failure once for each thing that keeps maintenance from mending it."""
    key = _key(alert)
    cause = _cause(alert.metadata)
    failing.difference_update({entry for entry in failing if entry.partition("#")[0] == key})
    if not alert.passed:
        failing.add(f"{key}#{cause}" if cause else key)


def _cause(metadata: Mapping[str, object]) -> str:
    """Digest of what blocks maintenance, without the numbers in it, which move with every version."""
    words = " ".join(re.findall(r"[^\W\d]+", str(metadata.get(keys.BLOCKED) or "")))
    return hashlib.sha256(words.encode()).hexdigest()[:12] if words else ""


def _key(alert: CheckAlert) -> str:
    return f"{alert.dataset}:{alert.check}"


@dataclass(frozen=True, slots=True)
class _Cursor:
    """What was told to fail; what was not delivered in the last tick, in order; how far the log was read."""

    failing: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    position: LogPosition = field(default_factory=LogPosition)

    def serialize(self) -> str:
        log = self.position.to_list()
        return json.dumps({"failing": self.failing, "waiting": self.waiting, "log": log})


def _parse_cursor(text: str | None) -> _Cursor:
    """Read a cursor; what cannot be read counts as not told, so that it is told again."""
    try:
        content = json.loads(text) if text else None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        # A list is what releases before this one kept.
        return _Cursor(_texts(content))
    position = LogPosition.from_list(content.get("log"))
    return _Cursor(_texts(content.get("failing")), _texts(content.get("waiting")), position)


def _texts(content: object) -> tuple[str, ...]:
    found = content if isinstance(content, list) else []
    return tuple(item for item in found if isinstance(item, str))
