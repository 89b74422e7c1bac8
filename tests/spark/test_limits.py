"""What Spark's interface for sources in Python cannot do: an error says so, and nothing changes."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_ops as lo

pytestmark = pytest.mark.spark


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path):
    """A table of the catalog over a dataset of three rows."""
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": [1, 2, 3], "word": ["a", "b", "c"]}))
    spark.sql(f"CREATE TABLE limits USING lance LOCATION '{uri}'")
    yield uri
    spark.sql("DROP TABLE limits")


# Each with the error class of Spark, or what the error says.
STATEMENTS = {
    "SELECT * FROM lance.`{uri}`": "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY",
    "TRUNCATE TABLE limits": "does not support truncates",
    "ANALYZE TABLE limits COMPUTE STATISTICS": "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE",
    "CREATE TABLE other (id BIGINT) USING lance PARTITIONED BY (id) LOCATION '{uri}2'": "no partitions",
    (
        "CREATE TABLE other (id BIGINT) USING lance CLUSTERED BY (id) INTO 2 BUCKETS LOCATION '{uri}2'"
    ): "no partitions",
}


def _append(df):
    return df.write.format("lance").mode("append")


MODE = "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"
WRITES = {
    "no mode": (lambda df, uri: df.write.format("lance").save(uri), MODE),
    "ignore": (lambda df, uri: df.write.format("lance").mode("ignore").save(uri), MODE),
    "error": (lambda df, uri: df.write.format("lance").mode("error").save(uri), MODE),
    "partitionBy": (
        lambda df, uri: _append(df).partitionBy("id").save(uri),
        "columns do not match the existing table",
    ),
    "bucketBy": (
        lambda df, uri: _append(df).bucketBy(2, "id").save(uri),
        "does not support bucketBy",
    ),
    "writeTo": (lambda df, uri: df.writeTo(f"lance.`{uri}`").append(), "TABLE_OR_VIEW_NOT_FOUND"),
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_that_cannot_be_done_says_so_and_changes_nothing(spark, table, statement):
    with pytest.raises(PySparkException) as caught:
        spark.sql(statement.format(uri=table)).collect()
    assert STATEMENTS[statement] in str(caught.value), str(caught.value)[:600]
    assert lo.dataset(table).version == 1
    assert not Path(f"{table}2").exists()


@pytest.mark.parametrize("how", WRITES)
def test_a_write_that_cannot_be_done_says_so_and_changes_nothing(spark, table, how):
    write, message = WRITES[how]
    with pytest.raises(PySparkException) as caught:
        write(spark.sql("SELECT 4L AS id, 'd' AS word"), table)
    assert message in str(caught.value), str(caught.value)[:600]
    assert lo.dataset(table).version == 1
