"""Which types fit each other: every pair of a column and a constant, and of two columns, beside the peer.

Where both libraries take a filter they select the same rows. Where only one does, the pair is named here.
"""

import datetime as dt
import decimal
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lance_ops.errors import PredicateError
from lance_ops.filter import evaluate_values, parse_filter, parse_value, select

lance = pytest.importorskip("lance")
pytestmark = pytest.mark.peer

NUMBERS = [0, 1, None, 2]
DAYS = [dt.date(1970, 1, 1), dt.date(1970, 1, 2), None, dt.date(2024, 5, 1)]
MOMENTS = pa.array([0, 1, None, 1_714_521_600], pa.timestamp("s"))
TEXTS = ["a", "b", None, "c"]
COLUMNS = {
    **{f"i{bits}": pa.array(NUMBERS, f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": pa.array(NUMBERS, f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": pa.array(NUMBERS, pa.float32()).cast(f"float{bits}") for bits in (16, 32, 64)},
    "dec": pa.array([None if n is None else decimal.Decimal(n) for n in NUMBERS], pa.decimal128(10, 2)),
    "wide": pa.array([None if n is None else decimal.Decimal(n) for n in NUMBERS], pa.decimal256(40, 2)),
    "b": pa.array([True, False, None, True]),
    "s": pa.array(TEXTS),
    "ls": pa.array(TEXTS, pa.large_string()),
    "ds": pa.array(TEXTS).dictionary_encode(),
    "bin": pa.array([b"a", b"b", None, b"c"]),
    "lbin": pa.array([b"a", b"b", None, b"c"], pa.large_binary()),
    "fixed": pa.array([b"a", b"b", None, b"c"], pa.binary(1)),
    "d32": pa.array(DAYS, pa.date32()),
    "d64": pa.array(DAYS, pa.date64()),
    **{f"t{unit}": MOMENTS.cast(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    "tz": MOMENTS.cast(pa.timestamp("us", "UTC")),
    **{f"c{unit}": pa.array(NUMBERS, pa.int32()).cast(pa.time32(unit)) for unit in ("s", "ms")},
    **{f"c{unit}": pa.array(NUMBERS, pa.int64()).cast(pa.time64(unit)) for unit in ("us", "ns")},
    **{f"p{unit}": pa.array(NUMBERS, pa.int64()).cast(pa.duration(unit)) for unit in ("s", "ms", "us", "ns")},
}
FAMILIES = {"i": "number", "u": "number", "f": "number", "w": "number", "s": "text", "l": "text", "c": "time"}


def family(name: str) -> str:
    """The family of a column's type."""
    by_name = {"fixed": "bytes", "bin": "bytes", "lbin": "bytes", "dec": "number", "ds": "text", "b": "bool"}
    return (
        by_name.get(name)
        or {"d": "date", "t": "timestamp", "p": "duration"}.get(name[0])
        or FAMILIES[name[0]]
    )


CONSTANTS = {
    "number": ["1", "-1", "1.5", "1e0", "2024-05-01", "9223372036854775808", "CAST(1 AS INT)"],
    "text": ["'a'", "'1'"],
    "day": ["'2024-05-01'"],
    "bool": ["TRUE"],
    "bytes": ["x'61'"],
    "date": ["DATE '2024-05-01'", "CAST('1970-01-02' AS DATE)"],
    "timestamp": ["TIMESTAMP '1970-01-01 00:00:01'", "CAST('2024-05-01' AS TIMESTAMP)"],
}
FORMS = ["{1} < {0}", "{0} IN ({1})"]
FUNCTIONS = ["nullif({0}, {1}) IS NULL", "coalesce({0}, {1}) IS NULL"]

OURS_ALONE = {
    # Numbers are compared as numbers, in a wider type where the column's does not hold the constant.
    ("number", "number"),
    # Dates and times in quotes are read as such; bytes of one length meet those of any.
    *(("date", "day"), ("timestamp", "day"), ("bytes", "bytes"), ("bytes", "text"), ("text", "bytes")),
    *(("time", "time"), ("bytes", "day")),
}
"""Families that are compared here, and of which the peer refuses some pairs."""
PEERS_ALONE = {
    # A number of days, or a date without quotes.
    *(
        ("date", "number"),
        ("number", "date"),
        ("time", "number"),
        ("timestamp", "number"),
        ("number", "timestamp"),
    ),
    # Text that the peer converts value by value, where each of them reads so.
    *(("text", "number"), ("number", "text"), ("text", "date"), ("text", "timestamp"), ("text", "time")),
    *(
        ("date", "text"),
        ("timestamp", "text"),
        ("time", "text"),
        ("time", "day"),
        ("bool", "text"),
        ("number", "day"),
    ),
    # Bytes beside text.
    *(("bytes", "day"), ("text", "bytes"), ("bytes", "text")),
}
"""Families that are refused here, and of which the peer takes some pairs."""


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return pa.table({"id": range(4), **COLUMNS})


@pytest.fixture(scope="module")
def dataset(rows, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("types") / "rows.lance")
    return lance.write_dataset(rows, path, data_storage_version="2.1")


def ours(rows: pa.Table, sql: str) -> list[int] | None:
    """Ids that we select; None where the filter is refused when it is parsed."""
    try:
        expression = parse_filter(sql, rows.schema)
    except PredicateError:
        return None
    return rows["id"].filter(select(expression, rows)).to_pylist()


def theirs(dataset, sql: str) -> list[int] | None:
    """Ids that the peer selects; None where it refuses the filter, or a value."""
    try:
        return dataset.to_table(columns=["id"], filter=sql)["id"].to_pylist()
    except (ValueError, OSError, pa.ArrowException):
        return None


def pairs(name: str) -> Iterator[tuple[str, str]]:
    """What a column is compared with: the family, and the filter."""
    for kind, constants in CONSTANTS.items():
        for constant in constants:
            for form in (*FORMS, *FUNCTIONS):
                yield kind, form.format(name, constant)
    for other in COLUMNS:
        for form in ("{0} = {1}", FUNCTIONS[0]):
            yield family(other), form.format(name, other)


@pytest.mark.parametrize("name", COLUMNS)
def test_each_pair_of_types_is_taken_or_refused_as_by_the_peer(rows, dataset, name):
    wrong = []
    for kind, sql in pairs(name):
        here, there = ours(rows, sql), theirs(dataset, sql)
        pair = (family(name), kind)
        if here is None or there is None:
            known = PEERS_ALONE if here is None else OURS_ALONE
            if here != there and pair not in known:
                wrong.append((sql, pair, here, there))
        elif here != there:
            wrong.append((sql, pair, here, there))
    assert wrong == []


EXACT = {
    **{f"int{bits}": pa.array([2 ** (bits - 1) - 1], f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": pa.array([2**bits - 1], f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": pa.array([0.1], pa.float64()).cast(f"float{bits}", safe=False) for bits in (32, 64)},
    **{
        f"dec{scale}": pa.array([decimal.Decimal(1).scaleb(-scale)], pa.decimal128(20, scale))
        for scale in (0, 2, 9)
    },
    "wide": pa.array([decimal.Decimal("0.001")], pa.decimal256(40, 3)),
    **{
        f"t{unit}": pa.array([1_714_521_601], pa.int64()).cast(pa.timestamp(unit))
        for unit in ("s", "ms", "us", "ns")
    },
    **{
        f"z{unit}": pa.array([1_714_521_601], pa.int64()).cast(pa.timestamp(unit, "UTC"))
        for unit in ("us", "ns")
    },
    **{f"c{unit}": pa.array([7], pa.int32()).cast(pa.time32(unit)) for unit in ("s", "ms")},
    **{f"c{unit}": pa.array([7], pa.int64()).cast(pa.time64(unit)) for unit in ("us", "ns")},
    **{f"p{unit}": pa.array([7], pa.int64()).cast(pa.duration(unit)) for unit in ("s", "ms", "us", "ns")},
    "d32": pa.array([19_844], pa.int32()).cast(pa.date32()),
    "d64": pa.array([19_844], pa.int32()).cast(pa.date32()).cast(pa.date64()),
    "s": pa.array(["é"]),
    "ls": pa.array(["é"], pa.large_string()),
    "bin": pa.array([b"\x00\xff"]),
    "b": pa.array([True]),
}
NULLS = {f"no_{name}": pa.nulls(1, column.type) for name, column in EXACT.items()}
MEETING = (
    *("coalesce({0}, no_{1})", "nullif({0}, no_{1})", "greatest(no_{1}, {0})"),
    "CASE WHEN FALSE THEN {1} ELSE {0} END",
)


@pytest.mark.parametrize("name", EXACT)
def test_no_value_is_lost_where_two_types_meet(name):
    rows = pa.table({**EXACT, **NULLS})
    exact = rows[name].combine_chunks()
    met = 0
    for other in EXACT:
        for form in MEETING:
            sql = form.format(name, other)
            try:
                expression = parse_value(sql, rows.schema)
            except PredicateError:
                continue
            met += 1
            found = evaluate_values(expression, rows)
            if pa.types.is_floating(found.type) and not pa.types.is_floating(exact.type):
                # As in the peer, a number beside a float is a float of its width.
                assert found[0].as_py() == pytest.approx(float(exact[0].as_py()), rel=1e-6)
            elif pa.types.is_decimal(found.type) and pa.types.is_floating(exact.type):
                assert float(found[0].as_py()) == pytest.approx(exact[0].as_py(), rel=1e-6)
            elif pa.types.is_string(found.type) and not pa.types.is_string(exact.type):
                assert found[0].as_py() == exact.cast(pa.string())[0].as_py() or form.startswith(
                    ("CASE", "nvl2")
                )
            else:
                assert found.cast(exact.type).equals(exact), sql
    assert met >= len(MEETING)


FINE = 1_714_557_600_123_456_789
"""A time in nanoseconds; the rows around it differ within its microsecond."""
COARSE = [
    "TIMESTAMP '2024-05-01 10:00:00.123456'",
    "TIMESTAMP '2024-05-01 12:00:00.123456'",
    "TIMESTAMP '2024-05-01 10:00:00.123456Z'",
    "CAST('2024-05-01 10:00:00.123456' AS TIMESTAMP)",
    "to_timestamp_millis('2024-05-01 10:00:00.123456')",
    "arrow_cast('2024-05-01 10:00:00.123','Timestamp(Millisecond, None)')",
    "DATE '2024-05-01'",
]


def test_a_constant_keeps_the_unit_of_a_column_in_any_time_zone(tmp_path):
    ticks = [FINE, FINE - 789, None, FINE + 1]
    kinds = {
        f"{unit}{number}": pa.timestamp(unit, zone)
        for unit in ("ns", "us")
        for number, zone in enumerate((None, "UTC", "Europe/Berlin", "+02:00"))
    }
    fine = pa.array(ticks, pa.timestamp("ns", "UTC"))
    rows = pa.table({"id": range(4), **{name: fine.cast(kind, safe=False) for name, kind in kinds.items()}})
    dataset = lance.write_dataset(rows, str(tmp_path / "rows.lance"))
    wrong = []
    for name in kinds:
        for constant in COARSE:
            for form in ("{} = {}", "{} <> {}", "{} > {}", "{} IN ({})", "{0} BETWEEN {1} AND {1}"):
                sql = form.format(name, constant)
                here, there = ours(rows, sql), theirs(dataset, sql)
                if here is not None and there is not None and here != there:
                    wrong.append((sql, here, there))
    assert wrong == []
