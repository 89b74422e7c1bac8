"""A catalog of any name over a folder: `spark.sql.catalog.<name>` is `lanceops.LanceCatalog`."""

import itertools

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import lance_ops as lo
from lance_ops.spark.catalog import FOLDER_CATALOG_CLASS

pytestmark = pytest.mark.spark

_NUMBERS = itertools.count()


@pytest.fixture
def lake(spark: SparkSession, tmp_path):
    """Name and folder of a catalog; Spark keeps catalogs by name as long as the session lasts."""
    name = f"lake{next(_NUMBERS)}"
    spark.conf.set(f"spark.sql.catalog.{name}", FOLDER_CATALOG_CLASS)
    spark.conf.set(f"spark.sql.catalog.{name}.root", str(tmp_path))
    yield name, tmp_path
    spark.conf.unset(f"spark.sql.catalog.{name}.root")
    spark.conf.unset(f"spark.sql.catalog.{name}")


def test_datasets_in_a_folder_are_tables(spark, lake):
    name, folder = lake
    lo.append(f"{folder}/events.lance", pa.table({"id": range(5)}))
    lo.append(f"{folder}/deep/er/more.lance", pa.table({"id": range(3)}))
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {name}").collect()] == ["events"]
    assert [row.namespace for row in spark.sql(f"SHOW NAMESPACES IN {name}").collect()] == ["deep"]
    assert spark.sql(f"SELECT count(*) AS n FROM {name}.events").first().n == 5
    joined = spark.sql(f"SELECT a.id FROM {name}.events a JOIN {name}.deep.er.more b ON a.id = b.id")
    assert joined.count() == 3
    spark.sql(f"INSERT INTO {name}.events VALUES (5L)")
    assert spark.sql(f"SELECT count(*) AS n FROM {name}.events VERSION AS OF 1").first().n == 5
    assert lance.dataset(f"{folder}/events.lance").count_rows() == 6
    assert spark.sql(f"DELETE FROM {name}.events WHERE id < 2").first()[0] == 2
    assert spark.sql(f"DESCRIBE HISTORY {name}.events LIMIT 1").first().operation == "Delete"
    spark.sql(f"ALTER TABLE {name}.events ADD COLUMN w STRING")
    assert spark.table(f"{name}.events").columns == ["id", "w"]


def test_tables_are_made_and_dropped(spark, lake):
    name, folder = lake
    spark.sql(f"CREATE NAMESPACE {name}.a")
    spark.sql(
        f"CREATE TABLE {name}.a.v (id BIGINT NOT NULL, v ARRAY<FLOAT>)"
        " TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2', 'enable_stable_row_ids' = 'true')"
    )
    made = lance.dataset(f"{folder}/a/v.lance")
    assert made.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert made.has_stable_row_ids
    assert made.count_rows() == 0
    with pytest.raises(AnalysisException, match="already exists"):
        spark.sql(f"CREATE TABLE {name}.a.v (id INT)")
    spark.sql(f"CREATE TABLE {name}.a.w AS SELECT id FROM range(3)")
    with pytest.raises(PySparkException, match=r"(?i)not.empty"):
        spark.sql(f"DROP NAMESPACE {name}.a")
    spark.sql(f"DROP TABLE {name}.a.v")
    spark.sql(f"DROP TABLE {name}.a.w")
    assert spark.sql(f"SHOW TABLES IN {name}.a").collect() == []
    spark.sql(f"DROP NAMESPACE {name}.a")
    assert spark.sql(f"SHOW NAMESPACES IN {name}").collect() == []
    assert not (folder / "a" / "v.lance" / "data").exists()
    for statement in (f"SELECT * FROM {name}.a.v", f"CREATE TABLE {name}.nowhere.t (id INT)"):
        with pytest.raises(AnalysisException, match="NOT_FOUND"):
            spark.sql(statement)


def test_a_replacement_is_one_commit(spark, lake):
    name, folder = lake
    uri = f"{folder}/t.lance"
    spark.sql(f"CREATE OR REPLACE TABLE {name}.t AS SELECT id, id * 2 AS twice FROM range(4)")
    spark.sql(f"CREATE OR REPLACE TABLE {name}.t AS SELECT id, 'new' AS word FROM {name}.t WHERE id > 1")
    assert lo.dataset(uri).to_table().to_pylist() == [{"id": 2, "word": "new"}, {"id": 3, "word": "new"}]
    assert lo.dataset(uri).version == 2
    for statement in (
        f"CREATE OR REPLACE TABLE {name}.t AS SELECT raise_error('late') AS a FROM {name}.t",
        f"CREATE TABLE {name}.fails AS SELECT raise_error('late') AS a FROM {name}.t",
    ):
        with pytest.raises(PySparkException, match="late"):
            spark.sql(statement)
    assert lo.dataset(uri).version == 2
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {name}").collect()] == ["t"]
    spark.sql(f"CREATE OR REPLACE TABLE {name}.t (a INT)")
    assert lo.dataset(uri).schema.names == ["a"]
    assert lo.dataset(uri).count_rows() == 0
    # Versions before stay.
    assert spark.sql(f"SELECT count(*) AS n FROM {name}.t VERSION AS OF 1").first().n == 4
    spark.range(3).write.format("lance").mode("overwrite").option("overwriteSchema", "true").saveAsTable(
        f"{name}.t"
    )
    assert spark.table(f"{name}.t").columns == ["id"]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("CREATE TABLE {0}.t (id INT) USING parquet", "tables of the format lance only"),
        ("CREATE TABLE {0}.t (id INT) LOCATION '/elsewhere'", "omit LOCATION"),
        ("CREATE TABLE {0}.t (id INT) PARTITIONED BY (id)", "no partitions"),
        ("CREATE TABLE {0}.t (id INT) TBLPROPERTIES ('id.lance.nope' = '1')", "not supported here"),
        ("CREATE TABLE {0}.`../t` (id INT)", "characters that a folder cannot have"),
        ("ALTER TABLE {0}.there RENAME TO there2", "does not rename"),
        ("ALTER TABLE {0}.there SET TBLPROPERTIES ('a' = 'b')", "keeps no notes"),
        ("SELECT * FROM {0}.`a/b`", "characters that a folder cannot have"),
    ],
)
def test_what_the_catalog_refuses(spark, lake, statement, error):
    name, folder = lake
    lo.append(f"{folder}/there.lance", pa.table({"id": [1]}))
    with pytest.raises(Exception, match=error):
        spark.sql(statement.format(name))
    assert lo.dataset(f"{folder}/there.lance").version == 1


def test_a_catalog_needs_a_root(spark):
    setting = "spark.sql.catalog.rootless"
    spark.conf.set(setting, FOLDER_CATALOG_CLASS)
    try:
        with pytest.raises(Exception, match=r"set spark.sql.catalog.rootless.root"):
            spark.sql("SHOW TABLES IN rootless")
    finally:
        spark.conf.unset(setting)


def test_overwrite_schema_by_table(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": range(3)}))
    spark.sql(f"CREATE TABLE other_columns USING lance LOCATION '{uri}'")
    try:
        frame = spark.sql("SELECT 'a' AS word, 1.5D AS x")
        writer = frame.write.format("lance").mode("overwrite").option("overwriteSchema", "true")
        writer.saveAsTable("other_columns")
        assert spark.table("other_columns").collect() == [("a", 1.5)]
        assert lance.dataset(uri).schema.names == ["word", "x"]
        assert lo.dataset(uri).version == 2
    finally:
        spark.sql("DROP TABLE other_columns")
