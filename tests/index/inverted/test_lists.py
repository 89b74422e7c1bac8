"""Text indices on lists of texts: what either library builds, both search, refresh and move along alike."""

import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance import query as peer_query

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.index.inverted.tokenizers.lists import joined_items

pytestmark = pytest.mark.peer

WORDS = ["red", "apple", "pear", "the", "was", "running", "Große", "дом", "12x"]
TYPES = [pa.list_(pa.string()), pa.list_(pa.large_string()), pa.large_list(pa.string())]
ITEMS = st.none() | st.text("ab ", max_size=3)
OTHERS = [pa.list_(pa.int32()), pa.list_(pa.list_(pa.string())), pa.list_(pa.binary())]
CASES = [
    (pa.list_(pa.string()), "c", {"base_tokenizer": "simple"}, True),
    (pa.list_(pa.string()), "c", {"base_tokenizer": "raw"}, False),
    (pa.list_(pa.large_string()), "s.c", {"base_tokenizer": "whitespace", "remove_stop_words": False}, True),
    (pa.large_list(pa.string()), "c", {"base_tokenizer": "ngram"}, False),
    (pa.large_list(pa.large_string()), "c", {"base_tokenizer": "simple"}, False),
]


def rows(kind: pa.DataType, count: int, seed: int) -> pa.Table:
    chance = random.Random(seed)

    def item() -> str | None:
        if chance.random() < 0.2:
            return chance.choice([None, "", " "])
        return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 3)))

    lists = [
        None if chance.random() < 0.1 else [item() for _ in range(chance.randint(0, 3))] for _ in range(count)
    ]
    column = pa.array(lists, kind)
    nested = pa.StructArray.from_arrays([column], ["c"])
    return pa.table({"id": range(seed * 100, seed * 100 + count), "c": column, "s": nested})


def check(uri: str, column: str, *, phrases: bool) -> None:
    every = peer_query.FullTextOperator.AND
    asked: list[tuple[Any, Any]] = [
        (
            peer_query.MatchQuery("red apple 12x", column),
            {"match": {"column": column, "terms": "red apple 12x"}},
        ),
        (
            peer_query.MatchQuery("red the apple", column, operator=every),
            {"match": {"column": column, "terms": "red the apple", "operator": "AND"}},
        ),
    ]
    for words, slop in (("red apple", 0), ("apple the pear", 2)) if phrases else ():
        asked.append(
            (
                peer_query.PhraseQuery(words, column, slop=slop),
                {"phrase": {"column": column, "terms": words, "slop": slop}},
            )
        )
    for theirs, ours in asked:
        expected = hits(lance.dataset(uri).to_table(columns=["id"], full_text_query=theirs))
        assert hits(lo.dataset(uri).to_table(["id"], full_text_query=ours)) == expected, ours


def hits(found: pa.Table) -> list[tuple[int, float]]:
    scores = [round(score, 3) for score in found["_score"].to_pylist()]
    return sorted(zip(found["id"].to_pylist(), scores, strict=True))


@pytest.mark.parametrize(("kind", "column", "options", "ours"), CASES, ids=str)
def test_histories_of_both_are_searched_alike(
    tmp_path: Path, kind: pa.DataType, column: str, options: dict[str, Any], ours: bool
) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(kind, 40, 0), uri, max_rows_per_file=15)
    options = {"with_position": True, **options}
    if ours:
        lo.create_index(uri, column, "INVERTED", name="x", parameters=options)
    else:
        lance.dataset(uri).create_scalar_index(column, "INVERTED", name="x", **options)
    # Of n-grams pylance finds phrases in another way than of words.
    phrases = options["base_tokenizer"] != "ngram"
    check(uri, column, phrases=phrases)
    lo.append(uri, rows(kind, 10, 1))
    check(uri, column, phrases=phrases)
    assert lo.optimize_indices(uri).indices == ("x",)
    check(uri, column, phrases=phrases)
    lo.delete(uri, "id % 5 = 1")
    lo.compact(uri, materialize_deletions_threshold=0.0)
    lance.write_dataset(rows(kind, 10, 2), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    check(uri, column, phrases=phrases)
    assert lo.fsck(uri, deep=True).ok


@given(
    st.sampled_from(TYPES), st.lists(st.none() | st.lists(st.none() | st.text("ab ", max_size=3), max_size=4))
)
def test_a_list_is_one_text_of_its_items(kind: pa.DataType, lists: list[list[str | None] | None]) -> None:
    expected = [None if row is None else " ".join(item for item in row if item is not None) for row in lists]
    array = pa.array([[], *lists, None], kind)
    assert joined_items(array).to_pylist() == ["", *expected, None]
    assert joined_items(array.slice(1, len(lists))).to_pylist() == expected


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int32()), pa.list_(pa.list_(pa.string())), pa.list_(pa.binary())]
)
def test_other_lists_are_refused_by_type(tmp_path: Path, kind: pa.DataType) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"c": pa.array([[], None], kind)}), uri)
    with pytest.raises(InvalidArgumentError, match="which INVERTED cannot index"):
        lo.create_index(uri, "c", "INVERTED")
    with pytest.raises(UnsupportedError, match="and no text"):
        lo.dataset(uri).to_table(full_text_query={"match": {"column": "c", "terms": "a"}})
