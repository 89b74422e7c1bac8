"""Streaming queries of Spark itself, between two datasets, with restarts from their checkpoints."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.table.commit.jobs.stream_epochs import EPOCH_ID, QUERY_ID

pytestmark = pytest.mark.spark


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"id": range(first, first + count), "v": [[float(n)] * 3 for n in range(count)]}).cast(
        pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), 3))])
    )


def run(rows, uri: str, checkpoint: Path, mode: str = "append", **options):
    writer = rows.writeStream.format("lance").outputMode(mode).option("checkpointLocation", str(checkpoint))
    for name, value in options.items():
        writer = writer.option(name, value)
    query = writer.trigger(availableNow=True).start(uri)
    query.awaitTermination()
    return query


def ids(uri: str) -> list[int]:
    return sorted(lo.dataset(uri).to_table(["id"])["id"].to_pylist())


def test_a_query_between_datasets_goes_on_where_it_was_and_repeats_no_epoch(spark, tmp_path):
    source, sink, checkpoint = str(tmp_path / "a.lance"), str(tmp_path / "b.lance"), tmp_path / "checkpoint"
    lo.append(source, rows(0, 100), max_rows_per_file=30)
    stream = spark.readStream.format("lance").option("maxRowsPerTrigger", 60).load(source)
    query = run(stream, sink, checkpoint)
    assert ids(sink) == list(range(100))
    assert lo.dataset(sink).schema.field("v").type == pa.list_(pa.float32(), 3)
    made = [lo.dataset(sink).read_transaction(version).properties for version in (1, 2)]
    assert [(found[QUERY_ID], found[EPOCH_ID]) for found in made] == [(query.id, "0"), (query.id, "1")]

    # As if the driver had died after the commit, before Spark noted that the epoch was done.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    lance.write_dataset(rows(100, 5), source, mode="append")
    lance.dataset(sink).optimize.compact_files()
    lo.cleanup(sink, retain_versions=1, delete_unverified=True)
    again = run(stream, sink, checkpoint)
    assert again.id == query.id
    assert ids(sink) == list(range(105))
    assert lance.dataset(sink).count_rows() == 105


def test_an_aggregate_replaces_the_one_before(spark, tmp_path):
    source, sink = str(tmp_path / "a.lance"), str(tmp_path / "b.lance")
    lo.append(source, pa.table({"id": range(10)}))
    lo.append(source, pa.table({"id": range(10, 15)}))
    stream = spark.readStream.format("lance").option("startingVersion", 1).option("maxVersionsPerTrigger", 1)
    counted = stream.load(source).selectExpr("id % 2 odd").groupBy("odd").count()
    run(counted, sink, tmp_path / "checkpoint", "complete")
    found = sorted(lo.dataset(sink).to_table().to_pylist(), key=str)
    assert [(row["odd"], row["count"]) for row in found] in ([(0, 8), (1, 7)], [(1, 7), (0, 8)])
    assert lo.dataset(sink).version == 2
