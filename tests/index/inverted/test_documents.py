"""Text indices on JSON documents: what either library builds, both search, refresh and move along alike."""

import json
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
from lance_ops.errors import InvalidArgumentError, UnreadableIndexWarning, UnsupportedError
from lance_ops.index.inverted.partition import open_partitions
from lance_ops.index.inverted.tokenizers.analyzer import Analyzer
from lance_ops.index.inverted.tokenizers.documents import document_leaves, query_leaves
from lance_ops.index.inverted.tokenizers.parameters import TextParameters
from tests.safety.profile import examples

pytestmark = pytest.mark.peer

WORDS = ["red", "apples", "Apple", "pear", "the", "running", "café", "дом", "x1", "a,b", ";"]
PATHS = ["a", "b", "c", "a.a", "a.b", "d e", "b.c", ""]
NUMBERS: list[float] = [1, 2.5, -7, 10**19, 1e-5, 0.1, -0.0]
CASES = [
    ("t", {"with_position": True}, True),
    ("t", {"with_position": True, "base_tokenizer": "raw", "stem": False}, False),
    ("s.t", {"block_size": 256, "with_position": True}, True),
    ("s.t", {"base_tokenizer": "ngram"}, False),
]


class Documents:
    """Random documents, and queries for them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def words(self) -> str:
        return " ".join(self.chance.choices(WORDS[:9], k=self.chance.randint(0, 4)))

    def value(self, depth: int = 0) -> Any:
        kind = self.chance.random()
        if kind < 0.5 or depth > 2:
            return " ".join(self.chance.choices(WORDS, k=self.chance.randint(0, 4)))
        if kind < 0.65:
            return self.chance.choice(NUMBERS)
        if kind < 0.72:
            return self.chance.choice([True, False, None])
        some = range(self.chance.randint(0, 3))
        if kind < 0.86:
            return [self.value(depth + 1) for _ in some]
        return {self.chance.choice(["a", "b", "c", ""]): self.value(depth + 1) for _ in some}

    def document(self) -> str | None:
        if self.chance.random() < 0.06:
            return None
        if self.chance.random() < 0.05:
            return json.dumps(self.value())
        names = self.chance.sample(["a", "b", "c", "d e"], self.chance.randint(0, 3))
        return json.dumps({name: self.value() for name in names}, ensure_ascii=False)

    def table(self, first: int, rows: int, kind: pa.DataType | None = None) -> pa.Table:
        text = pa.array([self.document() for _ in range(rows)], kind or pa.string())
        column = pa.ExtensionArray.from_storage(pa.json_(text.type), text)
        nested = pa.StructArray.from_arrays([column], ["t"])
        return pa.table({"id": range(first, first + rows), "t": column, "s": nested})

    def query(self) -> str:
        path = self.chance.choice(PATHS)
        number = self.chance.choice(["1", "2.5", "-7", "10000000000000000000", "1e-5", "0.00001"])
        ends = [f"str,{self.words()}", f"str,{self.words()}", f"number,{number}", "bool,true", "null,null"]
        return f"{path},{self.chance.choice(ends)}"


def hits(found: pa.Table) -> list[tuple[int, float]]:
    scores = [pytest.approx(score, abs=1e-3) for score in found["_score"].to_pylist()]
    return sorted(zip(found["id"].to_pylist(), scores, strict=True), key=lambda hit: hit[0])


def check(uri: str, column: str, documents: Documents, *, phrases: bool, fuzzy: bool) -> int:
    """Both find the same rows with the same scores; returns how many in all."""
    chance, count = documents.chance, 0
    for _ in range(4):
        terms = ";".join(documents.query() for _ in range(chance.randint(1, 3)))
        operator = chance.choice(["AND", "OR"])
        theirs: dict[str, Any] = {"operator": peer_query.FullTextOperator(operator)}
        ours: dict[str, Any] = {"column": column, "terms": terms, "operator": operator}
        asked = [(peer_query.MatchQuery(terms, column, **theirs), {"match": ours})]
        if phrases:
            phrase = {"phrase": {"column": column, "terms": terms}}
            asked.append((peer_query.PhraseQuery(terms, column), phrase))
        if fuzzy:
            more = {"fuzziness": chance.choice([1, 2]), "prefix_length": chance.choice([0, 1, 2])}
            asked.append((peer_query.MatchQuery(terms, column, **theirs, **more), {"match": ours | more}))
        for one, other in asked:
            expected = lance.dataset(uri).to_table(columns=["id", "_score"], full_text_query=one)
            assert hits(lo.dataset(uri).to_table(["id"], full_text_query=other)) == hits(expected), other
            count += len(expected)
    return count


@pytest.mark.parametrize(("column", "options", "ours"), CASES, ids=str)
def test_histories_of_both_are_searched_alike(
    tmp_path: Path, column: str, options: dict[str, Any], ours: bool
) -> None:
    uri, documents = str(tmp_path / "t.lance"), Documents(len(str(options)))
    lance.write_dataset(documents.table(0, 60), uri, max_rows_per_file=25)
    if ours:
        lo.create_index(uri, column, "INVERTED", name="x", parameters=options)
    else:
        lance.dataset(uri).create_scalar_index(column, "INVERTED", name="x", **options)
    phrases = "with_position" in options
    found = check(uri, column, documents, phrases=phrases, fuzzy=True)
    lo.append(uri, documents.table(100, 20))
    found += check(uri, column, documents, phrases=phrases, fuzzy=False)
    assert lo.optimize_indices(uri).indices == ("x",)
    found += check(uri, column, documents, phrases=phrases, fuzzy=True)
    lo.delete(uri, "id % 5 = 1")
    lo.compact(uri, materialize_deletions_threshold=0.0)
    found += check(uri, column, documents, phrases=phrases, fuzzy=True)
    lance.write_dataset(documents.table(200, 20), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    lance.dataset(uri).optimize.compact_files()
    found += check(uri, column, documents, phrases=phrases, fuzzy=True)
    assert found > 5
    assert lo.fsck(uri, deep=True).ok


def test_words_are_those_of_pylance(tmp_path: Path) -> None:
    uri, chance = str(tmp_path / "t.lance"), random.Random(11)
    numbers = [repr(chance.uniform(-1, 1) * 10.0 ** chance.randint(-300, 300)) for _ in range(400)]
    numbers += [f"{chance.uniform(-100, 100):.{places}f}" for places in range(18) for _ in range(5)]
    numbers += [str(chance.randrange(-(2**70), 2**70)) for _ in range(50)]
    numbers += ["0", "-0", "-0.0", "1e16", "1e15", "18446744073709551616", "-9223372036854775809", "5e-324"]
    texts = [f'{{"k{place}": {number}}}' for place, number in enumerate(numbers)]
    documents = Documents(12)
    texts += [documents.document() for _ in range(200)]
    texts += ['"top"', "[1, [2, {}]]", "null", "{}", "[]", '{"": {"": "x", ".": 1}, "a,b": {"c;d": "v"}}']
    column = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))
    lance.write_dataset(pa.table({"t": column}), uri)
    lance.dataset(uri).create_scalar_index("t", "INVERTED")
    dataset = lo.dataset(uri)
    layout, (partition,) = open_partitions(*dataset.bases.index_directory(dataset.indices[0]))
    stored = dataset.to_table(["t"])["t"].combine_chunks().cast(pa.string())
    words = Analyzer(layout.parameters).words(stored)
    assert set(words.vocabulary) == set(partition.tokens.words()[0].to_pylist())
    assert len(words.numbers) == partition.documents.total


def test_a_column_without_an_index_is_searched_as_text(tmp_path: Path) -> None:
    uri, documents = str(tmp_path / "t.lance"), Documents(3)
    lance.write_dataset(documents.table(0, 80, pa.large_string()), uri)
    for words in ("red", "a,str,red apples", "b number 2.5", "café"):
        expected = lance.dataset(uri).to_table(
            columns=["id", "_score"], full_text_query=peer_query.MatchQuery(words, "t")
        )
        ours = {"match": {"column": "t", "terms": words}}
        found = lo.dataset(uri).to_table(["id"], full_text_query=ours)
        assert len(found)
        assert hits(found) == hits(expected)


@pytest.mark.parametrize("text", ["red", "a,str", "a,text,red", "", "a,str,red;", "a,str,red;b"])
def test_queries_that_are_no_triples_are_refused(tmp_path: Path, text: str) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(Documents(1).table(0, 5), uri)
    lo.create_index(uri, "t", "INVERTED")
    for terms in ({"match": {"column": "t", "terms": text}}, {"phrase": {"column": "t", "terms": text}}):
        with pytest.raises(InvalidArgumentError, match="is not a query for JSON documents") as caught:
            lo.dataset(uri).to_table(["id"], full_text_query=terms)
        assert caught.value.field == "full_text_query"


def test_a_lost_index_is_replaced_by_a_scan_for_the_same_words(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    texts = ['{"a": "red apples"}', '{"b": "red"}', '{"a": ["running", "red"]}']
    column = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts))
    lance.write_dataset(pa.table({"id": [0, 1, 2], "t": column}), uri)
    lo.create_index(uri, "t", "INVERTED")
    asked = {"full_text_query": {"match": {"column": "t", "terms": "a,str,red runs"}}}
    expected = lo.dataset(uri).to_table(["id"], **asked)["id"].to_pylist()
    assert sorted(expected) == [0, 2]
    for path in Path(uri).glob("_indices/*/*"):
        path.unlink()
    with pytest.warns(UnreadableIndexWarning):
        assert lo.dataset(uri).to_table(["id"], **asked)["id"].to_pylist() == expected


def test_parameters_that_do_not_fit_the_column_are_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(Documents(1).table(0, 5), uri)
    for column, tokenizer in (("t", "text"), ("id", "json")):
        with pytest.raises(InvalidArgumentError):
            lo.create_index(uri, column, "INVERTED", parameters={"lance_tokenizer": tokenizer})
    with pytest.raises(UnsupportedError, match="flattened_sub_docs"):
        TextParameters(other=(("json_tokenizer_mode", "flattened_sub_docs"),)).require_known()
    TextParameters(other=(("json_tokenizer_mode", "single_document"),)).require_known()


@given(text=st.lists(st.sampled_from([",", ";", "str", "number", "a.b", "x"]), max_size=9).map("".join))
@examples(40)
def test_any_text_is_a_query_or_refused_as_one(text: str) -> None:
    parts = [part.split(",", 2) for part in text.split(";")]
    if any(len(part) < 3 or part[1] not in ("str", "number", "bool", "null") for part in parts):
        with pytest.raises(InvalidArgumentError, match="is not a query"):
            query_leaves(text)
        return
    leaves = query_leaves(text)
    assert ";".join(leaf.prefix + leaf.value for leaf in leaves) == text


@pytest.mark.parametrize("text", ["{", "nul", "[" * 100_000])
def test_what_is_no_document_is_an_error_that_says_so(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="JSON document"):
        document_leaves(pa.array([text]))
