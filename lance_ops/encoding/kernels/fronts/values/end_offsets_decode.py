"""End offsets of 2.0 into Arrow's offsets and validity."""

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.values import end_offsets_decode as reference

TOO_LARGE, DECREASING = reference.TOO_LARGE, reference.DECREASING


def decode(*, ends: Words64, step: int, limit: int, skipped: int, offsets: Integers, validity: Bytes) -> int:
    """Decode ends.

    Args:
        ends: Shape (rows + skipped,), with that of the row before the first in front, if it is to be skipped;
            need not be aligned.
        step: What is added to the end of a null row; 0 if no row is null.
        limit: The highest end that may be.
        skipped: 1 if there is a row before the first, else 0.
        offsets: Shape (rows + 1,): gets the offsets.
        validity: Shape ((rows + 7) // 8,), zeros: gets a bit for each row that is not null.

    Returns:
        The number of null rows, or what is wrong: `TOO_LARGE` or `DECREASING`.
    """
    kernel = load("values.end_offsets_decode")
    if kernel is None:
        return reference.decode(
            ends=ends, step=step, limit=limit, skipped=skipped, offsets=offsets, validity=validity
        )
    return int(kernel.decode(ends, step, limit, skipped, offsets, validity))
