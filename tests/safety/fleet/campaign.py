"""One campaign: a fleet that maintains itself while its processes are killed and others write."""

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from lance_ops.dagster.fleet.refs import fleet_refs
from lance_ops.fleet.discover.operation import discover
from lance_ops.fleet.policy.load import load_policy
from lance_ops.fleet.stores.opened import FleetStores
from tests.safety.fleet import verdict
from tests.safety.fleet.load import Load
from tests.safety.fleet.servers import CODE, DAEMON, LOCATION, WEB, WORKER, Servers
from tests.support.dagster_server import launch_run, query, run_status, webhook

_POLICY = """\
version: 1
mode: auto
stores: {lake: lake}
ledger: {path: ledger}
classes:
  default: {max_small_fragments: 5, max_versions: 60, older_than: 1m, overdue_after: 1h}
"""
_DEFINITIONS = Path(__file__).with_name("deployment.py")
_SHIPPED = Path(__file__).parents[3] / "dagster_home" / "dagster.yaml"
FACTOR = 12
"""By which times of the shipped settings are divided, but for the start of a process."""
_RECOVERY_SECONDS = 600.0
"""After a power cut. The shipped settings need 390 s at most: 180 s for a run whose process never started,
two looks of 60 s, 60 s for its pools, 30 s for the sensor."""
_BACKFILL = """
mutation Launch($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
_UNFINISHED = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
LAST_RESORT_SECONDS = 300
"""Global limit of a run; its tag goes first."""
_SETTLE_SECONDS, _POLL_SECONDS = 900.0, 3.0


@dataclass(frozen=True, slots=True)
class Options:
    """What a campaign does.

    Attributes:
        seconds: It kills for so long.
        datasets: Of the fleet.
        pause: Mean seconds between two kills.
        seed: Of all that is random.
        storage: Of the instance, as `dagster.yaml` has it; SQLite when None.
        cuts: Power cuts among the kills: all processes die at once.
        partitions: Of a backfill that is at work meanwhile.
        apart: Steps have processes of their own, as Dagster's default is.
        long: A run that may take ten hours by its tag is at work, longer than the global limit.
    """

    seconds: float
    datasets: int = 20
    pause: float = 5.0
    seed: int = 1
    storage: str | None = None
    cuts: int = 1
    partitions: int = 12
    apart: bool = False
    long: bool = False


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
        recovered: After each power cut, seconds until every dead run was ended and held no pool.
    """

    wrong: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    runs: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    alerts: int = 0
    settled: float = 0.0
    recovered: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [
            f"kills {dict(self.kills)}",
            f"{self.commits} commits of the other writer",
            f"runs {dict(self.runs)}",
            f"operations {dict(self.operations)}",
            f"{self.alerts} alerts",
            f"settled after {self.settled:.0f} s",
            f"dead runs were ended {', '.join(f'{seconds:.0f}' for seconds in self.recovered)} s after a cut",
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
    shutil.copy(_DEFINITIONS, definitions)
    home = folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(yaml.safe_dump(_settings(home, options.storage)))
    # Its tables are made by one process: two that begin at once leave an SQLite file that none can use.
    dg.DagsterInstance.from_config(str(home)).dispose()
    partitions = [f"p{number:02}" for number in range(options.partitions)]
    (folder / "chaos").touch()
    with webhook() as (hook, alerts), _serving(_servers(definitions, home, hook, options)) as servers:
        load.start()
        _start_backfill(servers, partitions)
        long_runs = [_start_long_run(servers, folder)] if options.long else []
        begun = time.monotonic()
        cuts = [options.seconds * (number + 1) / (options.cuts + 1) for number in range(options.cuts)]
        fewest = options.cuts + 1
        while cuts or time.monotonic() - begun < options.seconds or outcome.kills.total() < fewest:
            passed = time.monotonic() - begun
            if cuts and passed >= cuts[0]:
                del cuts[0]
                outcome.kills["power cut"] += 1
                _cut_power(servers, home, outcome)
                # Recovery is none of the time in which processes are killed.
                begun += outcome.recovered[-1]
                if options.long:
                    long_runs.append(_start_long_run(servers, folder))
                continue
            time.sleep(
                min(chance.expovariate(1 / options.pause), cuts[0] - passed if cuts else options.pause)
            )
            kind = chance.choices((WORKER, DAEMON, CODE, WEB), (5, 2, 2, 1))[0]
            outcome.kills[kind] += servers.kill(kind, chance)
        load.stop()
        (folder / "chaos").unlink()
        outcome.commits = load.commits
        with dg.DagsterInstance.from_config(str(home)) as instance:
            keys = {**_asset_keys(policy), folder / "orders.lance": dg.AssetKey("orders")}
            holds: list[Callable[[], Iterator[str]]] = [
                lambda: verdict.versions_are_published(instance, keys),
                lambda: verdict.failures_are_told(instance, alerts),
                lambda: verdict.nothing_is_forgotten(policy),
                lambda: verdict.partitions_are_loaded(instance, folder / "orders.lance", partitions),
                lambda: verdict.nothing_is_stale(folder),
                lambda: verdict.incidents_are_over(alerts),
            ]
            outcome.settled = _settle(holds)
            outcome.wrong += [line for check in holds for line in check()]
            outcome.wrong += verdict.alerts_come_once(alerts)
            outcome.wrong += _end_long_runs(instance, folder, long_runs)
            outcome.runs = Counter(run.status.value for run in instance.get_runs())
        outcome.alerts = len(alerts)
    outcome.wrong += verdict.rows_are_there(load.ids)
    outcome.wrong += verdict.nothing_is_done_twice(policy)
    outcome.operations = verdict.outcomes(policy)
    return outcome


def _settings(home: Path, storage: str | None) -> dict[str, Any]:
    """The shipped settings with shorter times, and with more runs at once than a demo needs."""
    settings = yaml.safe_load(_SHIPPED.read_text())
    settings["storage"] = yaml.safe_load(storage) if storage else {"sqlite": {"base_dir": str(home)}}
    settings["concurrency"]["runs"]["max_concurrent_runs"] = 4
    monitoring = settings["run_monitoring"]
    for name in ("cancel_timeout_seconds", "poll_interval_seconds", "free_slots_after_run_end_seconds"):
        monitoring[name] = monitoring[name] // FACTOR
    monitoring["max_runtime_seconds"] = LAST_RESORT_SECONDS
    return dict(settings)


def _servers(definitions: Path, home: Path, hook: str, options: Options) -> Servers:
    variables = {"HOOK": hook, "FACTOR": str(FACTOR), "PARTITIONS": str(options.partitions)}
    return Servers(definitions, home, variables | {"STEPS_APART": "1" if options.apart else ""})


def _start_backfill(servers: Servers, partitions: Sequence[str]) -> None:
    params = {"assetSelection": [{"path": ["orders_ingest"]}], "partitionNames": list(partitions)}
    answer = query(servers.url, _BACKFILL, {"params": params})["launchPartitionBackfill"]
    assert answer["__typename"] == "LaunchBackfillSuccess", answer


def _start_long_run(servers: Servers, folder: Path) -> str:
    tags = {"dagster/max_runtime": "36000", "dagster/max_retries": "0", "dagster/priority": "10"}
    started = folder / "long.pid"
    run_id = ""
    while not started.exists():
        # A machine that is busy may need longer to start a process than Dagster waits for it.
        if not run_id or run_status(servers.url, run_id) in ("FAILURE", "CANCELED"):
            run_id = launch_run(servers.url, "long", location=LOCATION, config={}, tags=tags)
        time.sleep(1)
    servers.spared.add(int(started.read_text()))
    started.unlink()
    return run_id


def _end_long_runs(instance: dg.DagsterInstance, folder: Path, runs: Sequence[str]) -> Iterator[str]:
    """The last one was never cut, and is at work until it is allowed to end; the others are dead."""
    for number, run_id in enumerate(runs):
        run = instance.get_run_by_id(run_id)
        assert run is not None
        wanted = dg.DagsterRunStatus.STARTED if run_id == runs[-1] else dg.DagsterRunStatus.FAILURE
        if run.status is not wanted:
            yield f"long run {number} of {len(runs)} is {run.status.value}, not {wanted.value}"
    (folder / "end").touch()


def _cut_power(servers: Servers, home: Path, outcome: Outcome) -> None:
    """Kill everything at once, start it again, and wait until it has recovered by itself."""
    servers.cut_power()
    with dg.DagsterInstance.from_config(str(home)) as instance:
        dead = {run.run_id for run in instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED))}
        begun = time.monotonic()
        servers.begin()
        while (left := _held(instance, dead)) and time.monotonic() - begun < _RECOVERY_SECONDS:
            time.sleep(1)
        outcome.recovered.append(time.monotonic() - begun)
        outcome.wrong += [f"{_RECOVERY_SECONDS:.0f} s after a power cut, {what}" for what in left]


def _held(instance: dg.DagsterInstance, dead: set[str]) -> list[str]:
    """What dead runs hold: a place among the runs at work, or in a pool."""
    unfinished = instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED))
    found = [f"dead run {run.run_id} is {run.status.value}" for run in unfinished if run.run_id in dead]
    storage = instance.event_log_storage
    for pool in storage.get_concurrency_keys():
        for run_id in storage.get_concurrency_info(pool).active_run_ids & dead:
            found.append(f"dead run {run_id} holds pool {pool}")
    return found


@contextmanager
def _serving(servers: Servers) -> Iterator[Servers]:
    try:
        servers.begin()
        yield servers
    finally:
        servers.stop()


def _asset_keys(policy: Path) -> Mapping[Path, dg.AssetKey]:
    read = load_policy(policy)
    found = fleet_refs(read, discover(FleetStores(read)).datasets)
    return {Path(ref.uri.removeprefix("file://")): ref.key for ref in found.values()}


def _settle(holds: Sequence[Callable[[], Iterator[str]]]) -> float:
    """Wait until the deployment has caught up by itself, or long enough; returns the seconds."""
    begun = time.monotonic()
    while time.monotonic() - begun < _SETTLE_SECONDS:
        if all(next(check(), None) is None for check in holds):
            break
        time.sleep(_POLL_SECONDS)
    return time.monotonic() - begun
