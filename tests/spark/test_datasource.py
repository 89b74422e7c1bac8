"""`spark.read.format("lance")` and `df.write.format("lance")`."""

import datetime as dt
import pickle
import shutil
from decimal import Decimal
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.types import StructField, StructType

import lance_ops as lo
from lance_ops.errors import SchemaMismatchError
from lance_ops.maintenance.ingest.options import WriteOptions
from lance_ops.spark.options import ReadOptions
from lance_ops.spark.read import LanceReader
from lance_ops.spark.transport import capture
from lance_ops.spark.types import spark_schema
from lance_ops.spark.writing.dataframe import plan_dataframe_write
from lance_ops.spark.writing.save import LanceWriter, _Written
from lance_ops.table.history.refs import create_tag
from tests.support.fake_s3 import FakeS3

ROWS = 1000


def numbered(start: int = 0, stop: int = ROWS) -> pa.Table:
    ids = np.arange(start, stop)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "small": pa.array(ids % 7, pa.uint8()),
            "text": pa.array([None if n % 10 == 3 else f"row {n}" for n in ids]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(ids.repeat(4).astype(np.float32)), 4),
            "nested": pa.StructArray.from_arrays(
                [pa.array(ids % 5, pa.int32()), pa.array([f"n{n}" for n in ids])], ["a", "b"]
            ),
        },
        schema=pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                ("small", pa.uint8()),
                ("text", pa.string()),
                ("vector", pa.list_(pa.float32(), 4)),
                ("nested", pa.struct([("a", pa.int32()), ("b", pa.string())])),
            ]
        ),
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> str:
    """Version 1: all rows in 10 fragments; 2: an index on id; 3: without every seventh row."""
    uri = str(tmp_path_factory.mktemp("read") / "t.lance")
    lo.write_dataset(numbered(), uri, max_rows_per_file=100)
    lo.create_index(uri, "id")
    lo.delete(uri, "small = 0")
    create_tag(lo.dataset(uri).store, "whole", 1)
    return uri


def load(spark, uri, **options):
    reader = spark.read.format("lance")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(uri)


def save(df, uri, mode="append", **options):
    writer = df.write.format("lance").mode(mode)
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save(uri)


def ids(df) -> list[int]:
    return sorted(row.id for row in df.select("id").collect())


def data_files(uri: str) -> set[str]:
    return {path.name for path in (Path(uri) / "data").iterdir()}


# Reading


@pytest.mark.spark
def test_all_live_rows_are_read_in_their_order(spark, table):
    found = load(spark, table).toArrow()
    expected = lo.dataset(table).to_table()
    assert found.num_rows == expected.num_rows < ROWS
    for name in expected.column_names:
        assert found[name].to_pylist() == expected[name].to_pylist()
    assert found.schema.field("small").type == pa.int16()
    assert not found.schema.field("id").nullable


@pytest.mark.spark
def test_a_version_or_a_tag_is_read(spark, table):
    assert load(spark, table, version=1).count() == ROWS
    assert load(spark, table, tag="whole").count() == ROWS


@pytest.mark.spark
def test_a_dataframe_stays_at_the_version_of_its_load(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(numbered(0, 10), uri)
    df = load(spark, uri)
    lo.append(uri, numbered(10, 20))
    assert df.count() == 10
    assert load(spark, uri).count() == 20


@pytest.mark.spark
def test_named_columns_alone_are_read(spark, table):
    df = load(spark, table, columns="nested.a, id, _rowid", filter="id < 4")
    assert df.columns == ["nested.a", "id", "_rowid"]
    assert [tuple(row) for row in df.collect()] == [(n % 5, n, n) for n in (1, 2, 3)]


@pytest.mark.spark
def test_a_wanted_schema_chooses_the_columns(spark, table):
    df = spark.read.format("lance").schema("small smallint, id bigint").load(table)
    assert df.limit(1).collect() == [(1, 1)]
    with pytest.raises(PySparkException, match="id: expected string, the dataset has bigint"):
        spark.read.format("lance").schema("id string").load(table).collect()
    with pytest.raises(PySparkException, match="gone: column not found in the dataset"):
        spark.read.format("lance").schema("gone string").load(table).collect()


@pytest.mark.spark
def test_a_filter_that_an_index_answers_opens_no_other_fragment(spark, table, tmp_path):
    copy = tmp_path / "t.lance"
    shutil.copytree(table, copy)
    kept = {file.path for file in lo.dataset(copy).fragments[3].files}
    for path in (copy / "data").iterdir():
        if path.name not in kept:
            path.unlink()
    df = load(spark, str(copy), filter="id BETWEEN 350 AND 352")
    assert ids(df) == [351, 352]


@pytest.mark.spark
def test_a_filter_may_hold_or_and_select_nothing(spark, table):
    assert ids(load(spark, table, filter="id = 1 OR text = 'row 999'")) == [1, 999]
    assert load(spark, table, filter="id < 0").collect() == []


@pytest.mark.spark
def test_filters_of_spark_are_pushed_down(spark, table, capsys):
    df = load(spark, table)
    query = df.where("id > 900 and text like 'row 9%' and nested.a = 3 and (small = 1 or small = 2)")
    query.explain()
    plan = capsys.readouterr().out
    # Left to Spark is the column of unsigned numbers.
    (line,) = [line for line in plan.splitlines() if "Filter (" in line]
    assert "small" in line
    assert "nested" not in line
    assert "StartsWith" not in line
    expected = lo.dataset(table).to_table(
        ["id"],
        filter="id > 900 AND text LIKE 'row 9%' AND nested.a = 3 AND small IN (1, 2)",
    )
    assert ids(query) == expected["id"].to_pylist()
    assert expected.num_rows == 3


@pytest.mark.spark
def test_one_loaded_dataframe_serves_many_queries(spark, table):
    """Spark itself keeps the filters of one query for the next one; a scan of ours has its own."""
    everything = lo.dataset(table).count_rows()
    df = load(spark, table)
    few = df.where("id < 10")
    assert (few.count(), df.count()) == (8, everything)
    assert df.where("id >= 990").union(few).count() == 9 + 8

    df = load(spark, table, pushdown="true")
    assert df.where("id < 10").count() == 8
    assert df.count() == everything


@pytest.mark.spark
def test_a_table_with_times_and_long_decimals_is_used_by_name(spark, tmp_path):
    """Of another writer: Spark 4.3 has no such decimals, and its TIME is off."""
    uri = str(tmp_path / "t.lance")
    long = pa.decimal256(60, 5)
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "at": pa.array([1, 43_200_000_000, None], pa.time64("us")),
            "much": pa.array([Decimal("0.5"), None, Decimal(10**50)], long),
            "deep": [[{"t": dt.time(1)}], [], None],
        },
        schema=pa.schema(
            [
                ("id", pa.int64()),
                ("at", pa.time64("us")),
                ("much", long),
                ("deep", pa.list_(pa.struct([("t", pa.time32("ms"))]))),
            ]
        ),
    )
    lance.write_dataset(rows, uri)
    try:
        spark.sql(f"CREATE TABLE with_times USING lance LOCATION '{uri}'")
        described = {
            row.col_name: (row.data_type, row.comment) for row in spark.sql("DESC with_times").collect()
        }
        assert described["at"] == ("string", "time64[us] in the dataset, read as a string")
        assert described["much"][0] == "string"
        assert spark.sql("SELECT count(*), max(at) FROM with_times").collect() == [(3, "12:00:00")]
        found = load(spark, uri, pushdown="true").where("at = '12:00:00' OR much = '0.50000'")
        assert sorted(row.id for row in found.collect()) == [1, 2]
        spark.sql("INSERT INTO with_times SELECT id + 10, at, much, deep FROM with_times")
        spark.sql("INSERT INTO with_times (id, at) VALUES (20, '01:02:03.5')")
        with pytest.raises(Exception, match="at: string to time64"):
            spark.sql("INSERT INTO with_times (id, at) VALUES (21, 'noon')")
        told = lance.dataset(uri).to_table()
        twice = pa.concat_tables([rows, rows])
        assert told.schema.equals(rows.schema)
        assert told.select(["at", "much", "deep"]).slice(0, 6).equals(twice.select(["at", "much", "deep"]))
        assert told["at"][6].as_py() == dt.time(1, 2, 3, 500_000)
        lo.sql("DELETE FROM with_times WHERE at = '12:00:00'", spark)
        left = lance.dataset(uri).to_table(["id"])["id"].to_pylist()
        assert left == [1, 3, 11, 13, 20]
    finally:
        spark.sql("DROP TABLE IF EXISTS with_times")


@pytest.mark.spark
def test_errors_of_a_load_say_what_is_wrong(spark, tmp_path):
    with pytest.raises(AnalysisException, match="DatasetNotFoundError"):
        load(spark, str(tmp_path / "none"))
    with pytest.raises(AnalysisException, match="unknown option: vesrion"):
        load(spark, str(tmp_path), vesrion=1)


@pytest.mark.spark
def test_an_empty_dataset_is_read(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(numbered(0, 0), uri)
    assert load(spark, uri).collect() == []


@pytest.mark.spark
def test_fragments_are_spread_over_partitions(spark, table):
    assert load(spark, table).rdd.getNumPartitions() == 1
    assert load(spark, table, partition_bytes=1).rdd.getNumPartitions() == 10


def test_executors_need_no_manifest(table, tmp_path):
    copy = tmp_path / "t.lance"
    shutil.copytree(table, copy)
    dataset = lo.dataset(copy)
    options = ReadOptions(str(copy), columns=("id",), filter="small = 3")
    reader = LanceReader(
        dataset, options, spark_schema(dataset.schema.remove(4).remove(3).remove(2).remove(1))
    )
    sent = pickle.dumps((reader, reader.partitions()))
    shutil.rmtree(copy / "_versions")
    received, partitions = pickle.loads(sent)
    found = [n for part in partitions for batch in received.read(part) for n in batch["id"].to_pylist()]
    assert found == list(range(3, ROWS, 7))


def test_a_schema_that_forbids_nulls_is_refused_when_there_may_be_some(table):
    dataset = lo.dataset(table)
    wanted = StructType([StructField("text", spark_schema(dataset.schema)["text"].dataType, nullable=False)])
    with pytest.raises(SchemaMismatchError, match="text: nullable in the dataset"):
        LanceReader(dataset, ReadOptions(table), wanted)
    with pytest.raises(SchemaMismatchError, match="small: not in the wanted schema"):
        LanceReader(dataset, ReadOptions(table, columns=("text", "small")), wanted)


@pytest.mark.spark
def test_damaged_data_fail_the_query_with_a_typed_error(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(numbered(0, 10), uri)
    (file,) = (Path(uri) / "data").iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(PySparkException, match="CorruptFileError") as caught:
        load(spark, uri).collect()
    assert file.name in str(caught.value)


# Writing


@pytest.mark.spark
@pytest.mark.peer
def test_an_append_makes_one_commit_whatever_the_partitions(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(numbered(0, 100), uri)
    more = spark.range(100, 200, 1, 3).selectExpr(
        "array_repeat(cast(id as float), 4) vector",
        "id",
        "case when id % 10 = 3 then null else concat('row ', id) end text",
        "named_struct('a', cast(id % 5 as int), 'b', concat('n', id)) nested",
        "cast(id % 7 as smallint) small",
    )
    save(more, uri)
    dataset = lo.dataset(uri)
    assert dataset.version == 2
    assert len(dataset.fragments) == 2, "the three small partitions are one fragment"
    assert dataset.to_table().equals(numbered(0, 200))
    assert dataset.schema.equals(numbered().schema)
    peer = lance.dataset(uri)
    peer.validate()
    assert peer.to_table().equals(numbered(0, 200))


@pytest.mark.spark
def test_a_dataset_is_created_and_overwritten(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    save(spark.range(10).coalesce(1), uri, **{"property.run": "7"})
    assert lo.dataset(uri).to_table().to_pydict() == {"id": list(range(10))}
    assert lo.dataset(uri).read_transaction().properties["run"] == "7"
    save(spark.range(3).coalesce(1).selectExpr("cast(id as string) word"), uri, mode="overwrite")
    assert lo.dataset(uri).version == 2
    assert lo.dataset(uri).to_table().to_pydict() == {"word": ["0", "1", "2"]}


@pytest.mark.spark
def test_the_other_modes_are_refused_by_spark(spark, tmp_path):
    for mode in ("error", "ignore"):
        with pytest.raises(AnalysisException, match='"Append" or "Overwrite"'):
            save(spark.range(1), str(tmp_path / "t.lance"), mode=mode)


@pytest.mark.spark
def test_a_copy_through_spark_keeps_vectors(spark, table, tmp_path):
    uri = str(tmp_path / "copy.lance")
    save(load(spark, table), uri)
    copied, original = lo.dataset(uri), lo.dataset(table)
    assert copied.schema.field("vector").type == pa.list_(pa.float32(), 4)
    assert copied.to_table(["vector"]).equals(original.to_table(["vector"]))


@pytest.mark.spark
def test_options_of_the_store_reach_the_executors(spark):
    with FakeS3() as s3:
        options = {f"storage.{name}": value for name, value in s3.options.items()}
        save(spark.range(0, 100, 1, 2), "s3://bucket/t.lance", **options)
        df = load(spark, "s3://bucket/t.lance", filter="id >= 90", **options)
        assert ids(df) == list(range(90, 100))


@pytest.mark.spark
def test_a_job_key_commits_once(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    for _ in range(2):
        save(spark.range(5), uri, job_key="monday")
    assert lo.dataset(uri).version == 1
    files = data_files(uri)
    assert files == {file.path for fragment in lo.dataset(uri).fragments for file in fragment.files}


@pytest.mark.spark
def test_a_schema_that_does_not_fit_is_refused_before_anything_is_written(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(numbered(0, 5), uri)
    before = data_files(uri)
    df = spark.range(5).selectExpr("cast(id as string) id", "id as extra")
    with pytest.raises(AnalysisException) as caught:
        save(df, uri)
    text = str(caught.value)
    assert "id: string in the data, int64 in the dataset" in text
    assert "vector: missing" in text
    assert "extra: column not found in the dataset" in text
    assert data_files(uri) == before


@pytest.mark.spark
def test_a_failed_task_leaves_neither_a_version_nor_files(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"small": pa.array([1], pa.uint8())}), uri)
    before = data_files(uri)
    df = (
        spark.range(500, 100, -1, 2)
        .selectExpr("cast(id as smallint) small")
        .where("small > 300 or small < 200")
    )
    with pytest.raises(PySparkException, match=r"task 1 of 2 failed: SchemaMismatchError: values do not fit"):
        save(df, uri)
    assert lo.dataset(uri).version == 1
    assert data_files(uri) == before


def test_an_abort_after_a_commit_removes_nothing(tmp_path):
    """Spark aborts also when it never heard of the end of the commit."""
    uri = str(tmp_path / "t.lance")
    table = pa.table({"id": pa.array([1, 2], pa.int64())})
    schema = spark_schema(table.schema)
    writer = LanceWriter(*plan_dataframe_write(schema, uri, WriteOptions()))
    writer = pickle.loads(pickle.dumps(writer))

    def write(partition: int) -> _Written:
        return _Written(partition, capture(lambda: writer._writer.write(table.to_batches())))

    writer.abort([write(0), None])
    assert not data_files(uri)

    messages = [write(1), write(0)]
    writer.commit(messages)
    writer.abort(messages)
    assert lo.dataset(uri).to_table().num_rows == 4
