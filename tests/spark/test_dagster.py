"""Spark under Dagster: as the runner of operations, and as the source of an ingest."""

import dagster as dg
import pytest

from lance_ops.dagster import LanceDatasetRef, LanceIngest, LanceStoreResource, build_ingest_asset
from lance_ops.spark.runner import SparkRunner
from lance_ops.table.dataset import Dataset
from tests.support.dagster import published_versions
from tests.support.tables import rows

pytestmark = pytest.mark.spark

STORE = LanceStoreResource(runner="spark", spark_master="local[2]")


def test_the_spark_runner_uses_the_session_that_runs_and_leaves_it_running(spark):
    assert isinstance(STORE.build_runner(), SparkRunner)
    STORE.teardown_after_execution(dg.build_init_resource_context())
    assert spark.range(3).count() == 3


def test_a_source_may_be_a_spark_dataframe(spark, tmp_path):
    months = dg.MonthlyPartitionsDefinition(start_date="2013-01-01", end_date="2014-01-01")

    def source(request):
        month = request.time_window.start.month
        return request.store.spark_session().createDataFrame(rows(month * 10, month * 10 + 10))

    ingest = LanceIngest(LanceDatasetRef("numbers", str(tmp_path / "t.lance")), source, partitions=months)
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in range(2):
            assert dg.materialize(
                [build_ingest_asset(ingest)],
                partition_key="2013-02-01",
                instance=instance,
                resources={"lance_store": STORE},
            ).success
        assert published_versions(instance, ingest.ref) == [1]
    assert sorted(Dataset.open(ingest.ref.uri).to_table()["a"].to_pylist()) == list(range(20, 30))
