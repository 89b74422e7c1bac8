"""Rows of every type that a filter can look at, and random filters about them."""

import datetime as dt
import decimal
import math
import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lance_ops.encoding.arrays import number_dtype

INTEGERS = {
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "u8": pa.uint8(),
    "u16": pa.uint16(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
}
FLOATS = {"f16": pa.float16(), "f32": pa.float32(), "f64": pa.float64()}
DECIMALS = {"dec": pa.decimal128(10, 2), "wide": pa.decimal128(30, 5)}
TEXTS = {"s": pa.utf8(), "ls": pa.large_utf8(), "ds": pa.dictionary(pa.int16(), pa.utf8())}
TIMESTAMPS = {
    "ts": pa.timestamp("us"),
    "tms": pa.timestamp("ms"),
    "tsec": pa.timestamp("s"),
    "tns": pa.timestamp("ns"),
    "tz": pa.timestamp("us", "UTC"),
}
WORDS = [
    "",
    "a",
    "A",
    "ab",
    "abc",
    "b%c",
    "b_c",
    "x\\y",
    "äöü",
    "日本",
    "Hello World",
    "10",
    "it's",
    "\n",
    "zz" * 9,
]
# Wall-clock times: the columns decide about zones.
_FIRST_MOMENT = dt.datetime.fromisoformat("1965-01-01")
_MOMENTS = [
    dt.datetime.fromisoformat(text)
    for text in ("1970-01-01", "1969-12-31 23:59:59.999999", "2020-02-29 12:34:56.789012", "2024-12-31")
]


def random_rows(rng: random.Random, count: int) -> pa.Table:
    """`count` rows with nulls, extremes and repeats; `id` numbers them.

    Columns: the keys of the dictionaries above, `b` (bool), `bin` and `fixed` (binary), `d32` and `d64`
    (dates), `t64` (time of day), `st` (a struct of x: int32 and y: string), `l` (list of int64), `lst` (list
    of strings), `My Col` (int32).
    """

    def column(make: Callable[[], object], data_type: pa.DataType) -> pa.Array:
        return pa.array([None if rng.random() < 0.15 else make() for _ in range(count)], data_type)

    def integer(data_type: pa.DataType) -> int:
        bits, signed = data_type.bit_width, str(data_type).startswith("i")
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        return rng.choice([low, high, rng.randint(low, high), *(rng.randint(0, 9) for _ in range(6))])

    def real() -> float:
        special = [math.nan, math.copysign(math.nan, -1), math.inf, -math.inf, 0.0, -0.0]
        return rng.choice([*special, *(rng.randint(-20, 20) / 4 for _ in range(12)), rng.uniform(-1e5, 1e5)])

    def number(digits: int, scale: int) -> decimal.Decimal:
        return decimal.Decimal(
            rng.choice([rng.randint(-(10**digits) + 1, 10**digits - 1), rng.randint(-500, 500)])
        ).scaleb(-scale)

    def moment() -> dt.datetime:
        micros = rng.randint(0, 70 * 365 * 86_400 * 1_000_000)
        return rng.choice([*_MOMENTS, _FIRST_MOMENT + dt.timedelta(microseconds=micros)])

    columns: dict[str, pa.Array] = {"id": pa.array(range(count), pa.int64())}
    for name, data_type in INTEGERS.items():
        columns[name] = column(lambda data_type=data_type: integer(data_type), data_type)
    for name, data_type in FLOATS.items():
        values = np.array([real() for _ in range(count)])
        with np.errstate(over="ignore"):
            narrow = values.astype(number_dtype(data_type))
        columns[name] = pa.array(narrow, mask=np.array([rng.random() < 0.15 for _ in range(count)]))
    columns["dec"] = column(lambda: number(9, 2), DECIMALS["dec"])
    columns["wide"] = column(lambda: number(15, 5), DECIMALS["wide"])
    for name, data_type in TEXTS.items():
        plain = column(lambda: rng.choice(WORDS), pa.large_utf8() if name == "ls" else pa.utf8())
        columns[name] = plain.dictionary_encode().cast(data_type) if name == "ds" else plain
    columns["b"] = column(lambda: rng.random() < 0.5, pa.bool_())
    columns["bin"] = column(lambda: rng.choice([b"", b"a", b"\x00\xff", b"abc"]), pa.binary())
    columns["fixed"] = column(lambda: rng.choice([b"ab", b"\x00\xff", b"zz"]), pa.binary(2))
    columns["d32"] = column(lambda: moment().date(), pa.date32())
    columns["d64"] = column(lambda: moment().date(), pa.date64())
    for name, data_type in TIMESTAMPS.items():
        micros = column(moment, pa.timestamp("us"))
        columns[name] = micros.cast(pa.timestamp(data_type.unit), safe=False).cast(data_type)
    columns["t64"] = column(lambda: moment().time(), pa.time64("us"))
    columns["st"] = column(
        lambda: {"x": rng.choice([None, rng.randint(-3, 9)]), "y": rng.choice([None, *WORDS])},
        pa.struct([("x", pa.int32()), ("y", pa.utf8())]),
    )
    columns["l"] = column(
        lambda: [rng.choice([None, 1, 2, 3]) for _ in range(rng.randint(0, 4))], pa.list_(pa.int64())
    )
    columns["lst"] = column(
        lambda: [rng.choice([None, "a", "ab"]) for _ in range(rng.randint(0, 3))], pa.list_(pa.utf8())
    )
    columns["My Col"] = column(lambda: rng.randint(0, 9), pa.int32())
    return pa.table(columns)


class FilterMaker:
    """Random filters on `random_rows` that both libraries answer alike.

    Left out is where they are known to differ (the documentation of the filter package lists it), and what
    may fail on some row.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def condition(self, depth: int = 3) -> str:
        """A filter with at most `depth` levels of AND, OR and NOT."""
        rng = self._rng
        if depth == 0 or rng.random() < 0.3:
            simple = rng.choice(self._SIMPLE)(self)
            # The peer reads everything behind IS DISTINCT FROM as its right side.
            return f"({simple})" if " DISTINCT " in simple else simple
        word = rng.choice(["AND", "OR", "NOT", "IS"])
        if word == "NOT":
            return f"NOT ({self.condition(depth - 1)})"
        if word == "IS":
            return f"({self.condition(depth - 1)}) IS {self._not()}{rng.choice(['TRUE', 'FALSE', 'NULL'])}"
        count = rng.choice([2, 2, 3])
        return "(" + f" {word} ".join(self.condition(depth - 1) for _ in range(count)) + ")"

    # --- conditions

    def _op(self) -> str:
        return self._rng.choice(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])

    def _not(self) -> str:
        return self._rng.choice(["", "NOT "])

    def _compared(self, column: str, literal: Callable[[], str]) -> str:
        """A column with a literal in one of many ways."""
        rng = self._rng
        form = rng.randrange(6)
        if form == 0:
            return f"{column} {self._not()}IN ({', '.join(literal() for _ in range(rng.randint(1, 5)))})"
        if form == 1:
            return f"{column} {self._not()}BETWEEN {literal()} AND {literal()}"
        if form == 2:
            return f"{literal()} {self._op()} {column}"
        if form == 3:
            return f"{column} IS {self._not()}NULL"
        return f"{column} {self._op()} {literal()}"

    def _integer_condition(self) -> str:
        column = self._rng.choice(["`My Col`", "st.x", *INTEGERS])
        return self._compared(column, lambda: str(self._rng.choice([0, 1, 5, 9, 100, 127])))

    def _float_condition(self) -> str:
        return self._compared(self._rng.choice([*FLOATS]), self._float)

    def _float(self) -> str:
        return self._rng.choice(
            ["0", "-0.0", "1", "2.5", "-3.25", "CAST('inf' AS DOUBLE)", "CAST('NaN' AS DOUBLE)"]
        )

    def _decimal_condition(self) -> str:
        scale = self._rng.choice([0, 1, 2])
        value = decimal.Decimal(self._rng.randint(-600, 600)).scaleb(-scale)
        column = self._rng.choice([*DECIMALS])
        return self._compared(column, lambda: f"CAST('{value}' AS DECIMAL(10, 2))")

    def _text_condition(self) -> str:
        return self._compared(self._rng.choice([*TEXTS, "st.y"]), self._word)

    def _word(self) -> str:
        return "'" + self._rng.choice(WORDS).replace("'", "''") + "'"

    def _like(self) -> str:
        pattern = self._rng.choice(
            [
                "a%",
                "%b%",
                "_",
                "__",
                "%",
                "",
                "b\\%c",
                "%\\_c",
                "A%",
                "%ö_",
                "abc",
                "%o W%",
                "x\\\\y",
                "%\n",
                "x\\y%",
                "%\\",
                "%\\\\y",
                "\\x%",
            ]
        )
        word = self._rng.choice(["LIKE", "ILIKE"])
        return f"{self._rng.choice([*TEXTS])} {self._not()}{word} '{pattern}'"

    def _bool_condition(self) -> str:
        return self._rng.choice(
            ["b", "NOT b", "b = TRUE", "b <> FALSE", "b IS NULL", "b IS TRUE", "b IS NOT FALSE"]
        )

    def _binary_condition(self) -> str:
        if self._rng.random() < 0.5:
            return self._compared("bin", lambda: self._rng.choice(["x''", "x'61'", "x'00ff'", "x'616263'"]))
        return self._compared("fixed", lambda: self._rng.choice(["x'6162'", "x'00FF'", "X'7a7b'"]))

    def _date(self) -> str:
        return f"DATE '{self._rng.choice(['1970-01-01', '1969-12-31', '2020-02-29', '1999-05-06'])}'"

    def _timestamp(self) -> str:
        text = self._rng.choice(
            ["1970-01-01 00:00:00", "2020-02-29 12:34:56", "2020-02-29T12:34:56.789012", "2001-01-01"]
        )
        return f"TIMESTAMP '{text}'"

    def _date_condition(self) -> str:
        return self._compared(self._rng.choice(["d32", "d64"]), self._date)

    def _timestamp_condition(self) -> str:
        return self._compared(self._rng.choice([*TIMESTAMPS]), self._timestamp)

    def _columns_condition(self) -> str:
        """Two columns of related types."""
        rng = self._rng
        group = rng.choice(
            [[*INTEGERS], [*FLOATS], [*INTEGERS, *FLOATS], [*DECIMALS, *INTEGERS], [*TEXTS], [*TIMESTAMPS]]
        )
        group = rng.choice([group, ["d32", "d64"], ["bin", "fixed"]])
        return f"{rng.choice(group)} {self._op()} {rng.choice(group)}"

    def _arithmetic_condition(self) -> str:
        """Sums and products, compared with a value of the same kind."""
        rng = self._rng
        names = rng.choice(
            [
                ["i8", "i16", "i32", "u8", "u32"],
                ["i64", "u32", "i8"],
                ["f32", "f64", "i8", "i32"],
                [*DECIMALS, "i8", "u16"],
            ]
        )
        first, second = rng.choice(names), rng.choice([*names, "2", "7"])
        left = f"{first} {rng.choice('+-*')} {second}"
        if rng.random() < 0.3:
            dividend, divisor = rng.choice(["i8", "i16", "i64", "u32", "dec"]), rng.choice(["3", "7", "-2"])
            left, first = f"{dividend} {rng.choice('/%')} {divisor}", dividend
        elif rng.random() < 0.2 and not first.startswith("u"):
            left = f"- {first}"
        return f"({left}) {self._op()} {rng.choice(['0', '1', '10', '-5', first])}"

    def _function_condition(self) -> str:
        rng = self._rng
        text, word = rng.choice([*TEXTS]), self._word()
        count = rng.choice(["0", "1", "2", "3", "-1", "20"])
        stamp = rng.choice([*TIMESTAMPS, "d32", "d64"])
        part = rng.choice(
            ["month", "day", "quarter", "week", "dow", "isodow", "doy", "hour", "minute", "second"]
        )
        unit = rng.choice(["year", "quarter", "month", "week", "day", "hour"])
        real = rng.choice(["f64", "i8", "i32", "u16"])
        return rng.choice(
            [
                f"lower({text}) = {word}",
                f"upper({text}) > {word}",
                f"length({text}) {self._op()} 3",
                f"octet_length({text}) {self._op()} 3",
                f"left({text}, {count}) = right({text}, {count})",
                f"right({text}, {count}) >= {word}",
                f"lpad({text}, {count}, 'xy') < {word}",
                f"rpad({text}, {count}) = {word}",
                f"`substr`({text}, {count}) = {word}",
                f"`substr`({text}, {count}, 2) <> {word}",
                f"btrim({text}, 'ab') = {word}",
                f"ltrim({text}, 'a') < {word}",
                f"rtrim({text}, 'c') < {word}",
                f"starts_with({text}, {word})",
                f"ends_with({text}, {rng.choice(['s', word])})",
                f"contains({text}, {word})",
                f"strpos({text}, {word}) = {count}",
                f"replace({text}, {word}, '-') < 'b'",
                f"reverse({text}) = {word}",
                "s LIKE st.y || '%'",
                "'abc' NOT LIKE s || '%'",
                f"repeat({text}, {count}) > {word}",
                f"initcap({text}) = {word}",
                f"ascii({text}) > 97",
                f"split_part({text}, 'b', {rng.choice(['1', '2', '-1'])}) = {word}",
                f"translate({text}, 'abc', 'xy') = {word}",
                f"{text} || s = {word}",
                f"concat({text}, i8, {word}) > {word}",
                f"concat_ws('-', s, {text}, NULL) = {word}",
                f"regexp_like({text}, '{rng.choice(['^a', 'b.c', '[0-9]+', '', 'ö', '(?i)hello'])}')",
                f"regexp_replace({text}, '[a-c]', 'x', 'g') = {word}",
                f"regexp_count({text}, '[a-z]') > {count}",
                f"date_part('{part}', {stamp}) {self._op()} {rng.randint(0, 60)}",
                f"date_part('year', {stamp}) {self._op()} {rng.randint(1965, 2035)}",
                f"date_part('epoch', ts) {self._op()} 0",
                f"date_part('{rng.choice(['hour', 'second', 'microsecond'])}', t64) > {rng.randint(0, 60)}",
                f"date_trunc('{unit}', ts) = {self._timestamp()}",
                f"date_trunc('day', {stamp}) > {self._timestamp()}",
                f"to_unixtime(ts) {self._op()} 0",
                f"round({real}) = 2",
                f"round(f64, 1) {self._op()} 2.5",
                "trunc(f64) = -2",
                f"abs(f64) {self._op()} 2.5",
                f"signum({real}) = 1",
                f"sqrt({real}) > 2",
                f"power({real}, 2) {self._op()} 4",
                f"`floor`({real}) = 2",
                f"`ceil`({real}) = 2",
                f"isnan({rng.choice(['f32', 'f64'])})",
                f"iszero({real})",
                f"nanvl(f64, 1.5) {self._op()} 1.5",
                f"greatest(i8, i16) {self._op()} least(i32, 3)",
                f"nullif(i8, {count}) IS NULL",
                f"coalesce(i8, i16, 1) {self._op()} 1",
                f"coalesce(s, ls, 'x') = {word}",
                "nvl(f64, 0) >= 0",
                f"coalesce(CASE WHEN i8 > 5 THEN 'big' WHEN b THEN s ELSE 'none' END) = {word}",
                "coalesce(CASE i8 WHEN 1 THEN 10 WHEN 2 THEN 20 END) = 10",
                f"array_has(l, {rng.choice(['1', '5', 'i8', 'NULL'])})",
                f"array_has(lst, {word})",
                f"array_length(l) {self._op()} 2",
                "cardinality(lst) = 1",
                "array_has_any(l, [1, 2])",
                "array_has_all(l, [1, 2])",
                f"l[{rng.choice(['1', '2', '-1', '0'])}] {self._op()} 2",
                "lst[1] = 'a'",
                f"is_valid({text})",
            ]
        )

    def _cast_condition(self) -> str:
        rng = self._rng
        return rng.choice(
            [
                f"CAST(i8 AS STRING) = '{rng.randint(0, 9)}'",
                "CAST(f64 AS STRING) > '1'",
                "CAST(f32 AS STRING) = '2.5'",
                f"CAST(dec AS STRING) > '{rng.randint(-3, 3)}'",
                "CAST(b AS STRING) = 'true'",
                "CAST(d32 AS STRING) >= '2000-01-01'",
                "CAST(ts AS STRING) < '2000-01-01T00:00:00'",
                "CAST(tms AS STRING) > CAST(tsec AS STRING)",
                "CAST(tz AS STRING) < '2001'",
                "CAST(i32 AS DOUBLE) * 2 > f64",
                "CAST(i64 AS FLOAT) > f32",
                "CAST(b AS INT) = i8",
                "CAST(i16 AS BOOLEAN)",
                "CAST(ts AS DATE) = d32",
                "CAST(d32 AS TIMESTAMP) < tms",
                "TRY_CAST(s AS INT) = i8 + 1",
                "TRY_CAST(s AS DOUBLE) IS NULL",
                "TRY_CAST(f64 AS INT) > i16",
                "TRY_CAST(i64 AS TINYINT) = i8",
                "TRY_CAST(i64 AS TINYINT) IS NULL",
                "CAST(i16 AS DECIMAL(10, 2)) > dec",
                "CAST(dec AS DOUBLE) > f64",
                "CAST(wide AS DECIMAL(30, 2)) = dec",
                "TRY_CAST(f64 AS DECIMAL(10, 2)) > dec",
                "i8::BIGINT + i64 > 0",
            ]
        )

    _SIMPLE = (
        _integer_condition,
        _integer_condition,
        _float_condition,
        _decimal_condition,
        _text_condition,
        _like,
        _bool_condition,
        _binary_condition,
        _date_condition,
        _timestamp_condition,
        _columns_condition,
        _columns_condition,
        _arithmetic_condition,
        _arithmetic_condition,
        _function_condition,
        _function_condition,
        _function_condition,
        _cast_condition,
    )
