import dagster as dg
import pytest

from examples.demo.definitions import (
    DELAYS,
    DELAYS_JOB,
    FLIGHTS,
    INGEST,
    build_demo_definitions,
    delays_uri,
    flights_ref,
)
from examples.spark_job.definitions import build_definitions
from lance_ops.dagster import LanceDatasetRef, keys
from lance_ops.table.dataset import Dataset
from tests.support.dagster import Daemon, materializations, published_versions


def test_the_code_location_loads(tmp_path):
    defs = build_demo_definitions(tmp_path)
    dg.Definitions.validate_loadable(defs)
    graph = defs.resolve_asset_graph()
    assert graph.get(dg.AssetKey(FLIGHTS)).parent_keys == {dg.AssetKey(INGEST)}
    assert graph.get(dg.AssetKey(DELAYS)).parent_keys == {dg.AssetKey(FLIGHTS)}
    assert len(graph.get(dg.AssetKey(INGEST)).partitions_def.get_partition_keys()) == 12


@pytest.mark.spark
def test_a_month_comes_in_and_its_delays_come_out(spark, tmp_path):
    defs = build_demo_definitions(tmp_path, spark_master="local[2]")
    ref = flights_ref(tmp_path)
    with dg.DagsterInstance.ephemeral() as instance:
        ingest = defs.resolve_job_def("flights_ingest_job")
        assert ingest.execute_in_process(partition_key="2013-02-01", instance=instance).success
        assert published_versions(instance, ref) == [1]
        result = defs.resolve_job_def(DELAYS_JOB).execute_in_process(instance=instance)

    flights = Dataset.open(ref.uri)
    assert flights.count_rows() == 24_951
    delays = Dataset.open(delays_uri(tmp_path)).to_table()
    assert delays.column_names == ["carrier", "month", "flights", "mean_delay", "worst_delay"]
    assert sum(delays["flights"].to_pylist()) == flights.count_rows("dep_delay IS NOT NULL")
    (event,) = result.asset_materializations_for_node(DELAYS)
    assert event.metadata["lance/input_versions"].value == {"flights": 1}
    assert event.tags[keys.DATA_VERSION_TAG] == Dataset.open(delays_uri(tmp_path)).data_version


@pytest.mark.spark
def test_a_change_of_the_source_computes_its_downstream_dataset_once(spark, tmp_path):
    defs = build_definitions(tmp_path)
    dg.Definitions.validate_loadable(defs)
    orders = LanceDatasetRef("orders", str(tmp_path / "orders.lance"))
    revenue = LanceDatasetRef("revenue_per_day", str(tmp_path / "revenue_per_day.lance"))
    ingest, job = defs.resolve_job_def("orders_ingest_job"), defs.resolve_job_def("revenue_job")
    with dg.DagsterInstance.ephemeral() as instance:
        daemon = Daemon(defs.resolve_sensor_def("lance_manifest_sensor"), instance)
        for day in ("2024-05-01", "2024-05-02"):
            assert ingest.execute_in_process(instance=instance, partition_key=day).success
            (request,) = daemon.tick().run_requests
            assert request.job_name == "revenue_job"
            assert job.execute_in_process(instance=instance, tags=dict(request.tags)).success
            assert daemon.tick().run_requests == []
        for ref in (orders, revenue):
            dataset = Dataset.open(ref.uri)
            newest = materializations(instance, ref)[-1]
            assert len(materializations(instance, ref)) == 2
            assert newest.tags["dagster/data_version"] == dataset.data_version
        assert newest.metadata["lance/input_versions"].value == {"orders": 2}
    assert Dataset.open(revenue.uri).to_table().sort_by("day")["revenue"].to_pylist() == [42, 42]
