"""Several text or vector indices on one column: the first of the manifest answers, as with pylance."""

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo

pytestmark = pytest.mark.peer

WORDS = ["aa", "bb", "cc", "dd", "the", "was", "running"]
QUERIES: tuple[dict[str, Any], ...] = (
    {"full_text_query": "aa was"},
    {"full_text_query": "running"},
    {"nearest": {"nprobes": 1}},
    {"nearest": {"nprobes": 1, "metric": "l2"}},
    {"nearest": {"nprobes": 1, "metric": "cosine"}},
    {"nearest": {"nprobes": 1, "metric": "dot"}},
)


def rows(count: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(count, 8)).astype("float32")
    return pa.table(
        {
            "id": np.arange(count) + 1000 * seed,
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8),
            "t": [" ".join(random.choice(WORDS) for _ in range(4)) for _ in range(count)],
        }
    )


def found(table: pa.Table) -> list[tuple[float, int]]:
    return sorted(zip(np.round(table.column(table.num_columns - 1), 3), table["id"].to_pylist(), strict=True))


def compare(uri: str) -> None:
    for query in QUERIES:
        if "nearest" in query:
            query = {"nearest": {"column": "v", "q": np.ones(8, np.float32), "k": 6, **query["nearest"]}}
        expected = lance.dataset(uri).to_table(columns=["id"], **query)
        assert found(lo.dataset(uri).to_table(["id"], **query)) == found(expected), query


def build(uri: str, name: str, metric: str, ours: bool, **text: Any) -> None:
    vector = {"metric": metric, "num_partitions": 4}
    if ours:
        lo.create_index(uri, "t", "INVERTED", name=f"t{name}", parameters=text)
        lo.create_index(uri, "v", "IVF_FLAT", name=f"v{name}", parameters=vector)
    else:
        lance.dataset(uri).create_scalar_index("t", "INVERTED", name=f"t{name}", **text)
        lance.dataset(uri).create_index("v", "IVF_FLAT", name=f"v{name}", **vector)


@pytest.mark.parametrize(("names", "ours"), [("zb", True), ("bz", False), ("zb", False)])
def test_the_first_index_of_the_manifest_answers_whatever_its_name_and_coverage(
    tmp_path: Path, names: str, ours: bool
) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(200, 1), uri)
    build(uri, names[0], "cosine", ours, with_position=True, remove_stop_words=False)
    lance.write_dataset(rows(50, 2), uri, mode="append")
    build(uri, names[1], "l2", ours, stem=False)
    compare(uri)
    # A segment that is written anew comes last.
    lo.optimize_indices(uri, [f"t{names[0]}", f"v{names[0]}"])
    compare(uri)
    lance.dataset(uri).optimize.optimize_indices(index_names=[f"t{names[1]}", f"v{names[1]}"])
    compare(uri)
    lo.compact(uri)
    compare(uri)


def test_a_phrase_is_asked_of_the_first_index(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"id": [0, 1], "t": ["cat was a puppy", "puppy a was"]}), uri)
    build_text = {"with_position": True, "remove_stop_words": False}
    lo.create_index(uri, "t", "INVERTED", name="z", parameters=build_text)
    lo.create_index(uri, "t", "INVERTED", name="b")
    expected = lance.dataset(uri).to_table(columns=["id"], full_text_query='"was a puppy"')
    assert found(lo.dataset(uri).to_table(["id"], full_text_query='"was a puppy"')) == found(expected)


def test_an_index_that_covers_no_fragment_any_more_still_comes_first(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(100, 1), uri)
    build(uri, "z", "cosine", False, remove_stop_words=False)
    lance.write_dataset(rows(100, 2), uri, mode="append")
    build(uri, "b", "l2", False)
    lance.dataset(uri).delete("id < 2000")
    compare(uri)
