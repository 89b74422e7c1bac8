"""Filters select the rows that the peer selects: random ones on random rows, and one of each kind by hand."""

import random

import pyarrow as pa
import pytest

from lance_ops.filter import parse_filter, select
from tests.support.filters import FilterMaker, random_rows

lance = pytest.importorskip("lance")
pytestmark = pytest.mark.peer

_ROWS = 240


class Table:
    """One random table, in memory and as a dataset of the peer."""

    def __init__(self, path: str, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rows = random_rows(self.rng, _ROWS)
        self.dataset = lance.write_dataset(
            self.rows, path, data_storage_version="2.1", max_rows_per_file=_ROWS // 2
        )

    def theirs(self, sql: str) -> list[int]:
        """Ids that the peer selects."""
        return self.dataset.to_table(columns=["id"], filter=sql)["id"].to_pylist()

    def ours(self, sql: str) -> list[int]:
        """Ids that we select."""
        return self.rows["id"].filter(select(parse_filter(sql, self.rows.schema), self.rows)).to_pylist()


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Table:
    return Table(str(tmp_path_factory.mktemp("filter") / "rows.lance"), seed=7)


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_random_filters_select_the_same_rows(table, depth):
    maker = FilterMaker(random.Random(f"rows {depth}"))
    for _ in range(500):
        sql = maker.condition(depth)
        assert table.ours(sql) == table.theirs(sql), sql


@pytest.mark.parametrize("depth", [0, 2])
def test_canonical_sql_means_the_same_to_both(table, depth):
    maker = FilterMaker(random.Random(f"sql {depth}"))
    for _ in range(300):
        sql = maker.condition(depth)
        expression = parse_filter(sql, table.rows.schema)
        canonical = expression.to_sql()
        assert parse_filter(canonical, table.rows.schema) == expression, sql
        assert table.theirs(canonical) == table.ours(sql), (sql, canonical)


@pytest.mark.parametrize(
    "sql",
    [
        "s == 'a'",
        's = "a"',
        "I8 = 1",
        "`My Col` = 1 AND st.x > 1 AND st['y'] IS NOT NULL AND `st`.`x` < 9",
        "i8 = 1 -- a comment",
        "i8 = /* another */ 1;",
        "i8 > 1 IS TRUE",
        "i8 IS NULL = b",
        "NOT i8 = 1 OR b",
        "NOT b IS NULL AND NOT b",
        "i8 BETWEEN 1 AND 5 AND b",
        "i8 = 1 + 2 * 2 - -1",
        "f64 = 1 / 2",
        "f64 >= i64 / 2",
        "f32 < -i32 / 2 + 6",
        "dec > i64 / 4 * 3",
        "f64 BETWEEN i64 / 2 AND 9",
        "f64 IN (i64 / 2, 9)",
        "f64 > 1 / 20",
        "f32 > 0.1 + 0.2",
        "f32 = 0.1 OR f32 IN (2.5, 0.3) OR f16 = 0.1",
        "f32 = CAST(0.1 AS DOUBLE)",
        "s LIKE 'b\\%c' OR s LIKE 'x\\\\y'",
        "s LIKE NULL OR i8 = NULL",
        "s LIKE ls OR 'abc' LIKE s",
        "s NOT ILIKE ds || '%'",
        "i8 IN (1, NULL)",
        "i8 NOT IN (1, NULL)",
        "i8 IN (i16, 5)",
        "1 IN (i8, i16)",
        "NULL IS NULL",
        "b AND NULL",
        "s IN (lower('A'), 'abc')",
        "x'6' = x'06'",
        "u64 = 18446744073709551615 OR u64 > 9223372036854775808",
        "ts > d32 OR ts >= DATE '2000-01-01'",
        "d32 + 1 > DATE '2000-01-01' AND d32 - DATE '1999-01-01' > 30",
        "date_trunc('day', ts) = d32",
        "tz > TIMESTAMP '2000-01-01 00:00:00Z' OR tz < TIMESTAMP '1980-01-01T01:00:00+01:00'",
        "tns = TIMESTAMP(9) '1970-01-01 00:00:00'",
        "tsec >= TIMESTAMP '2020-02-29 12:34:56.789012'",
        "to_timestamp('2020-02-29T12:34:56') > tsec",
        "to_timestamp_millis(0) = ts OR from_unixtime(0) = tsec OR to_date('1970-01-01') = d32",
        "make_date(1970, 1, 1) = d32",
        "to_char(ts, '%Y-%m') = '2020-02'",
        "coalesce(ts + INTERVAL '1 month 2 days') > TIMESTAMP '2020-03-01'",
        "coalesce(ts - INTERVAL '90 minutes') < TIMESTAMP '2000-01-01'",
        "coalesce(extract(year from ts)) = 2020",
        "ts - TIMESTAMP '2000-01-01' = ts - TIMESTAMP '2000-01-01'",
        "`trim`(s) = 'a' OR lower(trim('a' from s)) = 'bc'",
        "regexp_match(s, '^a') AND regexp_match(s, 'c$') IS NOT NULL",
        "nvl2(i8, i16, 7) = 7",
        "is_valid(s)",
        "contains_tokens(s, 'World')",
        "array_contains(l, 1) AND list_has(lst, 'a') IS NOT NULL",
        "u8 - 1 < 0",
        "u64 + i64 > 0",
        "i64 % 7 = -3",
        "f64 % 2 = 1.5",
        "dec / 3 > 1 AND dec % 2 > 0",
        "dec * 2 = 11 OR dec + dec > 3.5",
        "- dec < wide",
        "dec BETWEEN 0 AND 6",
        "bin = fixed",
        "f16 > 0 AND f16 + 1 < 3",
        "ds = s AND ls = ds",
        "s > ls",
        "(s = 'a') = (i8 = 0)",
        "try_cast(s as double) > 1",
        "cast(f64 * 1e15 as string) LIKE '%e%'",
        "cast(f32 / 1000000 as string) LIKE '%e-%'",
        "cast(f16 as string) = '2.5'",
        "cast(wide as string) LIKE '%.%1'",
        "cast(d64 as string) LIKE '2020%'",
        "cast(t64 as string) > '12:00'",
        "cast(ts as timestamp(0)) = tsec",
        "cast(i32 as timestamp) > ts",
    ],
)
def test_one_filter_of_each_kind(table, sql):
    assert table.ours(sql) == table.theirs(sql)


def test_the_order_of_floats_is_the_peers_down_to_the_sign_of_nan(tmp_path):
    bits = [0, 1 << 63, 0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 1, 0x7FF << 52, 0xFFF << 52, 0x3FF << 52]
    values = pa.array(bits, pa.uint64()).view(pa.float64())
    pairs = [(a, b) for a in range(len(bits)) for b in range(len(bits))]
    rows = pa.table(
        {
            "id": range(len(pairs)),
            "a": values.take(pa.array([a for a, _ in pairs])),
            "b": values.take(pa.array([b for _, b in pairs])),
        }
    )
    dataset = lance.write_dataset(rows, str(tmp_path / "floats.lance"))
    for right in ("b", "0", "-0.0", "1", "CAST('inf' AS DOUBLE)", "CAST('NaN' AS DOUBLE)"):
        for op in ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"):
            sql = f"a {op} {right}"
            ours = rows["id"].filter(select(parse_filter(sql, rows.schema), rows))
            assert ours.to_pylist() == dataset.to_table(filter=sql)["id"].to_pylist(), sql
    for sql in (
        "a IN (0, 1)",
        "a NOT IN (-0.0)",
        "a IN (CAST('NaN' AS DOUBLE))",
        "isnan(a)",
        "greatest(a, b) = a",
    ):
        ours = rows["id"].filter(select(parse_filter(sql, rows.schema), rows))
        assert ours.to_pylist() == dataset.to_table(filter=sql)["id"].to_pylist(), sql


@pytest.mark.parametrize(
    ("sql", "ids", "why"),
    [
        ("NOT (f32 = 0.1)", [1], "the peer selects the rows of f32 = 0.1 as well"),
        ("i8 > 100 + 100", [], "the peer computes -56"),
        ("CAST(dec AS INT) = 7", [0], "the peer looks for 7.00 only"),
    ],
)
def test_where_the_peer_contradicts_itself_we_do_not_follow(tmp_path, sql, ids, why):
    rows = pa.table(
        {
            "id": [0, 1],
            "f32": pa.array([0.1, 2.5], pa.float32()),
            "i8": pa.array([1, 2], pa.int8()),
            "dec": pa.array(["7.50", "1.00"]).cast(pa.decimal128(10, 2)),
        }
    )
    dataset = lance.write_dataset(rows, str(tmp_path / "rows.lance"))
    assert rows["id"].filter(select(parse_filter(sql, rows.schema), rows)).to_pylist() == ids
    assert dataset.to_table(filter=sql)["id"].to_pylist() != ids, f"no longer so: {why}"
