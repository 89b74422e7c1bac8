import dagster as dg
import pytest

from lance_ops.dagster import LanceDatasetRef, build_asset_checks, build_automation_sensor, lance_data_changed
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
