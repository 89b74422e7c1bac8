"""Rounds of real maintenance: silence while all is well, each fault sent once, and its end once.

python -m tests.dagster.alerts.rounds [--datasets 300] [--rounds 3] [--faults 20] [--seed 1]

In each round others append to every dataset, schedules start what is due, runs do it, and sensors publish,
check and send. Then faults of nine kinds come and are mended. `test_simulated_day.py` has a day of ticks.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import dagster as dg

import lance_ops as lo
from lance_ops.alerts.values import Alert, CheckAlert, is_end
from lance_ops.dagster import (
    LanceDatasetRef,
    LanceIngest,
    MaintenancePolicy,
    Message,
    SensorOptions,
    build_lance_definitions,
)
from lance_ops.maintenance.compact import commit_round
from tests.support.dagster import STORE, Daemon, write
from tests.support.tables import overwrite, rows
from tests.support.unknown_index import add_unknown_index

POLICY = MaintenancePolicy(max_small_fragments=2, max_versions=6, older_than=timedelta(0), retain_versions=2)
APPENDS = 3
WITHIN = 2
"""Ticks in which a fault, or its end, has to be sent."""
_START = datetime(2026, 1, 5, 0, 40, tzinfo=UTC)
_SENSORS = ("lance_manifest_sensor", "lance_check_alert_sensor", "lance_failure_alert_sensor")
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}

Sent = tuple[str, str, bool]
"""Dataset, check or job, and whether it is an end."""


@dataclass
class Rounds:
    """What came of it.

    Attributes:
        wrong: What does not hold; empty when all is well.
        faults: By what is sent about them.
        runs: By job and state.
        ticks: Of each sensor.
        quiet: Messages while nothing was wrong.
        sent: All messages.
        seconds: That it took.
    """

    wrong: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    ticks: int = 0
    quiet: int = 0
    sent: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        runs = ", ".join(f"{count:,} {name}" for name, count in sorted(self.runs.items()))
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        return (
            f"{self.quiet} messages while nothing was wrong; {self.faults.total()} faults ({faults}), "
            f"{self.sent} messages about them; runs: {runs}; {self.ticks} ticks of each sensor; "
            f"{self.seconds:.0f} s; {len(self.wrong)} wrong"
        )


class World:
    """Datasets with their code location, whose schedules, runs and sensors are evaluated here.

    Args:
        folder: Empty.
        instance: Of Dagster.
        datasets: How many there are.
        outcome: Counts are added to it.
    """

    def __init__(self, folder: Path, instance: dg.DagsterInstance, datasets: int, outcome: Rounds) -> None:
        self.instance, self.outcome = instance, outcome
        self.refs = [
            LanceDatasetRef(f"d{number:03}", str(folder / f"d{number:03}.lance"), policy=POLICY)
            for number in range(datasets)
        ]
        self.rows = 0
        self.failing: set[str] = set()
        self.inbox: list[Sent] = []
        for ref in self.refs:
            self.append(ref, 1)
        # Every tick looks at everything, files included, however slow the machine is.
        options = SensorOptions(
            full_check_every=timedelta(0),
            full_checks=datasets,
            max_events=20 * datasets,
            budget_seconds=3600.0,
        )
        self.definitions = build_lance_definitions(
            self.refs,
            store=STORE,
            ingests=[LanceIngest(ref, self._source(ref), name=f"{ref.name}_load") for ref in self.refs[::3]],
            notifier=self,
            sensor_options=options,
        )
        self.repository = self.definitions.get_repository_def()
        sensors = {sensor.name: sensor for sensor in self.definitions.sensors or ()}
        self.sensors = [Daemon(sensors[name], instance, repository=self.repository) for name in _SENSORS]
        self._asked: set[str] = set()

    def notify(self, alert: Alert | Message) -> None:
        """Take a message, as a recipient."""
        for item in alert.alerts.values() if isinstance(alert, Message) else [alert]:
            what = item.check if isinstance(item, CheckAlert) else item.job
            self.inbox.append((item.dataset, what, is_end(item)))

    def _source(self, ref: LanceDatasetRef) -> Callable[[object], object]:
        def give(_: object) -> object:
            if ref.name in self.failing:
                raise dg.Failure("the source is down", allow_retries=False)
            return rows(0, 1)

        return give

    def append(self, ref: LanceDatasetRef, times: int) -> None:
        """Commit as somebody else."""
        for _ in range(times):
            write(ref.uri, self.rows, self.rows + 5, storage_options={"fsync": "false"})
            self.rows += 5

    def tick(self, times: int = 1) -> list[Sent]:
        """Evaluate all sensors; returns what was sent."""
        self.inbox = []
        for _ in range(times):
            for sensor in self.sensors:
                sensor.tick()
            self.outcome.ticks += 1
        return self.inbox

    def run(self, job: str, ref: LanceDatasetRef | None = None, **config: object) -> bool:
        """Run a job; returns whether it succeeded."""
        op = {job.removeprefix("lance_"): {"config": config}} if config else {}
        return self._execute(job, None if ref is None else ref.name, {"ops": op} if op else {}, {})

    def _execute(
        self, job: str, partition: str | None, config: dict[str, object], tags: dict[str, str]
    ) -> bool:
        result = self.repository.get_job(job).execute_in_process(
            instance=self.instance,
            partition_key=partition,
            run_config=config | _QUIET,
            tags=tags,
            raise_on_error=False,
        )
        self.outcome.runs[f"{job} {'done' if result.success else 'failed'}"] += 1
        return result.success

    def maintain(self, at: datetime) -> None:
        """Evaluate the schedules, and run what they ask for."""
        for schedule in self.definitions.schedules or ():
            with dg.build_schedule_context(
                instance=self.instance,
                scheduled_execution_time=at,
                resources={"lance_store": STORE},
                repository_def=self.repository,
            ) as context:
                found = schedule.evaluate_tick(context)
            for request in found.run_requests or ():
                if request.run_key in self._asked:
                    continue
                self._asked.add(str(request.run_key))
                self._execute(
                    str(request.job_name or schedule.job_name),
                    request.partition_key,
                    dict(request.run_config),
                    dict(request.tags),
                )


def _lost_file(world: World, ref: LanceDatasetRef) -> Iterator[str]:
    path = Path(ref.uri) / "data" / lo.dataset(ref.uri).fragments[0].files[0].path
    path.rename(path.with_suffix(".away"))
    yield "files_present"
    path.with_suffix(".away").rename(path)


def _damaged_deletions(world: World, ref: LanceDatasetRef) -> Iterator[str]:
    values = lo.dataset(ref.uri).to_table()["a"].to_pylist()
    lo.delete(ref.uri, f"a = {values[0]}")
    path = max((Path(ref.uri) / "_deletions").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    content = path.read_bytes()
    path.write_bytes(b"x" * len(content))
    yield "deletion_vectors_valid"
    path.write_bytes(content)


def _unreadable_manifest(world: World, ref: LanceDatasetRef) -> Iterator[str]:
    path = min((Path(ref.uri) / "_versions").glob("*.manifest"))
    content = path.read_bytes()
    path.write_bytes(b"x" * len(content))
    yield "manifest_readable"
    path.write_bytes(content)


def _gone(world: World, ref: LanceDatasetRef) -> Iterator[str]:
    path = Path(ref.uri)
    path.rename(path.with_suffix(".away"))
    yield "manifest_readable"
    path.with_suffix(".away").rename(path)


def _blocked(world: World, ref: LanceDatasetRef) -> Iterator[str]:
    add_unknown_index(ref.uri, "a")
    world.append(ref, APPENDS)
    yield "index_coverage"
    lo.drop_index(ref.uri, "strange")


def _dead_run(world: World, ref: LanceDatasetRef) -> Iterator[str]:
    tags = {"lance_ops/dataset": ref.name, "dagster/partition": ref.name}
    run = world.instance.create_run_for_job(world.repository.get_job("lance_compact"), tags=tags)
    world.instance.report_run_failed(run, "the process of the run is gone")
    yield "lance_compact"
    world.run("lance_compact", ref)


def _wrong_argument(world: World, ref: LanceDatasetRef) -> Iterator[str]:
    world.run("lance_delete", ref, predicate="nothing = 1")
    yield "lance_delete"
    world.run("lance_delete", ref, predicate="a = -1")


def _failed_ingest(world: World, ref: LanceDatasetRef) -> Iterator[str]:
    job = f"{ref.name}_load_job"
    world.failing.add(ref.name)
    world.run(job)
    yield job
    world.failing.clear()
    world.run(job)


def _lost_conflict(world: World, ref: LanceDatasetRef) -> Iterator[str]:
    original = commit_round.commit_rewrites

    def late(*args: object, **options: object) -> object:
        overwrite(lo.dataset(ref.uri), rows(500, 510))
        return original(*args, **options)

    world.append(ref, APPENDS)
    with patch.object(commit_round, "commit_rewrites", late):
        world.run("lance_compact", ref, conflict_retries=0)
    yield "lance_compact"
    world.append(ref, APPENDS)
    world.run("lance_compact", ref)


_KINDS: Sequence[Callable[[World, LanceDatasetRef], Iterator[str]]] = (
    _failed_ingest,
    _lost_file,
    _damaged_deletions,
    _unreadable_manifest,
    _gone,
    _blocked,
    _dead_run,
    _wrong_argument,
    _lost_conflict,
)


def run_rounds(
    folder: Path, instance: dg.DagsterInstance, *, datasets: int, rounds: int, faults: int, seed: int
) -> Rounds:
    """Maintain datasets for some rounds, with faults after the maintenance of each.

    Args:
        folder: Empty; the datasets are put there.
        instance: Of Dagster, without a past.
        datasets: At least as many as `faults`, and three for each ingest that is to fail.
        rounds: How many.
        faults: In each round, each on another dataset.
        seed: Of the choice of datasets.
    """
    outcome, chance, began = Rounds(), random.Random(seed), time.monotonic()
    world = World(folder, instance, datasets, outcome)
    quiet = world.tick(2)
    for number in range(rounds):
        for ref in world.refs:
            world.append(ref, APPENDS)
        quiet += world.tick(2)
        world.maintain(_START + timedelta(hours=number))
        quiet += world.tick(2)
        outcome.wrong += [f"round {number}, while nothing was wrong: {item}" for item in quiet]
        outcome.quiet += len(quiet)
        quiet = []
        _break(world, _chosen(world, chance, faults), number)
        outcome.seconds = time.monotonic() - began
    return outcome


def _chosen(
    world: World, chance: random.Random, count: int
) -> list[tuple[LanceDatasetRef, Callable[[World, LanceDatasetRef], Iterator[str]]]]:
    """Draw a dataset for each fault; those that an ingest loads for ingests that fail."""
    kinds = [_KINDS[number % len(_KINDS)] for number in range(count)]
    loads = kinds.count(_failed_ingest)
    loaded = chance.sample(world.refs[::3], loads)
    others = chance.sample([ref for ref in world.refs if ref not in loaded], count - loads)
    return [(loaded.pop() if kind is _failed_ingest else others.pop(), kind) for kind in kinds]


def _break(
    world: World,
    chosen: Sequence[tuple[LanceDatasetRef, Callable[[World, LanceDatasetRef], Iterator[str]]]],
    number: int,
) -> None:
    """Let faults come, and mend them; what was sent has to be one message for each, twice."""
    outcome = world.outcome
    made = [(ref, kind(world, ref)) for ref, kind in chosen]
    expected = Counter((ref.name, next(fault), False) for ref, fault in made)
    outcome.faults.update(what for _, what, _ in expected.elements())
    _compare(outcome, expected, world.tick(WITHIN), f"round {number}, after the faults")
    for _, fault in made:
        next(fault, None)
    ended = Counter({(name, what, True): times for (name, what, _), times in expected.items()})
    _compare(outcome, ended, world.tick(WITHIN), f"round {number}, after they were mended")
    _compare(outcome, Counter(), world.tick(WITHIN), f"round {number}, after all")


def _compare(outcome: Rounds, expected: Counter[Sent], sent: Sequence[Sent], when: str) -> None:
    outcome.sent += len(sent)
    found = Counter(sent)
    outcome.wrong += [f"{when}: {item} was not sent" for item in expected - found]
    outcome.wrong += [f"{when}: {item} was sent {found[item]} times" for item in found - expected]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--faults", type=int, default=20, help="in each round")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, dg.DagsterInstance.local_temp(home) as instance:
        lake = Path(home, "lake")
        lake.mkdir()
        outcome = run_rounds(lake, instance, **vars(given))
    sys.stdout.write(f"{outcome}\n")
    sys.stdout.writelines(f"WRONG: {line}\n" for line in outcome.wrong[:50])
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
