"""FSST, one table for the strings of several.

There is no reference: callers decode and encode again instead.
"""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels import load

Flags = npt.NDArray[np.bool_]


def available() -> bool:
    """Return whether the other functions can be called."""
    return load("fsst.merge") is not None


def collect(
    *,
    words: Words64,
    lengths: Integers,
    found_words: Words64,
    found_lengths: Integers,
    numbers: Integers,
    slots: Integers,
) -> int:
    """Number the distinct symbols.

    Args:
        words: Shape (symbols,): their bytes, the first one lowest.
        lengths: Shape (symbols,): how many these are, from 1 to 8.
        found_words: Shape (symbols,): gets the distinct ones.
        found_lengths: Shape (symbols,): gets their lengths.
        numbers: Shape (symbols,): gets which of the distinct ones each is.
        slots: A power of two, at least twice as many as symbols, all -1; gets where `find_parts` looks.

    Returns:
        How many are distinct.
    """
    kernel = load("fsst.merge")
    assert kernel is not None
    return int(kernel.collect(words, lengths, found_words, found_lengths, numbers, slots))


def find_parts(*, words: Words64, lengths: Integers, slots: Integers, parts: Integers) -> None:
    """Find the symbols within symbols.

    Args:
        words: Shape (symbols,): as `collect` found them.
        lengths: Shape (symbols,): the same.
        slots: As `collect` filled them in.
        parts: Shape (symbols, 8, 8): gets the number of the symbol at each position of each length, less one;
            -1 where there is none.
    """
    kernel = load("fsst.merge")
    assert kernel is not None
    kernel.find_parts(words, lengths, slots, parts)


def choose(*, parts: Integers, lengths: Integers, weights: Integers, most: int, chosen: Flags) -> int:
    """Choose symbols by what it costs to do without the others.

    Args:
        parts: As `find_parts` filled them in.
        lengths: Shape (symbols,): in bytes.
        weights: Shape (symbols,): how often each occurs.
        most: How many may be chosen.
        chosen: Shape (symbols,): gets which are.

    Returns:
        How many codes spell all occurrences.
    """
    kernel = load("fsst.merge")
    assert kernel is not None
    return int(kernel.choose(parts, lengths, weights, most, chosen))


def translate(
    *,
    parts: Integers,
    words: Words64,
    lengths: Integers,
    chosen: Flags,
    codes: Integers,
    spelled: Words64,
    sizes: Bytes,
) -> None:
    """Spell symbols by those that were chosen.

    Args:
        parts: As `find_parts` filled them in.
        words: Shape (symbols,): as `collect` found them.
        lengths: Shape (symbols,): the same.
        chosen: Shape (symbols,): as `choose` filled them in.
        codes: Shape (symbols,): the code of each that was chosen.
        spelled: Shape (symbols, 2), u64: gets up to 16 codes, the first one lowest.
        sizes: Shape (symbols,): gets how many they are.
    """
    kernel = load("fsst.merge")
    assert kernel is not None
    kernel.translate(parts, words, lengths, chosen, codes, spelled, sizes)
