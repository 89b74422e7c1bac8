"""A fleet run on Spark: small datasets share a job or two, however many they are."""

import pytest

from lance_ops.fleet.run.operation import run_fleet
from lance_ops.spark.runner import SparkRunner
from tests.support.fleets import ids, policy, write


@pytest.mark.spark
def test_small_datasets_share_two_spark_jobs(tmp_path, spark):
    names = [f"{number:02d}.lance" for number in range(20)]
    for name in names:
        write(tmp_path, name, 4)
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    done = run_fleet(policy(tmp_path), runner=SparkRunner(spark))
    assert {item.state for item in done.outcomes.values()} == {"done"}
    assert len(done.outcomes) == len(names)
    assert 1 <= len(set(tracker.getJobIdsForGroup(None)) - before) <= 2
    assert done.after == {"healthy": len(names)}
    assert all(ids(str(tmp_path / name)) == list(range(40)) for name in names)


@pytest.mark.spark
def test_a_failure_on_an_executor_stays_with_its_dataset(tmp_path, spark):
    for name in ("a.lance", "b.lance"):
        write(tmp_path, name, 4)
    next((tmp_path / "b.lance" / "data").glob("*.lance")).unlink()
    done = run_fleet(policy(tmp_path), runner=SparkRunner(spark))
    assert {name: item.state for name, item in done.outcomes.items()} == {
        "a.lance": "done",
        "b.lance": "failed",
    }
