"""Text indices on source code: the words of pylance, and the same answers after histories of both."""

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
from lance_ops.errors import InvalidArgumentError
from lance_ops.index.inverted.layout import read_text_parameters
from lance_ops.index.inverted.tokenizers.analyzer import Analyzer
from lance_ops.index.inverted.tokenizers.parameters import TextParameters, text_parameters
from tests.safety.profile import examples

pytestmark = pytest.mark.peer

CODE = {"base_tokenizer": "code"}
WORDS = ["getHTTPResponse", "parse_json", "a::b", "x+=1", "foo", "Bar2Baz", "the", "running", "HTTP", "get"]
WORDS += ["_x", "json", "b->c", "!=", "2", "ÄÖü"]
OPTIONS: list[dict[str, Any]] = [
    {"with_position": True},
    {"split_identifiers": True, "index_operators": True, "with_position": True},
    {"split_identifiers": True, "preserve_original": False, "block_size": 256},
]
LETTERS = "aAbB_1²+-*/<>=!&|?:^~%.ßÜǅⅣⅳé٣ "
flags = st.fixed_dictionaries(
    {},
    optional={
        name: st.booleans()
        for name in (
            *("split_identifiers", "split_on_numerics", "preserve_original", "index_operators"),
            *("lower_case", "stem", "remove_stop_words", "ascii_folding"),
        )
    },
)


@given(options=flags, text=st.text(LETTERS, max_size=40) | st.lists(st.sampled_from(WORDS)).map(" ".join))
@examples(80)
def test_a_text_has_the_words_that_it_has_for_pylance(options: dict[str, Any], text: str) -> None:
    ours = Analyzer(text_parameters(CODE | options)).query_words(text)
    theirs = [(token.text, token.position) for token in lance.tokenize(text, **CODE, **options)]
    assert list(ours) == theirs


def rows(chance: random.Random, first: int, count: int) -> pa.Table:
    texts = [None if chance.random() < 0.05 else line(chance, chance.randint(0, 6)) for _ in range(count)]
    return pa.table({"id": range(first, first + count), "t": texts})


def line(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words))


def hits(found: pa.Table) -> list[tuple[int, float]]:
    scores = [pytest.approx(score, abs=1e-3) for score in found["_score"].to_pylist()]
    return sorted(zip(found["id"].to_pylist(), scores, strict=True), key=lambda hit: hit[0])


def check(uri: str, chance: random.Random, *, phrases: bool, fuzzy: bool) -> None:
    for _ in range(4):
        terms, operator = line(chance, chance.randint(1, 3)), chance.choice(["AND", "OR"])
        theirs: dict[str, Any] = {"operator": peer_query.FullTextOperator(operator)}
        ours: dict[str, Any] = {"column": "t", "terms": terms, "operator": operator}
        asked = [(peer_query.MatchQuery(terms, "t", **theirs), {"match": ours})]
        if phrases:
            phrase = {"phrase": {"column": "t", "terms": terms}}
            asked.append((peer_query.PhraseQuery(terms, "t"), phrase))
        if fuzzy:
            more = {"fuzziness": chance.choice([1, 2])}
            asked.append((peer_query.MatchQuery(terms, "t", **theirs, **more), {"match": ours | more}))
        for one, other in asked:
            expected = lance.dataset(uri).to_table(columns=["id", "_score"], full_text_query=one)
            assert hits(lo.dataset(uri).to_table(["id"], full_text_query=other)) == hits(expected), other


@pytest.mark.parametrize(("options", "ours"), list(zip(OPTIONS, [True, False, True], strict=True)), ids=str)
def test_histories_of_both_are_searched_alike(tmp_path: Path, options: dict[str, Any], ours: bool) -> None:
    uri, chance = str(tmp_path / "t.lance"), random.Random(len(str(options)))
    lance.write_dataset(rows(chance, 0, 60), uri, max_rows_per_file=25)
    if ours:
        lo.create_index(uri, "t", "INVERTED", name="x", parameters=CODE | options)
    else:
        lance.dataset(uri).create_scalar_index("t", "INVERTED", name="x", **CODE, **options)
    phrases = "with_position" in options
    check(uri, chance, phrases=phrases, fuzzy=True)
    lo.append(uri, rows(chance, 100, 20))
    check(uri, chance, phrases=phrases, fuzzy=False)
    assert lo.optimize_indices(uri).indices == ("x",)
    lo.delete(uri, "id % 5 = 1")
    lo.compact(uri, materialize_deletions_threshold=0.0)
    check(uri, chance, phrases=phrases, fuzzy=True)
    lance.write_dataset(rows(chance, 200, 20), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    check(uri, chance, phrases=phrases, fuzzy=True)
    assert lo.fsck(uri, deep=True).ok


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_files_and_entries_say_what_those_of_pylance_say(tmp_path: Path, options: dict[str, Any]) -> None:
    said = []
    for name in ("ours", "theirs"):
        uri = str(tmp_path / name)
        lance.write_dataset(pa.table({"t": ["a"]}), uri)
        if name == "ours":
            lo.create_index(uri, "t", "INVERTED", parameters=CODE | options)
        else:
            lance.dataset(uri).create_scalar_index("t", "INVERTED", **CODE, **options)
        dataset = lo.dataset(uri)
        (segment,) = dataset.indices
        parameters = read_text_parameters(*dataset.bases.index_directory(segment))
        assert TextParameters.from_details(segment.details) == parameters.with_block_size(128)
        said.append((parameters, segment.details, segment.index_version))
    assert said[0] == said[1]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_older_formats_have_no_code(version: int, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"t": ["a"]}), uri)
    with pytest.raises(InvalidArgumentError) as caught:
        lo.create_index(uri, "t", "INVERTED", parameters=CODE | {"format_version": version})
    assert caught.value.field == "format_version"
