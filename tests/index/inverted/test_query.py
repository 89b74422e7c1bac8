"""Full-text queries as users say them."""

from typing import Any

import pytest

from lance_ops.errors import InvalidArgumentError
from lance_ops.index.inverted.query import (
    BooleanQuery,
    BoostQuery,
    MatchQuery,
    MultiMatchQuery,
    PhraseQuery,
    columns_of,
    parse_text_query,
)
from lance_ops.index.inverted.word_matching import similar_words


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("cat fox", MatchQuery("cat fox", "t")),
        ('"cat fox"', PhraseQuery("cat fox", "t")),
        ('"', MatchQuery('"', "t")),
        ({"query": "cat", "columns": ["u"]}, MatchQuery("cat", "u")),
        ({"query": "cat", "columns": ["u", "v"]}, MultiMatchQuery.of("cat", ["u", "v"])),
        ({"query": {"match": {"terms": "cat", "column": "u"}}}, MatchQuery("cat", "u")),
        (
            {"match": {"terms": "cat", "operator": "and", "fuzziness": 1, "boost": 2}},
            MatchQuery("cat", "t", 2, 1, operator="AND"),
        ),
        ({"phrase": {"query": "cat fox", "slop": 2}}, PhraseQuery("cat fox", "t", 2)),
        (
            {"multi_match": {"query": "cat", "columns": ["u", "v"], "boost": [1, 2]}},
            MultiMatchQuery.of("cat", ["u", "v"], [1, 2]),
        ),
        (
            {"boost": {"positive": {"match": {"terms": "a"}}, "negative": "b", "negative_boost": 0.1}},
            BoostQuery(MatchQuery("a", "t"), MatchQuery("b", "t"), 0.1),
        ),
        (
            {"boolean": {"must": [{"match": {"terms": "a"}}], "must_not": ["b"]}},
            BooleanQuery((MatchQuery("a", "t"),), (), (MatchQuery("b", "t"),)),
        ),
    ],
)
def test_a_query_is_what_is_said(given: Any, wanted: Any) -> None:
    assert parse_text_query(given, ["t"]) == wanted
    assert parse_text_query(wanted, ["t"]) == wanted


def test_words_are_looked_for_in_all_indexed_columns() -> None:
    query = parse_text_query("cat", ["t", "u"])
    assert query == MultiMatchQuery.of("cat", ["t", "u"])
    assert columns_of(query) == ("t", "u")


def _deep(levels: int) -> dict[str, Any]:
    query: dict[str, Any] = {"match": {"terms": "a"}}
    for _ in range(levels):
        query = {"boolean": {"must": [query]}}
    return query


@pytest.mark.parametrize(
    "given",
    [
        5,
        None,
        {},
        {"fuzzy": {"terms": "a"}},
        {"match": {}},
        {"match": {"terms": "a", "colour": "red"}},
        {"match": {"terms": 5}},
        {"match": {"terms": "a", "operator": "XOR"}},
        {"match": {"terms": "a", "fuzziness": -1}},
        {"match": {"terms": "a", "boost": float("nan")}},
        {"match": {"terms": "a"}, "phrase": {"terms": "a"}},
        {"phrase": {"terms": "a", "slop": "far"}},
        {"multi_match": {"query": "a", "columns": []}},
        {"multi_match": {"query": "a", "columns": ["t"], "boost": [1, 2]}},
        {"boolean": {"must": 5}},
        {"boolean": {"must": "words"}},
        {"boolean": {"must": {"match": {"terms": "a"}}}},
        {"multi_match": {"query": "a", "columns": "t"}},
        {"query": "a", "columns": "t"},
        {"boolean": {"maybe": []}},
        {"boost": {"positive": "a", "negative": "b", "negative_boost": "much"}},
        {"boost": {"positive": "a", "negative": "b", "negative_boost": float("inf")}},
        MultiMatchQuery(()),
        _deep(200),
    ],
)
def test_what_is_no_query_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_text_query(given, ["t"])


@pytest.mark.parametrize("indexed", [[], ["t", "u"]])
def test_a_column_has_to_be_named_unless_there_is_one(indexed: list[str]) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_text_query(MatchQuery("a"), indexed)
    with pytest.raises(InvalidArgumentError):
        parse_text_query('"a b"', indexed)


def test_similar_words_differ_by_letters_changed_left_out_or_put_in() -> None:
    known = ["cat", "cats", "at", "cut", "dog", "act", "caat", "Cat", "ca"]
    assert list(similar_words("cat", known, 1, 0)) == ["cat", "cats", "at", "cut", "caat", "Cat", "ca"]
    assert list(similar_words("cat", known, 2, 0)) == [word for word in known if word != "dog"]
    assert list(similar_words("cat", known, 1, 2)) == ["cat", "cats", "caat", "ca"]
    assert list(similar_words("cat", known, 0, 0)) == ["cat"]
