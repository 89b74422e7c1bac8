"""Columns, conditions, limits and counts of queries reach the source, and rows are those of Parquet."""

import json
import random
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import lance_ops as lo
from lance_ops.filter.junctions import all_of
from lance_ops.spark.pushed import parse_conditions

pytestmark = pytest.mark.spark

PREDICATES = 500
BLOCK = 50
ZONES = ("UTC", "America/New_York", "Asia/Kolkata")


def _values(seed: int, rows: int) -> pa.Table:
    draw = random.Random(seed)

    def column(kind: pa.DataType, choose) -> pa.Array:
        return pa.array([None if draw.random() < 0.1 else choose() for _ in range(rows)], kind)

    floats = [0.0, -0.0, 1.5, -1.5, 0.1, 1e300, -1e300, float("inf"), -float("inf"), float("nan"), 3.0]
    negative_nan = np.array([0xFFF8000000000000], np.uint64).view(np.float64)[0]
    doubles = column(pa.float64(), lambda: draw.choice([*floats, negative_nan]))
    second = 1_704_067_200_000_000
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "n8": column(pa.int8(), lambda: draw.randint(-128, 127)),
            "n16": column(pa.int16(), lambda: draw.choice([-32768, 32767, 0, 5, -5])),
            "n32": column(pa.int32(), lambda: draw.choice([-(2**31), 2**31 - 1, *range(-5, 6)])),
            "n64": column(pa.int64(), lambda: draw.choice([-(2**63), 2**63 - 1, *range(-5, 6)])),
            "f32": column(pa.float32(), lambda: draw.choice([*floats[:5], *floats[7:]])),
            "f64": doubles,
            "b": column(pa.bool_(), lambda: draw.random() < 0.5),
            "s": column(
                pa.string(), lambda: draw.choice(["", "a", "ab", "A", "ä", "b%", "_", "'", "zz", " a"])
            ),
            "d": column(pa.date32(), lambda: draw.randint(19_700, 19_740)),
            "dec": column(pa.decimal128(10, 2), lambda: Decimal(draw.randint(-300, 300)) / 100),
            "ts": column(pa.timestamp("us", "UTC"), lambda: second + draw.randint(-99, 99) * 3_600_000_000),
            "bin": column(pa.binary(), lambda: draw.choice([b"", b"\x00", b"a", b"\xff"])),
        }
    )


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("pushed")
    values = _values(1, 400)
    for start in (0, 150):
        lo.append(f"{folder}/t.lance", values.slice(start, 150 if start == 0 else 250))
    pq.write_table(values, f"{folder}/t.parquet")
    spark.read.format("lance").load(f"{folder}/t.lance").createOrReplaceTempView("l")
    spark.read.parquet(f"{folder}/t.parquet").createOrReplaceTempView("p")
    yield str(folder)
    for view in ("l", "p"):
        spark.catalog.dropTempView(view)


_CONSTANTS = {
    "n8": ["0", "5Y", "127", "128", "-1", "1.5"],
    "n16": ["0", "5", "32767", "40000", "-5S"],
    "n32": ["0", "3", "2147483647", "2147483648", "-5", "1.0", "'3'"],
    "n64": ["0", "3L", "9223372036854775807", "-5", "2.5"],
    "f32": ["0.1", "0.0", "-0.0", "cast('NaN' as float)", "cast(0.1 as float)", "1.5F", "double('Infinity')"],
    "f64": ["0.1", "0.0D", "-0.0D", "double('NaN')", "1.5D", "1e300D", "double('-Infinity')", "3"],
    "b": ["true", "false"],
    "s": ["''", "'a'", "'ab'", "'ä'", "'''", "'zz'", "' a'"],
    "d": ["DATE '2023-12-25'", "'2024-01-01'", "DATE '2024-01-10'", "TIMESTAMP '2024-01-01 12:00:00'"],
    "dec": ["0", "1.5", "1.55", "-1.005", "2.00", "'1.50'", "1e2"],
    "ts": ["TIMESTAMP '2024-01-01 03:00:00'", "'2024-01-02'", "DATE '2024-01-03'", "'2024-01-01 00:00:00Z'"],
    "bin": ["X''", "X'61'", "X'00'", "X'FF'"],
}


class _Predicates:
    """Random conditions in Spark's SQL; most can be pushed down, and none fails."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def condition(self, depth: int = 2) -> str:
        if depth and self._draw.random() < 0.5:
            left, right = self.condition(depth - 1), self.condition(depth - 1)
            return self._draw.choice([f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"])
        name = self._draw.choice(list(_CONSTANTS))
        constant = self._constant(name)
        if name == "s" and self._draw.random() < 0.4:
            pattern = self._draw.choice(["a%", "%a", "%b%", "", "_", "a_", "%"])
            return self._draw.choice(
                [f"s LIKE '{pattern}'", f"upper(s) = {constant}", f"length(s) > {len(pattern)}"]
            )
        if name in ("n32", "f64") and self._draw.random() < 0.2:
            return f"try_add({name}, 1) > {self._constant(name)}"
        if self._draw.random() < 0.15:
            return f"{name} IS {self._draw.choice(['', 'NOT '])}NULL"
        if self._draw.random() < 0.2:
            listed = ", ".join(self._constant(name) for _ in range(self._draw.randint(1, 4)))
            null = self._draw.choice(["", "", ", NULL"])
            return f"{name} {self._draw.choice(['', 'NOT '])}IN ({listed}{null})"
        op = self._draw.choice(["=", "<>", "<", "<=", ">", ">=", "<=>"])
        return f"{name} {op} {constant}" if self._draw.random() < 0.8 else f"{constant} {op} {name}"

    def _constant(self, name: str) -> str:
        # A quote within a string is written twice.
        return self._draw.choice(_CONSTANTS[name]).replace("'''", "''''")


def _conditions(df: DataFrame) -> tuple[list, bool]:
    """Return the conditions that the scan of a query has, and whether Spark evaluates others."""
    plan = df._jdf.queryExecution().sparkPlan().toString()
    found = re.search(r"conditions (\[.*\])(, limit \d+)? RuntimeFilters", plan)
    return json.loads(found[1]) if found else [], re.search(r"\bFilter\b", plan) is not None


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_conditions_in_the_scan_select_the_rows_of_parquet(spark, tables, ansi):
    made = _Predicates(int(ansi == "true"))
    dataset = lo.dataset(f"{tables}/t.lance")
    pushed = 0
    with _settings(spark, {"spark.sql.ansi.enabled": ansi}):
        for number in range(PREDICATES // 2 // BLOCK):
            spark.conf.set("spark.sql.session.timeZone", ZONES[number % len(ZONES)])
            written = [made.condition() for _ in range(BLOCK)]
            columns = ", ".join(f"coalesce({text}, false) AS c{at}" for at, text in enumerate(written))
            answers = spark.sql(f"SELECT id, {columns} FROM p").toArrow()
            for at, text in enumerate(written):
                conditions, has_more = _conditions(spark.sql(f"SELECT id FROM l WHERE {text}"))
                if conditions:
                    pushed += 1
                    filters = parse_conditions(conditions, dataset.schema)
                    found = set(dataset.scanner(["id"], all_of(filters)).to_table()["id"].to_pylist())
                    expected = set(answers.filter(answers[f"c{at}"])["id"].to_pylist())
                    assert found >= expected if has_more else found == expected, (text, conditions)
    assert pushed > PREDICATES // 4


def test_queries_give_the_rows_of_parquet(spark, tables):
    made = _Predicates(7)
    with _settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        parts = [
            f"SELECT {number} AS q, id, {name} AS v FROM t WHERE {made.condition()}"
            for number, name in enumerate(["id", "s", "f64", "dec", "ts", "bin", "b", "d"])
        ]
        query = " UNION ALL ".join(
            part.replace(" AS v", " AS STRING) AS v").replace(", id, ", ", id, CAST(") for part in parts
        )
        answers = [
            sorted(map(tuple, spark.sql(query.replace("FROM t", f"FROM {view}")).collect()), key=repr)
            for view in "lp"
        ]
    assert answers[0] == answers[1]
    assert answers[0]


@contextmanager
def _settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in [*settings, "spark.sql.session.timeZone"]}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _scan(df: DataFrame) -> str:
    """Return the columns of the one scan of a query, as Spark names types."""
    found = re.findall(r"(struct<.*?>), conditions", df._jdf.queryExecution().sparkPlan().toString())
    assert len(found) == 1
    return found[0]


def test_a_query_reads_the_columns_that_it_needs(spark, tables):
    assert _scan(spark.sql("SELECT id FROM l")) == "struct<id:bigint>"
    assert _scan(spark.sql("SELECT s, n8 FROM l WHERE d IS NOT NULL")) == "struct<n8:tinyint,s:string>"
    # Spark evaluates it, and needs the column.
    assert _scan(spark.sql("SELECT n8 FROM l WHERE upper(s) = 'A'")) == "struct<n8:tinyint,s:string>"
    assert spark.sql("SELECT s, n8 FROM l WHERE id = 3").collect() == (
        spark.sql("SELECT s, n8 FROM p WHERE id = 3").collect()
    )


def test_rows_are_counted_by_the_manifest(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": range(100), "image": [b"x" * 1000] * 100}))
    lo.delete(uri, "id < 10")
    frame = spark.read.format("lance").load(uri)
    counted = frame.groupBy().count()
    assert "LocalTableScan" in counted._jdf.queryExecution().sparkPlan().toString()
    shutil.rmtree(f"{uri}/data")
    assert frame.count() == 90
    assert counted.collect() == [(90,)]


def test_a_count_with_a_condition_reads_no_blob(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"image": [b"x" * 1000] * 100, "id": range(100)}))
    frame = spark.read.format("lance").load(uri)
    few = frame.where("id >= 60").groupBy().count()
    assert _scan(few) == "struct<id:bigint>"
    assert few.first()[0] == 40
    assert frame.where("image IS NOT NULL").count() == 100
    # The filter of the options is not in the manifest.
    some = spark.read.format("lance").option("filter", "id < 7").load(uri)
    assert some.count() == 7
    assert some.where("id > 2").count() == 4
    assert spark.read.format("lance").option("columns", "id").load(uri).where("id = 2").count() == 1


def test_a_limit_reads_no_more_rows_than_it_needs(spark, tables):
    few = spark.sql("SELECT id FROM l WHERE id >= 5 LIMIT 4")
    assert ", limit 4" in few._jdf.queryExecution().sparkPlan().toString()
    assert few.count() == 4
    assert all(row.id >= 5 for row in few.collect())
    assert spark.sql("SELECT id FROM l LIMIT 0").collect() == []
    assert spark.sql("SELECT id FROM l ORDER BY id DESC LIMIT 2").collect() == [(399,), (398,)]
    # A condition that Spark evaluates comes before the limit.
    assert spark.sql("SELECT id FROM l WHERE id % 100 = 99 LIMIT 9").count() == 4


def test_scans_of_one_frame_in_one_query_have_conditions_of_their_own(spark, tables):
    frame = spark.table("l")
    both = frame.where("id < 3").select("id").union(frame.where("id > 397").select("id"))
    assert sorted(row.id for row in both.collect()) == [0, 1, 2, 398, 399]
    assert frame.count() == 400
    assert frame.where("id < 3").join(frame.where("id < 5"), "id").count() == 3


def test_a_frame_stays_at_its_version(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": range(5)}))
    frame = spark.read.format("lance").load(uri)
    lo.append(uri, pa.table({"id": range(5, 8)}))
    assert frame.count() == 5
    assert sorted(row.id for row in frame.where("id > 2").collect()) == [3, 4]
    assert spark.read.format("lance").load(uri).count() == 8


def test_a_small_dataset_is_broadcast_in_a_join(spark, tables, tmp_path):
    plan = spark.sql("SELECT * FROM l JOIN range(100000) r ON l.id = r.id")._jdf.queryExecution()
    assert "BroadcastHashJoin" in plan.sparkPlan().toString()
    optimized = spark.sql("SELECT id FROM l")._jdf.queryExecution().optimizedPlan()
    size = int(optimized.collectLeaves().head().stats().sizeInBytes())
    assert 400 * 8 <= size < 1 << 20


def test_a_search_keeps_its_rows_under_conditions_of_the_query(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(20), pa.float32()), 2)
    lo.append(uri, pa.table({"id": range(10), "v": vectors}))
    search = {"column": "v", "q": [0.0, 1.0], "k": 3}
    near = spark.read.format("lance").option("nearest", json.dumps(search)).load(uri)
    assert sorted(row.id for row in near.collect()) == [0, 1, 2]
    assert [row.id for row in near.where("id > 1").collect()] == [2]
    assert near.count() == 3


def test_a_new_session_has_the_format_and_tables(spark, tables, tmp_path):
    other = spark.newSession()
    uri = str(tmp_path / "new.lance")
    other.range(4).write.format("lance").mode("append").save(uri)
    assert other.read.format("lance").load(uri).where("id > 1").count() == 2
    other.sql(f"CREATE TABLE of_new_session USING lance LOCATION '{uri}'")
    try:
        assert other.sql("SELECT count(*) FROM of_new_session").first()[0] == 4
        assert spark.table("of_new_session").count() == 4
    finally:
        other.sql("DROP TABLE of_new_session")


def test_a_thread_saves_by_path(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: spark.range(3).write.format("lance").mode("append").save(uri)).result()
    assert lo.dataset(uri).count_rows() == 3


def test_columns_of_rounded_values_are_left_to_spark(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    moments = pa.array([1_500, 1_999, 2_000], pa.timestamp("ns", "UTC"))
    lo.append(uri, pa.table({"id": range(3), "ts": moments, "u": pa.array([1, 2, 255], pa.uint8())}))
    frame = spark.read.format("lance").load(uri)
    query = frame.where("ts = TIMESTAMP '1970-01-01 00:00:00.000001Z' AND u < 300 AND id >= 0")
    assert sorted(row.id for row in query.collect()) == [0, 1]
    assert json.dumps(_conditions(query)[0]).count('"id"') == 2
    assert frame.where("u > -1").count() == 3


def test_metadata_columns_are_those_of_rows(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": range(3)}), enable_stable_row_ids=True)
    lo.append(uri, pa.table({"id": range(3, 5)}))
    lo.update(uri, {"id": "40"}, "id = 4")
    lo.delete(uri, "id = 0")
    frame = spark.read.format("lance").load(uri)
    names = ["_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]
    found = sorted(map(tuple, frame.select("id", *names).collect()))
    stored = lance.dataset(uri).to_table(["id", *names]).to_pylist()
    assert found == sorted(tuple(row.values()) for row in stored)
    assert frame.columns == ["id"]
    later = frame.where("shiftrightunsigned(_rowaddr, 32) > 0").select("id")
    assert sorted(row.id for row in later.collect()) == [3, 40]
    plain = str(tmp_path / "plain.lance")
    lo.append(plain, pa.table({"id": range(3)}))
    simple = spark.read.format("lance").load(plain)
    assert [row._rowid for row in simple.select("_rowid").collect()] == [0, 1, 2]
    with pytest.raises(AnalysisException, match="_row_created_at_version"):
        simple.select("_row_created_at_version")
