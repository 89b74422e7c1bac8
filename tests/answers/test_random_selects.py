"""SELECT with pushdown gives what DuckDB gives on the rows in memory, for awkward values and conditions."""

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import lance_ops as lo

NAN, INF = float("nan"), float("inf")
DAY = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)

COLUMNS: dict[str, tuple[list[Any], pa.DataType, list[str]]] = {
    "f64": (
        [0.0, -0.0, 1.5, NAN, INF, -INF, None],
        pa.float64(),
        ["0.0", "-0.0", "'nan'::DOUBLE", "1", "NULL"],
    ),
    "f32": ([0.0, 1.5, NAN, None], pa.float32(), ["1.5", "1.1", "'nan'::FLOAT"]),
    "u64": ([0, 2**63, 2**64 - 1, None], pa.uint64(), ["18446744073709551615", "9223372036854775808", "-1"]),
    "i8": ([0, -128, 127, None], pa.int8(), ["127", "128", "-128", "0.5"]),
    "i64": ([0, 2**63 - 1, -(2**63), None], pa.int64(), ["9223372036854775807", "1e18", "0.5"]),
    "dec": ([Decimal("1.10"), Decimal("-1.10"), None], pa.decimal128(10, 2), ["1.1", "1.105", "1e0"]),
    "at": (
        [DAY.replace(tzinfo=None), DAY.replace(tzinfo=None, year=1969, microsecond=1), None],
        pa.timestamp("us"),
        ["TIMESTAMP '2024-01-01'", "DATE '2024-01-01'"],
    ),
    "zoned": (
        [DAY, DAY + dt.timedelta(hours=1), None],
        pa.timestamp("us", "Europe/Berlin"),
        ["TIMESTAMPTZ '2024-01-01 00:00:00+00'", "TIMESTAMPTZ '2024-01-01 02:00:00+01'"],
    ),
    "ns": ([1, 10**18, -1, None], pa.timestamp("ns"), ["TIMESTAMP '1970-01-01'"]),
    "day": ([dt.date(2024, 1, 1), dt.date(1960, 2, 29), None], pa.date32(), ["DATE '1960-02-29'"]),
    "text": (["a", "", "é", "o'k", "A%_", None], pa.string(), ["'a'", "''", "'o''k'", "'A%_'"]),
    "raw": ([b"", b"a", b"\0", None], pa.binary(), ["'a'::BLOB", "'\\x00'::BLOB"]),
    "flag": ([True, False, None], pa.bool_(), ["true", "false"]),
    "Order ID": ([1, 2, None], pa.int64(), ["1", "2"]),
    "true": ([1, 2, None], pa.int64(), ["1", "2"]),
}
QUERIES = (
    'SELECT * FROM {t} WHERE {where} ORDER BY "id"',
    'SELECT "id", "f64" FROM {t} WHERE {where} ORDER BY "id" LIMIT 5 OFFSET 1',
    "SELECT count(*) AS n FROM {t} WHERE {where}",
    'SELECT "text", count(*) AS n, max("u64") AS u FROM {t} WHERE {where} GROUP BY "text" ORDER BY "text"',
    'SELECT x."id", y."id" AS other FROM {t} x JOIN {t} y ON x."f64" = y."f64" AND y."i8" > 0 ORDER BY 1, 2',
)


def rows_of(rng: random.Random, count: int) -> pa.Table:
    columns = {
        name: pa.array([rng.choice(values) for _ in range(count)], kind)
        for name, (values, kind, _) in COLUMNS.items()
    }
    return pa.table({"id": pa.array(range(count), pa.int64()), **columns})


def condition(rng: random.Random, depth: int = 0) -> str:
    kind = rng.random()
    if depth < 3 and kind < 0.35:
        return f"({condition(rng, depth + 1)} {rng.choice(['AND', 'OR'])} {condition(rng, depth + 1)})"
    if depth < 3 and kind < 0.42:
        return f"NOT ({condition(rng, depth + 1)})"
    name = rng.choice(list(COLUMNS))
    values = COLUMNS[name][2]
    if kind < 0.52:
        return f'"{name}" IS {rng.choice(["", "NOT "])}NULL'
    if kind < 0.65:
        chosen = ", ".join(rng.choice(values) for _ in range(rng.randint(1, 3)))
        return f'"{name}" {rng.choice(["", "NOT "])}IN ({chosen})'
    if kind < 0.75:
        return f'"{name}" BETWEEN {rng.choice(values)} AND {rng.choice(values)}'
    return f'"{name}" {rng.choice(["=", "<>", "<", "<=", ">", ">="])} {rng.choice(values)}'


@pytest.mark.parametrize("seed", range(4))
def test_a_select_gives_what_duckdb_gives_in_memory(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    table = rows_of(rng, rng.choice([1, 40, 200]))
    uri = str(tmp_path / "t.lance")
    for start in range(0, table.num_rows, 30):
        lo.append(uri, table.slice(start, 30))
    for kind, name in (
        ("BTREE", "f64"),
        ("BTREE", "u64"),
        ("ZONEMAP", "f32"),
        ("BITMAP", "text"),
        ("BTREE", "zoned"),
    ):
        if rng.random() < 0.6:
            lo.create_index(uri, name, kind)
    memory = duckdb.connect(config={"python_enable_replacements": False})
    memory.register("arrow", table)
    memory.execute("CREATE TABLE t AS FROM arrow")
    for _ in range(25):
        query, where = rng.choice(QUERIES), condition(rng)
        try:
            found = memory.sql(query.format(t="t", where=where))
        except duckdb.Error:
            # Constants that do not fit the type.
            with pytest.raises(lo.errors.InvalidArgumentError):
                lo.sql(query.format(t=f'"{uri}"', where=where))
            continue
        expected = pa.table(found).to_pylist()
        got = lo.sql(query.format(t=f'"{uri}"', where=where)).to_pylist()
        # By their text, by which NaN is equal to itself.
        assert list(map(repr, got)) == list(map(repr, expected)), (query, where)
