"""Run lengths."""

from lance_ops.encoding.arrays import Bytes, Integers, Words
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.bits import rle as reference

SLACK = reference.SLACK


def repeat(
    *,
    values: Words,
    firsts: Integers,
    runs: Integers,
    lengths: Bytes,
    length_firsts: Integers,
    counts: Integers,
    target: Words,
) -> bool:
    """Repeat the values of chunks.

    Args:
        values: Values of the runs of all chunks; need not be aligned.
        firsts: Shape (chunks,): the first value of each chunk, which has all of its runs.
        runs: Shape (chunks,): runs of each chunk.
        lengths: Values of a run, at most 255.
        length_firsts: Shape (chunks,): the first length of each chunk, which has all of them.
        counts: Shape (chunks,): values of each chunk once repeated.
        target: Of the type of the values, with room for the sum of `counts` and `SLACK` more, which may be
            written.

    Returns:
        True if the lengths of each chunk add up to its count; if not, the target holds anything.
    """
    kernel = load("bits.rle")
    if kernel is None:
        return reference.repeat(
            values=values,
            firsts=firsts,
            runs=runs,
            lengths=lengths,
            length_firsts=length_firsts,
            counts=counts,
            target=target,
        )
    return bool(kernel.repeat(values, firsts, runs, lengths, length_firsts, counts, target))
