"""Check evaluations as alerts: failures, their start, and their incidents."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from lance_ops.alerts.incidents import Incidents
from lance_ops.alerts.texts import iso_time
from lance_ops.alerts.values import Alert, CheckAlert
from lance_ops.dagster import keys
from lance_ops.dagster.alerts.options import AlertOptions
from lance_ops.dagster.checks.catalog import CHECKS, own_name
from lance_ops.dagster.checks.records import REPORTED, CheckRecord, newest_evaluations
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.event_log import LogPosition, read_since
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.dagster.version_event import plain_metadata
from lance_ops.errors import DatasetNotFoundError

_DAMAGE = (keys.MANIFEST_READABLE, "files_present", "deletion_vectors_valid")

Latest = Callable[[dg.DagsterInstance, Sequence[LanceDatasetRef]], dict[str, dict[str, CheckRecord]]]
"""Reads the newest evaluations, see `latest_records`."""


@dataclass(slots=True)
class CheckState:
    """State of a sensor about checks.

    Attributes:
        failing: Start of the failure of each check, in seconds since 1970, by `dataset:check`.
        position: Position in the event log.
        read: Events after that position that were already read.
    """

    failing: dict[str, float] = field(default_factory=dict)
    position: LogPosition = field(default_factory=LogPosition)
    read: tuple[int, ...] = ()

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "CheckState":
        """Read a state; values that cannot be parsed count as unread."""
        failing = content.get("failing")
        read = content.get("read")
        return cls(
            {
                str(name): float(since)
                for name, since in (failing if isinstance(failing, Mapping) else {}).items()
                if isinstance(since, int | float)
            },
            LogPosition.from_list(content.get("log")),
            tuple(item for item in (read if isinstance(read, list) else ()) if type(item) is int),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"failing": self.failing, "log": self.position.to_list(), "read": list(self.read)}


@dataclass(frozen=True, slots=True)
class CheckNews:
    """Reads evaluations of some datasets and opens and closes incidents by them.

    Attributes:
        instance: With the event log.
        refs: The datasets by name.
        ingests: Partitioned ingests into some of them; their assets have the check `partitions_loaded`.
        options: Delay of warnings, and the URL of the webserver.
        latest: Reads the newest evaluations of datasets.
    """

    instance: dg.DagsterInstance
    refs: Mapping[str, LanceDatasetRef]
    ingests: Sequence[LanceIngest]
    options: AlertOptions
    latest: Latest

    def read(self, state: CheckState, incidents: Incidents, now: float) -> None:
        """Process the evaluations since the last tick, in order; then warnings that are overdue.

        Args:
            state: Changed in place.
            incidents: Changed in place.
            now: Seconds since 1970.
        """
        events, position = read_since(
            self.instance, state.position, dg.DagsterEventType.ASSET_CHECK_EVALUATION
        )
        refs = list(self.refs.values())
        shared = refs if events is None else state.position.share(refs)
        by_key = {ref.key: ref for ref in refs}
        by_check = {_loaded_check(ingest): ingest for ingest in self.ingests}
        known = set(state.read)
        found: list[tuple[LanceDatasetRef, str, CheckRecord]] = []
        for number, event in (events or {}).items():
            evaluation = event.asset_check_evaluation
            if evaluation is None or number in known:
                continue
            record = CheckRecord(evaluation, event.timestamp)
            ref, ingest = by_key.get(evaluation.asset_key), by_check.get(evaluation.asset_check_key)
            check = own_name(evaluation.check_name)
            if ref is not None and check in REPORTED:
                found.append((ref, check, record))
            elif ingest is not None:
                found.append((self.refs[ingest.ref.name], _loaded_name(ingest), record))
        for name, records in self._latest(shared).items():
            found += [(self.refs[name], check, record) for check, record in records.items()]
        failing = {entry.rpartition(":")[0] for entry in state.failing if _is_of_index(entry)}
        failing |= {ref.name for ref, check, record in found if _is_of_index(check) and not _passed(record)}
        without = self._without_index(failing & self.refs.keys())
        for ref, check, record in found:
            is_over = _is_of_index(check) and record.stored_at <= without.get(ref.name, 0.0)
            if _passed(record) or not is_over:
                self._take(ref, check, record, state, incidents)
        for entry in [entry for entry in state.failing if _is_of_index(entry)]:
            dataset, _, check = entry.rpartition(":")
            if dataset in without and state.failing[entry] <= without[dataset]:
                del state.failing[entry]
                at = datetime.fromtimestamp(without[dataset], UTC)
                incidents.resolve(_is_about(dataset, check), at, message="there is no index any more")
        state.position = position
        state.read = tuple(number for number in (events or {}) if number > (position.after or 0))
        state.failing = {
            entry: since for entry, since in state.failing.items() if entry.rpartition(":")[0] in self.refs
        }
        self._overdue(state, incidents, now)

    def _without_index(self, names: Collection[str]) -> dict[str, float]:
        """Return when the newest version of a dataset was published, of those that have no index in it.

        Checks of indices are not evaluated there any more, so that their last verdict would stand for ever.
        """
        by_key = {self.refs[name].key: name for name in names}
        found: dict[str, float] = {}
        for record in self.instance.get_asset_records(list(by_key)) if by_key else ():
            entry = record.asset_entry.last_materialization_record
            event = None if entry is None else entry.asset_materialization
            raw = None if event is None else getattr(event.metadata.get(keys.RAW), "value", None)
            measures = raw.get("health") if isinstance(raw, Mapping) else None
            if entry is not None and isinstance(measures, Mapping) and measures.get("indices") == 0:
                found[by_key[record.asset_entry.asset_key]] = entry.timestamp
        return found

    def _latest(self, refs: Sequence[LanceDatasetRef]) -> dict[str, dict[str, CheckRecord]]:
        """Return the newest evaluations by dataset and check, including those on ingests into them."""
        found = self.latest(self.instance, refs) if refs else {}
        wanted = {_loaded_check(ingest): ingest for ingest in self.ingests if ingest.ref.name in found}
        if wanted:
            for key, record in newest_evaluations(self.instance, list(wanted)).items():
                found[wanted[key].ref.name][_loaded_name(wanted[key])] = record
        return found

    def take_former(self, former: object, incidents: Incidents, now: float) -> None:
        """Convert the cursor of an earlier release, with sent and pending alerts.

        Its cursors contain names of checks only: a pending one that passes by now has no details.
        """
        stored = former if isinstance(former, dict) else {"failing": former}
        sent = dict(entry.partition("#")[::2] for entry in _texts(stored.get("failing")))
        entries = dict.fromkeys([*sent, *_texts(stored.get("waiting"))])
        if not entries:
            return
        named = {entry.rpartition(":")[0] for entry in entries}
        records = self.latest(self.instance, [ref for name, ref in self.refs.items() if name in named])
        for entry in entries:
            dataset, _, check = entry.rpartition(":")
            if dataset not in records:
                continue
            record = records[dataset].get(check)
            if record is None or record.evaluation.passed or _says_nothing(record.evaluation):
                alert = self._former_alert(self.refs[dataset], check, now)
                same = True
            else:
                alert = self._alert(self.refs[dataset], check, record, record.stored_at)
                same = alert.cause.partition("#")[2] == sent.get(entry)
            incidents.raise_alert(alert, state="open" if entry in sent and same else "waiting")

    def _former_alert(self, ref: LanceDatasetRef, check: str, now: float) -> CheckAlert:
        return CheckAlert(
            dataset=ref.name,
            uri=ref.uri,
            check=check,
            passed=False,
            severity="ERROR" if check in _DAMAGE else "WARN",
            message="it failed while alerts could not be delivered",
            at=iso_time(now),
            owners=tuple(ref.owners),
            asset_url=self.options.asset_url(ref.key),
        )

    def _take(
        self, ref: LanceDatasetRef, check: str, record: CheckRecord, state: CheckState, incidents: Incidents
    ) -> None:
        evaluation = record.evaluation
        entry = _entry(ref, check)
        metadata = plain_metadata(evaluation.metadata)
        if evaluation.passed:
            state.failing.pop(entry, None)
            version = metadata.get(keys.VERSION)
            incidents.resolve(
                _is_about(ref.name, check),
                datetime.fromtimestamp(record.stored_at, UTC),
                message=evaluation.description or "",
                version=version if isinstance(version, int) else None,
            )
        elif not _says_nothing(evaluation):
            since = state.failing.setdefault(entry, record.stored_at)
            alert = self._alert(ref, check, record, since)
            # An unreadable dataset is one incident, whatever its other checks report.
            unreadable = (
                check != keys.MANIFEST_READABLE and _entry(ref, keys.MANIFEST_READABLE) in state.failing
            )
            if alert.severity_name == "error" and not unreadable:
                incidents.raise_alert(alert)

    def _overdue(self, state: CheckState, incidents: Incidents, now: float) -> None:
        """Open incidents of warnings that persist too long."""
        limit = now - self.options.due_after.total_seconds()
        raised = {(alert.dataset, alert.check) for alert in _checks(incidents)}
        due = [
            (dataset, check)
            for entry, since in state.failing.items()
            for dataset, _, check in [entry.rpartition(":")]
            if since <= limit and (dataset, check) not in raised
        ]
        if not due:
            return
        records = self._latest([self.refs[name] for name in dict.fromkeys(name for name, _ in due)])
        for dataset, check in due:
            record = records.get(dataset, {}).get(check)
            if record is None or record.evaluation.passed:
                continue
            # An evaluation that could not run says nothing about the previous failure.
            if not _says_nothing(record.evaluation):
                since = state.failing[f"{dataset}:{check}"]
                incidents.raise_alert(self._alert(self.refs[dataset], check, record, since))

    def _alert(self, ref: LanceDatasetRef, check: str, record: CheckRecord, since: float) -> CheckAlert:
        evaluation = record.evaluation
        metadata = plain_metadata(evaluation.metadata)
        version = metadata.get(keys.VERSION)
        return CheckAlert(
            dataset=ref.name,
            uri=ref.uri,
            check=check,
            passed=evaluation.passed,
            severity=evaluation.severity.value,
            message=evaluation.description or "",
            version=version if isinstance(version, int) else None,
            metadata=metadata,
            hint=str(metadata.get(keys.ERROR_HINT) or ""),
            blocked=str(metadata.get(keys.BLOCKED) or ""),
            gone=_error_of(metadata) == DatasetNotFoundError.__name__,
            at=iso_time(since),
            owners=tuple(ref.owners),
            asset_url=self.options.asset_url(evaluation.asset_key),
        )


def _loaded_check(ingest: LanceIngest) -> dg.AssetCheckKey:
    return dg.AssetCheckKey(ingest.key, keys.PARTITIONS_LOADED)


def _loaded_name(ingest: LanceIngest) -> str:
    """Return the name of the check in alerts: a dataset may have several ingests."""
    return f"{keys.PARTITIONS_LOADED} of {ingest.asset_name}"


def _is_of_index(name: str) -> bool:
    """Whether a check, or an entry of one, is about indices."""
    check = CHECKS.get(name.rpartition(":")[2])
    return check is not None and check.of_indices


def _passed(record: CheckRecord) -> bool:
    return bool(record.evaluation.passed)


def _entry(ref: LanceDatasetRef, check: str) -> str:
    return f"{ref.name}:{check}"


def _checks(incidents: Incidents) -> Iterator[CheckAlert]:
    for alert in incidents.open_of(bool).values():
        if isinstance(alert, CheckAlert):
            yield alert


def _is_about(dataset: str, check: str) -> Callable[[Alert], bool]:
    return lambda alert: isinstance(alert, CheckAlert) and (alert.dataset, alert.check) == (dataset, check)


def _says_nothing(evaluation: Any) -> bool:
    """Return whether an evaluation is no news: the dataset never existed, or the check could not run.

    A dataset that vanished is an error, and sent. When a check could not run, the failure of
    `manifest_readable` has the reason.
    """
    metadata = plain_metadata(evaluation.metadata)
    if metadata.get(keys.NOT_EVALUATED):
        return True
    warning = evaluation.severity is dg.AssetCheckSeverity.WARN
    return bool(warning) and _error_of(metadata) == DatasetNotFoundError.__name__


def _error_of(metadata: Mapping[str, object]) -> str:
    return str(metadata.get(keys.ERROR) or "").partition(":")[0]


def _texts(content: object) -> tuple[str, ...]:
    found = content if isinstance(content, list) else []
    return tuple(item for item in found if isinstance(item, str))
