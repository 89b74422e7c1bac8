"""One round of what Spark's users do, for every kind of session and store: batches, SQL, and streams."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import lance_ops as lo
from lance_ops.spark import SparkRunner, append_dataframe, read_dataset


def check_round(spark: Any, root: str, checkpoints: Path, storage: Mapping[str, str] | None = None) -> None:
    """Write, change and stream datasets below a root, and look at every row.

    Args:
        spark: The session, of whatever kind.
        root: A folder or a place in a bucket that is empty.
        checkpoints: A folder.
        storage: Options of the store.
    """
    options = dict(storage or {})
    source, mirror, log = (f"{root}/{name}.lance" for name in ("source", "mirror", "log"))
    _batches(spark, source, options)
    _statements(spark, source, options)
    _streams(spark, source, mirror, log, checkpoints, options)


def _batches(spark: Any, uri: str, options: dict[str, str]) -> None:
    given = {f"storage.{name}": value for name, value in options.items()}
    rows = spark.range(0, 1000, 1, 4).selectExpr("id", "concat('w', id % 7) word")
    done = append_dataframe(
        rows, uri, storage_options=options, enable_stable_row_ids=True, max_rows_per_file=300
    )
    assert (done.rows_added, done.fragments_added) == (1000, 4)
    rows.selectExpr("id + 1000 id", "word").write.format("lance").mode("append").options(**given).save(uri)
    found = spark.read.format("lance").options(**given).option("filter", "id >= 1990").load(uri)
    assert sorted(row.id for row in found.collect()) == list(range(1990, 2000))
    few = read_dataset(spark, uri, ["id"], "word = 'w3'", storage_options=options)
    assert few.count() == sum(n % 1000 % 7 == 3 for n in range(2000))


def _statements(spark: Any, uri: str, options: dict[str, str]) -> None:
    def sql(statement: str) -> Any:
        return lo.sql(
            statement, spark, tables={"t": uri}, storage_options=options, runner=SparkRunner(spark)
        ).first()

    assert sql("DELETE FROM t WHERE id % 2 = 1 AND id >= 1000L").num_affected_rows == 500
    assert sql('UPDATE t SET word = "new" WHERE id <=> 4').num_affected_rows == 1
    sql("ALTER TABLE t CREATE INDEX by_id USING btree (id)")
    assert sql("SHOW INDEXES FROM t").num_unindexed_rows == 0
    assert sql("OPTIMIZE t").fragments_added == 1
    merged = sql(
        "MERGE INTO t USING (SELECT id, 'merged' word FROM range(1499, 1501)) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert (merged.num_updated_rows, merged.num_inserted_rows) == (1, 1)


def _streams(
    spark: Any, source: str, mirror: str, log: str, checkpoints: Path, options: dict[str, str]
) -> None:
    given = {f"storage.{name}": value for name, value in options.items()}

    def run(sink: str, name: str, mode: str, **sinks: str) -> None:
        rows = spark.readStream.format("lance").options(**given).option("mode", mode)
        rows = rows.option("skipChangeCommits", "true") if mode == "append" else rows
        writer = rows.option("startingVersion", 1).load(source).writeStream.format("lance")
        writer = writer.options(**given, **sinks).option("checkpointLocation", str(checkpoints / name))
        query = writer.trigger(availableNow=True).start(sink)
        assert query.awaitTermination(300)
        assert query.exception() is None, query.exception()

    for start in (5000, 6000):
        lo.append(
            source, pa.table({"id": range(start, start + 10), "word": ["late"] * 10}), storage_options=options
        )
        lo.delete(source, f"id = {start}", storage_options=options)
        run(mirror, "mirror", "changes", applyChanges="true", mergeKeys="id")
        run(log, "log", "append")
        tables = [
            lo.dataset(uri, storage_options=options).to_table().sort_by("id") for uri in (source, mirror)
        ]
        assert tables[0].equals(tables[1])
        last = lo.dataset(log, storage_options=options).to_table(["id"], f"id >= {start}")
        assert sorted(last["id"].to_pylist()) == list(range(start, start + 10))
