"""Trigrams: runs of three ASCII alphanumeric characters of a string, in lower case and folded.

A trigram is a number to the base 37, its first character the most significant digit: 1 to 10 for the digits,
11 to 36 for the letters. Folding is applied last and may produce upper case; pylance uses their distance to
"a" modulo 256 as digit.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.index.inverted.tokenizers.tables import folding, newer_lower_case

LENGTH = 3
NULL_TOKEN = 0
"""Token of null rows."""

_BASE = 37


_LETTERS = np.r_[ord("A") : ord("Z") + 1, ord("a") : ord("z") + 1]
_NUMERALS = np.r_[ord("0") : ord("9") + 1]
_IS_USED = np.zeros(256, np.bool_)
_IS_USED[_LETTERS] = _IS_USED[_NUMERALS] = True
_DIGITS = np.zeros(256, np.uint32)
_DIGITS[_NUMERALS] = _NUMERALS - ord("0") + 1
_DIGITS[_LETTERS] = (_LETTERS - ord("a") + 11) % 256


def trigrams(texts: pa.Array) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Return all trigrams of some strings, in order, with duplicates.

    Args:
        texts: Strings; a null has none.

    Returns:
        (tokens, positions of the strings that they are from).
    """
    plain = _normalized(texts.cast(pa.large_string()))
    if not len(plain):
        return np.zeros(0, np.uint32), np.zeros(0, np.int64)
    _, offsets, data = plain.buffers()
    bounds = np.frombuffer(offsets, np.int64)[plain.offset : plain.offset + len(plain) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    content = content[bounds[0] : bounds[-1]]
    if len(content) < LENGTH:
        return np.zeros(0, np.uint32), np.zeros(0, np.int64)
    used, digits = _IS_USED[content], _DIGITS[content]
    owners = np.repeat(np.arange(len(plain)), np.diff(bounds))
    starts = np.flatnonzero(used[:-2] & used[1:-1] & used[2:] & (owners[:-2] == owners[2:]))
    base = np.uint32(_BASE)
    tokens = (digits[starts] * base + digits[starts + 1]) * base + digits[starts + 2]
    return tokens, owners[starts]


def trigrams_of(text: str) -> frozenset[int]:
    """Return the trigrams of one text."""
    return frozenset(trigrams(pa.array([text], pa.string()))[0].tolist())


def _normalized(texts: pa.Array) -> pa.Array:
    """Strings in lower case and folded; nulls are empty."""
    texts = pc.fill_null(texts, "")
    is_ascii = np.asarray(pc.string_is_ascii(texts).to_numpy(zero_copy_only=False))
    lowered = pc.ascii_lower(texts)
    if is_ascii.all():
        return lowered
    newer, folded = newer_lower_case(), folding()
    others = [
        text.as_py().lower().translate(newer).translate(folded) for text in texts.filter(pa.array(~is_ascii))
    ]
    return pc.replace_with_mask(lowered, pa.array(~is_ascii), pa.array(others, texts.type))
