"""An incident of a run ends when the same work succeeds, by whatever job, and by no other success."""

import dagster as dg
import pyarrow as pa
import pytest

from lance_ops.dagster import (
    LanceDatasetRef,
    LanceDownstream,
    LanceIngest,
    build_failure_alert_sensor,
    build_lance_definitions,
    keys,
    lance_data_changed,
)
from lance_ops.dagster.alerts import outcomes
from tests.support.dagster import STORE, Daemon, Told

# Dagster copies a sensor with a job through a parameter in beta.
pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
PAGE = "__ASSET_JOB"
CONDITION = lance_data_changed()


class World:
    """A dataset with two ingests, assets and jobs that read it; what fails is chosen."""

    def __init__(self, tmp_path, instance):
        self.instance, self.failing = instance, set()
        self.ref = LanceDatasetRef("orders", str(tmp_path / "orders.lance"))
        days = dg.StaticPartitionsDefinition(["a", "b"])
        by_day = LanceIngest(self.ref, self.rows_of("by_day"), partitions=days, name="by_day")
        whole = LanceIngest(self.ref, self.rows_of("whole"), name="whole")

        @dg.asset(deps=[self.ref.key], automation_condition=CONDITION)
        def totals() -> None:
            self.rows_of("totals")(None)

        @dg.asset(deps=[self.ref.key], automation_condition=CONDITION)
        def pages() -> None:
            self.rows_of("pages")(None)

        specs = [dg.AssetSpec(name, deps=[self.ref.key], automation_condition=CONDITION) for name in "xy"]

        @dg.multi_asset(specs=specs, name="both")
        def both():
            self.rows_of("both")(None)
            yield from (dg.MaterializeResult(asset_key=spec.key) for spec in specs)

        @dg.job
        def down():
            dg.op(self.work_of("down"), name="work")()

        @dg.job
        def other():
            dg.op(self.work_of("other"), name="work")()

        downstream = [LanceDownstream(job, ["orders"]) for job in (down, other)]
        lance = build_lance_definitions(
            [self.ref], store=STORE, ingests=[by_day, whole], downstream=downstream
        )
        mine = dg.Definitions(
            assets=[totals, pages, both],
            jobs=[down, other, dg.define_asset_job("totals_job", [totals.key])],
            executor=dg.in_process_executor,
        )
        self.repository = dg.Definitions.merge(lance, mine).get_repository_def()
        self.told = Told()
        sensor = build_failure_alert_sensor(
            [self.ref], self.told, ingests=[by_day, whole], downstream=downstream
        )
        self.alarm = Daemon(sensor, instance, repository=self.repository)
        self.alarm.tick()

    def rows_of(self, name):
        def give(_):
            if name in self.failing:
                raise dg.Failure(f"{name} is down", allow_retries=False)
            return pa.table({"x": [1]})

        return give

    def work_of(self, name):
        def work():
            self.rows_of(name)(None)

        return work

    def run(self, what, job=PAGE, *, partition=None, tags=None):
        """Run assets from their page, or a job as a whole."""
        selection = [dg.AssetKey(name) for name in what.split("+")] if job == PAGE else None
        made = (
            self.repository.get_implicit_job_def_for_assets(selection)
            if job == PAGE
            else self.repository.get_job(job)
        )
        return made.execute_in_process(
            instance=self.instance,
            asset_selection=selection,
            partition_key=partition,
            tags=tags,
            raise_on_error=False,
        )

    def die(self, what):
        """A run from the page of an asset whose process died: it has no failed step."""
        selection = [dg.AssetKey(name) for name in what.split("+")]
        job = self.repository.get_implicit_job_def_for_assets(selection)
        run = self.instance.create_run_for_job(job, asset_selection=frozenset(selection))
        self.instance.report_run_failed(run, "the worker is gone")

    def open(self):
        """Look, and return how many incidents are open."""
        return int(str(self.alarm.tick().skip_reason.skip_message).split("; ")[1].split()[0])


@pytest.fixture
def world(tmp_path):
    with dg.DagsterInstance.ephemeral() as instance:
        yield World(tmp_path, instance)


@pytest.mark.parametrize(
    ("failed", "others", "again"),
    [
        (("totals",), [("pages",), ("whole",), ("", "down")], ("totals",)),
        (("totals",), [("pages+x+y",)], ("totals+pages",)),
        (("totals",), [("", "whole_job")], ("", "totals_job")),
        (("", "totals_job"), [("pages",)], ("totals",)),
        (("x+y",), [("totals",)], ("x+y",)),
        (("whole",), [("totals",), ("", "down")], ("", "whole_job")),
        (("", "whole_job"), [("pages",)], ("whole",)),
        (("", "down"), [("totals",), ("", "other"), ("whole",)], ("", "down")),
    ],
)
def test_the_same_work_ends_an_incident_and_no_other_does(world, failed, others, again):
    world.failing |= {"totals", "both", "whole", "down"} & {*failed[0].split("+"), *failed[-1].split("_")}
    world.failing |= {"both"} if failed == ("x+y",) else set()
    assert not world.run(*failed).success
    assert world.open() == 1
    world.failing.clear()
    for run in others:
        assert world.run(*run).success
        assert world.open() == 1
    assert world.run(*again).success
    assert world.open() == 0
    assert [alert.recovered for alert in world.told.alerts] == [False, True]


@pytest.mark.parametrize("job", [PAGE, "by_day_job"])
def test_a_partition_ends_by_a_load_of_it_from_anywhere(world, job):
    world.failing.add("by_day")
    assert not world.run("by_day", partition="a").success
    assert world.open() == 1
    world.failing.clear()
    assert world.run("by_day", job, partition="b").success
    assert world.run("whole").success
    assert world.open() == 1
    assert world.run("by_day", job, partition="a").success
    assert world.open() == 0


def test_assets_of_one_dataset_are_incidents_of_their_own(world):
    world.failing |= {"totals", "pages"}
    world.run("totals")
    world.run("pages")
    assert world.open() == 2
    world.failing.clear()
    world.run("pages")
    assert world.open() == 1
    assert [(alert.step, alert.recovered) for alert in world.told.alerts] == [
        ("totals", False),
        ("pages", False),
        ("pages", True),
    ]


@pytest.mark.parametrize(("died", "job"), [("totals", "totals_job"), ("whole", "whole_job"), ("x+y", PAGE)])
def test_what_died_ends_when_its_asset_is_computed(world, died, job):
    world.die(died)
    assert world.open() == 1
    for run in [("pages",), ("", "down")]:
        assert world.run(*run).success
    assert world.open() == 1
    assert world.run(died, job).success
    assert world.open() == 0


def test_maintenance_of_another_dataset_ends_nothing(tmp_path, world):
    beside = LanceDatasetRef("beside", str(tmp_path / "beside.lance"))
    told = Told()
    alarm = Daemon(build_failure_alert_sensor([world.ref, beside], told), world.instance, resources={})
    alarm.tick()
    job = dg.GraphDefinition(name="lance_compact").to_job()

    def tags(name):
        return {keys.DATASET_TAG: name}

    run = world.instance.create_run_for_job(job, tags=tags("orders"))
    world.instance.report_run_failed(run, "the worker is gone")
    alarm.tick()
    job.execute_in_process(instance=world.instance, tags=tags("beside"))
    alarm.tick()
    assert [alert.recovered for alert in told.alerts] == [False]
    job.execute_in_process(instance=world.instance, tags=tags("orders"))
    alarm.tick()
    assert [alert.recovered for alert in told.alerts] == [False, True]


def test_a_success_ends_no_failure_that_came_after_it(world, monkeypatch):
    monkeypatch.setattr(outcomes, "_SUCCESSES_PER_TICK", 2)
    job = dg.GraphDefinition(name="lance_compact").to_job()
    tags = {keys.DATASET_TAG: "orders"}

    def crash(name):
        run = world.instance.create_run_for_job(dg.GraphDefinition(name=name).to_job(), tags=tags)
        world.instance.report_run_failed(run, "the worker is gone")

    crash("lance_index")
    assert world.open() == 1
    for _ in range(3):
        job.execute_in_process(instance=world.instance, tags=tags)
    crash("lance_compact")
    for _ in range(4):
        found = world.open()
    assert found == 2
