"""Searches of the peer in the words of lance_ops, and whether two answers to one search are the same.

Queries of the peer hide what they were made of, so their constructors keep it beside them. Equally near rows
may come in any order, and at the end of a limit any of them; everything else has to be equal, unless an index
only approximates: then lance_ops has to find as many of the true neighbors as the peer does.
"""

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import lance.query
import numpy as np
import pyarrow as pa
from lance.dataset import ScannerBuilder
from shadow_compare import difference

import lance_ops as lo

_KEPT = "_shadow_arguments"
_CLASSES = (
    lance.query.MatchQuery,
    lance.query.PhraseQuery,
    lance.query.BoostQuery,
    lance.query.MultiMatchQuery,
    lance.query.CombinedFieldsQuery,
    lance.query.BooleanQuery,
)
_KINDS = {
    "MatchQuery": "match",
    "PhraseQuery": "phrase",
    "BoostQuery": "boost",
    "MultiMatchQuery": "multi_match",
    "CombinedFieldsQuery": "combined_fields",
    "BooleanQuery": "boolean",
}
_RECALL_SLACK = 0.101
_RELATIVE, _ABSOLUTE = 2e-4, 1e-5


@dataclass(frozen=True)
class Search:
    """How the answers to one search are compared.

    Attributes:
        score: The column of distances or scores.
        approximate: Whether an index that approximates may have been used.
        limit: Rows that the search returns at most.
        remark: What begins the text of a difference.
        unlimited: Both answers without a limit; None where there is none.
        more: The answer of lance_ops with a higher limit.
        exact: The true neighbors, as a table with `_rowid`.
        ours: The answer of lance_ops with `_rowid`.
        theirs: The answer of the peer with `_rowid`.
    """

    score: str
    approximate: bool = False
    limit: int | None = None
    remark: str = ""
    unlimited: Callable[[], tuple[pa.Table, pa.Table]] | None = None
    more: Callable[[], pa.Table] | None = None
    exact: Callable[[], pa.Table] | None = None
    ours: Callable[[], pa.Table] | None = None
    theirs: Callable[[], pa.Table] | None = None


def keep_arguments(replace: Callable[[Any, str, Callable[[Any], Any]], None]) -> None:
    """Let queries and builders of scanners of the peer remember what they were told.

    Args:
        replace: Replaces a method of a class by what a function makes of it.
    """
    for kind in _CLASSES:
        replace(kind, "__init__", _keeping_init)
    replace(ScannerBuilder, "nearest", functools.partial(_keeping_call, "_shadow_nearest"))
    replace(ScannerBuilder, "full_text_search", functools.partial(_keeping_call, "_shadow_text"))
    replace(ScannerBuilder, "minhash_search", functools.partial(_keeping_call, "_shadow_minhash"))


def _bound(method: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    given = dict(inspect.signature(method).bind(*arguments, **named).arguments)
    given.pop("self", None)
    return given


def _keeping_init(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        method(self, *args, **kwargs)
        setattr(self, _KEPT, _bound(method, (self, *args), kwargs))

    return init


def _keeping_call(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = method(self, *args, **kwargs)
        setattr(self, name, _bound(method, (self, *args), kwargs))
        return answer

    return call


def text_query(given: dict[str, Any]) -> Any:
    """A full-text query of the peer in the form that lance_ops takes.

    Args:
        given: Arguments of the peer's `full_text_search`.
    """
    query = given["query"]
    if isinstance(query, str):
        columns = given.get("columns")
        return query if columns is None else {"query": query, "columns": list(columns)}
    return _query(query)


def _query(query: Any) -> dict[str, Any]:
    given = {name: _plain(value) for name, value in getattr(query, _KEPT).items()}
    kind = _KINDS[type(query).__name__]
    if kind in ("match", "phrase"):
        given["terms"] = given.pop("query")
    elif kind == "boost":
        given = {**given, "positive": _query(given["positive"]), "negative": _query(given["negative"])}
    elif kind == "boolean":
        clauses: dict[str, list[Any]] = {}
        for occur, child in given["queries"]:
            clauses.setdefault(occur.value.lower(), []).append(_query(child))
        given = clauses
    return {kind: given}


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def searches_phrases_by_grams(dataset: lo.Dataset, query: Any) -> bool:
    """Whether a query looks for a phrase where an index cuts texts into n-grams."""
    if "phrase" not in repr(query):
        return False
    details = [index.details for index in dataset.indices if index.kind == "invertedindexdetails"]
    return any(b"ngram" in bytes(one or b"") for one in details)


def is_fuzzy_on_uncovered_rows(dataset: lo.Dataset, query: Any) -> bool:
    """Whether a query looks for similar words where an index does not cover every fragment."""
    if not re.search(r"'fuzziness': (?!0)", repr(query)):
        return False
    every = {fragment.id for fragment in dataset.fragments}
    names = {index.name for index in dataset.indices if index.kind == "invertedindexdetails"}
    return any(
        every.difference(*(index.fragment_ids for index in dataset.indices if index.name == name))
        for name in names
    )


def repeats_words_with_slop(query: Any) -> bool:
    """Whether a query has a phrase with slop in which a word stands twice."""
    if isinstance(query, dict):
        phrase = query.get("phrase")
        if isinstance(phrase, dict) and phrase.get("slop"):
            words = re.findall(r"\w+", str(phrase["terms"]).lower())
            return len(set(words)) < len(words)
        return any(map(repeats_words_with_slop, query.values()))
    return isinstance(query, list) and any(map(repeats_words_with_slop, query))


def approximates(dataset: lo.Dataset, column: str) -> bool:
    """Whether a vector index may answer for a column."""
    path = column.lower()
    return any(
        (index.kind or "").startswith("vectorindex")
        and any(dataset.lance_schema.path(field).lower() == path for field in index.fields)
        for index in dataset.indices
    )


def search_difference(ours: pa.Table, theirs: pa.Table, search: Search) -> tuple[str | None, bool]:
    """The first difference between two answers to a search, and whether they are equal in recall only.

    Args:
        ours: The answer of lance_ops.
        theirs: The answer of the peer.
        search: How they compare.
    """
    found = _difference(ours, theirs, search)
    if found is None or found.startswith(("schema", "metadata", "columns")):
        return found, False
    if search.unlimited is not None and _difference(*search.unlimited(), search) is None:
        return f"only under the limit: {found}", False
    if not search.approximate:
        return search.remark + found, False
    assert search.exact is not None
    assert search.ours is not None
    assert search.theirs is not None
    true = set(search.exact()["_rowid"].to_pylist())
    mine, yours = (
        len(true.intersection(answer()["_rowid"].to_pylist())) / max(1, len(true))
        for answer in (search.ours, search.theirs)
    )
    if mine >= yours - _RECALL_SLACK:
        return None, True
    return f"recall: ours {mine:.3f} | theirs {yours:.3f}; {found}", False


def _difference(ours: pa.Table, theirs: pa.Table, search: Search) -> str | None:
    score = search.score
    if score not in theirs.column_names or ours.schema != theirs.schema or ours.num_rows != theirs.num_rows:
        return difference(ours, theirs, ordered=False)
    if "query_index" in theirs.column_names:
        for query in sorted(set(theirs["query_index"].to_pylist())):
            parts = (
                table.filter(pa.compute.equal(table["query_index"], query)).drop_columns(["query_index"])
                for table in (ours, theirs)
            )
            if (found := _difference(*parts, search)) is not None:
                return f"query {query}: {found}"
        return None
    mine, yours = (table[score].to_numpy().astype("float64") for table in (ours, theirs))
    if not np.allclose(mine, yours, rtol=_RELATIVE, atol=_ABSOLUTE, equal_nan=True):
        row = int(np.argmax(~np.isclose(mine, yours, rtol=_RELATIVE, atol=_ABSOLUTE, equal_nan=True)))
        return f"{score} of row {row}: ours {mine[row]!r} | theirs {yours[row]!r}"
    rest = [table.drop_columns([score]) for table in (ours, theirs)]
    if not rest[0].num_columns:
        return None
    start = 0
    for end in [*(np.flatnonzero(~_tied(yours[:-1], yours[1:])) + 1).tolist(), len(yours)]:
        group, expected = (table.slice(start, end - start) for table in rest)
        found = difference(group, expected, ordered=end - start == 1)
        if found is not None and not (
            end == len(yours) and search.limit == end and _are_ties(expected, yours[start], search)
        ):
            return f"rows {start} to {end}: {found}"
        start = end
    return None


def _are_ties(rows: pa.Table, value: float, search: Search) -> bool:
    """Whether lance_ops finds these rows with this score, too, when the limit is higher."""
    if search.more is None:
        return False
    more = search.more()
    tied = more.filter(pa.array(_tied(more[search.score].to_numpy().astype("float64"), value)))
    known = {repr(row) for row in tied.drop_columns([search.score]).to_pylist()}
    return all(repr(row) in known for row in rows.to_pylist())


def _tied(a: Any, b: Any) -> Any:
    return np.isclose(a, b, rtol=_RELATIVE, atol=_ABSOLUTE, equal_nan=True)
