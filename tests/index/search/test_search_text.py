"""Full-text search in `to_table`: hits, scores and columns of the peer."""

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.query import FullTextOperator
from lance.query import MatchQuery as TheirMatch
from lance.query import PhraseQuery as TheirPhrase

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, UnreadableIndexError, UnreadableIndexWarning
from lance_ops.index.inverted.query import MatchQuery, PhraseQuery
from lance_ops.index.inverted.tokenizers.parameters import TextParameters
from lance_ops.pb import table_pb2

pytestmark = pytest.mark.peer

WORDS = ["alpha", "beta", "gamma", "running", "runs", "The", "over", "éclair"]
QUERIES = [
    (TheirMatch("alpha run", "text"), MatchQuery("alpha run", "text")),
    (TheirMatch("alpha gamma", "text"), MatchQuery("alpha gamma", "text")),
    (
        TheirMatch("alpha run", "text", operator=FullTextOperator.AND),
        MatchQuery("alpha run", "text", operator="AND"),
    ),
    (TheirPhrase("alpha beta", "text"), PhraseQuery("alpha beta", "text")),
    (TheirMatch("beta", "plain"), MatchQuery("beta", "plain")),
    (TheirMatch("none", "text"), MatchQuery("none", "text")),
]
OPTIONS = [
    {},
    {"filter": "c = 0"},
    {"filter": "c = 0", "prefilter": True},
    {"filter": "_score > 0.5"},
    {"fast_search": True},
    {"columns": ["_score", "id"], "with_row_id": True},
]


def rows(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 8))) for _ in range(count)]
    texts[3] = None
    return pa.table(
        {
            "id": np.arange(count) + 1000 * seed,
            "c": np.arange(count) % 3,
            "text": texts,
            "plain": [("beta " if number % 5 == 0 else "zeta ") + str(number) for number in range(count)],
        }
    )


def hits(found: pa.Table) -> dict[int, float]:
    return dict(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True))


def same(theirs: lance.LanceDataset, ours: lo.Dataset) -> None:
    """The same hits and scores, best first. The peer settles ties in no order."""
    for their_query, query in QUERIES:
        for options in OPTIONS:
            expected = theirs.to_table(full_text_query=their_query, **options)
            found = ours.to_table(full_text_query=query, **options)
            assert found.schema == expected.schema
            assert hits(found) == pytest.approx(hits(expected), abs=1e-5), (query, options)
            assert np.all(np.diff(found["_score"].to_numpy()) <= 0)


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def uri(request, tmp_path):
    path = str(tmp_path / "t.lance")
    theirs = lance.write_dataset(rows(60, 1), path, max_rows_per_file=25, enable_stable_row_ids=request.param)
    theirs.create_scalar_index("text", "INVERTED", with_position=True)
    return path


def test_hits_and_scores_are_those_of_the_peer(uri):
    same(lance.dataset(uri), lo.dataset(uri))
    lance.dataset(uri).delete("id % 7 = 2")
    same(lance.dataset(uri), lo.dataset(uri))
    lo.append(uri, rows(20, 2))
    same(lance.dataset(uri), lo.dataset(uri))
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    lo.append(uri, rows(9, 3))
    same(lance.dataset(uri), lo.dataset(uri))


@pytest.mark.parametrize("by_peer", [True, False])
@pytest.mark.parametrize("defer", [True, False])
def test_rows_are_found_where_a_compaction_put_them(uri, by_peer, defer):
    lance.dataset(uri).delete("id % 7 = 2")
    lo.append(uri, rows(20, 2))
    # The peer does not defer where row ids are stable.
    if by_peer and not (defer and lo.dataset(uri).manifest.uses_stable_row_ids):
        lance.dataset(uri).optimize.compact_files(defer_index_remap=defer)
    else:
        lo.compact(uri, defer_index_remap=defer)
    same(lance.dataset(uri), lo.dataset(uri))


@pytest.mark.parametrize("gone", [range(10, 30), range(10)], ids=["words between others", "the last word"])
@pytest.mark.parametrize("with_position", [True, False])
def test_words_of_texts_that_are_gone_leave_a_merged_segment(tmp_path, with_position, gone):
    path = str(tmp_path / "t.lance")
    texts = [f"word{number} common" for number in range(30)]
    lo.write_dataset(pa.table({"id": range(30), "text": texts}), path, max_rows_per_file=10)
    lo.create_index(path, "text", "INVERTED", parameters={"with_position": with_position})
    lo.delete(path, f"id >= {gone.start} and id < {gone.stop}")
    lo.append(path, pa.table({"id": [30], "text": ["alpha"]}))
    lo.optimize_indices(path)
    assert len(lo.dataset(path).indices) == 1
    for dataset in (lo.dataset(path), lance.dataset(path)):
        left = [number for number in range(30) if number not in gone]
        asked = {f"word{gone[-1]}": [], f"word{left[3]}": [left[3]], "common": left, "alpha": [30]}
        for word, ids in asked.items():
            found = dataset.to_table(["id", "_score"], full_text_query=word)
            assert sorted(found["id"].to_pylist()) == ids


@pytest.mark.parametrize("merge_segments", [0, None])
def test_texts_that_an_update_replaced_are_found_by_neither_library(tmp_path, merge_segments):
    """Release 14.0.2 believes each of several segments of row ids, also what rows held before an update."""
    path = str(tmp_path / "t.lance")
    texts = pa.table({"id": range(30), "text": [f"word{number} common" for number in range(30)]})
    lo.write_dataset(texts, path, enable_stable_row_ids=True)
    lo.create_index(path, "text", "INVERTED")
    lance.dataset(path).update({"text": "'changed'"}, where="id = 5")
    before = lo.dataset(path)
    lo.optimize_indices(path, merge_segments=merge_segments)
    assert len(lo.dataset(path).indices) == 1
    for dataset in (before, lo.dataset(path), lance.dataset(path)):
        for word, ids in {"word5": [], "changed": [5], "common": [n for n in range(30) if n != 5]}.items():
            found = dataset.to_table(["id", "_score"], full_text_query=word)
            assert sorted(found["id"].to_pylist()) == ids


def test_words_without_a_column_are_looked_for_in_all_that_are_indexed(uri):
    lance.dataset(uri).create_scalar_index("plain", "INVERTED")
    for query in ("beta", {"query": "beta", "columns": ["text", "plain"]}):
        expected = lance.dataset(uri).to_table(full_text_query=query)
        assert hits(lo.dataset(uri).to_table(full_text_query=query)) == pytest.approx(
            hits(expected), abs=1e-5
        )


def test_a_limit_stops_the_search_before_the_filter(uri):
    best = lo.dataset(uri).to_table(["id"], full_text_query="alpha")
    limited = lo.dataset(uri).to_table(["id"], full_text_query="alpha", limit=3, offset=1)
    assert limited.equals(best.slice(1, 3))
    by_filter = lo.dataset(uri).to_table(["id"], "c = 0", full_text_query="alpha", limit=3)
    assert set(by_filter["id"].to_pylist()) <= set(best["id"].to_pylist()[:3])
    among = lo.dataset(uri).to_table(["id"], "c = 0", full_text_query="alpha", limit=3, prefilter=True)
    assert among.num_rows == 3


def test_one_search_at_a_time(uri):
    near = {"column": "v", "q": [1.0]}
    with pytest.raises(InvalidArgumentError, match="not both"):
        lo.dataset(uri).to_table(nearest=near, full_text_query="alpha")


def test_the_plan_says_which_segments_are_used_and_what_is_scanned(uri):
    lo.append(uri, rows(9, 2))
    plan = lo.dataset(uri).explain(full_text_query=MatchQuery("alpha", "text"), filter="c = 0")
    assert "index text_idx (INVERTED), segment" in plan
    assert "fragments to scan: 3" in plan
    assert "then filter: c = 0" in plan


@pytest.mark.parametrize("file", ["part_*_tokens.lance", "part_*_docs.lance", "part_*_invert.lance"])
@pytest.mark.parametrize("cut", [True, False], ids=["cut", "gone"])
def test_a_damaged_segment_is_scanned_with_a_warning_and_its_tokenizer(uri, file, cut, tmp_path):
    before = lo.dataset(uri).to_table(full_text_query="run")
    (path,) = (tmp_path / "t.lance" / "_indices").glob(f"*/{file}")
    if cut:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        path.unlink()
    with pytest.warns(UnreadableIndexWarning, match="text_idx"):
        found = lo.dataset(uri).to_table(full_text_query="run")
    assert hits(found).keys() == hits(before).keys()


@pytest.mark.parametrize("lost", ["metadata.lance", "*"])
@pytest.mark.parametrize("by_peer", [True, False])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"stem": False, "remove_stop_words": False},
        {"lower_case": False, "ascii_folding": False, "stem": False, "max_token_length": 6},
        {"base_tokenizer": "whitespace", "language": "German"},
        {"base_tokenizer": "ngram", "min_ngram_length": 2, "max_ngram_length": 4, "prefix_only": True},
        {"base_tokenizer": "raw", "max_token_length": None},
    ],
)
def test_the_entry_of_an_index_says_how_texts_were_cut_into_words_when_no_file_does(
    tmp_path, parameters, by_peer, lost
):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(rows(60, 1), uri)
    if by_peer:
        lance.dataset(uri).create_scalar_index("text", "INVERTED", **parameters)
    else:
        lo.create_index(uri, "text", "INVERTED", parameters=parameters)
    queries = ["run", "The over", "eclair", "éclair", "Running", "al", "alpha beta"]
    before = [lo.dataset(uri).to_table(full_text_query=query) for query in queries]
    for path in (tmp_path / "t.lance" / "_indices").glob(f"*/{lost}"):
        path.unlink()
    for query, expected in zip(queries, before, strict=True):
        with pytest.warns(UnreadableIndexWarning, match="text_idx"):
            found = lo.dataset(uri).to_table(full_text_query=query)
        assert hits(found) == pytest.approx(hits(expected), abs=1e-5), query
    assert any(found.num_rows for found in before)


def test_where_nothing_says_how_texts_were_cut_into_words_there_is_no_answer(uri, tmp_path, monkeypatch):
    (path,) = (tmp_path / "t.lance" / "_indices").glob("*/metadata.lance")
    path.unlink()
    # As old releases left it.
    monkeypatch.setattr(TextParameters, "from_details", lambda _: None)
    with pytest.raises(UnreadableIndexError, match="text_idx"), pytest.warns(UnreadableIndexWarning):
        lo.dataset(uri).to_table(full_text_query="run")


def test_an_entry_that_says_nothing_of_words_or_nothing_that_can_be_is_none():
    assert TextParameters.from_details(b"") is None
    assert TextParameters.from_details(b"\xff\xff") is None
    bad = table_pb2.InvertedIndexDetails(base_tokenizer="simple", language="English")
    assert TextParameters.from_details(bad.SerializeToString()) is None
    given = TextParameters(base_tokenizer="whitespace", language="Danish", max_token_length=None, stem=False)
    assert TextParameters.from_details(given.to_details(b"", 2)) == given
