"""Tables of Spark's catalog: `CREATE TABLE ... USING lance`, by name from then on."""

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import lance
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import lance_ops as lo
from lance_ops.spark import read_dataset
from lance_ops.spark.catalog import CATALOG_CLASS, CATALOG_SETTING, catalog_jar, install_catalog
from tests.support.fake_s3 import FakeS3

pytestmark = pytest.mark.spark


@pytest.fixture
def names(spark: SparkSession):
    """Names for tables, which are dropped afterwards."""
    made = []

    def name() -> str:
        made.append(f"t_{len(made)}")
        return made[-1]

    yield name
    for table in made:
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def values(spark: SparkSession, query: str) -> list[tuple]:
    return sorted(tuple(row) for row in spark.sql(query).collect())


def stored(uri: Path | str) -> list[dict]:
    return lo.dataset(str(uri)).to_table().to_pylist()


@pytest.mark.parametrize("where", ["OPTIONS (path '{}')", "LOCATION '{}'"])
def test_a_table_over_a_dataset_is_read_and_written_by_its_name(spark, names, tmp_path, where):
    uri, table = tmp_path / "a dataset.lance", names()
    lo.append(str(uri), pa.table({"id": [1, 2], "word": ["a", "b"]}))
    spark.sql(f"CREATE TABLE {table} USING lance {where.format(uri)}")
    assert values(spark, f"SELECT * FROM {table}") == [(1, "a"), (2, "b")]
    spark.sql(f"INSERT INTO {table} VALUES (3, NULL)")
    spark.sql(f"INSERT INTO {table} (word, id) SELECT 'd', 4")
    assert values(spark, f"SELECT id FROM {table} WHERE word IS NOT NULL") == [(1,), (2,), (4,)]
    assert lance.dataset(str(uri)).to_table().to_pylist()[2:] == [
        {"id": 3, "word": None},
        {"id": 4, "word": "d"},
    ]
    spark.sql(f"INSERT OVERWRITE {table} SELECT 9L, 'z'")
    assert stored(uri) == [{"id": 9, "word": "z"}]
    assert lo.dataset(str(uri)).schema.field("id").nullable
    spark.sql(f"DROP TABLE {table}")
    assert stored(uri) == [{"id": 9, "word": "z"}]


def test_a_table_with_columns_gets_its_dataset_with_the_first_rows(spark, names, tmp_path):
    uri, table = tmp_path / "t.lance", names()
    spark.sql(f"CREATE TABLE {table} (id BIGINT, word STRING) USING lance LOCATION '{uri}' COMMENT 'words'")
    assert values(spark, f"SELECT * FROM {table}") == []
    spark.sql(f"INSERT INTO {table} SELECT 1L, 'a'")
    assert values(spark, f"SELECT * FROM {table}") == [(1, "a")]
    # A query over literals knows no nulls; the table does.
    assert lo.dataset(str(uri)).schema.field("id").nullable
    spark.sql(f"INSERT INTO {table} VALUES (NULL, NULL)")
    assert lo.dataset(str(uri)).count_rows() == 2


def test_a_table_without_location_belongs_to_spark(spark, names):
    table = names()
    spark.sql(f"CREATE TABLE {table} USING lance AS SELECT id, id * 2 AS twice FROM range(5)")
    assert values(spark, f"SELECT sum(twice) FROM {table}") == [(20,)]
    location = spark.sql(f"SHOW CREATE TABLE {table}").first()[0]
    assert "USING lance" in location
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"CREATE TABLE {table} USING lance AS SELECT 1 AS one")
    assert values(spark, f"SELECT * FROM {table}") == [(1,)]


def test_a_table_from_a_query_takes_a_location_and_no_dataset_of_others(spark, names, tmp_path):
    uri, table = tmp_path / "t.lance", names()
    spark.sql(f"CREATE TABLE {table} USING lance OPTIONS (path '{uri}') AS SELECT 1 AS a")
    assert values(spark, f"SELECT * FROM {table}") == [(1,)]
    assert lo.dataset(str(uri)).version == 1
    with pytest.raises(PySparkException, match="DatasetExistsError"):
        spark.sql(f"CREATE TABLE {names()} USING lance LOCATION '{uri}' AS SELECT 2 AS a")
    assert stored(uri) == [{"a": 1}]


def test_save_as_table_knows_every_mode(spark, names, tmp_path):
    uri, table = str(tmp_path / "t.lance"), names()
    first, second = spark.range(3), spark.range(3, 5)
    first.write.format("lance").option("path", uri).saveAsTable(table)
    with pytest.raises(PySparkException, match="already exists"):
        second.write.format("lance").option("path", uri).saveAsTable(table)
    second.write.format("lance").mode("ignore").saveAsTable(table)
    assert spark.table(table).count() == 3
    second.write.format("lance").mode("append").saveAsTable(table)
    assert values(spark, f"SELECT * FROM {table}") == [(n,) for n in range(5)]
    second.write.insertInto(table)
    assert spark.table(table).count() == 7
    second.write.format("lance").mode("overwrite").option("path", uri).saveAsTable(table)
    assert values(spark, f"SELECT * FROM {table}") == [(3,), (4,)]
    # The versions before are still there.
    assert lo.dataset(uri, version=1).count_rows() == 3
    second.writeTo(table).append()
    assert lo.dataset(uri).count_rows() == 4


@pytest.mark.parametrize("external", [True, False])
def test_a_table_that_is_overwritten_by_name_is_never_dropped(spark, names, tmp_path, external):
    table, place = names(), f"LOCATION '{tmp_path / 't.lance'}'" if external else ""
    spark.sql(f"CREATE TABLE {table} USING lance {place} AS SELECT id, id * 2 AS twice FROM range(5)")
    found = {r.col_name: r.data_type for r in spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()}
    uri = found["Location"].removeprefix("file:")

    def overwrite(df) -> None:
        df.write.format("lance").mode("overwrite").saveAsTable(table)

    failing = spark.range(3).selectExpr("CAST(raise_error('boom') AS BIGINT) AS id", "id AS twice")
    for wrong in (failing, spark.range(3).selectExpr("id", "CAST(id AS STRING) AS word")):
        with pytest.raises(PySparkException):
            overwrite(wrong)
        assert lo.dataset(uri).version == 1
        assert spark.table(table).count() == 5
    with pytest.raises(UnsupportedOperationException, match="lies elsewhere"):
        spark.range(1).write.format("lance").option("path", str(tmp_path / "other")).mode(
            "overwrite"
        ).saveAsTable(table)
    for statement in ("USING parquet AS SELECT 1L AS id", "(id BIGINT) USING lance"):
        with pytest.raises(PySparkException):
            spark.sql(f"CREATE OR REPLACE TABLE {table} {statement}")
        assert spark.table(table).count() == 5
    # A query may read the table itself; columns go by their names.
    overwrite(spark.table(table).where("id < 2").selectExpr("twice", "id"))
    assert values(spark, f"SELECT id, twice FROM {table}") == [(0, 0), (1, 2)]
    assert lo.dataset(uri).version == 2
    spark.sql(f"CREATE OR REPLACE TABLE {table} USING lance AS SELECT 7L AS id, 14L AS twice")
    assert stored(uri) == [{"id": 7, "twice": 14}]
    assert lo.dataset(uri).version == 3
    assert lo.dataset(uri, version=1).count_rows() == 5


REPLACEMENTS = {
    "reads itself": ("CREATE OR REPLACE TABLE {t} USING lance AS SELECT id + 1 AS id FROM {t}", [1, 2, 3]),
    "replace": ("REPLACE TABLE {t} USING lance AS SELECT id + 1 AS id FROM {t}", [1, 2, 3]),
    "elsewhere": ("CREATE OR REPLACE TABLE {t} USING lance LOCATION '{new}' AS SELECT * FROM {t}", [0, 1, 2]),
    "columns": ("CREATE OR REPLACE TABLE {t} (id BIGINT) USING lance", []),
    "fails": ("CREATE OR REPLACE TABLE {t} USING lance AS SELECT raise_error('no') AS id FROM {t}", None),
    "same folder": ("CREATE OR REPLACE TABLE {t} USING lance LOCATION '{old}' AS SELECT 7L AS id", None),
    "folder below": ("CREATE OR REPLACE TABLE {t} USING lance LOCATION '{old}/x' AS SELECT 7L AS id", None),
    "partitions": ("CREATE OR REPLACE TABLE {t} USING lance PARTITIONED BY (id) AS SELECT 7L AS id", None),
    "reserved name": ("CREATE OR REPLACE TABLE {t} (id BIGINT, _rowid BIGINT) USING lance", None),
    "column of no type": ("REPLACE TABLE {t} (id BIGINT, x INTERVAL MONTH) USING lance", None),
    "no type": ("CREATE OR REPLACE TABLE {t} USING lance AS SELECT 7L AS id, map() AS x", None),
}


@pytest.mark.parametrize(
    ("replacement", "old"),
    [
        *((replacement, "USING parquet") for replacement in REPLACEMENTS),
        ("reads itself", "USING csv LOCATION '{}'"),
        ("fails", "USING csv LOCATION '{}'"),
    ],
)
def test_a_table_of_another_format_stays_until_the_new_one_is_committed(
    spark, names, tmp_path, old, replacement
):
    table, (statement, rows) = names(), REPLACEMENTS[replacement]
    spark.sql(f"CREATE TABLE {table} {old.format(tmp_path / 'old')} AS SELECT id FROM range(0, 3, 1, 1)")
    found = {r.col_name: r.data_type for r in spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()}
    folder = Path(found["Location"].removeprefix("file:"))
    files = sorted(folder.iterdir())
    before = {row.tableName for row in spark.sql("SHOW TABLES").collect()}
    statement = statement.format(t=table, old=folder, new=tmp_path / "new")
    if rows is None:
        with pytest.raises((PySparkException, Py4JJavaError)):
            spark.sql(statement)
        assert sorted(folder.iterdir()) == files
        assert values(spark, f"SELECT id FROM {table}") == [(0,), (1,), (2,)]
    else:
        spark.sql(statement)
        assert "USING lance" in spark.sql(f"SHOW CREATE TABLE {table}").first()[0]
        assert values(spark, f"SELECT id FROM {table}") == [(row,) for row in rows]
        spark.sql(f"INSERT INTO {table} SELECT 9L")
        assert values(spark, f"SELECT max(id) FROM {table}") == [(9,)]
    assert {row.tableName for row in spark.sql("SHOW TABLES").collect()} == before


OLD_TABLES = {
    "none": None,
    "other format": "CREATE TABLE {t} USING parquet AS SELECT 1L AS id",
    "dataset": "CREATE TABLE {t} USING lance LOCATION '{own}' AS SELECT 1L AS id",
    "own dataset by uri": "CREATE TABLE {t} USING lance OPTIONS (uri '{own}') AS SELECT 1L AS id",
    "managed dataset": "CREATE TABLE {t} USING lance AS SELECT 1L AS id",
}
OVER_ANOTHER = (
    "CREATE OR REPLACE TABLE {t} USING lance LOCATION '{other}' AS SELECT 9L AS id",
    "CREATE OR REPLACE TABLE {t} USING lance LOCATION 'file:{other}/' AS SELECT 9L AS id",
    "CREATE OR REPLACE TABLE {t} USING lance OPTIONS (path '{other}') AS SELECT 9L AS id",
    "CREATE OR REPLACE TABLE {t} USING lance OPTIONS (uri '{other}') AS SELECT 9L AS id",
    "REPLACE TABLE {t} USING lance LOCATION '{other}' AS SELECT 9L AS id",
)


@pytest.mark.parametrize("old", OLD_TABLES)
def test_no_statement_replaces_the_dataset_of_another_table(spark, names, tmp_path, old):
    other, own = tmp_path / "other.lance", tmp_path / "own.lance"
    lo.write_dataset(pa.table({"id": [5]}), str(other))
    table, make = names(), OLD_TABLES[old]
    if make is not None:
        spark.sql(make.format(t=table, own=own))

    def save(mode: str) -> None:
        one = spark.range(9, 10).write.format("lance").option("path", str(other))
        one.mode(mode).saveAsTable(table)

    calls = [
        *(lambda sql=sql: spark.sql(sql.format(t=table, other=other)) for sql in OVER_ANOTHER),
        lambda: save("overwrite"),
    ]
    for call in calls:
        with pytest.raises((PySparkException, Py4JJavaError)):
            call()
        assert lo.dataset(str(other)).version == 1
        assert spark.catalog.tableExists(table) == (make is not None)
        assert make is None or values(spark, f"SELECT * FROM {table}") == [(1,)]
    if make is None:
        # Its rows become those of the table by a statement that says so.
        spark.sql(f"CREATE TABLE {table} USING lance LOCATION '{other}'")
        save("overwrite")
        assert stored(other) == [{"id": 9}]


def test_a_view_is_not_replaced_by_a_table(spark, names):
    view = names()
    spark.sql(f"CREATE VIEW v_{view} AS SELECT 1 AS a")
    try:
        with pytest.raises(PySparkException, match="view"):
            spark.sql(f"CREATE OR REPLACE TABLE v_{view} USING lance AS SELECT 2 AS a")
        assert values(spark, f"SELECT * FROM v_{view}") == [(1,)]
    finally:
        spark.sql(f"DROP VIEW v_{view}")


def test_a_table_is_not_there_when_the_query_that_makes_it_fails(spark, names):
    table = names()
    failing = spark.range(3).selectExpr("CAST(raise_error('boom') AS BIGINT) AS id")
    with pytest.raises(PySparkException, match="boom"):
        failing.write.format("lance").mode("overwrite").saveAsTable(table)
    assert not spark.catalog.tableExists(table)
    spark.range(3).write.format("lance").mode("overwrite").saveAsTable(table)
    assert spark.table(table).count() == 3


def test_options_of_the_table_and_of_a_query_are_joined(spark, names, tmp_path):
    uri, table = str(tmp_path / "t.lance"), names()
    lo.append(uri, pa.table({"id": range(10), "word": ["x"] * 10}))
    lo.delete(uri, "id < 5")
    spark.sql(f"CREATE TABLE {table} USING lance OPTIONS (path '{uri}', columns 'id', max_rows_per_file 2)")
    assert spark.table(table).columns == ["id"]
    assert spark.table(table).count() == 5
    assert spark.read.option("version", "1").table(table).count() == 10
    assert values(spark, f"SELECT count(*) FROM {table} WITH (filter = 'id = 7')") == [(1,)]
    spark.sql(
        f"INSERT INTO {table} WITH (job_key = 'k', fill_missing = 'true') SELECT id FROM range(20, 24, 1, 1)"
    )
    assert len(lo.dataset(uri).fragments) == 3
    spark.sql(
        f"INSERT INTO {table} WITH (job_key = 'k', fill_missing = 'true') SELECT id FROM range(20, 24, 1, 1)"
    )
    assert lo.dataset(uri).count_rows() == 9


def test_time_travel_by_version_tag_and_moment(spark, names, tmp_path):
    uri, table = str(tmp_path / "t.lance"), names()
    lo.append(uri, pa.table({"id": [1]}))
    lo.create_tag(uri, "first")
    between = datetime.now(UTC)
    lo.append(uri, pa.table({"id": [2]}))
    spark.sql(f"CREATE TABLE {table} USING lance LOCATION '{uri}'")
    assert spark.table(table).count() == 2
    for clause in ("VERSION AS OF 1", "VERSION AS OF 'first'", f"TIMESTAMP AS OF '{between.isoformat()}'"):
        assert values(spark, f"SELECT * FROM {table} {clause}") == [(1,)]
    read = spark.read.format("lance")
    assert read.option("versionAsOf", 1).load(uri).count() == 1
    assert spark.read.format("lance").option("timestampAsOf", between.isoformat()).load(uri).count() == 1


PROPERTIES = {
    "v.arrow.fixed-size-list.size": "2",
    "enable_stable_row_ids": "true",
    "file_format_version": "2.1",
    "owner.team": "x",
}


@pytest.mark.parametrize("way", ["columns", "query", "writer"])
def test_table_properties_say_how_a_dataset_is_made(spark, names, tmp_path, way):
    table, uri = names(), str(tmp_path / "t.lance")
    rows = spark.createDataFrame([(1, [0.5, 1.5])], "id long, v array<float>")
    rows.createOrReplaceTempView("rows_of_vectors")
    said = ", ".join(f"'{key}' = '{value}'" for key, value in PROPERTIES.items())
    if way == "writer":
        writer = rows.writeTo(table).using("lance").tableProperty("location", uri)
        for key, value in PROPERTIES.items():
            writer = writer.tableProperty(key, value)
        writer.create()
    else:
        columns, query = (
            ("(id BIGINT, v ARRAY<FLOAT>)", "") if way == "columns" else ("", "AS TABLE rows_of_vectors")
        )
        spark.sql(
            f"CREATE TABLE {table} {columns} USING lance LOCATION '{uri}' TBLPROPERTIES ({said}) {query}"
        )
    if way == "columns":
        rows.write.insertInto(table)
    rows.write.insertInto(table)
    made = lo.dataset(uri)
    assert made.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert made.uses_stable_row_ids
    assert made.manifest.storage_version == "2.1"
    assert lance.dataset(uri).to_table()["v"].to_pylist() == [[0.5, 1.5]] * made.count_rows()
    rows.write.mode("overwrite").insertInto(table)
    assert lo.dataset(uri).schema.field("v").type == pa.list_(pa.float32(), 2)
    with pytest.raises(UnsupportedOperationException, match="for CREATE TABLE"):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '3')")


@pytest.mark.parametrize(
    "said",
    [
        "'v.lance.compression' = 'zstd'",
        "'v.lance.compression-level' = '3'",
        "'v.lance.encoding' = 'blob'",
        "'v.lance-encoding:blob' = 'true'",
        "'v.arrow.float16' = 'true'",
        "'s.arrow.large_var_char' = 'true'",
        "'lance.anything' = '1'",
        "'v.arrow.fixed-size-list.size' = '0'",
        "'v.arrow.fixed-size-list.size' = 'many'",
        "'s.arrow.fixed-size-list.size' = '2'",
        "'missing.arrow.fixed-size-list.size' = '2'",
        "'enable_stable_row_ids' = 'yes'",
        "'file_format_version' = 'newest'",
    ],
)
def test_table_properties_that_are_not_honoured_are_refused_at_create(spark, names, said):
    table = names()
    create = f"CREATE TABLE {table} (id BIGINT, s STRING, v ARRAY<FLOAT>) USING lance TBLPROPERTIES ({said})"
    with pytest.raises((PySparkException, Py4JJavaError), match="the table property"):
        spark.sql(create)
    assert not spark.catalog.tableExists(table)
    spark.sql(create.replace("USING lance", "USING parquet"))


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ("id BIGINT, b BIGINT DEFAULT 3", "column b has a DEFAULT"),
        ("id BIGINT, s STRING COLLATE UTF8_LCASE", "column s has a collation"),
        ("id BIGINT, a ARRAY<STRUCT<s: STRING COLLATE UNICODE_CI>>", "column a has a collation"),
    ],
)
def test_what_a_dataset_does_not_keep_of_its_columns_is_refused_at_create(spark, names, columns, match):
    table, other = names(), names()
    create = f"CREATE TABLE {table} ({columns}) USING lance"
    with pytest.raises(UnsupportedOperationException, match=match):
        spark.sql(create)
    assert not spark.catalog.tableExists(table)
    spark.sql(f"CREATE TABLE {other} ({columns}) USING parquet")
    if "DEFAULT" in columns:
        # Values that a default made are values like any.
        spark.sql(f"INSERT INTO {other} (id) VALUES (1)")
        spark.sql(f"CREATE TABLE {table} USING lance AS SELECT * FROM {other}")
        assert spark.table(table).collect() == [(1, 3)]


def test_a_version_of_a_named_table_is_an_option_too(spark, names, tmp_path):
    table, uri = names(), str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": [1]}))
    between = datetime.now(UTC)
    lo.append(uri, pa.table({"id": [2]}))
    spark.sql(f"CREATE TABLE {table} USING lance LOCATION '{uri}'")
    for name, value in (("versionAsOf", "1"), ("VERSIONASOF", "1"), ("timestampAsOf", between.isoformat())):
        assert spark.read.option(name, value).table(table).count() == 1
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        local = between.astimezone(ZoneInfo("Asia/Kolkata")).strftime("%Y-%m-%d %H:%M:%S.%f")
        assert spark.read.option("timestampAsOf", local).table(table).count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_views_and_replace_where(spark, names, tmp_path):
    uri, table = str(tmp_path / "t.lance"), names()
    spark.sql(f"CREATE TABLE {table} USING lance LOCATION '{uri}' AS SELECT id, id % 2 AS odd FROM range(6)")
    spark.sql(f"CREATE OR REPLACE VIEW v_{table} AS SELECT id + 1 AS next FROM {table} WHERE odd = 1")
    try:
        assert values(spark, f"SELECT * FROM v_{table}") == [(2,), (4,), (6,)]
    finally:
        spark.sql(f"DROP VIEW v_{table}")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW tv USING lance OPTIONS (path '{uri}', filter 'odd = 0')")
    assert values(spark, "SELECT id FROM tv") == [(0,), (2,), (4,)]
    new = spark.sql("SELECT 7L AS id, 1L AS odd")
    new.write.format("lance").mode("overwrite").option("replaceWhere", "odd = 1").save(uri)
    assert sorted(row["id"] for row in stored(uri)) == [0, 2, 4, 7]


def test_columns_that_others_add_are_seen_and_spark_changes_none(spark, names, tmp_path):
    uri, table = str(tmp_path / "t.lance"), names()
    lo.append(uri, pa.table({"id": [1]}))
    spark.sql(f"CREATE TABLE {table} USING lance LOCATION '{uri}'")
    lo.add_columns(uri, {"twice": "id * 2"})
    assert values(spark, f"SELECT * FROM {table}") == [(1, 2)]
    with pytest.raises(UnsupportedOperationException, match=r"lance_ops\.sql"):
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN id COMMENT 'more'")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('owner.team' = 'x')")
    with pytest.raises(UnsupportedOperationException, match="no partitions"):
        spark.sql(f"CREATE TABLE {names()} (id BIGINT) USING lance PARTITIONED BY (id) LOCATION '{uri}2'")


def test_a_table_on_an_object_store_is_named_by_its_uri(spark, names):
    with FakeS3() as s3:
        table = names()
        storage = ", ".join(f"`storage.{name}` '{value}'" for name, value in s3.options.items())
        spark.sql(
            f"CREATE TABLE {table} (id BIGINT) USING lance OPTIONS (uri 's3://bucket/t.lance', {storage})"
        )
        spark.sql(f"INSERT INTO {table} SELECT id FROM range(5)")
        assert spark.table(table).count() == 5


def test_tables_of_other_formats_are_as_ever(spark, names, tmp_path):
    table = names()
    spark.sql(f"CREATE TABLE {table} USING parquet LOCATION '{tmp_path / 'p'}' AS SELECT 1 AS a")
    spark.sql(f"INSERT INTO {table} VALUES (2)")
    assert values(spark, f"SELECT * FROM {table}") == [(1,), (2,)]
    spark.sql(f"ALTER TABLE {table} ADD COLUMN b INT")
    assert spark.table(table).columns == ["a", "b"]


def test_the_catalog_is_installed_once_and_never_over_another(spark):
    assert spark.conf.get(CATALOG_SETTING) == CATALOG_CLASS
    assert install_catalog(spark)
    assert catalog_jar(spark).exists()

    class Other:
        def get(self, key: str, default: object) -> str:
            return "org.example.Catalog"

    class Session:
        conf = Other()

    assert not install_catalog(Session())  # type: ignore[arg-type]


def rows_of(spark: SparkSession, table: str) -> list:
    return sorted(map(str, spark.table(table).collect()))


def test_lengths_of_texts_are_kept_as_by_sparks_own_formats(spark, names, tmp_path):
    """Every statement ends the same way on a table of Parquet, in rows and in refusals."""
    columns = "c CHAR(3), v VARCHAR(3), s STRUCT<v: VARCHAR(2)>, a ARRAY<CHAR(2)>, m MAP<VARCHAR(2), CHAR(2)>"
    statements = [
        "INSERT INTO {t} VALUES ('a', 'a', named_struct('v', 'x'), array('y'), map('k', 'z'))",
        "INSERT INTO {t} VALUES ('ab', 'abc   ', named_struct('v', 'x'), array('y'), map('k', 'z'))",
        "INSERT INTO {t} VALUES ('abcd', 'a', named_struct('v', 'x'), array('y'), map('k', 'z'))",
        "INSERT INTO {t} VALUES ('a', 'abcd', named_struct('v', 'x'), array('y'), map('k', 'z'))",
        "INSERT INTO {t} VALUES ('a', 'a', named_struct('v', 'xyz'), array('y'), map('k', 'z'))",
        "INSERT INTO {t} VALUES ('a', 'a', named_struct('v', 'x'), array('xyz'), map('k', 'z'))",
        "INSERT INTO {t} VALUES ('a', 'a', named_struct('v', 'x'), array('y'), map('xyz', 'z'))",
        "INSERT OVERWRITE {t} VALUES ('b', 'abcd', named_struct('v', 'x'), array('y'), map('k', 'z'))",
    ]
    lance_table, parquet = names(), names()
    for name, format_ in ((lance_table, "lance"), (parquet, "parquet")):
        spark.sql(f"CREATE TABLE {name} ({columns}) USING {format_} LOCATION '{tmp_path / name}'")
    for statement in statements:
        ends = []
        for table in (lance_table, parquet):
            try:
                spark.sql(statement.format(t=table))
                ends.append("done")
            except PySparkException as error:
                ends.append(str(error.getCondition()))
        assert ends[0] == ends[1], (statement, ends)
        assert rows_of(spark, lance_table) == rows_of(spark, parquet), statement
    assert values(spark, f"SELECT count(*) FROM {lance_table} WHERE c = 'ab'") == [(1,)]
    assert spark.table(lance_table).schema == spark.table(parquet).schema
    with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
        spark.table(lance_table).replace("a", "toolong").write.insertInto(lance_table)


@pytest.mark.parametrize("name", [" ", "select", "ä b"])
def test_columns_of_any_name_are_written_and_read(spark, tmp_path, name):
    uri = str(tmp_path / "t.lance")
    rows = spark.createDataFrame([(1, "x"), (2, "y")], [name, "other"])
    for _ in range(2):
        rows.write.format("lance").mode("append").save(uri)
    for found in (spark.read.format("lance").load(uri), read_dataset(spark, uri)):
        assert found.columns == [name, "other"]
        assert sorted(map(tuple, found.collect())) == [(1, "x"), (1, "x"), (2, "y"), (2, "y")]
    only = spark.read.format("lance").schema(StructType(rows.schema.fields[:1])).load(uri)
    assert sorted(row[0] for row in only.collect()) == [1, 1, 2, 2]


@pytest.mark.parametrize("name", ["", "_rowid", "_rowaddr", "a`b"])
def test_columns_that_pylance_cannot_read_are_refused(spark, tmp_path, name):
    rows = spark.createDataFrame([(1, "x")], [name, "other"])
    with pytest.raises(PySparkException, match=r"column has no name|is reserved|contains a backtick"):
        rows.write.format("lance").mode("append").save(str(tmp_path / "t.lance"))
    assert not list(tmp_path.rglob("*.lance"))


@pytest.mark.parametrize("value", ["array()", "NULL", "map('a', NULL)", "named_struct('z', array())"])
def test_a_table_is_made_of_values_without_a_type(spark, names, value):
    table = names()
    spark.sql(f"CREATE TABLE {table} USING lance AS SELECT 1 AS a, {value} AS x")
    spark.sql(f"INSERT INTO {table} SELECT * FROM {table}")
    expected = spark.sql(f"SELECT 1 AS a, {value} AS x").collect()
    assert spark.table(table).collect() == expected * 2


def test_a_map_without_types_is_refused_by_the_name_of_its_column(spark, names):
    table = names()
    with pytest.raises(PySparkException, match=r"x \(map<void,void>\)"):
        spark.sql(f"CREATE TABLE {table} USING lance AS SELECT 1 AS a, map() AS x")


def test_a_new_session_reads_writes_and_names_tables(spark, names, tmp_path):
    uri = str(tmp_path / "t.lance")
    for session in (spark.newSession(), spark.newSession().newSession()):
        session.range(3).write.format("lance").mode("overwrite").save(uri)
        assert session.read.format("lance").load(uri).where("id > 0").count() == 2
    table = names()
    other = spark.newSession()
    other.sql(f"CREATE TABLE {table} USING lance LOCATION '{uri}'")
    assert other.table(table).count() == 3
    assert spark.table(table).count() == 3
