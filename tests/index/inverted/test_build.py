"""Full-text indices that we build, refresh and move are searched by the peer as by us, and taken on by it."""

import random
import tempfile
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
from lance_ops.index.coverage import coverage
from lance_ops.index.inverted.tokenizers.analyzer import Analyzer
from lance_ops.index.inverted.tokenizers.parameters import TextParameters
from tests.safety.profile import examples
from tests.support.text_queries import WORDS, check_searches, random_texts
from tests.support.text_search import search_ours, search_peer

pytestmark = pytest.mark.peer

PARAMETERS: list[dict[str, Any]] = [
    {},
    {"format_version": 2},
    {"with_position": True},
    {"with_position": True, "format_version": 3},
    {"with_position": True, "block_size": 256},
    {"base_tokenizer": "ngram"},
    {"base_tokenizer": "whitespace", "language": "German", "custom_stop_words": ["big"]},
    {"base_tokenizer": "raw", "stem": False, "remove_stop_words": False, "max_token_length": None},
]
ACTIONS = ("append", "delete", "update", "compact", "defer", "optimize", "delta")


def _table(generator: random.Random, rows: int) -> pa.Table:
    return pa.table({"t": random_texts(generator, rows), "x": [generator.randrange(50) for _ in range(rows)]})


def _uses_index(uri: str) -> bool:
    plan = lance.dataset(uri).scanner(full_text_query=peer_query.MatchQuery("cat", "t")).explain_plan(True)
    return "MatchQuery" in plan and "FlatMatchQuery" not in plan


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row ids"])
@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_the_peer_searches_what_we_built_as_we_do(
    tmp_path: Path, parameters: dict[str, Any], stable: bool
) -> None:
    generator = random.Random(3)
    uri = str(tmp_path / "t")
    lance.write_dataset(_table(generator, 900), uri, max_rows_per_file=400, enable_stable_row_ids=stable)
    lo.create_index(uri, "t", "INVERTED", parameters=parameters)
    assert _uses_index(uri)
    check_searches(generator, uri, positions=bool(parameters.get("with_position")), queries=12)
    assert lo.fsck(uri, deep=True).ok


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_a_small_memory_makes_several_partitions_that_count_together(
    tmp_path: Path, format_version: int
) -> None:
    generator = random.Random(9)
    uri = str(tmp_path / "t")
    lance.write_dataset(_table(generator, 4_000), uri, max_rows_per_file=1_500)
    parameters = {"with_position": True, "format_version": format_version, "memory_limit": 1}
    lo.create_index(uri, "t", "INVERTED", parameters=parameters)
    assert len(list(Path(uri).glob("_indices/*/part_*_docs.lance"))) > 1
    check_searches(generator, uri, positions=True, queries=12)


def test_words_are_those_that_the_peer_writes(tmp_path: Path) -> None:
    generator = random.Random(4)
    table = _table(generator, 600)
    for name in ("ours", "theirs"):
        lance.write_dataset(table, str(tmp_path / name))
    lo.create_index(str(tmp_path / "ours"), "t", "INVERTED")
    lance.dataset(str(tmp_path / "theirs")).create_scalar_index("t", "INVERTED")
    numbers = [
        lance.dataset(str(tmp_path / name)).stats.index_stats("t_idx")["indices"][0]
        for name in ("ours", "theirs")
    ]
    for name in ("num_docs", "num_tokens"):
        assert numbers[0][name] == numbers[1][name]
    for word in WORDS:
        assert search_ours(str(tmp_path / "ours"), word) == pytest.approx(
            search_peer(str(tmp_path / "theirs"), word)
        )


def _act(uri: str, action: str, by_peer: bool, generator: random.Random, stable: bool) -> None:
    peer = lance.dataset(uri)
    match action:
        case "append":
            lance.write_dataset(_table(generator, generator.randint(1, 60)), uri, mode="append")
        case "delete" if by_peer:
            peer.delete(f"x % 7 = {generator.randrange(7)}")
        case "delete":
            lo.delete(uri, f"x % 7 = {generator.randrange(7)}")
        case "update":
            peer.update({"t": "'cat over the running fox'"}, f"x % 11 = {generator.randrange(11)}")
        case "compact" | "defer" if by_peer:
            peer.optimize.compact_files(defer_index_remap=action == "defer" and not stable)
        case "compact" | "defer":
            lo.compact(uri, defer_index_remap=action == "defer" and not stable)
        case "optimize" | "delta" if by_peer:
            peer.optimize.optimize_indices(**({"num_indices_to_merge": 0} if action == "delta" else {}))
        case _:
            lo.optimize_indices(uri, **({"merge_segments": 0} if action == "delta" else {}))


def _check_rows(uri: str) -> None:
    """What is found for a word are the rows whose texts have it."""
    analyzer = Analyzer(TextParameters())
    table = lance.dataset(uri).to_table(columns=["t"], with_row_address=True)
    words = analyzer.words(table["t"].combine_chunks())
    addresses = table["_rowaddr"].to_numpy()
    for word in ("cat", "running", "Ünïcode"):
        found = search_ours(uri, word)
        (wanted,) = (item for item, _ in analyzer.query_words(word))
        numbers = [n for n, item in enumerate(words.vocabulary) if item == wanted]
        assert set(found) == set(addresses[words.texts[[n in numbers for n in words.numbers]]].tolist())


@given(
    happens=st.lists(st.tuples(st.sampled_from(ACTIONS), st.booleans()), min_size=1, max_size=5),
    parameters=st.sampled_from(PARAMETERS[:5]),
    stable=st.booleans(),
    first_by_peer=st.booleans(),
    seed=st.integers(0, 99),
)
@examples(25)
def test_any_history_of_both_leaves_both_with_the_same_answers(
    happens: list[tuple[str, bool]], parameters: dict[str, Any], stable: bool, first_by_peer: bool, seed: int
) -> None:
    generator = random.Random(seed)
    positions = bool(parameters.get("with_position"))
    with tempfile.TemporaryDirectory() as folder:
        uri = f"{folder}/t.lance"
        lance.write_dataset(_table(generator, 240), uri, max_rows_per_file=80, enable_stable_row_ids=stable)
        if first_by_peer:
            lance.dataset(uri).create_scalar_index("t", "INVERTED", **parameters)
        else:
            lo.create_index(uri, "t", "INVERTED", parameters=parameters)
        for action, by_peer in happens:
            if stable and action == "delta":
                # Of several segments with row ids the peer believes an older one what was updated since.
                continue
            before = coverage(lo.dataset(uri))[0].ratio
            _act(uri, action, by_peer, generator, stable)
            if not lo.dataset(uri).count_rows():
                return
            covered = coverage(lo.dataset(uri))[0].ratio
            if action == "compact" and not by_peer:
                assert covered >= before
            _check_rows(uri)
            check_searches(generator, uri, positions=positions, unindexed=covered < 1, queries=3)
        assert lo.fsck(uri, deep=True).ok


def test_an_index_whose_tokenizer_is_not_known_here_is_kept_and_moved(tmp_path: Path) -> None:
    generator = random.Random(8)
    uri = str(tmp_path / "t")
    lance.write_dataset(_table(generator, 300), uri, max_rows_per_file=100)
    lance.dataset(uri).create_scalar_index("t", "INVERTED", base_tokenizer="icu")
    before = {word: set(search_peer(uri, word).values()) for word in WORDS}
    with pytest.raises(UnsupportedError, match="icu"):
        search_ours(uri, "cat")
    lo.compact(uri)
    assert coverage(lo.dataset(uri))[0].ratio == 1
    assert _uses_index(uri)
    assert {word: set(search_peer(uri, word).values()) for word in WORDS} == before
    lance.write_dataset(_table(generator, 30), uri, mode="append")
    result = lo.optimize_indices(uri)
    assert "icu" in str(result)
    assert coverage(lo.dataset(uri))[0].ratio < 1


@pytest.mark.parametrize(
    ("column", "parameters", "field"),
    [
        ("x", {}, "column"),
        ("t", {"format_version": 4}, "format_version"),
        ("t", {"format_version": 2, "block_size": 256}, "format_version"),
        ("t", {"memory_limit": 0}, "memory_limit"),
        ("t", {"block_size": 512}, "block_size"),
    ],
)
def test_what_cannot_be_built_is_refused(
    tmp_path: Path, column: str, parameters: dict[str, Any], field: str
) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(_table(random.Random(1), 10), uri)
    with pytest.raises(InvalidArgumentError) as caught:
        lo.create_index(uri, column, "INVERTED", parameters=parameters)
    assert caught.value.field == field


def test_a_table_without_texts_has_an_index_that_finds_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"t": pa.array([None, "", "the"], pa.string())}), uri)
    lo.create_index(uri, "t", "INVERTED")
    assert search_ours(uri, "cat") == search_peer(uri, "cat") == {}
    lance.write_dataset(pa.table({"t": pa.array(["cat"], pa.string())}), uri, mode="append")
    lo.optimize_indices(uri)
    assert _uses_index(uri)
    assert search_ours(uri, "cat") == pytest.approx(search_peer(uri, "cat"))
    assert len(search_ours(uri, "cat")) == 1
