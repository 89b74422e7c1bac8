"""All words of finite state transducers in the layout of the Rust crate `fst`, versions 1 to 3."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.index import fst_words as reference

OUTSIDE, LEADS_OUTSIDE = reference.OUTSIDE, reference.LEADS_OUTSIDE
TOO_MANY, NOWHERE, TOO_LONG = reference.TOO_MANY, reference.NOWHERE, reference.TOO_LONG
_NO_ROOM = -6
_FIRST_LETTERS, _FIRST_WORDS, _GROWTH = 1024, 128, 4
"""Room for words to begin with; a list that needs more is started again with so many times the room."""


def list_words(
    *, data: Bytes, version: int, root: int, count: int, common: bytes
) -> tuple[int, Bytes, Integers, Words64]:
    """List all words.

    Args:
        data: The transducer, all of it.
        version: Of its layout, 1 to 3.
        root: Place of the first node.
        count: How many words there may be.
        common: The bytes that a node with one way can name in its state, the first as 1; 63 of them.

    Returns:
        (how many there are; the words in sequence, in the order of their bytes; int64, shape
        (words + 1,): where each begins and the last one ends; uint64, shape (words,): their numbers). Instead
        of how many a negative number where something is wrong, and no words: a node lies outside (`OUTSIDE`),
        or leads there (`LEADS_OUTSIDE`), there are more words (`TOO_MANY`), a way ends without a word
        (`NOWHERE`), or all words have more than 2 GiB (`TOO_LONG`).
    """
    kernel = load("index.fst_words")
    if kernel is None:
        found, text, places, values = reference.list_words(data.tobytes(), version, root, count, common)
        return (
            found,
            np.frombuffer(text, np.uint8),
            np.array(places, np.int64),
            np.array(values, np.uint64),
        )
    names = np.frombuffer(common, np.uint8)
    root, count = min(root, len(data)), min(count, len(data) << 32)
    letters, words = _FIRST_LETTERS, _FIRST_WORDS
    while True:
        joined, offsets = np.empty(letters, np.uint8), np.empty(words + 1, np.int64)
        numbers = np.empty(words, np.uint64)
        found = int(
            kernel.list_words(
                data, version, root, count, names, reference.MOST_BYTES, joined, offsets, numbers
            )
        )
        if found != _NO_ROOM:
            break
        letters, words = min(_GROWTH * letters, reference.MOST_BYTES), _GROWTH * words
    kept = max(found, 0)
    used = int(offsets[kept]) if kept else 0
    return found, joined[:used].copy(), offsets[: kept + 1].copy(), numbers[:kept].copy()
