"""Operations by `spark-submit` to a cluster of processes: committed by the driver, once, however it ends.

`test_killed_driver.py` has more endings, without Spark.
"""

import dagster as dg
import pytest

import lance_ops as lo
from lance_ops.dagster import (
    LanceDatasetRef,
    LanceIngest,
    LanceStoreResource,
    SparkSubmit,
    build_ingest_asset,
)
from lance_ops.dagster.jobs.operations import COMPACT
from tests.support.dagster import output_metadata, published_versions, run_job
from tests.support.spark import FAST_JVM, ROOT
from tests.support.spark_cluster import StandaloneCluster
from tests.support.tables import rows

pytestmark = pytest.mark.spark

# A source as users have it, but that its driver is killed when its rows are committed and nobody was told.
SOURCE = """
import os, pathlib, signal
import lance_ops.spark.submitted.program as program

folder = pathlib.Path({folder!r})

def pack_outcome(outcome):
    os.kill(os.getpid(), signal.SIGKILL)
program.pack_outcome = pack_outcome

def numbers_of_day(request):
    with (folder / "asked").open("a") as file:
        file.write(request.partition_key + "\\n")
    day = request.time_window.start.date().isoformat()
    spark = request.store.spark_session()
    assert spark.sparkContext.getConf().get("spark.hadoop.the.secret") == "h\\\\üsh = #"
    return spark.range(0, 1000, 1, 2).selectExpr("id", f"DATE '{{day}}' AS day")
"""


@pytest.fixture(scope="module")
def master():
    with StandaloneCluster(workers=1, cores=2) as cluster:
        yield cluster.master_url


def store_on(master, folder):
    path = f"{ROOT}:{folder}"
    return LanceStoreResource(
        runner="spark-submit",
        spark_master=master,
        spark_config={"spark.driver.extraJavaOptions": FAST_JVM, "spark.hadoop.the.secret": "h\\üsh = #"},
        submit=SparkSubmit(environment={"PYTHONPATH": path, "JDK_JAVA_OPTIONS": FAST_JVM}),
    )


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def test_a_partition_is_there_once_though_its_driver_is_killed_after_the_commit(master, tmp_path, instance):
    (tmp_path / "killed_source.py").write_text(SOURCE.format(folder=str(tmp_path)))
    days = dg.DailyPartitionsDefinition(start_date="2024-05-01", end_date="2024-06-01")
    ref = LanceDatasetRef("numbers", str(tmp_path / "numbers.lance"))
    ingest = LanceIngest(ref, "killed_source:numbers_of_day", partitions=days, partition_column="day")
    result = dg.materialize(
        [build_ingest_asset(ingest)],
        partition_key="2024-05-02",
        instance=instance,
        resources={"lance_store": store_on(master, tmp_path)},
    )
    assert result.success
    assert (tmp_path / "asked").read_text().split() == ["2024-05-02"]
    head = lo.dataset(ref.uri)
    assert head.version == 1
    assert sorted(head.to_table(["id"])["id"].to_pylist()) == list(range(1000))
    assert head.count_rows("day = DATE '2024-05-02'") == 1000
    noted = head.read_transaction().properties
    assert (noted["dagster.run_id"], noted["dagster.partition"]) == (result.run_id, "2024-05-02")
    assert published_versions(instance, ref) == [1]
    (event,) = result.get_asset_materialization_events()[-1:]
    assert event.materialization.metadata["lance/already_committed"].value is True
    restarts = [item for item in result.all_events if item.event_type_value == "STEP_UP_FOR_RETRY"]
    assert len(restarts) == 1


def test_maintenance_by_a_submitted_program_tells_what_a_step_would(master, tmp_path, instance):
    ref = LanceDatasetRef("numbers", str(tmp_path / "numbers.lance"))
    for start in range(4):
        lo.append(ref.uri, rows(start * 10, start * 10 + 10))
    store = store_on(master, tmp_path)
    result = run_job(ref, COMPACT, instance, store=store)
    assert result.success
    told = output_metadata(result)
    assert told["lance/fragments_removed"].value == 4
    assert told["lance/summary"].value.startswith("compact: ")
    head = lo.dataset(ref.uri)
    assert (len(head.fragments), head.count_rows()) == (1, 40)
    assert head.read_transaction().properties["dagster.run_id"] == result.run_id
    # The versions before are for the sensor, and so is what was made above them.
    assert published_versions(instance, ref) == []
