"""FSST training. There is no reference: only compiled loops would be fast enough."""

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels import load


def available() -> bool:
    """Return whether `train` can be called."""
    return load("fsst.train") is not None


def train(
    *,
    sample: Bytes,
    ends: Integers,
    terminator: int,
    generations: int,
    least: int,
    words: Words64,
    lengths: Integers,
) -> tuple[int, int]:
    """Find symbols.

    Args:
        sample: Strings in sequence, and eight bytes more.
        ends: Shape (strings,): where each string ends, not decreasing.
        terminator: A byte that no symbol of several bytes may have.
        generations: How many.
        least: How often a symbol or a pair must occur.
        words: Shape (255,): gets the bytes of the symbols, the first one lowest.
        lengths: Shape (255,): gets how many these are.

    Returns:
        The number of symbols, and the bytes of the compressed sample.
    """
    kernel = load("fsst.train")
    assert kernel is not None
    count, size = kernel.train(sample, ends, terminator, generations, least, words, lengths)
    return count, size
