"""UTF-8: whether bytes are text, and no string begins within a character."""

from lance_ops.encoding.arrays import Bytes, Offsets
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.values import utf8 as reference

MALFORMED = reference.MALFORMED
BEGINS_WITHIN = reference.BEGINS_WITHIN


def check(*, data: Bytes, offsets: Offsets) -> int:
    """Validate the bytes of strings.

    Args:
        data: All bytes of the strings, and no more.
        offsets: Shape (strings + 1,), not decreasing: where they begin, and where the last one ends; the
            first offset is that of the first byte.

    Returns:
        0, `MALFORMED` when the bytes are no UTF-8, or `BEGINS_WITHIN` when a string begins within a
        character.
    """
    kernel = load("values.utf8")
    if kernel is None:
        return reference.check(data=data, offsets=offsets)
    return int(kernel.check(data, offsets))
