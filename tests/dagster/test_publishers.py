"""Runs and the manifest sensor publish beside each other: every version once, in order, the head last."""

import itertools
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_ops.dagster import LanceDatasetRef, LanceDownstream, publication
from lance_ops.dagster.publication import (
    build_version_events,
    existing_versions,
    last_published,
    own_versions,
    plan_publication,
    resume_after,
)
from lance_ops.dagster.sensor import manifest_sensor as sensor
from lance_ops.dagster.sensor import survey
from lance_ops.dagster.sensor.cursor import parse_cursor
from lance_ops.dagster.sensor.manifest_sensor import build_manifest_sensor
from lance_ops.dagster.sensor.memory import SHELVES, SensorMemory
from lance_ops.dagster.version_event import read_facts
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from tests.support.dagster import STORE, WITHOUT_INDEX, Daemon, published_versions, write

NUMBERS = itertools.count()
READY = dg.ResourceDefinition.hardcoded_resource(STORE)
"""Dagster would initialize the resource twice in each of some hundred ticks."""


@dg.op
def nothing():
    """Does nothing."""


@dg.job
def some_job():
    nothing()


@dg.job
def writing_job():
    nothing()


@dataclass
class World:
    """A dataset, its writers, and what they and the sensor have done so far.

    Attributes:
        ref: The dataset.
        instance: With the event log.
        clock: Virtual; a commit gets the time at which it was made.
        committed: When each version was made.
        runs: Those that are not finished.
        decided: What a run is about to store in the event log.
        pending: What a tick returned and the daemon has not stored yet.
        cursors: That the daemon has stored, oldest first.
        keys: Of the downstream runs that the daemon has started.
        memories: What the sensor had put beside its cursor by then.
    """

    ref: LanceDatasetRef
    instance: dg.DagsterInstance
    clock: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    committed: dict[int, datetime] = field(default_factory=dict)
    runs: list[dg.DagsterRun] = field(default_factory=list)
    decided: dict[str, list[dg.AssetMaterialization]] = field(default_factory=dict)
    pending: dg.SensorResult | None = None
    cursor: str | None = None
    cursors: list[str | None] = field(default_factory=list)
    memories: list[dict[str, str]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        downstream = [LanceDownstream(some_job, [self.ref.name])]
        self.sensor = build_manifest_sensor([self.ref], downstream=downstream)

    @property
    def store(self) -> Store:
        return STORE.open_store(self.ref)

    def commit(self, **options) -> None:
        number = len(self.committed)
        self.committed[write(self.ref.uri, number, number + 1, **options)] = self.clock

    def facts(self, dataset: Dataset):
        return replace(read_facts(dataset), committed_at=self.committed[dataset.version])

    # The steps

    def foreign(self, _: int) -> None:
        self.commit()

    def run_commits(self, which: int) -> None:
        if which >= len(self.runs):
            started = dg.DagsterRunStatus.STARTED
            self.runs.append(self.instance.create_run_for_job(writing_job, status=started))
        run = self.runs[which % len(self.runs)]
        self.commit(properties={"dagster.run_id": run.run_id})

    def run_decides(self, which: int) -> None:
        if not self.runs:
            return
        run_id = self.runs[which % len(self.runs)].run_id
        published = last_published(self.instance, self.ref.key)
        versions = existing_versions(self.store)
        after = resume_after(published, versions[-1])
        own, _ = own_versions(self.store, versions, after, run_id)
        events = build_version_events(self.ref, self.store, plan_publication(own, after))
        self.decided[run_id] = [event.materialization for event in events]

    def run_tells(self, which: int) -> None:
        if self.runs:
            run_id = self.runs[which % len(self.runs)].run_id
            for event in self.decided.pop(run_id, []):
                self.instance.report_runless_asset_event(event)

    def run_ends(self, which: int) -> None:
        if self.runs:
            run = self.runs.pop(which % len(self.runs))
            self.decided.pop(run.run_id, None)
            self.instance.report_run_failed(run)

    def tick(self, _: int) -> None:
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"lance_store": READY}
        ) as context:
            result = self.sensor(context)
        assert isinstance(result, dg.SensorResult)
        self.pending = result

    def daemon_stores(self, _: int) -> None:
        if self.pending is not None:
            for event in self.pending.asset_events:
                self.instance.report_runless_asset_event(event)
            self.keys |= {request.run_key for request in self.pending.run_requests or []}
            self.cursor = self.pending.cursor
            self.cursors.append(self.cursor)
            self.memories.append(self.memory)
        self.pending = None

    def daemon_dies(self, after: int) -> None:
        """After it has stored some of the events."""
        if self.pending is not None:
            for event in self.pending.asset_events[:after]:
                self.instance.report_runless_asset_event(event)
        self.pending = None

    def cursor_is_lost(self, _: int) -> None:
        if self.pending is None:
            self.cursor = None

    def cursor_is_set_back(self, which: int) -> None:
        if self.pending is None and self.cursors:
            self.cursor = self.cursors[which % len(self.cursors)]

    def memory_is_lost(self, _: int) -> None:
        self.remember(dict.fromkeys(self.memory, ""))

    def memory_is_set_back(self, which: int) -> None:
        if self.memories:
            self.remember(dict.fromkeys(self.memory, "") | self.memories[which % len(self.memories)])

    def somebody_tries_the_sensor(self, _: int) -> None:
        """In the UI: a tick of which nothing is stored, or one of a second daemon that dies."""
        kept, self.pending = self.pending, None
        self.tick(0)
        self.pending = kept

    @property
    def memory(self) -> dict[str, str]:
        storage = self.instance.daemon_cursor_storage
        names = [parse_cursor(text).memory for text in [self.cursor, *self.cursors]]
        keys = {
            SensorMemory(self.instance, f"{self.sensor.name}\n", name, is_new=False).key(shelf)
            for name in names
            for shelf in range(SHELVES)
        }
        return dict(storage.get_cursor_values(keys))

    def remember(self, memory: dict[str, str]) -> None:
        for key, text in memory.items():
            self.instance.daemon_cursor_storage.set_cursor_values({key: text})

    def time_passes(self, which: int) -> None:
        # A run does not sleep between its look into the event log and its events.
        self.decided.clear()
        self.clock += timedelta(seconds=(30, 70, 150)[which % 3])

    def settle(self) -> None:
        while self.runs:
            self.run_ends(0)
        for _ in range(3):
            self.daemon_stores(0)
            self.tick(0)
        assert self.pending is not None
        assert self.pending.asset_events == []


SIMPLE = st.tuples(
    st.sampled_from(
        [
            World.foreign,
            World.foreign,
            World.run_commits,
            World.run_commits,
            World.run_ends,
            World.time_passes,
            World.cursor_is_lost,
            World.cursor_is_set_back,
            World.memory_is_lost,
            World.memory_is_set_back,
            World.somebody_tries_the_sensor,
        ]
    ),
    st.integers(0, 2),
).map(lambda step: [step])


def around(inner):
    """What takes a while, with other things happening in the middle of it."""
    between = st.lists(inner, max_size=3).map(lambda parts: [step for part in parts for step in part])
    run = st.tuples(st.integers(0, 1), between).map(
        lambda made: [(World.run_decides, made[0]), *made[1], (World.run_tells, made[0])]
    )
    ends = st.sampled_from([World.daemon_stores, World.daemon_stores, World.daemon_dies])
    tick = st.tuples(between, ends, st.integers(0, 2)).map(
        lambda made: [(World.tick, 0), *made[0], (made[1], made[2])]
    )
    return st.one_of(inner, run, tick)


HISTORIES = st.lists(around(around(SIMPLE)), min_size=3, max_size=10).map(
    lambda parts: [step for part in parts for step in part]
)


@pytest.fixture(scope="module")
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def world(monkeypatch):
    """Makes worlds whose clock the code under test goes by."""
    current: list[World] = []
    monkeypatch.setattr(publication, "now_utc", lambda: current[-1].clock)
    monkeypatch.setattr(sensor, "now_utc", lambda: current[-1].clock)
    monkeypatch.setattr(publication, "read_facts", lambda dataset: current[-1].facts(dataset))
    monkeypatch.setattr(survey, "evaluate_checks", lambda *_, **__: [])

    def make(instance: dg.DagsterInstance) -> World:
        # A name of its own: worlds share an instance, which takes a third of a second to make.
        number = next(NUMBERS)
        current.append(World(LanceDatasetRef(f"t{number}", f"memory://publishers-{number}"), instance))
        return current[-1]

    return make


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=HISTORIES)
def test_every_version_is_told_once_in_order_and_the_last_event_is_the_head(world, instance, steps):
    here = world(instance)
    here.foreign(0)
    for step, number in steps:
        step(here, number)
    here.settle()
    assert published_versions(instance, here.ref) == sorted(here.committed)
    # Each commit changes data: once for each that was seen as the newest, and at last for the head.
    started = [key.split("|")[2] for key in here.keys]
    assert Dataset.open(here.store).data_version in started
    assert len(started) == len(set(started))


def test_a_tick_between_the_commit_of_a_run_and_its_event_tells_nothing_twice(world, instance):
    here = world(instance)
    here.foreign(0)
    here.tick(0)
    here.daemon_stores(0)
    here.run_commits(0)
    here.run_decides(0)
    here.foreign(0)
    here.tick(0)
    here.run_tells(0)
    here.daemon_stores(0)
    here.settle()
    assert published_versions(instance, here.ref) == [1, 2, 3]


def test_a_version_that_its_run_did_not_tell_in_time_is_left_to_the_sensor(world, instance):
    here = world(instance)
    here.run_commits(0)
    here.time_passes(2)
    # The tick decides to publish it; before that is stored, the run comes.
    here.tick(0)
    here.run_decides(0)
    here.run_tells(0)
    here.daemon_stores(0)
    here.run_commits(0)
    here.run_decides(0)
    here.run_tells(0)
    here.settle()
    assert published_versions(instance, here.ref) == [1, 2]


def test_a_run_that_lost_its_place_leaves_its_version_to_the_sensor(world, instance):
    here = world(instance)
    here.foreign(0)
    here.run_commits(0)
    here.run_decides(0)
    here.tick(0)
    here.run_tells(0)
    here.daemon_stores(0)
    assert published_versions(instance, here.ref) == [1]
    here.run_decides(0)
    here.run_tells(0)
    here.settle()
    assert published_versions(instance, here.ref) == [1, 2]


@pytest.mark.parametrize("told", [[1, 2, 3, 4, 2, 3], [], [1, 2]], ids=["out of order", "wiped", "cut off"])
def test_the_sensor_mends_a_page_that_shows_an_older_version(told, tmp_path):
    """Events of an older deployment, of somebody's script, or wiped ones: nobody else would commit."""
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    for number in range(4):
        write(ref.uri, number, number + 1)
    with dg.DagsterInstance.ephemeral() as elsewhere:
        daemon = Daemon(build_manifest_sensor([ref]), elsewhere)
        daemon.tick()
    with dg.DagsterInstance.ephemeral() as instance:
        for version in told:
            tags = {"lance/version": str(version)}
            instance.report_runless_asset_event(dg.AssetMaterialization(ref.key, tags=tags))
        mending = Daemon(build_manifest_sensor([ref]), instance, cursor=daemon.cursor)

        result = mending.tick()

        assert published_versions(instance, ref) == [*told, 4]
        checks = [event for event in result.asset_events if isinstance(event, dg.AssetCheckEvaluation)]
        assert len(checks) == len(WITHOUT_INDEX)
        assert mending.tick().asset_events == []


def test_what_somebody_reports_by_hand_is_no_reason_to_tell_anything_again(tmp_path):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    write(ref.uri, 0, 1)
    with dg.DagsterInstance.ephemeral() as instance:
        daemon = Daemon(build_manifest_sensor([ref]), instance)
        daemon.tick()
        instance.report_runless_asset_event(dg.AssetMaterialization(ref.key))
        assert daemon.tick().asset_events == []
