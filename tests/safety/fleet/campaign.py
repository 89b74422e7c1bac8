"""One campaign: a fleet that maintains itself while its processes are killed and others write."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from lance_ops.dagster.fleet.refs import fleet_refs
from lance_ops.fleet.discover.operation import discover
from lance_ops.fleet.policy.load import load_policy
from lance_ops.fleet.stores.opened import FleetStores
from tests.safety.fleet import verdict
from tests.safety.fleet.load import Load
from tests.safety.fleet.servers import CODE, DAEMON, LOCATION, WEB, WORKER, Servers
from tests.support.dagster_server import query, webhook

_POLICY = """\
version: 1
mode: auto
stores: {lake: lake}
ledger: {path: ledger}
classes:
  default: {max_small_fragments: 5, max_versions: 60, older_than: 1m, overdue_after: 1h}
"""
_DEFINITIONS = """\
from pathlib import Path

import dagster as dg

from lance_ops.dagster import WebhookNotifier, build_fleet_definitions

defs = build_fleet_definitions(
    Path(__file__).with_name("fleet.yaml"),
    notifier=WebhookNotifier(dg.EnvVar("HOOK")),
    cron="* * * * *",
    running=True,
)
"""
_INSTANCE = """\
run_monitoring:
  enabled: true
  start_timeout_seconds: 120
  # A run whose process and code server both died is never heard of again.
  max_runtime_seconds: 300
  poll_interval_seconds: 10
run_retries: {{enabled: true, max_retries: 2, retry_on_asset_or_op_failure: false}}
concurrency: {{runs: {{max_concurrent_runs: 4}}}}
telemetry: {{enabled: false}}
nux: {{enabled: false}}
storage: {storage}
"""
_SCHEDULE = """
mutation Start($selector: ScheduleSelector!) {
  startSchedule(scheduleSelector: $selector) { __typename }
}
"""
_SETTLE_SECONDS, _POLL_SECONDS = 900.0, 5.0


@dataclass(frozen=True, slots=True)
class Options:
    """What a campaign does.

    Attributes:
        seconds: It kills for so long.
        datasets: Of the fleet.
        pause: Mean seconds between two kills.
        seed: Of all that is random.
        storage: Of the instance, as `dagster.yaml` has it; SQLite when None.
    """

    seconds: float
    datasets: int = 20
    pause: float = 5.0
    seed: int = 1
    storage: str | None = None


@dataclass(slots=True)
class Outcome:
    """What came of it.

    Attributes:
        wrong: What does not hold; empty when all is well.
        kills: Of each kind of process.
        commits: Of the other writer.
        runs: Of Dagster, by state.
        operations: Of the ledger, by operation and outcome.
        alerts: That were told.
        settled: Seconds until nothing was due, all was published and all was told.
    """

    wrong: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    runs: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    alerts: int = 0
    settled: float = 0.0

    def __str__(self) -> str:
        parts = [
            f"kills {dict(self.kills)}",
            f"{self.commits} commits of the other writer",
            f"runs {dict(self.runs)}",
            f"operations {dict(self.operations)}",
            f"{self.alerts} alerts",
            f"settled after {self.settled:.0f} s",
        ]
        return "\n".join([", ".join(parts), *(f"WRONG: {line}" for line in self.wrong)])


def run_campaign(folder: Path, options: Options) -> Outcome:
    """Kill for a while, let all settle, and say what does not hold.

    Args:
        folder: Empty; everything is put there.
        options: What to do.
    """
    outcome, chance = Outcome(), random.Random(options.seed)
    datasets = [folder / "lake" / f"t{number:02}.lance" for number in range(options.datasets)]
    for dataset in datasets:
        dataset.parent.mkdir(exist_ok=True)
    load = Load(datasets, options.seed, pause=0.05)
    policy = folder / "fleet.yaml"
    policy.write_text(_POLICY)
    definitions = folder / "definitions.py"
    definitions.write_text(_DEFINITIONS)
    home = folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(
        _INSTANCE.format(storage=options.storage or f"{{sqlite: {{base_dir: {home}}}}}")
    )
    # Its tables are made by one process: two that begin at once leave an SQLite file that none can use.
    dg.DagsterInstance.from_config(str(home)).dispose()
    with webhook() as (hook, alerts), _serving(Servers(definitions, home, {"HOOK": hook})) as servers:
        _start_schedule(servers)
        load.start()
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            time.sleep(chance.expovariate(1 / options.pause))
            kind = chance.choices((WORKER, DAEMON, CODE, WEB), (5, 2, 2, 1))[0]
            outcome.kills[kind] += servers.kill(kind, chance)
        load.stop()
        outcome.commits = load.commits
        with dg.DagsterInstance.from_config(str(home)) as instance:
            keys = _asset_keys(policy)
            outcome.settled = _settle(instance, policy, keys, alerts)
            outcome.wrong += verdict.versions_are_published(instance, keys)
            outcome.wrong += verdict.failures_are_told(instance, alerts)
            outcome.runs = Counter(run.status.value for run in instance.get_runs())
        outcome.alerts = len(alerts)
    outcome.wrong += verdict.rows_are_there(load.ids)
    outcome.wrong += verdict.nothing_is_forgotten(policy)
    outcome.wrong += verdict.nothing_is_done_twice(policy)
    outcome.operations = verdict.outcomes(policy)
    return outcome


@contextmanager
def _serving(servers: Servers) -> Iterator[Servers]:
    try:
        servers.begin()
        yield servers
    finally:
        servers.stop()


def _start_schedule(servers: Servers) -> None:
    selector = {
        "repositoryLocationName": LOCATION,
        "repositoryName": "__repository__",
        "scheduleName": "lance_fleet_when_due",
    }
    answer = query(servers.url, _SCHEDULE, {"selector": selector})
    assert answer["startSchedule"]["__typename"] == "ScheduleStateResult", answer


def _asset_keys(policy: Path) -> Mapping[Path, dg.AssetKey]:
    read = load_policy(policy)
    found = fleet_refs(read, discover(FleetStores(read)).datasets)
    return {Path(ref.uri.removeprefix("file://")): ref.key for ref in found.values()}


def _settle(
    instance: dg.DagsterInstance,
    policy: Path,
    keys: Mapping[Path, dg.AssetKey],
    alerts: Sequence[Mapping[str, Any]],
) -> float:
    """Wait until the deployment has caught up by itself, or long enough; returns the seconds."""
    begun = time.monotonic()
    holds: list[Callable[[], Iterator[str]]] = [
        lambda: verdict.versions_are_published(instance, keys),
        lambda: verdict.failures_are_told(instance, alerts),
        lambda: verdict.nothing_is_forgotten(policy),
    ]
    while time.monotonic() - begun < _SETTLE_SECONDS:
        if all(next(check(), None) is None for check in holds):
            break
        time.sleep(_POLL_SECONDS)
    return time.monotonic() - begun
