"""Full-text queries: what is searched for in which columns, as values, strings or mappings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from lance_ops.errors import InvalidArgumentError, UnsupportedError

_OPERATORS = ("AND", "OR")
_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class MatchQuery:
    """Match query: strings with tokens of the query.

    Attributes:
        query: The words.
        column: Path of the column; None for the only one that is indexed.
        boost: Its scores are multiplied by this.
        fuzziness: Maximum edit distance of a token; 0 and None for none. Fuzzy tokens are compared with those
            of the index without lower case and stemming.
        max_expansions: Maximum expansions of all fuzzy tokens together.
        operator: "OR" when one word is enough, "AND" when all are needed.
        prefix_length: Bytes at the beginning of a fuzzy token that must match.
    """

    query: str
    column: str | None = None
    boost: float = 1.0
    fuzziness: int | None = 0
    max_expansions: int = 50
    operator: str = "OR"
    prefix_length: int = 0


@dataclass(frozen=True, slots=True)
class PhraseQuery:
    """Phrase query: strings with tokens in order; the index must have positions.

    Attributes:
        query: The words.
        column: Path of the column; None for the only one that is indexed.
        slop: Maximum tokens between two of them.
    """

    query: str
    column: str | None = None
    slop: int = 0


@dataclass(frozen=True, slots=True)
class BoostQuery:
    """Boosting query: positive score minus weighted negative score.

    Attributes:
        positive: Finds strings.
        negative: Its scores are subtracted, for the same strings.
        negative_boost: Weight of the negative scores.
    """

    positive: "TextQuery"
    negative: "TextQuery"
    negative_boost: float = 0.5


@dataclass(frozen=True, slots=True)
class MultiMatchQuery:
    """Rows that one of several queries finds; the best score counts.

    Attributes:
        queries: One a column.
    """

    queries: tuple[MatchQuery, ...]

    @classmethod
    def of(
        cls, query: str, columns: Sequence[str], boosts: Sequence[float] | None = None, operator: str = "OR"
    ) -> "MultiMatchQuery":
        """Return the same words in several columns.

        Raises:
            InvalidArgumentError: There is no column, or another number of boosts.
        """
        if not columns:
            raise InvalidArgumentError("no column to search", field="columns")
        weights = [1.0] * len(columns) if boosts is None else list(boosts)
        if len(weights) != len(columns):
            raise InvalidArgumentError(f"{len(weights)} boosts for {len(columns)} columns", field="boosts")
        return cls(
            tuple(
                MatchQuery(query, column, boost, operator=operator)
                for column, boost in zip(columns, weights, strict=True)
            )
        )


@dataclass(frozen=True, slots=True)
class BooleanQuery:
    """Boolean query: rows that match all of some queries, or one of others, and none of yet others.

    Attributes:
        must: All of these must match.
        should: One of these must match, unless `must` has queries.
        must_not: None of these may match.
    """

    must: tuple["TextQuery", ...] = ()
    should: tuple["TextQuery", ...] = ()
    must_not: tuple["TextQuery", ...] = ()


TextQuery = MatchQuery | PhraseQuery | BoostQuery | MultiMatchQuery | BooleanQuery


def parse_text_query(value: object, indexed: Sequence[str]) -> TextQuery:
    """Parse a full-text query.

    Args:
        value: A query; a string (tokens, or a phrase in quotation marks) that is searched for in all indexed
            columns; or a mapping: either `{"query": a text or a query, "columns": [...]}`, or a query by the
            name of its kind (`match`, `phrase`, `boost`, `multi_match`, `boolean`), as JSON has it.
        indexed: Columns with a full-text index, for queries that name none.

    Raises:
        InvalidArgumentError: It is not a query, needs a column name, or has an invalid value.
        UnsupportedError: Its documents are not rows, or its kind is not supported.
    """
    query = _parse(value, None, 0)
    if isinstance(query, str):
        query = _of_text(query, indexed)
    checked = _with_column(query, indexed)
    for leaf in leaves(checked):
        _check_leaf(leaf)
    return checked


def columns_of(query: TextQuery) -> tuple[str, ...]:
    """Return columns that a query names, each once."""
    return tuple(dict.fromkeys(leaf.column for leaf in leaves(query) if leaf.column is not None))


def leaves(query: TextQuery) -> Iterator[MatchQuery | PhraseQuery]:
    """Yield the queries for words that a query consists of."""
    match query:
        case BoostQuery():
            children: tuple[TextQuery, ...] = (query.positive, query.negative)
        case MultiMatchQuery():
            children = query.queries
        case BooleanQuery():
            children = (*query.must, *query.should, *query.must_not)
        case _:
            yield query
            return
    for child in children:
        yield from leaves(child)


def _of_text(text: str, columns: Sequence[str]) -> TextQuery:
    quoted = len(text) > 1 and text.startswith('"') and text.endswith('"')
    if not columns:
        raise InvalidArgumentError(
            "no column has a full-text index",
            field="full_text_query",
            hint="build an INVERTED index with create_index(), or name the column",
        )
    if quoted:
        if len(columns) > 1:
            raise InvalidArgumentError(
                f"phrase queries need exactly one column, got {len(columns)}",
                field="full_text_query",
                hint="name the column: PhraseQuery(words, column)",
            )
        return PhraseQuery(text[1:-1], columns[0])
    return MatchQuery(text, columns[0]) if len(columns) == 1 else MultiMatchQuery.of(text, columns)


def _parse(value: object, columns: Sequence[str] | None, depth: int) -> TextQuery | str:
    if depth > _MAX_DEPTH:
        raise InvalidArgumentError("queries within queries, too deep", field="full_text_query")
    if isinstance(value, TextQuery):
        return value
    if isinstance(value, str):
        return value if columns is None else _of_text(value, columns)
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"{value!r} is not a full-text query", field="full_text_query")
    if "query" in value and isinstance(value.get("query"), str | Mapping | TextQuery):
        named = value.get("columns")
        return _parse(value["query"], columns if named is None else _list(named, "columns"), depth + 1)
    if len(value) != 1:
        raise InvalidArgumentError(
            f"{dict(value)!r} is not a full-text query",
            field="full_text_query",
            hint=f"kinds: {', '.join(_KINDS)}",
        )
    ((kind, body),) = value.items()
    if kind == "combined_fields":
        raise UnsupportedError(
            "queries of kind 'combined_fields' are not supported",
            field="full_text_query",
            hint="multi_match takes the best score of several columns",
        )
    if kind not in _KINDS or not isinstance(body, Mapping):
        raise InvalidArgumentError(
            f"unknown kind of full-text query {kind!r}",
            field="full_text_query",
            hint=f"kinds: {', '.join(_KINDS)}",
        )
    try:
        return _KINDS[kind](dict(body), depth)
    except (TypeError, KeyError, ValueError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(
            f"{dict(body)!r} lacks a value that a {kind} query needs: {error}", field="full_text_query"
        ) from error


def _list(value: object, what: str) -> list[Any]:
    """Return a list; strings and mappings, which can be iterated too, are refused."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidArgumentError(f"{value!r} is not a list of {what}", field="full_text_query")
    return list(value)


def _child(value: object, depth: int) -> TextQuery:
    query = _parse(value, None, depth + 1)
    return MatchQuery(query) if isinstance(query, str) else query


def _check_granularity(body: dict[str, Any]) -> None:
    """Check that documents are whole rows; others are named by `document_granularity`, as in pylance."""
    granularity = body.pop("document_granularity", None)
    if granularity not in (None, "row"):
        raise UnsupportedError(
            f"searches of documents by {granularity!r} are not supported",
            field="document_granularity",
            hint='leave it out, or use "row": the items of a list are searched as one text',
        )


def _match(body: dict[str, Any], depth: int) -> TextQuery:
    del depth
    _check_granularity(body)
    terms = body.pop("terms") if "terms" in body else body.pop("query")
    return MatchQuery(terms, **{**body, "operator": str(body.get("operator", "OR")).upper()})


def _phrase(body: dict[str, Any], depth: int) -> TextQuery:
    del depth
    _check_granularity(body)
    terms = body.pop("terms") if "terms" in body else body.pop("query")
    return PhraseQuery(terms, **body)


def _boost(body: dict[str, Any], depth: int) -> TextQuery:
    positive, negative = _child(body.pop("positive"), depth), _child(body.pop("negative"), depth)
    return BoostQuery(positive, negative, **body)


def _multi_match(body: dict[str, Any], depth: int) -> TextQuery:
    del depth
    boosts = body.get("boost", body.get("boosts"))
    columns, operator = _list(body["columns"], "columns"), str(body.get("operator", "OR")).upper()
    return MultiMatchQuery.of(body["query"], columns, boosts, operator)


def _boolean(body: dict[str, Any], depth: int) -> TextQuery:
    return BooleanQuery(
        **{
            name: tuple(_child(item, depth) for item in _list(items, "queries"))
            for name, items in body.items()
        }
    )


_KINDS = {
    "match": _match,
    "phrase": _phrase,
    "boost": _boost,
    "multi_match": _multi_match,
    "boolean": _boolean,
}


def _with_column(query: TextQuery, indexed: Sequence[str]) -> TextQuery:
    match query:
        case BoostQuery():
            _check_boost("negative_boost", query.negative_boost)
            return replace(
                query,
                positive=_with_column(query.positive, indexed),
                negative=_with_column(query.negative, indexed),
            )
        case BooleanQuery():
            return BooleanQuery(
                *(
                    tuple(_with_column(child, indexed) for child in children)
                    for children in (query.must, query.should, query.must_not)
                )
            )
        case MultiMatchQuery():
            if not query.queries:
                raise InvalidArgumentError("no column to search", field="columns")
            return query
    if query.column is not None:
        return query
    if len(indexed) != 1:
        raise InvalidArgumentError(
            f"a query names no column, and {len(indexed)} have a full-text index",
            field="full_text_query",
            hint="name the column",
        )
    return replace(query, column=indexed[0])


def _check_leaf(leaf: MatchQuery | PhraseQuery) -> None:
    given: tuple[object, object] = (leaf.query, leaf.column)
    if not all(isinstance(part, str) for part in given):
        raise InvalidArgumentError("a query has a text and the path of a column", field="full_text_query")
    if isinstance(leaf, PhraseQuery):
        _check_count("slop", leaf.slop)
        return
    if leaf.operator not in _OPERATORS:
        raise InvalidArgumentError(f"no operator {leaf.operator!r}", field="operator", hint="AND or OR")
    if leaf.fuzziness is not None:
        _check_count("fuzziness", leaf.fuzziness)
    _check_count("max_expansions", leaf.max_expansions)
    _check_count("prefix_length", leaf.prefix_length)
    _check_boost("boost", leaf.boost)


def _check_boost(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InvalidArgumentError(f"a {name} of {value!r}", field=name)


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise InvalidArgumentError(f"{name} cannot be {value!r}", field=name, hint="a number from 0")
