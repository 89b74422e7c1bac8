"""`spark.sql` takes the statements of `lance_ops.sql` on datasets, and leaves all others to Spark."""

from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

import lance_ops as lo

pytestmark = pytest.mark.spark


@pytest.fixture
def table(spark: SparkSession, tmp_path):
    """A table of ten rows by its name, and the path of its dataset."""
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": range(6), "w": list("abcdef")}))
    lo.append(uri, pa.table({"id": range(6, 10), "w": list("ghij")}))
    spark.sql(f"CREATE TABLE stated USING lance LOCATION '{uri}'")
    yield uri
    spark.sql("DROP TABLE IF EXISTS stated")


def test_rows_are_changed_once(spark, table):
    assert spark.sql("DELETE FROM stated WHERE id % 5 = 4").collect() == [(2,)]
    assert spark.sql("UPDATE stated SET w = upper(w) WHERE id < 2").first().num_affected_rows == 2
    merged = spark.sql(
        "MERGE INTO stated t USING (SELECT 2L AS id, 'two' AS w UNION ALL SELECT 77, 'new') s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert merged.first().asDict() == {
        "num_affected_rows": 2,
        "num_updated_rows": 1,
        "num_deleted_rows": 0,
        "num_inserted_rows": 1,
    }
    # The statement ran when it was given, and not again for each use of its result.
    assert merged.count() == 1
    rows = {row["id"]: row["w"] for row in lance.dataset(table).to_table().to_pylist()}
    assert rows == {
        0: "A", 1: "B", 2: "two", 3: "d", 5: "f", 6: "g", 7: "h", 8: "i", 77: "new"
    }  # fmt: skip
    assert lance.dataset(table).version == 5


def test_maintenance_of_a_table(spark, table):
    assert spark.sql("optimize stated").first().fragments_removed == 2
    spark.sql("ALTER TABLE stated CREATE INDEX by_id USING btree (id)")
    assert spark.sql("SHOW INDEXES FROM stated").first().num_indexed_rows == 10
    spark.sql("ALTER TABLE stated CREATE TAG first AS OF VERSION 1")
    spark.sql("ALTER TABLE stated CREATE BRANCH b")
    assert [row.name for row in spark.sql("SHOW BRANCHES FROM stated").collect()] == ["b"]
    assert [row.name for row in spark.sql("/* tags */ SHOW TAGS IN stated;").collect()] == ["first"]
    assert spark.sql("SELECT count(*) AS n FROM stated VERSION AS OF 'first'").first().n == 6
    assert spark.sql(f"VACUUM `{table}`").first().old_versions == 0
    spark.sql("ALTER TABLE stated ADD COLUMN n INT")
    spark.sql("ALTER TABLE stated RENAME COLUMN n TO m")
    assert spark.table("stated").columns == ["id", "w", "m"]
    spark.sql("ALTER TABLE stated DROP COLUMN m")
    spark.sql("ALTER TABLE stated DROP INDEX by_id")
    assert spark.sql("SHOW INDEXES FROM stated").collect() == []


def test_versions_of_a_table(spark, table, tmp_path):
    spark.sql("DELETE FROM stated")
    history = spark.sql("DESCRIBE HISTORY stated LIMIT 2").collect()
    assert [(row.version, row.operation) for row in history] == [(3, "Delete"), (2, "Append")]
    assert spark.sql("RESTORE TABLE stated TO VERSION AS OF 2").first() == (4, 10)
    detail = spark.sql("DESC DETAIL stated").first()
    assert (detail.format, detail.location, detail.version, detail.num_rows) == ("lance", table, 4, 10)
    copies = {"SHALLOW": f"{tmp_path}/shallow.lance", "DEEP": f"{tmp_path}/deep.lance"}
    for kind, place in copies.items():
        spark.sql(f"CREATE TABLE `{place}` {kind} CLONE stated VERSION AS OF 1")
        assert lance.dataset(place).count_rows() == 6
    try:
        spark.sql(f"CREATE TABLE copied DEEP CLONE stated LOCATION '{tmp_path}/named.lance'")
        assert spark.table("copied").count() == 10
    finally:
        spark.sql("DROP TABLE IF EXISTS copied")
    with pytest.raises(IllegalArgumentException, match="add LOCATION"):
        spark.sql("CREATE TABLE copied DEEP CLONE stated")
    with pytest.raises(IllegalArgumentException, match="has no time zone"):
        spark.sql("RESTORE stated TO TIMESTAMP AS OF '2024-01-01 00:00:00'")


def test_errors_say_what_is_wrong(spark, table):
    with pytest.raises(IllegalArgumentException, match="unknown option: nonsense"):
        spark.sql("OPTIMIZE stated WITH (nonsense = 1)")
    with pytest.raises(Exception, match="no column 'nope'"):
        spark.sql("DELETE FROM stated WHERE nope = 1")
    with pytest.raises(Exception, match="MERGE INTO does not support a second WHEN MATCHED"):
        spark.sql(
            "MERGE INTO stated t USING stated s ON t.id = s.id"
            " WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE"
        )
    assert lo.dataset(table).version == 2


def test_other_tables_are_left_to_spark(spark, table):
    spark.sql("CREATE TABLE of_parquet USING parquet AS SELECT 1L AS id")
    spark.range(3).createOrReplaceTempView("seen")
    try:
        with pytest.raises(AnalysisException, match="does not support DELETE"):
            spark.sql("DELETE FROM of_parquet WHERE id = 1")
        for statement in ("OPTIMIZE of_parquet", "OPTIMIZE nowhere", "VACUUM seen"):
            with pytest.raises(ParseException, match="Syntax error"):
                spark.sql(statement)
        spark.sql("ALTER TABLE of_parquet ADD COLUMN more INT")
        assert spark.table("of_parquet").columns == ["id", "more"]
        with pytest.raises(PySparkException):
            spark.sql("UPDATE seen SET id = 1")
        # Notes of the catalog, as ever.
        spark.sql("ALTER TABLE stated SET TBLPROPERTIES ('team' = 'us')")
        assert lo.dataset(table).version == 2
    finally:
        spark.sql("DROP TABLE of_parquet")
        spark.catalog.dropTempView("seen")


def test_statements_of_other_sessions_and_threads(spark, table):
    other = spark.newSession()
    assert other.sql("DELETE FROM stated WHERE id = 0").first()[0] == 1
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda n: spark.sql(f"DELETE FROM stated WHERE id = {n}").first()[0], (1, 2)))
    assert done == [1, 1]
    assert lo.dataset(table).count_rows() == 7


def test_a_dynamic_overwrite_replaces_all_rows_of_a_table_without_partitions(spark, table):
    setting = "spark.sql.sources.partitionOverwriteMode"
    before = spark.conf.get(setting)
    try:
        spark.conf.set(setting, "dynamic")
        spark.sql("INSERT OVERWRITE stated VALUES (1L, 'one')")
        assert lo.dataset(table).to_table().to_pylist() == [{"id": 1, "w": "one"}]
        frame = spark.sql("SELECT 2L AS id, 'two' AS w")
        frame.write.insertInto("stated", overwrite=True)
        assert lo.dataset(table).to_table()["id"].to_pylist() == [2]
        frame.selectExpr("id + 1 AS id", "w").writeTo("stated").overwritePartitions()
        assert lo.dataset(table).to_table()["id"].to_pylist() == [3]
    finally:
        spark.conf.set(setting, before)


def test_an_overwrite_by_a_condition_replaces_these_rows(spark, table):
    new = spark.sql("SELECT 8L AS id, 'eight' AS w")
    new.writeTo("stated").overwrite((col("id") >= 7) & ~col("w").isin("j"))
    rows = lo.dataset(table).to_table().to_pylist()
    assert sorted((row["id"], row["w"]) for row in rows if row["id"] > 5) == [
        (6, "g"),
        (8, "eight"),
        (9, "j"),
    ]
    with pytest.raises(Exception, match="do not match"):
        # Rows that the condition does not select would be there twice by a second run.
        new.writeTo("stated").overwrite(col("id") < 3)
    # Spark refuses what cannot be handed on exactly.
    with pytest.raises(Exception, match=r"(?i)overwrite"):
        new.writeTo("stated").overwrite(col("id") % 2 == 0)
    assert lo.dataset(table).version == 3
    spark.sql("INSERT INTO stated REPLACE WHERE id = 8 SELECT 8L, 'again'")
    assert lo.dataset(table).to_table(filter="id = 8")["w"].to_pylist() == ["again"]


def test_a_statement_leaves_the_active_session(spark, table):
    spark.newSession().sql("DELETE FROM stated WHERE id = 0")
    spark.sql("DELETE FROM stated WHERE id = 1")
    assert SparkSession.active() is spark
