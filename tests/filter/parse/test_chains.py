"""Long chains of conditions: as fast as lists, with the rows of their terms, never too deep for Python."""

import random

import pyarrow as pa
import pytest
from sqlglot.tokens import Tokenizer

from lance_ops.errors import PredicateError
from lance_ops.filter import evaluate, parse_filter
from lance_ops.filter.expression import Literal
from lance_ops.filter.junctions import all_of, any_of
from lance_ops.filter.parse import syntax
from lance_ops.filter.parse.chains import set_chains_aside
from lance_ops.filter.predicates import And, InList, Not, Or
from tests.support.filters import random_rows

ROWS = random_rows(random.Random(3), 120)
CONSTANTS = {
    "i8": ["1", "5", "-3", "300", "NULL", "2.0"],
    "u64": ["1", "18446744073709551615", "-1", "NULL"],
    "f32": ["0.1", "2.5", "-0.0", "0", "1e300", "NULL"],
    "dec": ["1.5", "2", "-0.25", "NULL"],
    "s": ["'a'", "'it''s'", '"b%c"', "NULL", "''"],
    "ds": ["'a'", "'abc'"],
    "bin": ["x'61'", "X'00ff'", "NULL"],
    "d32": ["'2020-02-29'", "'1970-01-01'"],
    "b": ["TRUE", "FALSE", "NULL"],
    "`My Col`": ["1", "2", "3"],
    "st.x": ["1", "-2", "NULL"],
}


@pytest.mark.parametrize("column", CONSTANTS)
@pytest.mark.parametrize(("operator", "word", "join"), [("=", "OR", any_of), ("<>", "AND", all_of)])
def test_a_chain_means_what_its_terms_mean(column, operator, word, join):
    rng = random.Random(column)
    for constants in (CONSTANTS[column], [one for one in CONSTANTS[column] if one != "NULL"]):
        terms = [f"{column} {operator} {rng.choice(constants)}" for _ in range(40)]
        chain = parse_filter(f" {word} ".join(terms), ROWS.schema)
        single = join(tuple(parse_filter(term, ROWS.schema) for term in terms))
        assert evaluate(chain, ROWS).equals(evaluate(single, ROWS))
        assert parse_filter(chain.to_sql(), ROWS.schema) == chain


def chain(column, operator, word, count=20):
    return f" {word} ".join(f"{column} {operator} {number}" for number in range(count))


@pytest.mark.parametrize(
    ("sql", "around"),
    [
        ("i16 > 3 OR {} OR i32 = 4", "or"),
        ("i16 > 3 AND ({})", "or"),
        ("i16 > 3 AND {}", "or"),
        ("{} AND i16 > 3", "or"),
        ("NOT {}", "or"),
        ("i16 IS NULL = b OR {}", "or"),
        ("CASE WHEN {} THEN b ELSE i16 > 2 END", "or"),
        ("i16 BETWEEN 1 AND 5 OR {}", "or"),
        ("i16 + 1 = 2 OR {} ;", "or"),
        ("{} OR i16 < 3", "and"),
        ("i16 > 3 AND {} OR b", "and"),
        ("i16 BETWEEN 1 AND i8 <> 1 AND {}", "and"),
        ("NOT {}", "and"),
        ("{} + 1 OR b", "and"),
    ],
)
def test_a_chain_among_others_keeps_its_place(sql, around):
    operator, word = ("=", "OR") if around == "or" else ("<>", "AND")
    long = sql.format(chain("i8", operator, word))
    # The terms in parentheses form no chain; where precedence would tear the chain apart, so do its ends.
    names = [f"(i8 {operator} {number})" for number in range(1, 19)]
    short = sql.format(f" {word} ".join([f"i8 {operator} 0", *names, f"i8 {operator} 19"]))
    if "BETWEEN 1 AND i8" in sql:
        with pytest.raises(PredicateError):
            parse_filter(long, ROWS.schema)
        return
    assert evaluate(parse_filter(long, ROWS.schema), ROWS).equals(
        evaluate(parse_filter(short, ROWS.schema), ROWS)
    )


def test_a_long_chain_is_one_node():
    found = parse_filter(chain("i32", "=", "OR", 8_000), ROWS.schema)
    assert isinstance(found, InList)
    assert len(found.values) == 8_000
    opposite = parse_filter(chain("i32", "<>", "AND", 8_000), ROWS.schema)
    assert isinstance(opposite, Not)
    assert isinstance(parse_filter(chain("i32", "=", "OR", 3), ROWS.schema), Or)
    assert isinstance(parse_filter(chain("i32", "<>", "AND", 3), ROWS.schema), And)


@pytest.mark.parametrize(("term", "place"), [("missing = 1", 1), ("i8 = 'x'", None), ("i8 = ", None)])
def test_a_mistake_in_a_chain_is_found_where_it_is(term, place):
    sql = " OR ".join([term] * 30) if place else f"{chain('i8', '=', 'OR')} OR {term}"
    with pytest.raises(PredicateError, match=r"at character \d+") as caught:
        parse_filter(sql, ROWS.schema)
    start = int(str(caught.value).split("at character ")[1].split(":")[0])
    assert start >= (place or len(sql) - len(term))


@pytest.mark.parametrize("word", ["OR", "AND"])
def test_thousands_of_unlike_terms_are_no_depth(word):
    columns = ["i8", "i16", "i32", "i64", "u8", "u16", "s IS NOT NULL AND i8", "st.x"]
    terms = [f"{columns[number % 8]} > {number % 90}" for number in range(1_000)]
    found = parse_filter(f" {word} ".join(terms), ROWS.schema)
    assert len(evaluate(found, ROWS)) == ROWS.num_rows
    assert parse_filter(found.to_sql(), ROWS.schema) == found


@pytest.mark.parametrize("count", [41, 1_000, 32_000])
@pytest.mark.parametrize(("before", "behind"), [("(", ")"), ("NOT ", ""), ("NOT (", ")"), ("- ", "")])
def test_depth_is_a_typed_error(count, before, behind):
    sql = (
        f"{before * count}i8{behind * count} = 1" if before == "- " else f"{before * count}b{behind * count}"
    )
    with pytest.raises(PredicateError, match="nested too deeply"):
        parse_filter(sql, ROWS.schema)


def test_nested_alternatives_are_a_typed_error():
    sql = "i8 = 1"
    for number in range(1_000):
        sql = f"({sql} OR i16 = {number})"
    with pytest.raises(PredicateError, match="nested too deeply"):
        parse_filter(sql, ROWS.schema)
    assert pa.types.is_boolean(evaluate(parse_filter("i8 = 1", ROWS.schema), ROWS).type)


TERMS = [
    *("i8 = {}", "i16 <> {}", "i32 >= {}", "u8 < {}", "f32 > {}.5", "st.x = {}", "`My Col` = {}", "I8 = {}"),
    *("s = 'a'", "s LIKE 'a%'", "s NOT LIKE 'a%'", "s ILIKE 'A_'", "i8 IS NULL", "i8 IS NOT NULL"),
    *("i16 BETWEEN {} AND 5", "i16 NOT BETWEEN 1 AND {}", "i8 BETWEEN i16 AND {}", "i8 = NULL", "b = TRUE"),
    *("i8 IN (1, {}, NULL)", "i8 NOT IN ({}, 2)", "s IN ('a', 'it''s')", "i8 IN (i16, {})", "b"),
    *("NOT b", "NOT i8 = {}", "{} < i8", "i8 + 1 = {}", "i8 = {} IS NULL", "i8 IS DISTINCT FROM {}"),
    *("CASE WHEN i8 = {} AND b THEN b ELSE i16 > 2 END", "coalesce(i8, 1) = {}", "coalesce(b, i8 = {})"),
    *("d32 > DATE '2020-01-01'", "d32 = '2020-02-29'", "dec = {}.5", "u64 = -{}", "i8 = 300", "b IS TRUE"),
]


def random_condition(rng: random.Random, terms: list[str], depth: int) -> str:
    parts = []
    for _ in range(rng.choice([2, 3, 20, 40])):
        if depth and rng.random() < 0.2:
            inner = random_condition(rng, terms, depth - 1)
            parts.append(f"{rng.choice(['', '', 'NOT '])}({inner})")
        else:
            parts.append(rng.choice(terms).format(rng.randrange(0, 9)))
    text = parts[0]
    words = rng.choice([["AND"], ["OR"], ["AND", "OR"], ["OR", "OR", "OR", "AND"]])
    for part in parts[1:]:
        text += f" {rng.choice(words)} {part}"
    return text


@pytest.mark.parametrize("seed", range(60))
def test_a_filter_means_the_same_with_and_without_what_is_set_aside(seed, monkeypatch):
    rng = random.Random(seed)
    sql = random_condition(rng, TERMS if seed % 3 else TERMS[:6], 3)
    found = parse_filter(sql, ROWS.schema)
    assert parse_filter(found.to_sql(), ROWS.schema) == found
    monkeypatch.setattr(syntax, "set_chains_aside", lambda tokens, _asides: list(tokens))
    monkeypatch.setattr(syntax, "set_long_lists_aside", lambda sql, _asides: sql)
    assert evaluate(found, ROWS).equals(evaluate(parse_filter(sql, ROWS.schema), ROWS))


MISTAKES = [
    *("{} OR", "{} OR OR b", "({}", "{})", "[{})", "({}]", "{} AND ({}", "CASE {} END", "{} {}"),
    *(
        "i8 BETWEEN {}",
        "f({})",
        "i8 IN ({}",
        "{} OR i8 = 'x'",
        "{} OR missing = 1",
        "{} OR s LIKE 1",
        "{}; {}",
    ),
    *("(({}) = 1", "{} = i8 = 1", "{} OR lst = 1", "{} OR st = 1", "{} OR i8.x = 1"),
]


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("joint", [" OR ", " AND "])
def test_a_mistake_around_a_chain_is_the_one_that_it_is_without_it(mistake, joint, monkeypatch):
    long = joint.join(["i8 = 1", "i16 < 2", "b = TRUE", "s = 'a'"] * 6)
    sql = mistake.replace("{}", long)
    with pytest.raises(PredicateError) as caught:
        parse_filter(sql, ROWS.schema)
    monkeypatch.setattr(syntax, "set_chains_aside", lambda tokens, _asides: list(tokens))
    with pytest.raises(PredicateError):
        parse_filter(sql, ROWS.schema)
    assert "\0" not in str(caught.value)


LONG = ", ".join(str(number) for number in range(40))


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        (f"i32 IN ({LONG})", 40),
        (f"i32 in(\n{LONG},\n -1 , 1e2, 2.0 )", 42),
        (f"s IN ({', '.join(repr(str(n)) for n in range(30))}, 'it''s', '')", 32),
    ],
)
def test_a_long_list_is_read_as_it_stands(sql, count, monkeypatch):
    found = parse_filter(sql, ROWS.schema)
    assert isinstance(found, InList)
    assert len(found.values) == count
    monkeypatch.setattr(syntax, "set_long_lists_aside", lambda sql, _asides: sql)
    assert parse_filter(sql, ROWS.schema) == found


@pytest.mark.parametrize(
    "sql",
    [
        f"s = 'i32 IN ({LONG})'",
        f's = "i32 IN ({LONG})"',
        f"s = 'it''s IN ({LONG})'",
        f"i8 = 1 -- it's\n OR s = 'i32 IN ({LONG})'",
        f"i8 = 1 /* it's */ OR s = 'i32 IN ({LONG})'",
    ],
)
def test_what_looks_like_a_list_in_a_text_is_text(sql):
    assert any(
        isinstance(node, Literal) and f"IN ({LONG})" in str(node.value)
        for node in parse_filter(sql, ROWS.schema).walk()
    )


@pytest.mark.parametrize(
    "tail", ["x", "OR missing = 1", "OR i8 = 'x'", "OR i32 IN (1, 2, 'x')", f"OR i8 IN ({LONG}, 'x')"]
)
def test_a_mistake_behind_a_long_list_is_found_where_it_is(tail):
    sql = f"i32 IN ({LONG}) {tail}"
    with pytest.raises(PredicateError, match=r"at character \d+") as caught:
        parse_filter(sql, ROWS.schema)
    start = int(str(caught.value).split("at character ")[1].split(":")[0])
    assert start >= len(sql) - len(tail)
    assert "\0" not in str(caught.value)


def test_equalities_of_several_columns_become_a_list_for_each():
    sql = " OR ".join(f"i8 = {n % 100} OR s = 'v{n}' OR i16 > {n}" for n in range(20))
    found = parse_filter(sql, ROWS.schema)
    assert isinstance(found, Or)
    assert [len(part.values) for part in found.operands if isinstance(part, InList)] == [20, 20]
    assert len(found.operands) == 22


class CountingList(list):
    """A list that counts how often one of its values is looked at."""

    looks = 0

    def __getitem__(self, index):
        self.looks += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("text", ["id" + ".x" * 5_000 + " = 1", "id = 1 AND " * 5_000 + "id = 1"])
def test_looking_for_chains_takes_a_few_looks_at_each_token(text):
    tokens = CountingList(Tokenizer().tokenize(text))
    set_chains_aside(tokens, [])
    assert tokens.looks < 20 * len(tokens)
