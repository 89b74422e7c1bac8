import dagster as dg
import pyarrow as pa
import pytest

from lance_ops.dagster import (
    LanceDatasetRef,
    LanceDownstream,
    LanceIngest,
    LanceIOManager,
    build_failure_alert_sensor,
    build_lance_definitions,
    keys,
    lance_data_changed,
)
from lance_ops.dagster.run_map import RunMap
from tests.support.dagster import STORE, Daemon, Told

# Dagster copies a sensor with a job through a parameter in beta.
pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
days = dg.StaticPartitionsDefinition(["a", "b"])


def fail(*_):
    raise ValueError("the source is down")


class World:
    """A dataset with everything that can run for it, all of which fails."""

    def __init__(self, tmp_path):
        self.ref = LanceDatasetRef("shop/orders", str(tmp_path / "orders.lance"), owners=["team:shop"])
        self.written = LanceDatasetRef("visits", str(tmp_path / "visits.lance"))
        self.ingest = LanceIngest(self.ref, fail, partitions=days)

        @dg.asset(key=self.written.key)
        def visits() -> pa.Table:
            fail()

        @dg.asset
        def pages(visits: pa.Table): ...

        @dg.asset(deps=[self.ref.key], automation_condition=lance_data_changed())
        def conditional():
            fail()

        @dg.asset(deps=[self.ref.key])
        def foreign():
            fail()

        @dg.job
        def down():
            dg.op(fail, name="fail_it")()

        self.down = LanceDownstream(down, ["shop/orders", "visits"])
        self.assets = [visits, pages]
        lance = build_lance_definitions(
            [self.ref, self.written],
            store=STORE,
            ingests=[self.ingest],
            assets=self.assets,
            downstream=[self.down],
        )
        self.defs = dg.Definitions.merge(
            lance,
            dg.Definitions(
                assets=[conditional, foreign],
                jobs=[down],
                resources={"io_manager": LanceIOManager(root=str(tmp_path), store=STORE)},
                executor=dg.in_process_executor,
            ),
        )
        self.repository = self.defs.get_repository_def()


@pytest.mark.parametrize(
    ("asset", "partition", "told"),
    [
        ("shop/orders_ingest", "a", {"shop/orders"}),
        ("visits", None, {"visits"}),
        ("conditional", None, {"shop/orders"}),
        ("foreign", None, set()),
    ],
)
def test_a_failed_run_from_the_page_of_an_asset_is_told(tmp_path, asset, partition, told):
    world = World(tmp_path)
    key = dg.AssetKey(asset.split("/"))
    with dg.DagsterInstance.ephemeral() as instance:
        job = world.repository.get_implicit_job_def_for_assets([key])
        assert not job.execute_in_process(
            instance=instance, asset_selection=[key], partition_key=partition, raise_on_error=False
        ).success
        assert {alert.dataset for alert in alerts_of(world, instance)} == told


def test_a_failed_downstream_run_is_told_for_each_dataset_that_it_reads(tmp_path):
    world = World(tmp_path)
    with dg.DagsterInstance.ephemeral() as instance:
        world.defs.get_job_def("down").execute_in_process(instance=instance, raise_on_error=False)
        assert {alert.dataset for alert in alerts_of(world, instance)} == {"shop/orders", "visits"}


def alerts_of(world, instance):
    told = Told()
    sensor = build_failure_alert_sensor(
        [world.ref, world.written],
        told,
        ingests=[world.ingest],
        assets=world.assets,
        downstream=[world.down],
    )
    Daemon(sensor, instance, repository=world.repository).tick()
    return told.alerts


@pytest.mark.parametrize(
    ("tags", "checks", "expected"),
    [
        ({keys.DATASET_TAG: "visits"}, None, ["visits"]),
        ({keys.TRIGGER_TAG: "shop/orders@12"}, None, ["shop/orders"]),
        ({}, dg.AssetCheckKey(dg.AssetKey("visits"), "files_present"), ["visits"]),
        ({keys.DATASET_TAG: "unknown"}, None, []),
    ],
)
def test_tags_and_checks_tell_the_dataset_of_a_run(tmp_path, tags, checks, expected):
    world = World(tmp_path)
    selection = None if checks is None else frozenset({checks})
    run = dg.DagsterRun(job_name="any", tags=tags, asset_check_selection=selection)
    run_map = RunMap([world.ref, world.written])
    assert [subject.name for subject in run_map.of_run(run)] == expected
    assert run_map.datasets_of(run) == expected


@pytest.mark.parametrize(("assets", "told"), [((), ["visits"]), (("foreign",), [])])
def test_a_failed_step_of_checks_is_about_what_they_check(tmp_path, assets, told):
    world = World(tmp_path)
    checked = dg.AssetCheckKey(dg.AssetKey("visits"), "files_present")
    run = dg.DagsterRun(
        job_name="any",
        asset_selection=frozenset(map(dg.AssetKey, assets)) or None,
        asset_check_selection=frozenset({checked}),
    )
    found = RunMap([world.ref, world.written]).of_step(run, "visits_checks", {})
    assert [subject.name for subject in found] == told
