"""NGRAM files, compared with the peer's byte for byte, over texts of all of Unicode."""

import warnings
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.file import LanceFileReader

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning
from lance_ops.index.search.pruner import IndexPruner
from tests.safety.profile import examples

pytestmark = pytest.mark.peer


def postings(path: Path) -> pa.Table:
    (file,) = (path / "_indices").glob("*/ngram_postings.lance")
    return LanceFileReader(str(file)).read_all().to_table()


def test_posting_lists_are_those_of_the_peer(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    code_points = np.r_[0x20:0xD800:7, 0xE000:0x20000:11]
    texts = [f"ab{chr(point)}yz{chr(rng.integers(65, 91))}" for point in code_points.tolist()]
    table = pa.table({"s": pa.array([*texts, None, "", "ab", None])})
    for name in ("ours", "theirs"):
        lance.write_dataset(table, str(tmp_path / name), max_rows_per_file=5000)
    lo.create_index(tmp_path / "ours", "s", "NGRAM", rows_per_task=5000)
    lance.dataset(str(tmp_path / "theirs")).create_scalar_index("s", "NGRAM")
    ours, theirs = postings(tmp_path / "ours"), postings(tmp_path / "theirs")
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.equals(theirs)
    numbers = lance.dataset(str(tmp_path / "ours")).stats.index_stats("s_idx")["indices"]
    assert numbers == [{"num_ngrams": ours.num_rows}]


@given(st.lists(st.text(max_size=20), min_size=3, max_size=30), st.data())
@examples(15)
def test_parts_of_texts_are_found(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("ngram") / "t.lance"
    lo.write_dataset(pa.table({"s": texts}), path)
    lo.create_index(path, "s", "NGRAM")
    dataset = lo.dataset(path)
    for _ in range(3):
        text = data.draw(st.sampled_from(texts))
        start = data.draw(st.integers(0, len(text)))
        part = text[start : start + data.draw(st.integers(3, 8))].replace("'", "''")
        if "\0" in part:
            continue
        sql = f"contains(s, '{part}')"
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnreadableIndexWarning)
            pruned = dataset.scanner(filter=sql, pruners=[IndexPruner()]).to_table()
        assert pruned.equals(dataset.scanner(filter=sql, pruners=[]).to_table())
