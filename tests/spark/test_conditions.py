"""Conditions of deletes and updates select the rows that Spark selects, with every setting of a session."""

from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, LanceOpsError, UnsupportedError
from lance_ops.filter import parse_filter, select
from lance_ops.spark import LanceTable
from lance_ops.spark.sql.conditions import means_the_same
from lance_ops.spark.sql.expressions import translated

HOUR = 3_600_000_000
NEGATIVE_NAN = np.array([0xFFF8 << 48], np.uint64).view(np.float64)[0]
MOMENTS = pa.array([1_704_067_200_000_000 + hour * HOUR for hour in (-10, -5, -4, 0, 1, 2, 3, 5, 8, 10)])
ROWS = pa.table(
    {
        "id": pa.array(range(10), pa.int64()),
        "i": pa.array([2**31 - 1, 5, -1, 0, None, 7, 10, 15, -(2**31), 1], pa.int32()),
        "l": pa.array([2**63 - 1, 5, -1, 0, None, 2**53 + 1, 10, 15, -(2**63), 1], pa.int64()),
        "u": pa.array([0, 1, 255, None, 5, 7, 10, 15, 3, 2], pa.uint8()),
        "f": pa.array([0.1, 0.3, 0.7, np.nan, None, NEGATIVE_NAN, 5, 500, -0.0, 0.0], pa.float32()),
        "d": pa.array(np.array([0.1, 0.3, 0.7, np.nan, 1, NEGATIVE_NAN, 5, 500, -0.0, 0.0])),
        "ts": MOMENTS.cast(pa.timestamp("us", "UTC")),
        "tn": MOMENTS.cast(pa.timestamp("us")),
        "dt": MOMENTS.cast(pa.timestamp("us")).cast(pa.date32()),
        "s": ["a", "b", "07", " 7 ", None, "5", "Straße", "x", "", "B"],
        "t": ["a", None, "7", "7", "5", "5", "STRASSE", "x", "", "b"],
        "de": pa.array([1, 2, 3, 4, 5, 6, 7, 8, None, 10], pa.int32()).cast(pa.decimal128(12, 2)),
        "arr": pa.array([[1, 2], [3], None, [], [5, 6], [1], [1], [1], [1], [1]], pa.list_(pa.int32())),
        "b": [True, False, None, True, False, None, True, False, None, True],
        "st": pa.array([{"x": 1}, None, {"x": None}, *[{"x": 5}] * 7], pa.struct({"x": pa.int32()})),
    }
)

TEXTS = "'5' | '07' | 'a' | '' | ' 7 ' | '2024-01-01' | '2024-01-01 03:00:00' | '2024-01-01 25:00:00' | 'NaN'"
NUMBERS = (
    "0 | 5 | -1 | 2147483647 | 3000000000 | 9007199254740993 | 5.0 | 5.5 | 0.1 | 5e0 | 5L | 5S | 0.1D | NULL"
)
MOMENT = (
    "DATE '2024-01-01' | TIMESTAMP '2024-01-01 00:00:00' | TIMESTAMP '2024-01-01 00:00:00Z' | DATE '2024-1-1'"
)
FREE = """
i + 2147483647 > 0 | l * l > 0 | -i > 0 | abs(i) > 5 | i % 0 = 1 | i % 3 = 1 | try_cast(s AS INT) = 7
CAST(s AS INT) = 7 | arr[9] = 1 | arr[0] = 1 | NOT (arr[0] = 1) | upper(s) = 'STRASSE' | i = l | f = d
d = d | CAST(ts AS DATE) = DATE '2024-01-01' | extract(hour from ts) = 3 | ts = tn | tn = dt | ts > dt
s = t | date_trunc('day', ts) = TIMESTAMP '2024-01-01 00:00:00Z' | isnan(d) | d > f | 2147483647 + 1 > i
1 = 1 | true | i > 2147483647 + 1 - 2147483648 | s = '5' AND i = 5 | s = 5 AND i = 5 AND t = '5'
i = '5' AND s = '5' AND l = 5 | NOT b | b | b IS TRUE | b IS NOT FALSE | i <=> NULL | i <=> 5
s LIKE 'S%' | s NOT LIKE '%a' | s ILIKE 's%' | st.x = 5 | s LIKE '\\\\%' | i IS NULL AND d IS NULL
i > 1 OR NOT (s = 'a' AND b) | i BETWEEN 1 AND 7 | i NOT IN (5, NULL) | s IN ('a', '5', NULL) | 5 < i
i IN (5, 5, 7) | `i` = 5 | I = 5 | i IS DISTINCT FROM 5 | b = TRUE | l = 5 OR l = -1
ts BETWEEN '2024-01-01' AND '2024-01-02' | dt IN (DATE '2024-01-01', DATE '2023-12-31') | s > t | u > 5
u = 255 | ts IN (TIMESTAMP '2024-01-01 03:00:00Z') | s RLIKE 'a' | CASE WHEN i > 5 THEN b ELSE NULL END
-i = 1 | i = - 1
"""


def listed(text: str) -> list[str]:
    return [item.strip() for line in text.strip().splitlines() for item in line.split(" | ")]


def conditions() -> list[str]:
    """Each column beside constants of each type, however they are written."""
    columns = [name for name in ROWS.column_names if name not in ("id", "arr", "st")]
    constants = listed(TEXTS) + listed(NUMBERS) + listed(MOMENT)
    found = [f"{name} {op} {value}" for name, op, value in product(columns, ("=", "<", ">="), constants)]
    found += [f"{name} IN ({value}, {value})" for name, value in product(columns, constants)]
    return [*found, *listed(FREE)]


def same_meaning(zone: str) -> dict[str, list[int]]:
    """The conditions that filters evaluate in a session of a zone, with the rows that these select."""
    found = {}
    for condition in conditions():
        try:
            sql = translated(condition)
            expression = parse_filter(sql, ROWS.schema)
        except LanceOpsError:
            continue
        if means_the_same(sql.original, expression, zone):
            found[condition] = np.flatnonzero(np.asarray(select(expression, ROWS))).tolist()
    return found


@pytest.fixture
def session(spark):
    """The shared session, whose settings are put back."""
    names = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")
    before = {name: spark.conf.get(name) for name in names}
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_a_filter_is_used_only_where_it_selects_the_rows_of_spark(session, tmp_path, zone):
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    ours = same_meaning(zone)
    assert len(ours) > 30
    for ansi in ("true", "false"):
        session.conf.set("spark.sql.session.timeZone", zone)
        session.conf.set("spark.sql.ansi.enabled", ansi)
        rows = session.read.parquet(str(tmp_path / "rows.parquet")).orderBy("id")
        names = [f"coalesce({condition}, false) AS c{number}" for number, condition in enumerate(ours)]
        answers = rows.selectExpr(*names).toArrow()
        by_spark = {
            condition: np.flatnonzero(np.asarray(answers.column(f"c{number}"))).tolist()
            for number, condition in enumerate(ours)
        }
        assert by_spark == ours


def test_comparisons_with_constants_of_their_type_need_no_spark():
    ours = same_meaning("America/New_York")
    texts = ("s = 'a'", "s LIKE 'S%'", "dt = DATE '2024-01-01'")
    assert not {"i = 5", "i BETWEEN 1 AND 7", "NOT b", *texts} - ours.keys()
    assert "ts < TIMESTAMP '2024-01-01 00:00:00Z'" in same_meaning("UTC")
    others = ("ts ", "d ", "f ", "de ")
    assert [condition for condition in ours if condition.startswith(others) and "NULL" not in condition] == []


DELETED = {
    "ts >= '2024-01-01 03:00:00'": [8, 9],
    "CAST(ts AS DATE) = DATE '2024-01-01'": [7, 8, 9],
    "q.d < 100": [0, 1, 2, 4, 6, 8, 9],
    "d > 100": [3, 5, 7],
    "f = 0.1": [],
    "try_cast(s AS INT) = 7": [2, 3],
}


@pytest.mark.spark
def test_statements_change_the_rows_that_spark_selects(session, tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(ROWS, uri, max_rows_per_file=4)
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    table = LanceTable.for_path(session, uri)
    for number, (condition, expected) in enumerate(DELETED.items()):
        if number % 2:
            done = table.delete(condition).rows_deleted
        else:
            statement = f"DELETE FROM t AS q WHERE {condition}"
            done = lo.sql(statement, session, tables={"t": uri}).first().num_affected_rows
        assert done == len(expected), condition
        left = lo.dataset(uri).to_table(["id"])["id"].to_pylist()
        assert sorted({*range(10)} - {*left}) == expected, condition
        lo.restore(uri, 1)
    assert table.update("d > 100", {"i": "77"}).rows_updated == 3
    assert lo.dataset(uri).count_rows("i = 77 AND id IN (3, 5, 7)") == 3
    version = lo.dataset(uri).version
    with pytest.raises(InvalidArgumentError, match="OVERFLOW"):
        table.delete("i + 2147483647 > 0")
    with pytest.raises(UnsupportedError, match="add the zone"):
        lo.sql("UPDATE t SET ts = '2024-01-01 03:00:00'", session, tables={"t": uri})
    with pytest.raises(UnsupportedError, match="different rows than in Spark"):
        lo.sql("REPLACE t WHERE ts > '2024-01-01' AS SELECT * FROM x", session, tables={"t": uri})
    session.conf.set("spark.sql.caseSensitive", "true")
    with pytest.raises(InvalidArgumentError, match="UNRESOLVED_COLUMN"):
        table.delete("I = 5")
    session.conf.set("spark.sql.caseSensitive", "false")
    source = session.createDataFrame([(1, 1.5)], "id long, d double")
    for builder in (
        table.merge(source, "id").when_matched_update_all("source.d > target.d"),
        table.merge(source, "id").when_not_matched_by_source_delete("ts > '2024-01-01'"),
    ):
        with pytest.raises(UnsupportedError, match="different rows than in Spark"):
            builder.execute()
    assert lo.dataset(uri).version == version


@pytest.mark.spark
@pytest.mark.parametrize("other", ["compact", "update"])
def test_rows_that_others_move_meanwhile_are_found_again(session, tmp_path: Path, monkeypatch, other):
    """A search by Spark knows addresses of one version; another writer moves the rows before the commit."""
    from lance_ops.spark.sql.conditions import SparkSearch

    uri = str(tmp_path / "t.lance")
    lo.write_dataset(ROWS, uri, max_rows_per_file=4)
    find, seen = SparkSearch._find, []

    def interrupted(self, dataset, expression):
        found = find(self, dataset, expression)
        seen.append(dataset.version)
        if len(seen) == 1:
            lo.compact(uri) if other == "compact" else lo.update(uri, {"d": "1.0"}, "id = 3")
        return found

    monkeypatch.setattr(SparkSearch, "_find", interrupted)
    LanceTable.for_path(session, uri).delete("d > 100")
    kept = [0, 1, 2, 4, 6, 8, 9] if other == "compact" else [0, 1, 2, 3, 4, 6, 8, 9]
    assert sorted(lo.dataset(uri).to_table(["id"])["id"].to_pylist()) == kept
    assert seen == [1, 2] if other == "update" else seen[0] == 1
