"""The operations with their tasks on Spark, beside the same operations on threads and the peer."""

import os
import signal
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.functions import expr

import lance_ops as lo
from lance_ops.errors import DatasetExistsError, InvalidArgumentError, SchemaMismatchError, TaskFailedError
from lance_ops.maintenance.progress import ProgressEvent
from lance_ops.spark.merge import merge_dataframe
from lance_ops.spark.runner import SparkRunner
from lance_ops.spark.writing.dataframe import append_dataframe

pytestmark = pytest.mark.spark

ROWS = 3000


def numbered(spark, partitions: int = 3, rows: int = ROWS):
    return spark.range(0, rows, 1, partitions).selectExpr(
        "id", "concat('row ', id % 11) text", "array_repeat(cast(id as float), 2) vector"
    )


STORED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("text", pa.string()),
        ("vector", pa.list_(pa.float32(), 2)),
    ]
)


def data_files(uri: str) -> set[str]:
    return {path.name for path in (Path(uri) / "data").iterdir()}


def live_files(uri: str) -> set[str]:
    return {file.path for fragment in lo.dataset(uri).fragments for file in fragment.files}


def shape(uri: str) -> list[tuple[int, int, int]]:
    return [(part.id, part.physical_rows, part.num_rows) for part in lo.dataset(uri).fragments]


class DyingRunner(SparkRunner):
    """Lets the process of one task die after it has written its files, before anybody hears of them."""

    def map(self, function, tasks, *, on_done=None):
        victim = len(tasks) - 1

        def run(numbered_task):
            number, task = numbered_task
            result = function(task)
            if number == victim:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return super().map(run, list(enumerate(tasks)), on_done=on_done)


@pytest.mark.peer
def test_the_whole_loop_gives_the_same_on_spark_on_threads_and_to_the_peer(spark, tmp_path):
    on_spark, on_threads = str(tmp_path / "spark.lance"), str(tmp_path / "threads.lance")
    created = append_dataframe(numbered(spark), on_spark, mode="create", schema=STORED, max_rows_per_file=500)
    assert (created.rows_added, created.fragments_added, created.version) == (ROWS, 6, 1)
    lo.write_dataset(numbered(spark).toArrow().cast(STORED), on_threads, max_rows_per_file=500)
    assert lo.dataset(on_spark).to_table().equals(lo.dataset(on_threads).to_table())

    for uri, runner in ((on_spark, SparkRunner(spark)), (on_threads, lo.LocalRunner(2))):
        lo.create_index(uri, "id", rows_per_task=1000, runner=runner)
        deleted = lo.delete(uri, "id % 3 = 0 OR text = 'row 5'", runner=runner)
        assert deleted.rows_deleted == sum(n % 3 == 0 or n % 11 == 5 for n in range(ROWS))
        compacted = lo.compact(uri, target_rows_per_fragment=700, runner=runner)
        assert compacted.groups > 1
        assert compacted.indices_remapped == 1
    ours, theirs = lo.dataset(on_spark), lo.dataset(on_threads)
    assert shape(on_spark) == shape(on_threads)
    assert ours.to_table().equals(theirs.to_table())

    peer = lance.dataset(on_spark)
    peer.validate()
    assert peer.to_table().equals(ours.to_table())
    assert "ScalarIndexQuery" in peer.scanner(filter="id = 1000").explain_plan()
    assert peer.to_table(filter="id = 1000").equals(ours.to_table(filter="id = 1000"))
    assert lo.fsck(on_spark).ok


def test_an_append_takes_the_types_of_the_dataset_and_the_order_of_the_partitions(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    append_dataframe(numbered(spark, rows=10), uri, schema=STORED)
    events: list[ProgressEvent] = []
    added = append_dataframe(numbered(spark, 5), uri, properties={"run": "1"}, progress=events.append)
    dataset = lo.dataset(uri)
    assert added.version == dataset.version == 2
    assert dataset.schema.equals(STORED)
    assert dataset.to_table(["id"], offset=10)["id"].to_pylist() == list(range(ROWS))
    assert dataset.read_transaction().properties["run"] == "1"
    assert [event.message for event in events] == [
        "writing partitions",
        "writing partitions",
        "committing",
        "committed",
    ]


@pytest.mark.parametrize("door", ["function", "data source"])
def test_the_cleanup_that_the_config_asks_for_follows_a_write_on_spark(spark, tmp_path, door):
    uri = str(tmp_path / "t.lance")
    append_dataframe(spark.range(5), uri)
    lo.update_config(uri, {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.retain_versions": "2"})
    for _ in range(3):
        if door == "function":
            append_dataframe(spark.range(5), uri)
        else:
            spark.range(5).write.format("lance").mode("append").save(uri)
    assert [info.version for info in lo.dataset(uri).versions()] == [4, 5]
    assert lo.dataset(uri).count_rows() == 20


def test_a_second_append_under_the_same_job_key_starts_no_job(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    first = append_dataframe(spark.range(5), uri, job_key="monday")

    def fail(batches):
        raise AssertionError
        yield from batches

    never = spark.range(5).mapInArrow(fail, spark.range(1).schema)
    again = append_dataframe(never, uri, job_key="monday")
    assert again.already_committed
    assert again.version == first.version == lo.dataset(uri).version


def test_modes_are_those_of_write_dataset(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    append_dataframe(spark.range(5), uri, mode="create")
    with pytest.raises(DatasetExistsError):
        append_dataframe(spark.range(5), uri, mode="create")
    replaced = append_dataframe(spark.range(2).selectExpr("id as other"), uri, mode="overwrite")
    assert (replaced.mode, replaced.version, replaced.fragments_removed) == ("overwrite", 2, 1)
    assert lo.dataset(uri).to_table().to_pydict() == {"other": [0, 1]}
    nothing = append_dataframe(spark.range(0).selectExpr("id as other"), uri)
    assert not nothing.changed


def test_every_mismatch_of_the_schema_is_listed_before_anything_is_written(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    with pytest.raises(SchemaMismatchError) as caught:
        append_dataframe(spark.range(5).selectExpr("cast(id as string) id", "id as text"), uri, schema=STORED)
    assert [line.split(":")[0] for line in caught.value.mismatches] == ["id", "text", "vector"]
    assert not Path(uri).exists()


def test_a_value_that_does_not_fit_names_the_column_and_leaves_nothing(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(
        pa.table([pa.array([], pa.int64()), pa.array([], pa.string())], schema=STORED.remove(2)), uri
    )
    df = numbered(spark).drop("vector").withColumn("id", expr("nullif(id, 2500)"))
    # So small partitions are written together, by the driver.
    with pytest.raises(SchemaMismatchError) as caught:
        append_dataframe(df, uri)
    assert caught.value.mismatches == ("id: 1 nulls in a non-nullable column",)
    assert not (Path(uri) / "data").exists() or not data_files(uri)
    assert lo.dataset(uri).version == 1


def test_rows_that_spark_cannot_compute_are_a_typed_error(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    with pytest.raises(TaskFailedError, match=r"could not compute or write the rows: .*DIVIDE_BY_ZERO"):
        append_dataframe(spark.range(5).selectExpr("1 / (id - 3) as x"), uri)
    assert not (Path(uri) / "_versions").exists()


def test_a_dataset_in_memory_is_out_of_reach(spark):
    with pytest.raises(InvalidArgumentError, match="cannot read a dataset in the memory"):
        append_dataframe(spark.range(5), "memory://append")
    lo.write_dataset(pa.table({"id": [1]}), "memory://delete")
    with pytest.raises(InvalidArgumentError, match="cannot read a dataset in the memory"):
        lo.delete("memory://delete", "id = 1", runner=SparkRunner(spark))


def test_a_worker_killed_in_a_compaction_costs_no_row(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    rng = np.random.default_rng(0)
    table = pa.table({"id": pa.array(rng.permutation(ROWS))})
    lo.write_dataset(table, uri, max_rows_per_file=300)
    before = data_files(uri)

    broken = lo.compact(uri, target_rows_per_fragment=1000, runner=DyingRunner(spark, slots=1))
    assert not broken.complete
    assert "Spark gave up on task" in str(broken.failed)
    assert lo.dataset(uri).to_table().sort_by("id").equals(table.sort_by("id"))
    # Those of the task that died: the others were removed.
    orphans = data_files(uri) - before
    assert orphans

    done = lo.compact(uri, target_rows_per_fragment=1000, runner=SparkRunner(spark))
    assert done.groups
    assert done.complete
    assert lo.dataset(uri).to_table().sort_by("id").equals(table.sort_by("id"))
    lo.cleanup(uri, retain_versions=1, delete_unverified=True)
    assert data_files(uri) == live_files(uri)
    assert lo.dataset(uri).to_table().sort_by("id").equals(table.sort_by("id"))


def test_a_dataframe_replaces_the_rows_that_a_predicate_selects(spark, tmp_path):
    uri = str(tmp_path / "t")
    append_dataframe(numbered(spark), uri, schema=STORED)
    newer = numbered(spark).where("id >= 1000").withColumn("text", expr("'new'"))
    result = append_dataframe(newer, uri, mode="replace_where", predicate="id >= 1000")
    assert (result.rows_deleted, result.rows_added) == (ROWS - 1000, ROWS - 1000)
    assert lance.dataset(uri).count_rows("text = 'new'") == ROWS - 1000
    assert lo.dataset(uri).count_rows() == ROWS
    with pytest.raises(InvalidArgumentError, match="do not match the predicate"):
        append_dataframe(numbered(spark), uri, mode="replace_where", predicate="id >= 1000")
    assert lo.dataset(uri).version == 2


def test_rows_of_a_dataframe_are_merged_by_a_key(spark, tmp_path):
    uri = str(tmp_path / "merged.lance")
    start = pa.table({"id": range(100), "x": pa.array([0] * 100, pa.int32()), "s": ["a"] * 100})
    lo.append(uri, start, max_rows_per_file=40)
    changed = spark.range(90, 110).selectExpr("id", "cast(id * 2 as int) as x").repartition(3)
    clauses = {"when_matched": "update_if", "condition": "source.x > 190", "when_not_matched": "insert_all"}
    done = merge_dataframe(changed, uri, "id", **clauses, runner=SparkRunner(spark), job_key="day")
    assert (done.rows_inserted, done.rows_updated) == (10, 4)
    again = merge_dataframe(changed, uri, "id", **clauses, job_key="day")
    assert again.already_committed
    found = lo.dataset(uri).to_table(filter="id >= 94").sort_by("id").to_pylist()
    expected = [{"id": n, "x": 2 * n if n > 95 else 0, "s": "a" if n < 100 else None} for n in range(94, 110)]
    assert found == expected
    assert lo.update(uri, {"x": "-x"}, "id > 100", runner=SparkRunner(spark)).rows_updated == 9


def test_columns_are_computed_by_a_function_of_this_very_test(spark, tmp_path):
    uri = str(tmp_path / "columns.lance")
    lo.write_dataset(pa.table({"x": range(9)}), uri, max_rows_per_file=3)
    lo.delete(uri, "x = 4")
    factor = 7

    @lo.batch_udf(pa.schema([("y", pa.int64())]))
    def times(batch):
        return pa.record_batch([pa.array([factor * x for x in batch["x"].to_pylist()])], ["y"])

    done = lo.add_columns(uri, times, runner=SparkRunner(spark), job_key="k")
    assert done.fragments_updated == 3
    assert lo.dataset(uri).to_table()["y"].to_pylist() == [7 * x for x in range(9) if x != 4]
    assert lo.list_jobs(uri) == []


def test_the_columns_of_another_table_are_read_by_executors(spark, tmp_path):
    uri = str(tmp_path / "joined.lance")
    lo.write_dataset(pa.table({"x": range(9)}), uri, max_rows_per_file=3)
    other = pa.table({"x": range(1, 5_000), "y": [f"{n:06}" for n in range(1, 5_000)]})
    done = lo.merge(uri, other, "x", runner=SparkRunner(spark), job_key="k")
    assert done.fragments_updated == 3
    assert lo.dataset(uri).to_table()["y"].to_pylist() == [None, *(f"{n:06}" for n in range(1, 9))]
    named = {file.path for fragment in lo.dataset(uri).fragments for file in fragment.files}
    assert {path.name for path in (tmp_path / "joined.lance" / "data").iterdir()} == named
