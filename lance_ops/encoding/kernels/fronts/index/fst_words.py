"""All words of finite state transducers in the layout of the Rust crate `fst`, versions 1 to 3."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.index import fst_words as reference

OUTSIDE, LEADS_OUTSIDE = reference.OUTSIDE, reference.LEADS_OUTSIDE
TOO_MANY, NOWHERE, TOO_LONG = reference.TOO_MANY, reference.NOWHERE, reference.TOO_LONG


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
        found, joined, offsets, numbers = reference.list_words(data.tobytes(), version, root, count, common)
        return (
            found,
            np.frombuffer(joined, np.uint8),
            np.array(offsets, np.int64),
            np.array(numbers, np.uint64),
        )
    names = np.frombuffer(common, np.uint8)
    found, words, offsets, numbers = kernel.list_words(
        data, version, min(root, len(data)), min(count, len(data) << 32), names, reference.MOST_BYTES
    )
    return int(found), words, offsets, numbers
