from datetime import timedelta

import dagster as dg
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.dagster import (
    LanceDatasetRef,
    LanceIngest,
    LanceIOManager,
    build_failure_alert_sensor,
    build_lance_definitions,
    build_retry_sensor,
    keys,
    lance_data_changed,
)
from lance_ops.dagster.ingest import asset as ingest_asset
from lance_ops.dagster.jobs import turn
from lance_ops.dagster.run_map import RunMap
from lance_ops.dagster.sensor import queue_tags
from tests.support.dagster import STORE, Daemon, Told

# Dagster copies a sensor with a job through a parameter in beta.
pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
DAYS = dg.StaticPartitionsDefinition(["a", "b"])


class World:
    """Ingests, an asset that is a dataset and one that is computed from it; what fails is chosen."""

    def __init__(self, tmp_path, instance):
        self.instance, self.failing = instance, set()
        self.orders = LanceDatasetRef("orders", str(tmp_path / "orders.lance"))
        self.visits = LanceDatasetRef("visits", str(tmp_path / "visits.lance"))
        by_day = LanceIngest(self.orders, self.rows_of("by_day"), partitions=DAYS, name="by_day")
        whole = LanceIngest(self.orders, self.rows_of("whole"), name="whole")

        @dg.asset(key=self.visits.key)
        def visits() -> pa.Table:
            return self.rows_of("visits")(None)

        @dg.asset(deps=[self.orders.key], automation_condition=lance_data_changed())
        def conditional() -> None:
            self.rows_of("conditional")(None)

        @dg.asset
        def foreign() -> None:
            self.rows_of("foreign")(None)

        refs = [self.orders, self.visits]
        lance = build_lance_definitions(refs, store=STORE, ingests=[by_day, whole], assets=[visits])
        self.repository = dg.Definitions.merge(
            lance,
            dg.Definitions(
                assets=[conditional, foreign],
                resources={"io_manager": LanceIOManager(root=str(tmp_path), store=STORE)},
                executor=dg.in_process_executor,
            ),
        ).get_repository_def()
        (sensor,) = [item for item in lance.sensors if item.name == "lance_retry_sensor"]
        self.daemon = Daemon(sensor, instance, repository=self.repository)
        self.ingests = [by_day, whole]
        self.run_map = RunMap(refs, ingests=self.ingests)

    def rows_of(self, name):
        def give(_):
            if name in self.failing:
                raise dg.Failure(f"{name} is down", allow_retries=False)
            return pa.table({"x": [1]})

        return give

    def run(self, asset, partition=None, tags=None):
        key = dg.AssetKey(asset)
        job = self.repository.get_implicit_job_def_for_assets([key])
        return job.execute_in_process(
            instance=self.instance,
            asset_selection=[key],
            partition_key=partition,
            tags=tags,
            raise_on_error=False,
        )

    def create(self, asset, status, tags=None):
        key = dg.AssetKey(asset)
        job = self.repository.get_implicit_job_def_for_assets([key])
        return self.instance.create_run_for_job(
            job, asset_selection=frozenset({key}), status=dg.DagsterRunStatus[status], tags=tags
        )

    def requests(self):
        return self.daemon.tick().run_requests


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setattr("lance_ops.dagster.retry_sensor.PAUSES", (timedelta(0),) * 3)
    with dg.DagsterInstance.ephemeral() as instance:
        world = World(tmp_path, instance)
        assert not world.requests()
        yield world


COMMANDS = {
    "by_day": "dagster job backfill -j by_day_job --partitions b --noprompt",
    "whole": "dagster job launch -j whole_job",
    "visits": "dagster asset materialize --select visits",
    "conditional": "dagster asset materialize --select conditional",
}


@pytest.mark.parametrize("ends", ["fail", "cancel"])
@pytest.mark.parametrize(
    ("asset", "partition"), [("by_day", "b"), ("whole", None), ("visits", None), ("conditional", None)]
)
def test_what_was_given_up_is_one_open_alert_with_the_command_that_starts_it_again(
    world, asset, partition, ends
):
    told = Told()
    alarm = Daemon(
        build_failure_alert_sensor([world.orders, world.visits], told, ingests=world.ingests),
        world.instance,
        resources={},
        repository=world.repository,
    )
    world.failing.add(asset)
    tags = {"team": "x"}
    for attempt in range(4):
        alarm.tick()
        if ends == "fail":
            world.run(asset, partition, tags)
        else:
            chosen = {"dagster/partition": partition} if partition else {}
            world.instance.report_run_canceled(world.create(asset, "NOT_STARTED", {**tags, **chosen}))
        if attempt < 3:
            (request,) = world.requests()
            tags = request.tags
            assert request.asset_selection == [dg.AssetKey(asset)]
            assert request.partition_key == partition
            assert tags["team"] == "x"
            assert tags[keys.ATTEMPT_TAG] == str(attempt + 1)
            assert not world.requests()
    for _ in range(2):
        result = world.daemon.tick()
        alarm.tick()
    assert not result.run_requests
    given_up = f"4 runs failed: given up; fix the cause, then start it again: {COMMANDS[asset]}"
    assert given_up in str(result.skip_reason)
    (alert,) = told.alerts
    assert alert.restart == COMMANDS[asset]
    assert str(alert).count(f"to repeat it: {COMMANDS[asset]}") == 1

    world.failing.clear()
    assert world.run(asset, partition).success
    for _ in range(2):
        alarm.tick()
    assert [alert.recovered for alert in told.alerts] == [False, True]


def test_runs_of_others_and_of_before_are_left_alone(world):
    world.failing |= {"foreign", "whole"}
    world.run("foreign")
    assert not world.requests()

    world.run("whole")
    late = Daemon(world.daemon.sensor, world.instance, repository=world.repository)
    assert not late.tick().run_requests
    assert not late.tick().run_requests


def test_a_newer_run_of_the_same_work_replaces_the_failed_one(world):
    world.failing.add("by_day")
    world.run("by_day", "a")
    world.failing.clear()
    world.run("by_day", "b")
    (request,) = world.requests()
    assert request.partition_key == "a"
    assert world.run("by_day", "a").success
    world.daemon.run_keys.clear()
    assert not world.requests()


def test_what_a_failed_run_has_computed_is_not_asked_for_again(world):
    world.failing.add("foreign")
    keys_of = [dg.AssetKey("whole"), dg.AssetKey("foreign")]
    job = world.repository.get_implicit_job_def_for_assets(keys_of)
    result = job.execute_in_process(instance=world.instance, asset_selection=keys_of, raise_on_error=False)
    assert not result.success
    assert lo.dataset(world.orders.uri).count_rows() == 1
    assert not world.requests()


@pytest.mark.parametrize(
    ("asset", "tags", "asked"),
    [
        ("whole", {}, 1),
        ("whole", {"dagster/backfill": "x"}, 0),
        ("conditional", {"dagster/backfill": "x"}, 1),
    ],
)
def test_a_run_that_was_cancelled_in_the_queue_is_asked_for_again(world, asset, tags, asked):
    world.instance.report_run_canceled(world.create(asset, "NOT_STARTED", tags))
    assert len(world.requests()) == asked


@pytest.mark.parametrize(("asset", "asked"), [("whole", 0), ("visits", 0), ("conditional", 1)])
def test_what_a_person_terminated_is_asked_for_only_where_data_would_stay_old(world, asset, asked):
    run = world.create(asset, "STARTING")
    event = dg.DagsterEvent(event_type_value="PIPELINE_START", job_name=run.job_name)
    world.instance.report_dagster_event(event, run.run_id)
    world.instance.report_run_canceled(run)
    assert len(world.requests()) == asked


def test_a_run_that_died_after_its_commit_adds_nothing_twice(world, monkeypatch):
    def die(*_):
        raise dg.Failure("the process died", allow_retries=False)

    with monkeypatch.context() as patch:
        patch.setattr(ingest_asset, "report_versions", die)
        assert not world.run("whole").success
    assert lo.dataset(world.orders.uri).count_rows() == 1

    (request,) = world.requests()
    assert world.run("whole", tags=request.tags).success

    assert lo.dataset(world.orders.uri).count_rows() == 1


def test_a_failed_run_of_a_fleet_is_asked_for_again(world):
    @dg.job
    def fleet():
        dg.op(world.rows_of("fleet"), name="look", ins={"_": dg.In(dg.Nothing)})()

    daemon = Daemon(build_retry_sensor(fleet=fleet), world.instance)
    assert not daemon.tick().run_requests
    run = world.instance.create_run_for_job(fleet, run_config={})
    world.instance.report_run_failed(run)
    (request,) = daemon.tick().run_requests
    assert request.job_name == "fleet"

    told = Told()
    alarm = Daemon(build_failure_alert_sensor([], told, fleets={"fleet": "p"}), world.instance, resources={})
    alarm.tick()
    (alert,) = told.alerts
    assert alert.restart == "dagster job launch -j fleet"


def test_a_retry_waits_for_its_pause(world, monkeypatch):
    monkeypatch.setattr("lance_ops.dagster.retry_sensor.PAUSES", (timedelta(minutes=5),))
    world.failing.add("whole")
    world.run("whole")
    result = world.daemon.tick()
    assert not result.run_requests
    assert "whole: the next attempt is due at" in str(result.skip_reason)


def test_a_step_without_the_tag_waits_for_the_run_that_began_before(world):
    class Context:
        def __init__(self, run):
            self.instance, self.run = world.instance, run
            self.log = dg.get_dagster_logger()

    def started(tags):
        run = world.create("whole", "STARTING", tags)
        event = dg.DagsterEvent(event_type_value="PIPELINE_START", job_name=run.job_name)
        world.instance.report_dagster_event(event, run.run_id)
        return run

    first, second = started({keys.DATASET_TAG: "orders"}), started({})
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            world.instance.report_run_failed(first)

    turn.take_turn(Context(second), "orders", sleep=sleep)
    assert len(pauses) == 3
    assert world.instance.get_run_by_id(second.run_id).tags[keys.DATASET_TAG] == "orders"
    turn.take_turn(Context(first), "orders", sleep=pauses.append)
    assert len(pauses) == 3

    dead = started({keys.DATASET_TAG: "orders"})
    turn.take_turn(Context(started({})), "orders", longest=timedelta(seconds=10), sleep=pauses.append)
    assert len(pauses) == 5
    assert dead.run_id


def test_runs_in_the_queue_are_tagged_with_the_dataset_that_they_write(world, monkeypatch):
    # A queued run has to be one of a code location that a daemon loaded.
    monkeypatch.setattr(queue_tags, "_WAITING", [dg.DagsterRunStatus.NOT_STARTED])
    run = world.create("by_day", "NOT_STARTED")
    reader = world.create("conditional", "NOT_STARTED")
    assert queue_tags.tag_waiting_runs(world.instance, world.run_map) == 1
    assert queue_tags.tag_waiting_runs(world.instance, world.run_map) == 0
    assert world.instance.get_run_by_id(run.run_id).tags[keys.DATASET_TAG] == "orders"
    assert keys.DATASET_TAG not in world.instance.get_run_by_id(reader.run_id).tags
