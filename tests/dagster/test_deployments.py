"""Several deployments on one dataset, and a dataset with another name: what is published and loaded again."""

import dagster as dg
import pytest

from lance_ops.dagster import (
    LanceDatasetRef,
    LanceDownstream,
    LanceIngest,
    build_lance_definitions,
    build_manifest_sensor,
)
from lance_ops.table.dataset import Dataset
from tests.support.dagster import Daemon, published_versions, write
from tests.support.tables import rows

CODES = dg.StaticPartitionsDefinition(["a", "b"])


@dg.op
def nothing():
    """Does nothing."""


@dg.job
def report():
    nothing()


@pytest.fixture
def ref(tmp_path):
    return LanceDatasetRef("orders", str(tmp_path / "orders.lance"))


def test_two_deployments_publish_each_version_once_each_in_their_own_event_log(ref):
    with dg.DagsterInstance.ephemeral() as prod, dg.DagsterInstance.ephemeral() as dev:
        daemons = [Daemon(build_manifest_sensor([ref]), instance) for instance in (prod, dev)]
        for number in range(2):
            write(ref.uri, number, number + 1)
            for daemon in daemons:
                daemon.tick()
        assert published_versions(prod, ref) == published_versions(dev, ref) == [1, 2]


def test_a_dataset_with_another_name_is_told_again_and_loaded_once(ref):
    """Its ingest keeps its name, by which it knows what it has appended."""
    renamed = LanceDatasetRef("sales/orders", ref.uri)

    def load(of, instance):
        ingest = LanceIngest(of, lambda _: rows(0, 10), partitions=CODES, name="orders_ingest")
        defs = build_lance_definitions([of], ingests=[ingest])
        job = defs.resolve_job_def("orders_ingest_job")
        return job.execute_in_process(instance=instance, partition_key="a")

    with dg.DagsterInstance.ephemeral() as instance:
        assert load(ref, instance).success
        Daemon(build_manifest_sensor([ref]), instance).tick()
        daemon = Daemon(
            build_manifest_sensor([renamed], downstream=[LanceDownstream(report, [renamed.name])]), instance
        )
        assert [request.job_name for request in daemon.tick().run_requests] == ["report"]
        assert load(renamed, instance).success
        assert Dataset.open(ref.uri).count_rows() == 10
        assert published_versions(instance, ref) == published_versions(instance, renamed) == [1]
        assert daemon.tick().run_requests == []
