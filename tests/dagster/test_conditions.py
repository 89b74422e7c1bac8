import random
from datetime import timedelta

import dagster as dg
import pytest

from lance_ops.dagster import (
    LanceDatasetRef,
    build_asset_checks,
    build_automation_sensor,
    build_retry_sensor,
    lance_data_changed,
    retry_sensor,
)
from lance_ops.dagster.jobs.operations import COMPACT, DELETE
from lance_ops.dagster.spec import build_lance_assets
from tests.support.dagster import STORE, Daemon, run_job, write

# What Dagster's own tester of conditions asks of an asset selection is in beta.
pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


class World:
    """A dataset and an asset downstream of it that has a condition."""

    def __init__(self, tmp_path, instance, condition):
        from lance_ops.dagster import build_manifest_sensor

        self.ref = LanceDatasetRef("numbers", str(tmp_path / "numbers.lance"))
        self.instance = instance

        @dg.asset(deps=[self.ref.key], automation_condition=condition)
        def derived():
            return 1

        self.derived = derived
        self.defs = dg.Definitions(
            assets=[*build_lance_assets([self.ref]), derived],
            asset_checks=build_asset_checks([self.ref]),
            resources={"lance_store": STORE},
        )
        self.daemon = Daemon(build_manifest_sensor([self.ref]), instance)
        self.cursor = None
        for start in range(0, 30, 10):
            write(self.ref.uri, start, start + 10)
        self.daemon.tick()

    def requested(self):
        """Whether the condition asks for the asset; it is computed then."""
        result = dg.evaluate_automation_conditions(defs=self.defs, instance=self.instance, cursor=self.cursor)
        self.cursor = result.cursor
        if result.total_requested:
            dg.materialize([self.derived], instance=self.instance)
        return bool(result.total_requested)


@pytest.mark.parametrize("require_checks", [False, True])
def test_it_holds_after_data_changed_and_not_after_a_rewrite(tmp_path, instance, require_checks):
    world = World(tmp_path, instance, lance_data_changed(require_checks=require_checks))
    assert not world.requested()

    assert run_job(world.ref, DELETE, instance, predicate="a < 3", dry_run=False).success
    assert world.requested()
    assert not world.requested()

    assert run_job(world.ref, COMPACT, instance).success
    assert not world.requested()

    write(world.ref.uri, 100, 110)
    world.daemon.tick()
    assert world.requested()


@pytest.mark.parametrize("require_checks", [False, True])
def test_it_may_wait_for_the_checks_that_find_damage(tmp_path, instance, require_checks):
    world = World(tmp_path, instance, lance_data_changed(require_checks=require_checks))
    world.requested()
    write(world.ref.uri, 100, 110)
    for path in (tmp_path / "numbers.lance" / "data").iterdir():
        path.unlink()
    world.daemon.tick()

    assert world.requested() is not require_checks


def test_eager_would_recompute_after_a_rewrite(tmp_path, instance):
    """The reason why there is a condition of our own."""
    world = World(tmp_path, instance, dg.AutomationCondition.eager())
    dg.materialize([world.derived], instance=instance)
    world.requested()

    assert run_job(world.ref, COMPACT, instance).success

    assert world.requested()


def test_the_condition_has_a_name():
    assert lance_data_changed().get_label() == "lance_data_changed"


def test_the_sensor_for_conditions_runs_from_the_start():
    sensor = build_automation_sensor([dg.AssetKey("derived")])
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING


class Runs:
    """An asset with the condition, and runs of it that begin, end or die when a test says so."""

    def __init__(self, instance, **options):
        self.instance, self.cursor = instance, None
        self.source = dg.AssetKey("source")

        @dg.asset(deps=[self.source], automation_condition=lance_data_changed(**options))
        def derived(): ...

        self.derived = derived
        self.defs = dg.Definitions(assets=[dg.AssetSpec(self.source), derived])
        self.retries = Daemon(
            build_retry_sensor(), instance, resources={}, repository=self.defs.get_repository_def()
        )
        self.retries.tick()
        self.data, self.computed, self.running = 0, 0, None
        self.run_reads = 0

    def change(self):
        self.data += 1
        tags = {"dagster/data_version": f"{self.data:032x}"}
        self.instance.report_runless_asset_event(dg.AssetMaterialization(self.source, tags=tags))

    def evaluate(self):
        """Evaluate the condition; a requested run is launched, and reads at once."""
        result = dg.evaluate_automation_conditions(defs=self.defs, instance=self.instance, cursor=self.cursor)
        self.cursor = result.cursor
        if result.total_requested:
            assert self.running is None
            self._launch({})
        return bool(result.total_requested)

    def retry(self):
        """Evaluate the retry sensor; it asks for nothing while a run is at work."""
        for request in self.retries.tick().run_requests:
            assert self.running is None
            self._launch(request.tags)

    def _launch(self, tags):
        self.running = self.instance.create_run_for_job(
            self.defs.resolve_implicit_global_asset_job_def(),
            asset_selection=frozenset({self.derived.key}),
            status=dg.DagsterRunStatus.STARTING,
            tags=tags,
        )
        event = dg.DagsterEvent(event_type_value="PIPELINE_START", job_name=self.running.job_name)
        self.instance.report_dagster_event(event, self.running.run_id)
        self.run_reads = self.data

    def end(self):
        run, self.running = self.running, None
        if run is not None:
            self.instance.report_runless_asset_event(dg.AssetMaterialization(self.derived.key))
            event = dg.DagsterEvent(event_type_value="PIPELINE_SUCCESS", job_name=run.job_name)
            self.instance.report_dagster_event(event, run.run_id)
            self.computed = self.run_reads

    def fail(self):
        """A run fails, or is ended after its process died."""
        run, self.running = self.running, None
        if run is not None:
            self.instance.report_run_failed(run)

    def cancel(self):
        run, self.running = self.running, None
        if run is not None:
            self.instance.report_run_canceled(run)


def test_a_change_that_arrives_while_the_run_works_is_computed_afterwards(instance):
    runs = Runs(instance)
    runs.evaluate()
    runs.change()
    assert runs.evaluate()

    runs.change()  # before the next evaluation: it falls together with the request
    assert not runs.evaluate()
    runs.end()
    assert runs.evaluate()

    runs.change()
    assert not runs.evaluate()
    assert not runs.evaluate()
    runs.end()
    assert runs.evaluate()
    runs.end()
    assert not runs.evaluate()
    assert runs.computed == runs.data


@pytest.mark.parametrize("seed", range(4))
def test_the_newest_data_are_computed_at_last_whenever_they_change_and_however_runs_end(
    instance, monkeypatch, seed
):
    monkeypatch.setattr(retry_sensor, "PAUSES", (timedelta(0),) * 50)
    runs, chance = Runs(instance), random.Random(seed)
    runs.evaluate()
    for action in chance.choices(
        ("change", "evaluate", "retry", "end", "fail", "cancel"), (4, 6, 3, 3, 2, 1), k=24
    ):
        getattr(runs, action)()
    runs.change()
    runs.evaluate()
    getattr(runs, chance.choice(("end", "fail", "cancel")))()
    for _ in range(3):
        runs.retry()
        runs.end()
        runs.evaluate()
    runs.end()
    runs.retry()

    assert runs.running is None
    assert runs.computed == runs.data
