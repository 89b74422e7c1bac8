"""Expressions of statements: what they give is what Spark gives, or they are refused."""

import datetime as dt
import math
from typing import Any

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.filter import evaluate_values, parse_value
from lance_ops.spark.sql.parse import parse_statement

SAME = """
concat(s, u) | concat(s, '-', u, s) | concat(s, i) | concat('a') | concat_ws('-', s, u) | s || u
substr(s, 0) | substr(s, 0, 2) | substr(s, 2) | substring(s, 1, 1) | SUBSTRING(s FROM 2 FOR 1)
substr(s, 9) | left(s, 2) | right(s, 2) | left(s, 0) | upper(left(concat(s, u), 3)) | ltrim('a', s)
rtrim('c', s) | trim('a', s) | trim(s) | btrim(s, 'a') | TRIM(BOTH 'a' FROM s) | ltrim(s)
replace(s, 'a', 'z') | replace(s, '', 'z') | replace(s, u, 'z') | chr(65)
regexp_replace(s, '[ab]', 'z') | regexp_replace(s, '(b)', '<$1>') | regexp_count(s, 'a')
regexp_like(s, '^a') | ln(f) | ln(i) | log(f) | log(2, f) | log(2, 8) | log2(i) | log10(f) | isnan(f)
round(f) | round(i, -1) | EXTRACT(YEAR FROM d) | date_part('month', d) | EXTRACT(WEEK FROM d)
EXTRACT(HOUR FROM ts) | date_trunc('day', ts) | arr[0] | t.arr[1] | st['x'] | t.st.x
startswith(s, 'a') | endswith(s, 'c') | contains(s, u) | coalesce(s, u) | instr(s, u) | position('b', s)
lpad(s, 5, 'x') | repeat(s, 2) | reverse(s) | translate(s, 'ab', 'x')
CASE WHEN b THEN concat(s, 'x') ELSE u END | nvl2(i, 1, 2) | greatest(i, 1) | nullif(i, 1) | i % 3
f % 2 | -i | s LIKE 'a%' | s IN ('abc', NULL) | NOT b | b AND NULL | b OR NULL | i <=> NULL | s <=> u
i BETWEEN 3 AND 1
"""
REFUSED = """
substr(s, -2) | substr(s, i) | substring(s FROM 0) | left(s, -1) | right(s, i) | initcap(s) | chr(300)
chr(i) | regexp_replace(s, 'a', 'z', 2) | round(f, 2) | EXTRACT(DOW FROM d) | date_part('second', ts)
to_char(d, 'yyyy') | date_format(d, 'yyyy') | from_unixtime(i) | arr[i] | arr[-1] | arr[i + 1] | i / 2
replace(s, 'a')
"""


def listed(text: str) -> list[str]:
    return [item for line in text.strip().splitlines() for item in line.split(" | ")]


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    none = None
    return pa.table(
        {
            "s": ["abc", "", none, " a-b c ", "ABCabc", "été"],
            "u": ["b", none, "x", "", "abc", "é"],
            "i": pa.array([0, 1, -1, none, 17, -8], pa.int32()),
            "f": [0.0, -0.0, 1.5, -1.5, none, math.nan],
            "b": [True, False, none, True, False, none],
            "ts": pa.array([0, 1_500_000, -1_500_000, none, 86_399_000_000, 7], pa.timestamp("us", "UTC")),
            "d": pa.array([0, 1, -1, none, 19737, 3], pa.date32()),
            "arr": pa.array([[1, 2], [3, none], none, [none, 5], [7, 8], [1, 1]], pa.list_(pa.int32())),
            "st": [{"x": 1}, none, {"x": none}, {"x": 2}, {"x": 3}, {"x": 4}],
        }
    )


def value_of(expression: str) -> str:
    statement = parse_statement(f"UPDATE t SET o = {expression}, p = 1 WHERE true")
    return statement.columns["o"]


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 9) + 0.0
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return value


@pytest.mark.spark
def test_expressions_give_what_spark_gives(spark, rows, tmp_path):
    lo.append(str(tmp_path / "t.lance"), rows)
    spark.read.format("lance").load(str(tmp_path / "t.lance")).createOrReplaceTempView("t")
    expressions = listed(SAME)
    found = spark.sql(f"SELECT {', '.join(expressions)} FROM t").collect()
    for position, expression in enumerate(expressions):
        ours = evaluate_values(parse_value(value_of(expression), rows.schema), rows, wraps=False)
        expected = [plain(row[position]) for row in found]
        assert [plain(value) for value in ours.to_pylist()] == expected, expression


@pytest.mark.parametrize("expression", listed(REFUSED))
def test_expressions_that_mean_something_else_in_spark_are_refused(expression):
    with pytest.raises(UnsupportedError, match="another result in filters than in Spark"):
        value_of(expression)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM t WHERE id = 1; DELETE FROM t",
        "DELETE FROM t WHERE id = 1; OR true",
        "UPDATE t SET a = 1; DROP TABLE t",
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *; VACUUM t",
        "UPDATE t SET a = 1, A = 2",
        "OPTIMIZE t WITH (batch_size = 1, BATCH_SIZE = 2)",
    ],
)
def test_one_statement_says_one_thing(statement):
    with pytest.raises(InvalidArgumentError, match=r"the end|two values|twice"):
        parse_statement(statement)
