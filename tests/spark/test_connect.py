"""Spark Connect: a session that only has a server's address reads, writes and maintains as a classic one."""

from pathlib import Path

import pytest

from tests.support.spark import run_script


@pytest.mark.spark
def test_one_round_over_a_server_of_spark_connect(tmp_path: Path) -> None:
    script = """
        import os

        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        import lance_ops as lo
        from lance_ops.spark import append_dataframe, read_dataset, register
        from lance_ops.spark.session import prepare_environment, spark_conf

        prepare_environment("local[2]")
        builder = SparkSession.builder.remote("local[2]")
        for key, value in spark_conf("local[2]").items():
            # The address of a server stands in the place of a master.
            if key != "spark.master":
                builder = builder.config(key, value)
        spark = builder.getOrCreate()
        assert type(spark).__module__ == "pyspark.sql.connect.session"
        try:
            spark.sparkContext
        except PySparkException:
            pass
        else:
            raise AssertionError("this session is a classic one")
        register(spark)

        # Write: by the format, and by a job that is done once.
        uri = os.path.abspath("t.lance")
        numbers = spark.range(0, 1000, 1, 2).selectExpr("id", "id % 7 as k")
        numbers.write.format("lance").mode("append").save(uri)
        more = numbers.selectExpr("id + 1000 as id", "k")
        assert append_dataframe(more, uri, job_key="more").rows_added == 1000
        assert append_dataframe(more, uri, job_key="more").already_committed
        assert (lo.dataset(uri).version, lo.dataset(uri).count_rows()) == (2, 2000)

        # Read: by the format, and by read_dataset.
        few = spark.read.format("lance").option("filter", "id >= 1990").load(uri)
        assert sorted(row.id for row in few.collect()) == list(range(1990, 2000))
        assert few.schema == numbers.schema
        some = read_dataset(spark, uri, ["id"], "k = 3")
        assert some.columns == ["id"]
        expected = lo.dataset(uri).count_rows("k = 3")
        assert some.count() == some.selectExpr("count(*) AS n").first().n == expected
        assert read_dataset(spark, uri).count() == 2000

        # SQL: what the session knows is the source, executors run the tasks.
        spark.createDataFrame([(5, 50), (5000, 1)], "id long, k long").createOrReplaceTempView("news")
        table = f"`{uri}`"
        (merged,) = lo.sql(
            f"MERGE INTO {table} AS t USING news AS s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            spark=spark,
        ).collect()
        assert (merged.num_updated_rows, merged.num_inserted_rows) == (1, 1)
        (gone,) = lo.sql(f"DELETE FROM {table} WHERE id = 7", spark=spark).collect()
        assert gone.num_affected_rows == 1
        (done,) = lo.sql(f"OPTIMIZE {table}", spark=spark).collect()
        assert (done.fragments_removed, done.fragments_added) == (3, 1)
        assert lo.sql("SELECT count(*) AS n FROM news", spark=spark).first().n == 2

        # And what the executors left is what they read.
        rows = {row.id: row.k for row in spark.read.format("lance").load(uri).collect()}
        wanted = {number: number % 1000 % 7 for number in range(2000) if number != 7}
        assert rows == {**wanted, 5: 50, 5000: 1}
        assert lo.fsck(uri).ok
        spark.stop()
    """
    run_script(script, cwd=tmp_path)
