"""Lookup of variable-width dictionary entries by position."""

from lance_ops.encoding.arrays import Bytes, Integers, Offsets, Words
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.values import lookup as reference

OUTSIDE = reference.OUTSIDE

SPARE = reference.SPARE
"""Bytes that the entries and the output must have beyond what is in them."""


def measure(*, positions: Words, ends: Integers, out_offsets: Offsets) -> int:
    """Compute the offset of each value in the output.

    Args:
        positions: Shape (values,): of their entries.
        ends: Shape (entries + 1,): offsets of the entries, the first being 0, not decreasing.
        out_offsets: Shape (values + 1,): gets the offsets, which count only as far as their type does.

    Returns:
        The bytes of all values, or `OUTSIDE` when a position is not that of an entry.
    """
    kernel = load("values.lookup")
    if kernel is None:
        return reference.measure(positions=positions, ends=ends, out_offsets=out_offsets)
    return int(kernel.measure(positions, ends, out_offsets))


def copy(*, positions: Words, ends: Integers, data: Bytes, out: Bytes) -> None:
    """Copy each value; what is in the output beyond them is undefined.

    Args:
        positions: Shape (values,): of their entries, which were measured.
        ends: Shape (entries + 1,): offsets of the entries, the first being 0.
        data: The bytes of the entries, and `SPARE` more.
        out: Room for the bytes of all values, and for `SPARE` more.
    """
    kernel = load("values.lookup")
    if kernel is None:
        reference.copy(positions=positions, ends=ends, data=data, out=out)
    else:
        kernel.copy(positions, ends, data, out)
