"""What a filter may say, what its names and constants become, and how mistakes are reported."""

import re

import pyarrow as pa
import pytest

from lance_ops.errors import PredicateError
from lance_ops.filter import Column, Literal, conjuncts, parse_filter, select
from lance_ops.filter.predicates import And, Comparison, InList, IsNull, Not, Or

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int8()),
        ("price", pa.float32()),
        ("amount", pa.decimal128(10, 2)),
        ("name", pa.utf8()),
        ("title", pa.large_utf8()),
        ("kind", pa.dictionary(pa.int32(), pa.utf8())),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("zoned", pa.timestamp("ms", "America/New_York")),
        ("clock", pa.time64("us")),
        ("data", pa.binary()),
        ("code", pa.binary(2)),
        ("tags", pa.list_(pa.utf8())),
        ("point", pa.struct([("x", pa.float64()), ("in.side", pa.struct([("deep", pa.int32())]))])),
        ("Upper Case", pa.int32()),
        ("order", pa.int32()),
        ("date", pa.int32()),
        ("tick`s", pa.int32()),
    ]
)


def parse(sql):
    return parse_filter(sql, SCHEMA)


def literal_of(sql):
    """The constant on the right side of a comparison."""
    return parse(sql).right


class TestNames:
    @pytest.mark.parametrize(
        "name", ["id", "ID", "`id`", "order", "date", "`order`", "`Upper Case`", "`tick``s`"]
    )
    def test_plain_quoted_and_reserved_words_are_columns(self, name):
        assert len(parse(f"{name} = 1").columns) == 1

    def test_a_dotted_path_or_a_subscript_enters_structs(self):
        paths = ["point.`in.side`.deep", "point['in.side']['deep']", "get_field(point.`in.side`, 'deep')"]
        for path in paths:
            assert parse(f"{path} > 1").left == Column(("point", "in.side", "deep"), pa.int32())

    def test_columns_are_told_as_paths_and_by_their_roots(self):
        expression = parse("point.`in.side`.deep > 1 AND point.x < 2 OR id = 3")
        assert expression.columns == {"point.`in.side`.deep", "point.x", "id"}
        assert expression.root_columns == {"point", "id"}

    @pytest.mark.parametrize(
        ("sql", "message", "hint"),
        [
            ("nmae = 'a'", "no column 'nmae', at character 1", "`name`"),
            ("id > 1 AND prise < 2", "no column 'prise', at character 12", "`price`"),
            ("`ID` = 1", "no column 'ID'", "`id`"),
            ("point.y = 1", "no field 'y'", "there are x, in.side"),
            ("id.x = 1", "which has no fields", None),
            ("zzz = 1", "no column 'zzz'", "there are id, small"),
        ],
    )
    def test_an_unknown_name_is_reported_with_its_place_and_what_looks_like_it(self, sql, message, hint):
        with pytest.raises(PredicateError, match=re.escape(message)) as caught:
            parse(sql)
        assert (caught.value.hint is None) if hint is None else (hint in caught.value.hint)

    def test_a_name_that_fits_two_columns_is_refused(self):
        schema = pa.schema([("a", pa.int64()), ("A", pa.int64())])
        assert parse_filter("a = 1", schema).columns == {"a"}
        assert parse_filter("`A` = 1", schema).columns == {"A"}
        twice = pa.schema([("aB", pa.int64()), ("Ab", pa.int64())])
        with pytest.raises(PredicateError, match="more than one column"):
            parse_filter("ab = 1", twice)

    def test_double_quotes_are_text_and_refused_where_a_column_has_that_name(self):
        assert literal_of('name = "x""y"') == Literal('x"y', pa.utf8())
        for sql in ('name = "title"', "\"name\" = 'a'", 'name IN ("title")'):
            with pytest.raises(PredicateError, match="is a string"):
                parse(sql)


class TestConstants:
    @pytest.mark.parametrize(
        ("sql", "value", "data_type"),
        [
            ("small = 1", 1, pa.int8()),
            ("small = 1.0", 1, pa.int8()),
            ("id = -9223372036854775808", -(2**63), pa.int64()),
            ("price = 0.1", 0.10000000149011612, pa.float32()),
            ("price = 1 / 2", 0.5, pa.float32()),
            ("amount = 0.10", "0.10", pa.decimal128(10, 2)),
            ("amount = 1e2", "100.00", pa.decimal128(10, 2)),
            ("title = 'a'", "a", pa.large_utf8()),
            ("kind = 'a'", "a", pa.utf8()),
            ("day = '2020-01-01'", 18262, pa.date32()),
            ("day = DATE '2020-1-1'", 18262, pa.date32()),
            ("at = '2020-01-01 00:00:01'", 1577836801000000, pa.timestamp("us")),
            ("at = TIMESTAMP '2020-01-01T01:00:00+01:00'", 1577836800000000, pa.timestamp("us")),
            ("at = DATE '2020-01-01'", 1577836800000000, pa.timestamp("us")),
            ("at = TIMESTAMP(0) '2020-01-01 00:00:00'", 1577836800000000, pa.timestamp("us")),
            ("at = TIMESTAMP '2020-01-02' - INTERVAL '1' DAY", 1577836800000000, pa.timestamp("us")),
            (
                "zoned = TIMESTAMP '2020-01-01 00:00:00'",
                1577854800000,
                pa.timestamp("ms", "America/New_York"),
            ),
            ("zoned = DATE '2020-01-01'", 1577836800000, pa.timestamp("ms", "America/New_York")),
            ("clock = '01:02:03.5'", 3723500000, pa.time64("us")),
            ("data = x'6162'", b"ab", pa.binary()),
            ("code = x'6162'", b"ab", pa.binary(2)),
            ("flag = TRUE", True, pa.bool_()),
            ("name = lower('ABC') || 'd'", "abcd", pa.utf8()),
            ("id = CAST('7' AS INT)", 7, pa.int64()),
            ("small = NULL", None, pa.int8()),
        ],
    )
    def test_a_constant_takes_the_type_of_the_column_beside_it(self, sql, value, data_type):
        found = literal_of(sql)
        assert found.type == data_type
        assert str(found.value) == value if data_type == pa.decimal128(10, 2) else found.value == value

    @pytest.mark.parametrize(
        "sql", ["small = 300", "small = 1.5", "amount = 1.005", "small = CAST(300 AS BIGINT)"]
    )
    def test_a_constant_that_does_not_fit_is_compared_in_a_wider_type(self, sql):
        rows = pa.record_batch(
            {"small": pa.array([1, None], pa.int8()), "amount": pa.array([1, None], pa.decimal128(10, 2))}
        )
        assert select(parse(sql), rows).to_pylist() == [False, False]
        assert select(parse(sql.replace("=", "<")), rows).to_pylist() == [True, False]

    @pytest.mark.parametrize(
        ("sql", "message"),
        [
            ("day = 'yesterday'", "'yesterday' does not read as date32"),
            ("day = '2020-02-30'", "does not read as date32"),
            ("day = '30.01.2020'", "write 'YYYY-MM-DD'"),
            ("year(day) = 2020", "write date_part('year', ...)"),
            ("at > TIMESTAMP 'noon'", "does not fit timestamp"),
            ("clock = 'one'", "'one' does not read as time64"),
            ("day IN ('2020-01-01', 'x')", "'x' does not read as date32"),
            ("data = x'zz'", "hexadecimal digits"),
            ("at > at + INTERVAL '1 fortnight'", "not a valid part of an interval"),
            ("id = CAST('a' AS INT)", "does not fit int32"),
        ],
    )
    def test_a_text_that_does_not_read_is_refused_when_the_filter_is_parsed(self, sql, message):
        with pytest.raises(PredicateError, match=re.escape(message)):
            parse(sql)

    @pytest.mark.slow
    def test_a_long_list_is_read_without_a_node_for_each_value(self):
        expression = parse(f"id IN ({', '.join(map(str, range(20_000)))}, NULL)")
        assert isinstance(expression, InList)
        assert len(expression.values) == 20_000
        assert expression.has_null
        assert parse(expression.to_sql()) == expression

    def test_values_of_a_list_may_be_of_any_kind(self):
        assert parse("name IN ('a', \"b\", NULL, 'a')") == InList(
            Column(("name",), pa.utf8()), ("a", "b"), True
        )
        assert parse("flag IN (true, FALSE)").values == (True, False)
        assert parse("data IN (x'00', X'61')").values == (b"\x00", b"a")
        assert parse("small IN (-1, 300)").values == (-1, 300)
        assert isinstance(parse("id IN (small, 5)"), Or)


class TestForm:
    def test_negation_moves_to_the_leaves(self):
        assert parse("NOT (id = 1 AND NOT (small < 2 OR flag))") == parse("id <> 1 OR small < 2 OR flag")
        assert parse("id NOT BETWEEN 1 AND 5") == parse("id < 1 OR id > 5")
        assert parse("NOT (id IS NOT NULL)") == IsNull(Column(("id",), pa.int64()))
        assert parse("NOT name LIKE 'a%'") == parse("name NOT LIKE 'a%'") == Not(parse("name LIKE 'a%'"))

    def test_chains_are_flat_and_conjuncts_are_their_parts(self):
        expression = parse("id = 1 AND (small = 2 AND (flag AND day IS NULL))")
        assert isinstance(expression, And)
        assert len(conjuncts(expression)) == 4
        assert conjuncts(parse("id = 1")) == (parse("id = 1"),)
        assert len(parse(" OR ".join(["id > 1"] * 3000)).children()) == 3000

    def test_spelling_does_not_matter(self):
        assert parse("id==1") == parse("(ID = +1)") == parse("`id`= 2 - 1 -- one")
        assert parse("name LIKE 'a!%b' ESCAPE '!'") == parse("name LIKE 'a\\%b'")
        assert parse("small::BIGINT = 1") == parse("CAST(small AS BIGINT) = 1")
        assert parse("substring(name from 2 for 1) = 'b'") == parse("substr(name, 2, 1) = 'b'")
        assert parse("position('b' in name) = 2") == parse("strpos(name, 'b') = 2")
        assert parse("trim(leading 'a' from name) = 'b'") == parse("ltrim(name, 'a') = 'b'")
        assert parse("extract(year from day) = 2020") == parse("date_part('YEAR', day) = 2020")
        assert parse("flag IS UNKNOWN") == parse("flag IS NULL")

    def test_is_binds_looser_than_a_comparison(self):
        assert parse("id > 1 IS TRUE") == parse("(id > 1) IS TRUE")
        assert parse("id = small IS NOT NULL") == parse("(id = small) IS NOT NULL")
        assert parse("id IS NULL = flag") == parse("(id IS NULL) = flag")

    def test_trees_are_values(self):
        assert len({parse("id = 1"), parse("1 = id"), parse("id = 1")}) == 2
        assert isinstance(parse("1 = id"), Comparison)


class TestRefusals:
    @pytest.mark.parametrize(
        ("sql", "message"),
        [
            ("", "empty"),
            ("   ", "empty"),
            ("id", "a condition is expected"),
            ("id AND flag", "a condition is expected"),
            ("name", "a condition is expected"),
            ("id = 1 flag", "expected an operator or the end of the filter, found 'flag', at character 8"),
            ("id = ", "an operand is missing"),
            ("id = 'a", "a ' is not closed, at character 6"),
            ("(id = 1", "expected )"),
            ("id = 1; flag", "not several statements"),
            ("id = 1; drop table x", "expected an operator"),
            ("id = 1 ORDER BY id", "expected an operator"),
            ("SELECT 1", "expected an operator"),
            ("id IN (SELECT 1)", "subqueries are not supported"),
            ("EXISTS (SELECT 1)", "subqueries are not supported"),
            ("id IN ()", "at least one value"),
            ("count(*) > 1", "an aggregate function"),
            ("sum(id) > 1", "an aggregate function"),
            ("abs(id) OVER () > 1", "window function"),
            ("now() > at", "changes from one evaluation to the next"),
            ("day < now()", "changes from one evaluation to the next"),
            ("random() < 0.5", "changes from one evaluation to the next"),
            ("uuid() = name", "changes from one evaluation to the next"),
            ("lowr(name) = 'a'", "unknown function lowr()"),
            ("lower(id) = 'a'", "does not take a value of type int64"),
            ("lower(name, name) = 'a'", "takes 1 arguments, not 2"),
            ("substr(name) = 'a'", "takes 2 to 3 arguments, not 1"),
            ("coalesce() = 1", "takes at least 1 arguments"),
            ("date_part('eon', at) = 1", "does not support 'eon'"),
            ("date_part(name, at) = 1", "has to be a constant"),
            ("id = name = flag AND id = ?", "no meaning in a filter"),
            ("id = :x", "not supported"),
            ("id = {x}", "no meaning in a filter"),
            ("(id, small) = (1, 2)", "not supported"),
            ("id ~ 'a'", "expected an operator"),
            ("id & 1 = 1", "not supported"),
            ("flag = id IN (1)", "comparisons do not chain"),
            ("flag = 1", "cannot be compared"),
            ("tags = ['a']", "lists and structs have no comparisons"),
            ("point = point", "lists and structs have no comparisons"),
            ("name + 1 > 2", "+ is not defined"),
            ("- name = 1", "has no negative"),
            ("CAST(id AS foo) = 1", "cannot cast to"),
            ("CAST(id AS DECIMAL(50, 2)) = 1", "cannot cast to"),
            ("CAST(tags AS INT) = 1", "cannot be cast"),
            ("name LIKE 1", "LIKE compares text"),
            ("name LIKE 'a' ESCAPE 'ab'", "one character"),
            ("regexp_match(name, 'a') = 'b'", "can only be a condition"),
            ("name SIMILAR TO 'a'", "expected an operator"),
            ("id\0 = 1", "NUL character"),
            ("at + INTERVAL '1.5 months' > at", "whole number of months"),
        ],
    )
    def test_the_message_says_what_is_wrong(self, sql, message):
        with pytest.raises(PredicateError, match=re.escape(message)):
            parse(sql)

    def test_a_similar_function_is_suggested(self):
        with pytest.raises(PredicateError) as caught:
            parse("lowr(name) = 'a'")
        assert "lower" in caught.value.hint

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "sql",
        [
            "(" * 10_000 + "flag" + ")" * 10_000,
            "NOT " * 10_000 + "flag",
            "id = " + "- " * 10_000 + "1",
            "abs(" * 10_000 + "id" + ")" * 10_000 + " = 1",
            "CASE WHEN flag THEN " * 10_000 + "flag" + " END" * 10_000,
            "id" + " + 1" * 10_000 + " = 1",
            "id" + "::BIGINT::INT" * 10_000 + " = 1",
            "id" + ".x" * 10_000 + " = 1",
            "tags" + "[1]" * 10_000 + " = 1",
            "id = " + "[" * 10_000 + "]" * 10_000,
            "flag" + " IS TRUE" * 10_000,
            "flag" + " = flag" * 10_000,
            "name" + " || name" * 10_000 + " = 'a'",
        ],
    )
    def test_deep_nesting_is_refused_without_a_crash(self, sql):
        with pytest.raises(PredicateError):
            parse(sql)

    def test_forty_levels_of_parentheses_are_fine(self):
        assert parse("(" * 40 + "flag" + ")" * 40) == parse("flag")
