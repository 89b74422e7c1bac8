"""A change counts as handled when a run that read it has succeeded, whatever became of the runs before."""

import json
import random
from datetime import timedelta

import dagster as dg
import pytest

from lance_ops.dagster import (
    LanceDatasetRef,
    LanceDownstream,
    SensorOptions,
    attempts,
    build_check_alert_sensor,
    build_failure_alert_sensor,
    build_manifest_sensor,
    keys,
    publication,
)
from lance_ops.dagster.checks.catalog import CHECKS
from lance_ops.dagster.checks.records import latest_records
from lance_ops.maintenance.compact.operation import compact
from lance_ops.maintenance.metadata.actions import update_config
from lance_ops.table.dataset import Dataset
from lance_ops.table.history import history
from lance_ops.table.manifest import listing
from tests.support.dagster import Daemon, Told, versions_of, write


@dg.job
def recompute():
    pass


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def ref(tmp_path):
    return LanceDatasetRef("numbers", str(tmp_path / "numbers.lance"))


class World:
    """A dataset, the sensor, and the runs that it starts, which read when they begin."""

    def __init__(self, ref, instance, job="recompute"):
        self.ref, self.instance = ref, instance
        self.job = recompute if job == recompute.name else dg.GraphDefinition(name=job).to_job()
        sensor = build_manifest_sensor([ref], downstream=[LanceDownstream(self.job, [ref.name])])
        self.daemon = Daemon(sensor, instance)
        self.queued, self.working, self.read = [], [], {}
        self.computed = 0
        self.rows = 0

    def commit(self):
        write(self.ref.uri, self.rows, self.rows + 1)
        self.rows += 1

    def compact(self):
        if self.rows > 1:
            compact(self.ref.uri)

    def tick(self, *, dies_before_cursor=False):
        result = self.daemon.tick(dies_before_cursor=dies_before_cursor)
        for request in result.run_requests:
            self.queued.append(
                self.instance.create_run_for_job(
                    self.job, status=dg.DagsterRunStatus.NOT_STARTED, tags=request.tags
                )
            )
        return result

    def begin(self):
        if self.queued:
            run = self.queued.pop(0)
            self._event(run, "PIPELINE_START")
            self.read[run.run_id] = self.rows
            self.working.append(run)

    def succeed(self):
        if self.working:
            run = self.working.pop(0)
            self._event(run, "PIPELINE_SUCCESS")
            self.computed = self.read[run.run_id]

    def fail(self):
        if self.working:
            self.instance.report_run_failed(self.working.pop(0))

    def cancel(self):
        runs = self.queued or self.working
        if runs:
            self.instance.report_run_canceled(runs.pop(0))

    def vanish(self):
        """Somebody deletes a run that waits; its key is free again."""
        if self.queued:
            run = self.queued.pop(0)
            self.instance.delete_run(run.run_id)
            self.daemon.run_keys.clear()

    def lose_cursor(self):
        self.daemon.cursor = None

    def _event(self, run, kind):
        event = dg.DagsterEvent(event_type_value=kind, job_name=run.job_name)
        self.instance.report_dagster_event(event, run.run_id)

    def settle(self):
        """Let everything that is asked for succeed."""
        for _ in range(6):
            result = self.tick()
            if not (result.run_requests or self.queued or self.working):
                break
            while self.queued or self.working:
                self.begin()
                self.succeed()
        return result

    def verdict(self):
        return latest_records(self.instance, [self.ref])[self.ref.name][keys.DOWNSTREAM_COMPUTED].evaluation


STEPS = ("commit", "tick", "begin", "succeed", "tick")
ENDS = {"success": "succeed", "failure": "fail", "cancelled at work": "cancel"}


@pytest.mark.parametrize("end", [*ENDS, "cancelled in the queue", "deleted in the queue"])
def test_a_change_at_any_point_of_a_run_is_computed_however_the_run_ends(
    tmp_path, instance, monkeypatch, end
):
    """One dataset for each point at which the change arrives; at every other one, ticks die before that."""
    monkeypatch.setattr(attempts, "PAUSES", (timedelta(0),) * 50)
    steps = [ENDS.get(end, "succeed") if step == "succeed" else step for step in STEPS]
    if end.endswith("queue"):
        steps[2:4] = ["cancel" if end.startswith("cancelled") else "vanish"]
    for point in range(1, len(steps) + 1):
        ref = LanceDatasetRef(f"numbers{point}", str(tmp_path / f"{point}.lance"))
        world = World(ref, instance, f"recompute{point}")
        for step in [*steps[:point], "commit", *steps[point:]]:
            if step == "tick" and point % 2:
                world.tick(dies_before_cursor=True)
            getattr(world, step)()

        result = world.settle()

        assert world.computed == world.rows == 2
        assert not result.run_requests
        assert world.verdict().passed


ACTIONS = ("commit", "tick", "begin", "succeed", "fail", "cancel", "vanish", "lose_cursor", "compact")
WEIGHTS = (4, 6, 4, 3, 2, 2, 1, 1, 1)


@pytest.mark.parametrize("seed", range(2))
def test_the_newest_data_are_computed_whatever_becomes_of_runs(ref, instance, monkeypatch, seed):
    monkeypatch.setattr(attempts, "PAUSES", (timedelta(0),) * 50)
    world, chance = World(ref, instance), random.Random(seed)
    world.commit()
    for action in chance.choices(ACTIONS, WEIGHTS, k=14):
        getattr(world, action)()

    result = world.settle()

    assert world.computed == world.rows
    assert not result.run_requests
    assert world.verdict().passed


def test_a_run_that_keeps_failing_is_asked_for_three_times_more_and_then_given_up(ref, instance, monkeypatch):
    monkeypatch.setattr(attempts, "PAUSES", (timedelta(0),) * 3)
    world = World(ref, instance)
    world.commit()
    for _ in range(4):
        assert len(world.tick().run_requests) == 1
        assert not world.tick(dies_before_cursor=True).run_requests
        world.begin()
        world.fail()

    for _ in range(3):
        assert not world.tick().run_requests
    verdict = world.verdict()
    assert not verdict.passed
    assert "recompute has not read version 1: 4 runs failed" in verdict.description
    assert "dagster job launch -j recompute" in verdict.metadata["lance/error_hint"].value

    # The command in the hint starts a run that has no tag of the sensor.
    world.queued.append(instance.create_run_for_job(recompute, status=dg.DagsterRunStatus.NOT_STARTED))
    world.begin()
    world.succeed()
    world.tick()
    assert world.verdict().passed


def test_a_retry_waits_for_its_pause(ref, instance):
    world = World(ref, instance)
    world.commit()
    world.tick()
    world.cancel()

    result = world.tick()

    assert not result.run_requests
    assert "1 run of recompute for numbers failed: the next one is due at" in str(result.skip_reason)


@pytest.mark.parametrize(("version", "handled"), [(1, False), (2, True), (None, False)])
def test_a_run_that_began_before_a_change_counts_when_it_recorded_that_it_read_it(
    ref, instance, version, handled
):
    world = World(ref, instance)
    world.commit()
    (request,) = world.daemon.tick().run_requests

    @dg.op
    def work(context):
        world.commit()
        if version is not None:
            noted = {keys.INPUT_VERSIONS: dg.MetadataValue.json({ref.name: version})}
            context.log_event(dg.AssetMaterialization("derived", metadata=noted))

    @dg.job(name="recompute")
    def at_work():
        work()

    assert at_work.execute_in_process(instance=instance, tags=request.tags).success

    assert len(world.tick().run_requests) == (0 if handled else 1)


def test_a_job_that_reads_a_version_of_its_own_choice_is_not_started_in_every_tick(ref, instance):
    known = attempts.Attempt("run", attempts.RunState.SUCCEEDED, began=20.0, ended=30.0, read=3)
    outlook = attempts.outlook_of_version([known], since=7, known_at=10.0, now=31.0)
    assert outlook.stage is attempts.Stage.PAUSED


@pytest.mark.parametrize(("schema", "status"), [(2, "SUCCESS"), (1, "FAILURE"), (2, "CANCELED"), (1, None)])
def test_a_cursor_of_an_earlier_release_is_read_on(ref, instance, monkeypatch, schema, status):
    """It says what was asked for; the runs say what became of it."""
    monkeypatch.setattr(attempts, "PAUSES", (timedelta(0),))
    world = World(ref, instance)
    world.commit()
    (request,) = world.daemon.tick().run_requests
    if status is not None:
        instance.create_run_for_job(recompute, status=dg.DagsterRunStatus[status], tags=request.tags)
    head = Dataset.open(ref.uri)
    entry = {"version": head.version, "data": head.data_version, "checked": 1_900_000_000}
    old = {"schema": schema, "offset": 0, "datasets": {ref.name: entry}}
    world.daemon.cursor = json.dumps(old | ({"memory": ""} if schema == 2 else {}))
    world.daemon.run_keys.clear()

    result = world.daemon.tick()

    assert not [event for event in result.asset_events if isinstance(event, dg.AssetMaterialization)]
    assert len(result.run_requests) == (0 if status == "SUCCESS" else 1)


def test_a_tick_reads_as_many_versions_of_a_backlog_as_it_tells_of(ref, instance, monkeypatch):
    monkeypatch.setattr(publication, "MOST_READ", 30)
    read = []
    original = history.read_summary
    monkeypatch.setattr(history, "read_summary", lambda *args: read.append(1) or original(*args))
    world = World(ref, instance)
    world.commit()
    world.tick()
    dataset = Dataset.open(ref.uri, storage_options={"fsync": "false"})
    for number in range(300):
        dataset = update_config(dataset, {"note": str(number)}).dataset
    read.clear()
    listed = []
    original_listing = listing.iter_manifests
    monkeypatch.setattr(
        listing, "iter_manifests", lambda store: listed.append(store) or original_listing(store)
    )

    result = world.tick()

    assert len(listed) == 1
    assert versions_of(result.asset_events) == [281, *range(282, 302)]
    event = next(event for event in result.asset_events if isinstance(event, dg.AssetMaterialization))
    assert event.metadata["lance/summarised_versions"].value == 280
    counted = {
        record.data["operation"]: record.data["versions"]
        for record in event.metadata["lance/summarised_operations"].records
    }
    assert counted == {"not read: versions 2 to 271": 270, "UpdateConfig": 10}
    assert len(read) < 200


def test_the_first_look_at_many_datasets_is_spread_over_ticks_without_a_gap(tmp_path, instance):
    refs = [LanceDatasetRef(f"t{number}", str(tmp_path / f"t{number}.lance")) for number in range(12)]
    for ref in refs:
        write(ref.uri, 0, 1)
    daemon = Daemon(build_manifest_sensor(refs, options=SensorOptions(max_events=20)), instance)

    ticks = [daemon.tick() for _ in range(6)]

    assert max(len(tick.asset_events) for tick in ticks) <= 20 + len(CHECKS)
    assert not ticks[-1].asset_events
    events = [event for tick in ticks for event in tick.asset_events]
    published = [event.asset_key.path[0] for event in events if isinstance(event, dg.AssetMaterialization)]
    assert sorted(published) == sorted(ref.name for ref in refs)


@pytest.mark.parametrize(("ends", "kinds"), [("fail", {"check", "failure"}), ("cancel", {"check"})])
def test_what_was_given_up_is_an_alert_until_the_job_succeeds(ref, instance, monkeypatch, ends, kinds):
    monkeypatch.setattr(attempts, "PAUSES", (timedelta(0),) * 3)
    world, told = World(ref, instance), Told()
    job = LanceDownstream(recompute, [ref.name])
    alarms = [
        Daemon(build_check_alert_sensor([ref], told), instance, resources={}),
        Daemon(build_failure_alert_sensor([ref], told, downstream=[job]), instance, resources={}),
    ]
    world.commit()
    for _ in range(4):
        world.tick()
        if ends == "fail":
            world.begin()
        getattr(world, ends)()
    for _ in range(3):
        assert not world.tick().run_requests
        for alarm in alarms:
            alarm.tick()
    assert {alert.kind for alert in told.alerts} == kinds
    assert len(told.alerts) == len(kinds)

    world.queued.append(instance.create_run_for_job(recompute, status=dg.DagsterRunStatus.NOT_STARTED))
    world.begin()
    world.succeed()
    for _ in range(2):
        world.tick()
        for alarm in alarms:
            alarm.tick()
    ended = told.alerts[len(kinds) :]
    assert {alert.kind for alert in ended} == kinds
    assert all(alert.recovered or alert.passed for alert in ended)
    assert len(ended) == len(kinds)
