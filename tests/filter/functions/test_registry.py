"""Functions: what each gives for values of the corners, constants and columns alike."""

import math

import pyarrow as pa
import pytest

from lance_ops.errors import PredicateError
from lance_ops.filter import ALIASES, FUNCTIONS, evaluate_values, parse_filter, parse_value

WORDS = ["abc", "", None, "äöü", "a b"]


def values(sql, **columns):
    """Values of an expression for each row."""
    batch = pa.record_batch(
        {name: value if isinstance(value, pa.Array) else pa.array(value) for name, value in columns.items()}
    )
    tested = parse_filter(f"({sql}) IS NULL", batch.schema).operand
    return evaluate_values(tested, batch).to_pylist()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("upper(s)", ["ABC", "", None, "ÄÖÜ", "A B"]),
        ("lower(upper(s))", WORDS),
        ("length(s)", [3, 0, None, 3, 3]),
        ("char_length(s)", [3, 0, None, 3, 3]),
        ("octet_length(s)", [3, 0, None, 6, 3]),
        ("bit_length(s)", [24, 0, None, 48, 24]),
        ("length(n)", [1, 1, 3, None, 1]),
        ("reverse(s)", ["cba", "", None, "üöä", "b a"]),
        ("left(s, 2)", ["ab", "", None, "äö", "a "]),
        ("left(s, -1)", ["ab", "", None, "äö", "a "]),
        ("left(s, -9)", ["", "", None, "", ""]),
        ("left(s, n)", ["", "", None, None, "a b"]),
        ("right(s, 2)", ["bc", "", None, "öü", " b"]),
        ("right(s, -1)", ["bc", "", None, "öü", " b"]),
        ("right(s, 0)", ["", "", None, "", ""]),
        ("substr(s, 2)", ["bc", "", None, "öü", " b"]),
        ("substr(s, 2, 1)", ["b", "", None, "ö", " "]),
        ("substr(s, 0, 2)", ["a", "", None, "ä", "a"]),
        ("substr(s, -1)", ["abc", "", None, "äöü", "a b"]),
        ("substr(s, n + 1)", ["abc", "", None, None, ""]),
        ("substring(s for 2)", ["ab", "", None, "äö", "a "]),
        ("strpos(s, 'b')", [2, 0, None, 0, 3]),
        ("strpos(s, 'ü')", [0, 0, None, 3, 0]),
        ("strpos(s, '')", [1, 1, None, 1, 1]),
        ("strpos(s, s)", [1, 1, None, 1, 1]),
        ("replace(s, 'b', 'xy')", ["axyc", "", None, "äöü", "a xy"]),
        ("replace(s, '', '-')", ["-a-b-c-", "-", None, "-ä-ö-ü-", "-a- -b-"]),
        ("lpad(s, 5, 'xy')", ["xyabc", "xyxyx", None, "xyäöü", "xya b"]),
        ("rpad(s, 5)", ["abc  ", "     ", None, "äöü  ", "a b  "]),
        ("lpad(s, 2)", ["ab", "  ", None, "äö", "a "]),
        ("lpad(s, 4, '')", ["abc", "", None, "äöü", "a b"]),
        ("repeat(s, 2)", ["abcabc", "", None, "äöüäöü", "a ba b"]),
        ("repeat(s, -1)", ["", "", None, "", ""]),
        ("btrim(s, 'ac')", ["b", "", None, "äöü", " b"]),
        ("trim('a' from s)", ["bc", "", None, "äöü", " b"]),
        ("ltrim(s, '')", WORDS),
        ("rtrim(s || '  ')", WORDS),
        ("initcap(s)", ["Abc", "", None, "Äöü", "A B"]),
        ("ascii(s)", [97, 0, None, 228, 97]),
        ("chr(n + 97)", ["a", "b", "W", None, "d"]),
        ("split_part(s, ' ', 2)", ["", "", None, "", "b"]),
        ("split_part(s, ' ', -1)", ["abc", "", None, "äöü", "b"]),
        ("split_part(s, '', 1)", WORDS),
        ("translate(s, 'abä', 'x')", ["xc", "", None, "öü", "x "]),
        ("concat(s, n)", ["abc0", "1", "-10", "äöü", "a b3"]),
        ("s || n", ["abc0", "1", None, None, "a b3"]),
        ("concat_ws('-', s, n, NULL)", ["abc-0", "-1", "-10", "äöü", "a b-3"]),
        ("concat_ws(NULL, s)", [None] * 5),
        ("starts_with(s, 'a')", [True, False, None, False, True]),
        ("ends_with(s, s)", [True, True, None, True, True]),
        ("contains(s, '')", [True, True, None, True, True]),
        ("contains(s, NULL)", [None] * 5),
        ("contains_tokens(s, 'b a')", [False, False, None, False, True]),
        ("regexp_like(s, '^A', 'i')", [True, False, None, False, True]),
        ("regexp_count(s, '[a-b]')", [2, 0, 0, 0, 2]),
        ("regexp_replace(s, '([a-z])', '<$1>')", ["<a>bc", "", None, "äöü", "<a> b"]),
        ("regexp_replace(s, '([a-z])', '${1}\\1', 'g')", ["aabbcc", "", None, "äöü", "aa bb"]),
        ("coalesce(s, 'none')", ["abc", "", "none", "äöü", "a b"]),
        ("nullif(s, '')", ["abc", None, None, "äöü", "a b"]),
        ("greatest(s, 'b')", ["b", "b", "b", "äöü", "b"]),
        ("nvl2(s, n, 9)", [0, 1, 9, None, 3]),
        ("TRY_CAST(s AS INT)", [None] * 5),
    ],
)
def test_text(sql, expected):
    assert values(sql, s=WORDS, n=[0, 1, -10, None, 3]) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("abs(f)", [1.5, 2.5, 0.0, None]),
        ("round(f)", [2.0, -3.0, 0.0, None]),
        ("round(f * 10.06, 1)", [15.1, -25.2, 0.0, None]),
        ("round(i, -1)", [10.0, -10.0, 0.0, None]),
        ("trunc(f)", [1.0, -2.0, 0.0, None]),
        ("trunc(f * 1.11, 1)", [1.6, -2.7, 0.0, None]),
        ("ceil(f)", [2.0, -2.0, 0.0, None]),
        ("floor(i)", [7.0, -8.0, 0.0, None]),
        ("signum(f)", [1.0, -1.0, 0.0, None]),
        ("power(i, 2)", [49.0, 64.0, 0.0, None]),
        ("sqrt(i + 9)", [4.0, 1.0, 3.0, None]),
        ("exp(f * 0)", [1.0, 1.0, 1.0, None]),
        ("ln(f * 0 + 1)", [0.0, 0.0, 0.0, None]),
        ("log(2, i * 0 + 8)", [3.0, 3.0, 3.0, None]),
        ("log10(i * 0 + 100)", [2.0, 2.0, 2.0, None]),
        ("atan2(f * 0, 1)", [0.0, 0.0, 0.0, None]),
        ("iszero(f)", [False, False, True, None]),
        ("isnan(f / 0)", [False, False, True, None]),
        ("nanvl(f / 0, 5)", [math.inf, -math.inf, 5.0, None]),
        ("greatest(i, f, 1)", [7.0, 1.0, 1.0, 1.0]),
        ("least(i, NULL)", [7, -8, 0, None]),
        ("nullif(i, 0)", [7, -8, None, None]),
        ("round(d, 1)", ["1.3", "-1.3", "0.0", None]),
        ("floor(d)", ["1", "-2", "0", None]),
        ("abs(d)", ["1.25", "1.25", "0.00", None]),
        ("i * pi() > 3", [True, False, False, None]),
    ],
)
def test_numbers(sql, expected):
    d = pa.array(["1.25", "-1.25", "0.00", None]).cast(pa.decimal128(5, 2))
    found = values(sql, f=[1.5, -2.5, 0.0, None], i=[7, -8, 0, None], d=d)
    for value, wanted in zip(found, expected, strict=True):
        if isinstance(wanted, str):
            assert float(value) == float(wanted)
        elif isinstance(wanted, float) and math.isfinite(wanted):
            assert value == pytest.approx(wanted)
        else:
            assert value == wanted


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("date_part('year', t)", [2020, 1969, None]),
        ("extract(quarter from t)", [1, 4, None]),
        ("date_part('MONTH', t)", [2, 12, None]),
        ("date_part('week', t)", [9, 1, None]),
        ("date_part('isoyear', t)", [2020, 1970, None]),
        ("date_part('doy', t)", [60, 365, None]),
        ("date_part('dow', t)", [6, 3, None]),
        ("date_part('isodow', t)", [6, 3, None]),
        ("date_part('hours', t)", [12, 23, None]),
        ("date_part('second', t)", [56, 59, None]),
        ("date_part('millisecond', t)", [56789, 59999, None]),
        ("date_part('microsecond', t)", [56789012, 59999999, None]),
        ("date_part('epoch', t)", [1582979696.789012, -1e-06, None]),
        ("date_part('day', z)", [28, 31, None]),
        ("date_part('hour', CAST(t AS DATE))", [0, 0, None]),
        ("CAST(date_trunc('month', t) AS STRING)", ["2020-02-01T00:00:00", "1969-12-01T00:00:00", None]),
        ("CAST(date_trunc('week', t) AS STRING)", ["2020-02-24T00:00:00", "1969-12-29T00:00:00", None]),
        (
            "CAST(t + INTERVAL '1 year' AS STRING)",
            ["2021-02-28T12:34:56.789012", "1970-12-31T23:59:59.999999", None],
        ),
        (
            "CAST(t - INTERVAL '2 months 1 day' AS STRING)",
            ["2019-12-28T12:34:56.789012", "1969-10-30T23:59:59.999999", None],
        ),
        ("CAST(CAST(t AS DATE) + 1 AS STRING)", ["2020-03-01", "1970-01-01", None]),
        ("CAST(t AS DATE) - DATE '1970-01-01'", [18321, -1, None]),
        ("to_char(t, '%d.%m.%Y %H:%M:%S')", ["29.02.2020 12:34:56", "31.12.1969 23:59:59", None]),
        ("to_unixtime(t)", [1582979696, 0, None]),
        ("CAST(to_timestamp(n) AS STRING)", ["1970-01-01T00:00:05", "1969-12-31T23:59:59", None]),
        (
            "CAST(to_timestamp_millis(n) AS STRING)",
            ["1970-01-01T00:00:00.005", "1969-12-31T23:59:59.999", None],
        ),
        ("CAST(make_date(2000 + n, 1, 2) AS STRING)", ["2005-01-02", "1999-01-02", None]),
        ("CAST(z AS STRING)", ["2020-02-28T19:00:00-05:00", "1969-12-31T18:00:00-05:00", None]),
        (
            "CAST(z + INTERVAL '1 day' AS STRING)",
            ["2020-02-29T19:00:00-05:00", "1970-01-01T18:00:00-05:00", None],
        ),
    ],
)
def test_times(sql, expected):
    ticks = [1582979696789012, -1, None]
    columns = {
        "t": pa.array(ticks, pa.timestamp("us")),
        "z": pa.array([1582934400, -3600, None], pa.timestamp("s", "America/New_York")),
        "n": pa.array([5, -1, None]),
    }
    assert values(sql, **columns) == expected


def test_days_and_months_follow_the_calendar_of_the_zone():
    # Clocks in New York go forward on 2020-03-08.
    noon_before = pa.array([1583600400], pa.timestamp("s", "America/New_York"))
    assert values("CAST(z + INTERVAL '1 day' AS STRING)", z=noon_before) == ["2020-03-08T12:00:00-04:00"]
    assert values("CAST(z + INTERVAL '24 hours' AS STRING)", z=noon_before) == ["2020-03-08T13:00:00-04:00"]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("array_length(l)", [3, 0, None, 1]),
        ("cardinality(l)", [3, 0, None, 1]),
        ("empty(l)", [False, True, None, False]),
        ("array_has(l, 2)", [True, False, None, False]),
        ("array_has(l, n)", [True, False, None, None]),
        ("array_has(l, NULL)", [None] * 4),
        ("array_has(l, 2.0)", [True, False, None, False]),
        ("array_has_any(l, [2, 9])", [True, False, None, False]),
        ("array_has_any(l, [NULL])", [False, False, None, True]),
        ("array_has_all(l, [1, 2])", [True, False, None, False]),
        ("array_has_all(l, [])", [True] * 4),
        ("l[1]", [1, None, None, None]),
        ("l[-1]", [2, None, None, None]),
        ("l[0]", [None] * 4),
        ("l[n]", [2, None, None, None]),
        ("l[9]", [None] * 4),
    ],
)
@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_lists(kind, sql, expected):
    lists = pa.array([[9], [1, 2, 2], [], None, [None]], kind(pa.int64())).slice(1)
    assert values(sql, l=lists, n=pa.array([2, 2, 2, None])) == expected


def test_fixed_size_lists_and_lists_of_encoded_values():
    fixed = pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2))
    assert values("l[2]", l=fixed) == [2.0, None, 4.0]
    assert values("array_has(l, 3)", l=fixed) == [False, None, True]
    assert values("cardinality(l)", l=fixed) == [2, None, 2]
    words = pa.array([["a", "b"], ["b"]], pa.list_(pa.utf8()))
    encoded = pa.ListArray.from_arrays(words.offsets, words.values.dictionary_encode())
    assert values("array_has(l, 'a')", l=encoded) == [True, False]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("make_array(n, 1)", [[2, 1], [None, 1]]),
        ("[n, n + 0.5]", [[2.0, 2.5], [None, None]]),
        ("array(s)", [["a"], [None]]),
        ("[NULL, s, 'x']", [[None, "a", "x"], [None, None, "x"]]),
        ("named_struct('a', n, 'b', 'x')", [{"a": 2, "b": "x"}, {"a": None, "b": "x"}]),
        ("named_struct('a', [n], 'b', NULL)", [{"a": [2], "b": None}, {"a": [None], "b": None}]),
        ("[named_struct('a', s)]", [[{"a": "a"}], [{"a": None}]]),
        ("array_length([s, s])", [2, 2]),
    ],
)
def test_values_are_put_together(sql, expected):
    columns = {"n": pa.array([2, None]), "s": pa.array(["a", None])}
    assert values(sql, **columns) == expected
    batch = pa.record_batch(columns)
    again = parse_value(parse_value(sql, batch.schema).to_sql(), batch.schema)
    assert evaluate_values(again, batch).to_pylist() == expected


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("named_struct('a')", "at least 2"),
        ("named_struct('a', 1, 'b')", "each with its value"),
        ("named_struct(s, 1)", "names in quotes"),
        ("named_struct('a', 1, 'a', 2)", "twice"),
        ("[s, TRUE]", "no common type"),
    ],
)
def test_values_that_cannot_be_put_together_are_named(sql, message):
    with pytest.raises(PredicateError, match=message):
        parse_value(sql, pa.schema({"s": pa.string()}))


def test_every_alias_means_a_function():
    assert set(ALIASES.values()) <= set(FUNCTIONS)
    assert not set(ALIASES) & set(FUNCTIONS)
