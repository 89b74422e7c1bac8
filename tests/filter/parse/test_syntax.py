"""Comments in filters: those of SQL are read over, all others refused."""

import pyarrow as pa
import pytest

from lance_ops.errors import PredicateError
from lance_ops.filter import parse_filter, parse_value, select

ROWS = pa.table({"id": range(4), "s": ["a", "{# b #}", None, "{#"], "{#": range(4)})


@pytest.mark.parametrize(
    "sql",
    [
        "id > 0 {# c #} AND id < 2",
        "id {# c #} > 0",
        "{# c #} id > 0",
        "id > 0 {# c #}",
        "id > 0 {# c",
        "id IN (1, {# 2, #} 3)",
        f"id IN ({', '.join(map(str, range(20)))} {{# , 21 #}})",
        "s = '{#' {# c #} OR id = 1",
        "id > 0 /* {# */",
    ],
)
def test_comments_of_templates_are_refused_wherever_they_stand(sql):
    with pytest.raises(PredicateError):
        parse_filter(sql, ROWS.schema)


def test_the_refusal_names_the_place_and_the_comments_of_sql():
    found = r"'\{#' has no meaning in a filter, at character 8.*/\* \.\.\. \*/"
    with pytest.raises(PredicateError, match=found):
        parse_filter("id > 0 {# c #}", ROWS.schema)
    with pytest.raises(PredicateError, match="has no meaning"):
        parse_value("id {# c #} + 1", ROWS.schema)


@pytest.mark.parametrize(
    ("sql", "ids"),
    [
        ("s = '{#'", [3]),
        ('s = "{# b #}"', [1]),
        ("`{#` = 2", [2]),
        (f"s IN ({', '.join(repr(str(n)) for n in range(20))}, '{{#')", [3]),
        ("id > 0 /* a /* nested */ comment */ AND id < 2 -- and\n", [1]),
    ],
)
def test_the_same_signs_in_quotes_are_text(sql, ids):
    assert ROWS["id"].filter(select(parse_filter(sql, ROWS.schema), ROWS)).to_pylist() == ids
