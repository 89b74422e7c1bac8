"""What has to hold when the killing is over, and everything that was due has been done."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg
import lance

import lance_ops as lo
from lance_ops.errors import DatasetNotFoundError
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import OperationRow
from lance_ops.fleet.policy.load import load_policy
from lance_ops.fleet.survey.operation import SurveyOptions, survey_fleet
from tests.safety.fleet.deployment import ROWS_OF_A_PARTITION
from tests.support.dagster_server import MESSAGE_KEY


def rows_are_there(ids: Mapping[Path, set[int]]) -> Iterator[str]:
    """No row is lost, doubled or back again, as both libraries read."""
    for dataset, wanted in ids.items():
        ours = lo.dataset(str(dataset)).to_table(["id"])["id"].to_pylist()
        theirs = lance.dataset(str(dataset)).to_table(["id"])["id"].to_pylist()
        for reader, found in (("lance_ops", ours), ("lance", theirs)):
            counted = Counter(found)
            lost, back = wanted - counted.keys(), counted.keys() - wanted
            doubled = [number for number, times in counted.items() if times > 1]
            if lost or back or doubled:
                yield (
                    f"{dataset.name}, read by {reader}: {len(lost)} rows lost, {len(doubled)} doubled, "
                    f"{len(back)} that were deleted"
                )
        report = lo.fsck(str(dataset), deep=True)
        if not report.ok:
            yield f"{dataset.name}: {report}"


def nothing_is_forgotten(policy: Path) -> Iterator[str]:
    """Nothing is due, and the journal tells of nothing that the ledger does not have."""
    read = load_policy(policy)
    ledger = FleetLedger.of(read)
    for look in survey_fleet(read, SurveyOptions(), ledger=ledger).looks:
        if look.verdict != "healthy":
            yield f"{look.dataset} is {look.verdict}: {look.why}"
    left = [entry.path for entry in ledger.journal.entries()]
    if left:
        yield f"the journal still has {', '.join(left)}"


def nothing_is_done_twice(policy: Path) -> Iterator[str]:
    """Of each operation there is one row, and no two runs worked on a dataset at once."""
    ledger = FleetLedger.of(load_policy(policy))
    operations = ledger.operations()
    doubled = [key for key, times in Counter(row.key for row in operations).items() if times > 1]
    if doubled:
        yield f"rows of operations that are in the ledger twice: {', '.join(doubled)}"
    by_dataset: dict[str, list[OperationRow]] = defaultdict(list)
    for row in operations:
        # Nobody knows how long one took that was broken off.
        if row.outcome != "broken off":
            by_dataset[row.dataset].append(row)
    for dataset, rows in by_dataset.items():
        for before, after in pairwise(rows):
            overlap = before.at + timedelta(seconds=before.seconds) - after.at
            if before.run != after.run and overlap > timedelta(seconds=0.01):
                yield f"{dataset}: {before.key} and {after.key} overlap by {overlap}"
        rewritten = Counter((row.operation, row.version) for row in rows if row.outcome == "done")
        for (operation, version), times in rewritten.items():
            if times > 1 and operation == "compact":
                yield f"{dataset}: {times} compactions tell that they made version {version}"


def versions_are_published(instance: dg.DagsterInstance, keys: Mapping[Path, dg.AssetKey]) -> Iterator[str]:
    """Each version has one event, in order, and the last one is the head."""
    for dataset, key in keys.items():
        records: list[Any] = []
        cursor = None
        while True:
            page = instance.fetch_materializations(key, limit=1000, cursor=cursor, ascending=True)
            records += page.records
            cursor = page.cursor
            if not page.has_more:
                break
        told = [int(record.asset_materialization.tags["lance/version"]) for record in records]
        found = _open(dataset)
        head = 0 if found is None else found.version
        if told != sorted(set(told)):
            yield f"{dataset.name}: events are doubled or out of order: {told}"
        if not told or told[-1] != head:
            yield f"{dataset.name}: the last event is of version {told[-1:]}, the head is {head}"


def failures_are_told(instance: dg.DagsterInstance, alerts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """For each failed run there is an alert, its own or that of an incident of its job."""
    told = {alert.get("run_id") for alert in alerts}
    jobs = {alert.get("job") for alert in alerts}
    jobs |= {
        row["incident"].split(":")[-1].partition(" ")[0]
        for alert in alerts
        for row in alert.get("alerts", ())
        if row["kind"] in ("failure", "conflict")
    }
    for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])):
        if run.run_id not in told and run.job_name not in jobs:
            yield f"run {run.run_id} of {run.job_name} failed, and nobody was told"


def _open(dataset: Path) -> lo.Dataset | None:
    """The newest version; None while nobody has made the dataset."""
    try:
        return lo.dataset(str(dataset))
    except DatasetNotFoundError:
        return None


def partitions_are_loaded(
    instance: dg.DagsterInstance, orders: Path, partitions: Sequence[str]
) -> Iterator[str]:
    """Each partition of the backfill is loaded once, and shown as loaded."""
    shown = instance.get_materialized_partitions(dg.AssetKey("orders_ingest"))
    if set(partitions) - shown:
        yield f"partitions that are not shown as loaded: {sorted(set(partitions) - shown)}"
    found = _open(orders)
    if found is not None:
        counted = Counter(found.to_table(["part"])["part"].to_pylist())
        wrong = {part: times for part, times in counted.items() if times != ROWS_OF_A_PARTITION}
        if wrong or counted.keys() != set(partitions):
            yield f"partitions in the dataset: {len(counted)} of {len(partitions)}, rows that differ: {wrong}"


def nothing_is_stale(folder: Path) -> Iterator[str]:
    """What is computed from a dataset, by a job and by a condition, has read its newest rows."""
    orders = _open(folder / "orders.lance")
    rows = -1 if orders is None else orders.count_rows()
    for name in ("totals", "derived"):
        computed = folder / f"{name}.json"
        read = json.loads(computed.read_text()) if computed.exists() else None
        if read != rows:
            yield f"{name} has read {read} rows of {rows}"


def alerts_come_once(alerts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """No incident is sent again while it is open, and no end comes without a beginning."""
    for incident, states in _states(alerts).items():
        expected = ["raised", "recovered"] * len(states)
        if states != expected[: len(states)]:
            yield f"{incident} came as {', '.join(states)}"


def incidents_are_over(alerts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """When everything has succeeded, no incident is open."""
    for incident, states in _states(alerts).items():
        if states[-1] == "raised":
            yield f"{incident} is still open"


def _states(alerts: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """What was sent about each incident; a message that was repeated has the key of the first one."""
    found: dict[str, list[str]] = defaultdict(list)
    for alert in {alert[MESSAGE_KEY]: alert for alert in list(alerts)}.values():
        for item in alert.get("alerts", [alert]):
            if item.get("until") and not _is_end(item):
                continue  # It was over before it could be sent.
            found[item["incident"]].append("recovered" if _is_end(item) else "raised")
    return found


def _is_end(item: Mapping[str, Any]) -> bool:
    return bool(item.get("recovered") or item.get("passed") or item.get("state") == "recovered")


def outcomes(policy: Path) -> Counter[str]:
    """Operations of the ledger, by what became of them."""
    rows = FleetLedger.of(load_policy(policy)).operations()
    return Counter(f"{row.operation} {row.outcome}" for row in rows)
