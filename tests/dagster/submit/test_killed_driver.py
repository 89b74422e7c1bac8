"""Drivers that are killed: processes behind Dagster Pipes, with threads in the place of executors.

`test_operation.py` has the same on a cluster of Spark.
"""

import dagster as dg
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.dagster import (
    LanceDatasetRef,
    LanceIngest,
    build_ingest_asset,
)
from lance_ops.dagster.jobs.operations import COMPACT, DELETE
from tests.support.dagster import failure_of, output_metadata, published_versions, run_job, tell
from tests.support.submitted import DIE_ONCE, submitting_store
from tests.support.tables import rows

# A source as users have it, but that its driver is killed: when all rows are written and none are committed,
# and the next time when they are committed and nobody was told.
SOURCE = (
    DIE_ONCE
    + """
import pyarrow as pa
import lance_ops.maintenance.ingest.operation as operation
import lance_ops.spark.submitted.program as program

commit, pack = operation.commit_write, program.pack_outcome
def commit_write(*arguments, **options):
    die_once("before the commit")
    return commit(*arguments, **options)
def pack_outcome(outcome):
    die_once("before the answer")
    return pack(outcome)
operation.commit_write, program.pack_outcome = commit_write, pack_outcome

def numbers_of_day(request):
    with (pathlib.Path({folder!r}) / "asked").open("a") as file:
        file.write(request.partition_key + "\\n")
    day = request.time_window.start.date()
    return pa.table({{"id": range(1000), "day": pa.array([day] * 1000, pa.date32())}})
"""
)
DAYS = dg.DailyPartitionsDefinition(start_date="2024-05-01", end_date="2024-06-01")


@pytest.fixture
def store(tmp_path):
    return submitting_store(tmp_path, fsync="false")


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.mark.parametrize("told", [{"partition_column": "day"}, {}], ids=["replaced", "appended"])
def test_a_partition_is_there_once_though_its_driver_is_killed_before_and_after_the_commit(
    store, tmp_path, instance, told
):
    name = f"killed_source_{len(told)}"
    (tmp_path / f"{name}.py").write_text(SOURCE.format(folder=str(tmp_path)))
    ref = LanceDatasetRef("numbers", str(tmp_path / "numbers.lance"))
    ingest = LanceIngest(ref, f"{name}:numbers_of_day", partitions=DAYS, **told)
    result = dg.materialize(
        [build_ingest_asset(ingest)],
        partition_key="2024-05-02",
        instance=instance,
        resources={"lance_store": store},
    )
    assert result.success
    assert (tmp_path / "asked").read_text().split() == ["2024-05-02"] * 2
    head = lo.dataset(ref.uri)
    assert head.version == 1
    assert sorted(head.to_table(["id"])["id"].to_pylist()) == list(range(1000))
    noted = head.read_transaction().properties
    assert (noted["dagster.run_id"], noted["dagster.partition"]) == (result.run_id, "2024-05-02")
    assert published_versions(instance, ref) == [1]
    restarts = [item for item in result.all_events if item.event_type_value == "STEP_UP_FOR_RETRY"]
    assert len(restarts) == 2


def test_a_source_that_fails_elsewhere_fails_as_here(store, tmp_path, instance, monkeypatch):
    (tmp_path / "failing_source.py").write_text("def rows(request):\n    raise ValueError('no rows today')\n")
    monkeypatch.setattr("lance_ops.dagster.jobs.failures.TRANSIENT_RETRIES", dg.RetryPolicy(max_retries=0))
    ingest = LanceIngest(LanceDatasetRef("t", str(tmp_path / "t.lance")), "failing_source:rows")
    result = dg.materialize(
        [build_ingest_asset(ingest)],
        instance=instance,
        resources={"lance_store": store},
        raise_on_error=False,
    )
    assert not result.success
    described, metadata = failure_of(result)
    assert "ValueError: no rows today" in described
    assert metadata["lance/error"].startswith("TaskFailedError")


ODD_SOURCE = """
import sys
import lance_ops.spark.submitted.program as program
import pyarrow as pa

def rows(request):
    program.pack_progress = lambda event: {"lance_ops": "progress", "of": "another release"}
    program.pack_outcome = lambda outcome: {"lance_ops": "result"}
    return pa.table({"x": [1]})
"""


def test_an_answer_that_nobody_understands_is_one_that_is_lost(store, tmp_path, instance):
    (tmp_path / "odd_source.py").write_text(ODD_SOURCE)
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    result = dg.materialize(
        [build_ingest_asset(LanceIngest(ref, "odd_source:rows"))],
        instance=instance,
        resources={"lance_store": store},
    )
    assert result.success
    assert lo.dataset(ref.uri).version == 1
    (again,) = [item for item in result.all_events if item.event_type_value == "STEP_UP_FOR_RETRY"]
    assert "cannot read the program's result" in str(again.event_specific_data)


def test_a_function_without_a_name_cannot_be_submitted(store, tmp_path, instance):
    ingest = LanceIngest(LanceDatasetRef("t", str(tmp_path / "t.lance")), lambda _: pa.table({"x": [1]}))
    result = dg.materialize(
        [build_ingest_asset(ingest)],
        instance=instance,
        resources={"lance_store": store},
        raise_on_error=False,
    )
    assert "'module:function'" in failure_of(result)[0]


def test_maintenance_by_a_submitted_program_tells_what_a_step_would(store, tmp_path, instance):
    ref = LanceDatasetRef("numbers", str(tmp_path / "numbers.lance"))
    for start in range(4):
        lo.append(ref.uri, rows(start * 10, start * 10 + 10))
    tell(ref, instance)
    planned = output_metadata(run_job(ref, COMPACT, instance, store=store, dry_run=True))
    assert "fragments" in planned["lance/plan"].value
    assert lo.dataset(ref.uri).version == 4
    result = run_job(ref, COMPACT, instance, store=store)
    assert result.success
    told = output_metadata(result)
    assert told["lance/summary"].value.startswith("compact: ")
    assert told["lance/fragments_removed"].value == 4
    head = lo.dataset(ref.uri)
    assert (len(head.fragments), head.count_rows()) == (1, 40)
    assert head.read_transaction().properties["dagster.run_id"] == result.run_id
    assert published_versions(instance, ref)[-1] == head.version
    refused = run_job(ref, DELETE, instance, store=store, predicate="nobody = 1", dry_run=False)
    assert failure_of(refused)[1]["lance/error"].startswith("PredicateError: there is no column 'nobody'")
