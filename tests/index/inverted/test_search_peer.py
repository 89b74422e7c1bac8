"""Searches of indices that the peer wrote find its rows with its scores, after whatever it does to them."""

import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import query as peer_query

from lance_ops.errors import InvalidArgumentError
from lance_ops.index.inverted import query as our_query
from tests.support.text_queries import check_searches, random_texts
from tests.support.text_search import same_hits, search_ours, search_peer

pytestmark = pytest.mark.peer

FORMATS = [
    {"format_version": 1},
    {"format_version": 2},
    {"format_version": 1, "with_position": True},
    {"format_version": 2, "with_position": True},
    {"block_size": 256, "with_position": True},
    {"base_tokenizer": "whitespace", "stem": False, "with_position": True},
    {"base_tokenizer": "ngram"},
    {"base_tokenizer": "raw", "remove_stop_words": False, "stem": False},
]


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row ids"])
@pytest.mark.parametrize("options", FORMATS, ids=str)
def test_a_history_of_the_peer_is_searched_like_it(
    tmp_path: Path, options: dict[str, Any], stable: bool
) -> None:
    generator = random.Random(str(options))
    uri = str(tmp_path / "t")
    lance.write_dataset(
        pa.table({"t": random_texts(generator, 500)}),
        uri,
        max_rows_per_file=220,
        enable_stable_row_ids=stable,
    )
    lance.dataset(uri).create_scalar_index("t", "INVERTED", **options)
    positions = bool(options.get("with_position"))
    check_searches(generator, uri, positions=positions)
    lance.write_dataset(pa.table({"t": random_texts(generator, 60)}), uri, mode="append")
    lance.dataset(uri).delete("t like '%bee%' and t like '%bug%'")
    check_searches(generator, uri, positions=positions, unindexed=True)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    check_searches(generator, uri, positions=positions)
    lance.dataset(uri).optimize.compact_files(defer_index_remap=not stable)
    check_searches(generator, uri, positions=positions)
    lance.dataset(uri).delete("t like '%fox%' and t like '%dog%'")
    lance.dataset(uri).optimize.optimize_indices()
    lance.dataset(uri).optimize.compact_files()
    check_searches(generator, uri, positions=positions)


def test_several_columns_are_searched_and_the_best_counts(tmp_path: Path) -> None:
    generator = random.Random(5)
    uri = str(tmp_path / "t")
    table = pa.table({"t": random_texts(generator, 300), "u": random_texts(generator, 300)})
    lance.write_dataset(table, uri)
    for column in ("t", "u"):
        lance.dataset(uri).create_scalar_index(column, "INVERTED")
    assert same_hits(search_ours(uri, "cat fox"), search_peer(uri, "cat fox"))
    ours = our_query.MultiMatchQuery.of("cat fox", ["t", "u"], [2.0, 0.5], "AND")
    theirs = peer_query.MultiMatchQuery(
        "cat fox", ["t", "u"], boosts=[2.0, 0.5], operator=peer_query.FullTextOperator.AND
    )
    assert same_hits(search_ours(uri, ours), search_peer(uri, theirs))


def test_the_best_rows_come_first_and_no_more_than_asked_for(tmp_path: Path) -> None:
    generator = random.Random(6)
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"t": random_texts(generator, 400)}), uri)
    lance.dataset(uri).create_scalar_index("t", "INVERTED")
    found = search_ours(uri, "cat ant", limit=10)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert list(found.values()) == pytest.approx(list(search_peer(uri, "cat ant", limit=10).values()))


def test_a_column_without_an_index_is_searched_as_the_peer_does(tmp_path: Path) -> None:
    generator = random.Random(7)
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"t": random_texts(generator, 300)}), uri)
    for words in ("cat fox", "running", "Ünïcode x1"):
        theirs = search_peer(uri, peer_query.MatchQuery(words, "t"))
        assert same_hits(search_ours(uri, our_query.MatchQuery(words, "t")), theirs)


def test_a_phrase_needs_positions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"t": ["a cat sat", "cat"]}), uri)
    lance.dataset(uri).create_scalar_index("t", "INVERTED")
    with pytest.raises(InvalidArgumentError, match="positions"):
        search_ours(uri, '"cat sat"')
