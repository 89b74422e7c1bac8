"""Merging partitions: whatever part of their posting lists is unpacked at a time, the words are the same."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.index.inverted import merge


@given(
    lengths=st.lists(st.integers(0, 50), max_size=60),
    postings=st.integers(1, 120),
    words=st.integers(1, 20),
)
def test_spans_cover_every_word_once_and_hold_no_more_than_they_may(lengths, postings, words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "_POSTINGS_AT_ONCE", postings)
        patch.setattr(merge, "_WORDS_AT_ONCE", words)
        spans = list(merge._spans(np.array(lengths, np.int64)))
    assert [word for start, stop in spans for word in range(start, stop)] == list(range(len(lengths)))
    for start, stop in spans:
        assert stop - start <= words
        assert stop - start == 1 or sum(lengths[start:stop]) <= postings


@pytest.mark.parametrize("positions", [False, True])
def test_lists_unpacked_one_by_one_give_the_same_index(tmp_path, monkeypatch, positions):
    found = []
    for number, at_once in enumerate((merge._POSTINGS_AT_ONCE, 1)):
        monkeypatch.setattr(merge, "_POSTINGS_AT_ONCE", at_once)
        uri = tmp_path / f"{number}.lance"
        lo.write_dataset(_texts(0), uri)
        lo.create_index(uri, "t", "INVERTED", parameters={"with_position": positions})
        lo.append(uri, _texts(300))
        lo.delete(uri, "id % 7 = 0")
        lo.optimize_indices(uri, num_indices_to_merge=9)
        dataset = lo.dataset(uri)
        assert len(dataset.indices) == 1
        queries = ("w1", "w2 w5", "w11")
        found.append([dataset.to_table(["id"], full_text_query=text).to_pylist() for text in queries])
    assert found[0] == found[1]
    assert all(found[0])


def _texts(first: int) -> pa.Table:
    numbers = range(first, first + 300)
    return pa.table(
        {"id": numbers, "t": [f"w{number % 3} w{number % 7} w{number % 13}" for number in numbers]}
    )
