"""Arrow's offsets and validity into end offsets of 2.0."""

from lance_ops.encoding.arrays import Bytes, Offsets, Words64
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.values import end_offsets_encode as reference

MALFORMED = reference.MALFORMED


def measure(*, offsets: Offsets, validity: Bytes, bit: int) -> int:
    """Return bytes of all rows that are not null.

    Args:
        offsets: Shape (rows + 1,).
        validity: Bitmap of all rows, least significant bit first.
        bit: Of the first row in the bitmap.
    """
    kernel = load("values.end_offsets_encode")
    if kernel is None:
        return reference.measure(offsets=offsets, validity=validity, bit=bit)
    return int(kernel.measure(offsets, validity, bit))


def encode(*, offsets: Offsets, validity: Bytes, bit: int, base: int, adjustment: int, ends: Words64) -> None:
    """Write an end for each row; null rows have no length, whatever the offsets say.

    Args:
        offsets: Shape (rows + 1,).
        validity: Bitmap of all rows, or nothing when no row is null.
        bit: Of the first row in the bitmap.
        base: What the ends are counted from.
        adjustment: Added to the ends of null rows.
        ends: Shape (rows,): gets the ends.
    """
    kernel = load("values.end_offsets_encode")
    if kernel is None:
        reference.encode(
            offsets=offsets, validity=validity, bit=bit, base=base, adjustment=adjustment, ends=ends
        )
    else:
        kernel.encode(offsets, validity, bit, base, adjustment, ends)


def compact(*, out: Bytes, data: Bytes, offsets: Offsets, validity: Bytes, bit: int) -> int:
    """Concatenate the bytes of non-null rows.

    Args:
        out: Room for these bytes.
        data: The bytes that offsets point into; positions in it are checked.
        offsets: Shape (rows + 1,).
        validity: Bitmap of all rows.
        bit: Of the first row in the bitmap.

    Returns:
        How many bytes they are, or `MALFORMED` when offsets leave the data or its room. What offsets between
        rows that follow each other say is not looked at where none of these is null.
    """
    kernel = load("values.end_offsets_encode")
    if kernel is None:
        return reference.compact(out=out, data=data, offsets=offsets, validity=validity, bit=bit)
    return int(kernel.compact(out, data, offsets, validity, bit))
