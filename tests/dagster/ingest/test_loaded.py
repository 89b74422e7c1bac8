import shutil

import dagster as dg
import pyarrow as pa
import pytest

from lance_ops.dagster import (
    LanceDatasetRef,
    LanceIngest,
    build_check_alert_sensor,
    build_lance_definitions,
    keys,
)
from lance_ops.dagster.ingest.loaded import last_passed, look_at_partitions
from lance_ops.dagster.registry import REGISTRY
from lance_ops.maintenance.compact.operation import compact
from lance_ops.maintenance.metadata.actions import restore
from tests.support.dagster import STORE, Daemon, Told


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch):
    """Other tests have declared ingests into datasets of this name."""
    monkeypatch.setattr(REGISTRY, "ingests", {})


class World:
    def __init__(self, tmp_path, instance, **options):
        self.ref = LanceDatasetRef("orders", str(tmp_path / "orders.lance"))
        self.ingest = LanceIngest(
            self.ref,
            lambda request: pa.table({"day": [request.partition_key]}),
            partitions=dg.StaticPartitionsDefinition(["x", "y", "z"]),
            **options,
        )
        self.instance = instance
        lance = build_lance_definitions([self.ref], store=STORE, ingests=[self.ingest])
        self.defs = dg.Definitions.merge(lance, dg.Definitions(executor=dg.in_process_executor))
        self.daemon = Daemon(next(iter(lance.sensors)), instance)

    def load(self, *partitions):
        for partition in partitions:
            job = self.defs.resolve_job_def("orders_ingest_job")
            assert job.execute_in_process(instance=self.instance, partition_key=partition).success

    def verdicts(self):
        events = self.daemon.tick().asset_events
        return [event for event in events if getattr(event, "check_name", "") == keys.PARTITIONS_LOADED]


@pytest.mark.parametrize("options", [{"partition_column": "day"}, {"mode": "append"}])
def test_partitions_that_a_restore_took_are_named_until_they_are_loaded_again(tmp_path, options):
    with dg.DagsterInstance.ephemeral() as instance:
        world = World(tmp_path, instance, **options)
        world.load("x", "y", "z")
        assert world.verdicts() == []
        compact(world.ref.uri)
        assert world.verdicts() == []

        restore(world.ref.uri, 1)
        told = Told()
        alarm = Daemon(
            build_check_alert_sensor([world.ref], told, ingests=[world.ingest]), instance, resources={}
        )
        alarm.tick()
        (verdict,) = world.verdicts()
        assert not verdict.passed
        assert verdict.description == "to be loaded again: 2 partitions no longer in the dataset: y, z"
        command = verdict.metadata[keys.ERROR_HINT].value
        assert command == "dagster job backfill -j orders_ingest_job --partitions y,z --noprompt"
        assert not last_passed(instance, world.ingest)
        for _ in range(2):
            alarm.tick()
        (alert,) = told.alerts
        assert (alert.dataset, alert.check) == ("orders", "partitions_loaded of orders_ingest")
        assert command in str(alert)

        world.load("y")
        (verdict,) = world.verdicts()
        assert verdict.description.endswith("1 partition no longer in the dataset: z")
        world.load("z")
        (verdict,) = world.verdicts()
        assert verdict.passed
        alarm.tick()
        assert [item.passed for item in told.alerts] == [False, True]
        assert look_at_partitions(instance, world.ingest, STORE).missing == ()


def test_partitions_of_a_dataset_that_was_removed_are_named(tmp_path):
    with dg.DagsterInstance.ephemeral() as instance:
        world = World(tmp_path, instance, partition_column="day")
        world.load("x", "y")
        world.daemon.tick()
        shutil.rmtree(world.ref.uri)

        (verdict,) = world.verdicts()
        assert not verdict.passed
        assert verdict.description.endswith("x, y")
        assert world.verdicts() == []


def test_what_there_was_no_time_to_look_at_is_not_green(tmp_path):
    with dg.DagsterInstance.ephemeral() as instance:
        world = World(tmp_path, instance, partition_column="day")
        world.load("x")
        verdict = look_at_partitions(instance, world.ingest, STORE, seconds=-1.0).verdict(world.ingest)
        assert not verdict.passed
        assert verdict.description.startswith("1 partition not examined")
