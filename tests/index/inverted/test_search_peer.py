"""Searches of indices that the peer wrote find its rows with its scores, after whatever it does to them."""

import random
import uuid
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import query as peer_query
from lance.dataset import Index

import lance_ops as lo
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
    {"format_version": 3},
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


@pytest.mark.parametrize("options", FORMATS, ids=str)
@pytest.mark.parametrize("most", [1, 2, 4, 50])
def test_similar_words_find_the_indexed_rows_of_the_peer_and_among_others_no_fewer(
    tmp_path: Path, options: dict[str, Any], most: int
) -> None:
    """Where no index covers rows the peer looks for the exact words alone."""
    generator = random.Random(f"{options} {most}")
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"t": random_texts(generator, 120)}), uri, max_rows_per_file=60)
    lance.dataset(uri).create_scalar_index("t", "INVERTED", **options)
    lance.write_dataset(pa.table({"t": random_texts(generator, 40)}), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    lance.write_dataset(
        pa.table({"t": ["bat", *random_texts(generator, 60).to_pylist()]}), uri, mode="append"
    )
    first_uncovered = 3 << 32
    for _ in range(25):
        text = " ".join(generator.choices(["cat", "the", "running", "runs", "bg", "anx", "Fox"], k=2))
        operator = generator.choice(["AND", "OR"])
        fuzzy = {"fuzziness": generator.choice([1, 2]), "max_expansions": most}
        fuzzy["prefix_length"] = generator.choice([0, 1])
        theirs = search_peer(
            uri,
            peer_query.MatchQuery(text, "t", operator=peer_query.FullTextOperator(operator), **fuzzy),
        )
        ours = search_ours(uri, our_query.MatchQuery(text, "t", operator=operator, **fuzzy))
        assert same_hits(
            {row: score for row, score in ours.items() if row < first_uncovered},
            {row: score for row, score in theirs.items() if row < first_uncovered},
        ), (text, operator, fuzzy)
        assert theirs.keys() <= ours.keys(), (text, operator, fuzzy)


def test_similar_words_are_found_whether_an_index_covers_their_rows_or_not(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"t": ["cat", "dog"]}), uri)
    lance.dataset(uri).create_scalar_index("t", "INVERTED")
    lance.write_dataset(pa.table({"t": ["cut", "cats", "the"]}), uri, mode="append")
    query = our_query.MatchQuery("cat", "t", fuzziness=1)
    before = search_ours(uri, query)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    assert before.keys() == search_ours(uri, query).keys()
    assert search_ours(uri, our_query.MatchQuery("the", "t", fuzziness=1)).keys() == set()


def test_an_index_that_was_committed_without_its_kind_is_known_by_its_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    texts = ["lance database test", "full text search", "lance search text"]
    lance.write_dataset(pa.table({"id": range(3), "t": texts}), uri, max_rows_per_file=2)
    # As pylance's guide to distributed builds does it.
    dataset, number = lance.dataset(uri), str(uuid.uuid4())
    fragments = [fragment.fragment_id for fragment in dataset.get_fragments()]
    for fragment in fragments:
        dataset.create_scalar_index(
            "t", "INVERTED", name="x", replace=False, index_uuid=number, fragment_ids=[fragment]
        )
    dataset.merge_index_metadata(number, index_type="INVERTED")
    entry = Index(
        uuid=number,
        name="x",
        fields=[1],
        dataset_version=dataset.version,
        fragment_ids=set(fragments),
        index_version=0,
    )
    create = lance.LanceOperation.CreateIndex(new_indices=[entry], removed_indices=[])
    lance.LanceDataset.commit(uri, create, read_version=dataset.version)
    assert lo.dataset(uri).indices[0].type_url is None

    def check() -> None:
        expected = lance.dataset(uri).to_table(columns=["id"], full_text_query="lance search text")
        found = lo.dataset(uri).to_table(["id"], full_text_query="lance search text")
        assert found["id"].to_pylist() == expected["id"].to_pylist()
        assert found["_score"].to_pylist() == pytest.approx(expected["_score"].to_pylist(), abs=1e-4)
        assert lo.fsck(uri, deep=True).ok

    check()
    lo.append(uri, pa.table({"id": [3, 4], "t": ["lance text", "search test"]}))
    check()
    lo.delete(uri, "id = 1")
    lo.compact(uri, materialize_deletions_threshold=0.0, target_rows_per_fragment=3)
    check()
    assert not lo.optimize_indices(uri).skipped
    check()
    assert lo.describe_indices(lo.dataset(uri))[0].num_rows_unindexed == 0
