"""Phrases are found where words follow each other."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.index.inverted.word_matching import holds_phrase


def _holds(text: list[str], words: list[str], slop: int) -> bool:
    reached = [place for place, word in enumerate(text) if word == words[0]]
    for wanted in words[1:]:
        reached = [
            place
            for place, word in enumerate(text)
            if word == wanted and any(before < place <= before + 1 + slop for before in reached)
        ]
    return bool(reached)


@given(
    texts=st.lists(st.lists(st.sampled_from("abc"), max_size=7), max_size=6),
    words=st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
    slop=st.integers(0, 3),
)
def test_texts_hold_a_phrase_when_each_word_follows_the_one_before(
    texts: list[list[str]], words: list[str], slop: int
) -> None:
    occurrences = []
    for word in words:
        places = [
            (n, place) for n, text in enumerate(texts) for place, held in enumerate(text) if held == word
        ]
        occurrences.append(
            (np.array([n for n, _ in places], np.int64), np.array([place for _, place in places], np.int64))
        )
    found = holds_phrase(occurrences, range(len(words)), slop)
    assert found.tolist() == [n for n, text in enumerate(texts) if _holds(text, words, slop)]
