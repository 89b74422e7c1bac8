"""Chunks of values of variable width."""

from lance_ops.encoding.arrays import Bytes, Integers, Offsets, Words
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.values import variable as reference

MALFORMED = reference.MALFORMED


def decode(
    *,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    counts: Integers,
    width: int,
    out: Bytes,
    out_offsets: Offsets,
) -> int:
    """Join the values of chunks.

    Args:
        data: The bytes of all chunks.
        starts: Shape (chunks,): first byte of each.
        sizes: Shape (chunks,): bytes of each, all within the data, with room for its offsets.
        counts: Shape (chunks,): values of each.
        width: Bytes of an offset: 4 or 8.
        out: Room for the bytes of all chunks but their offsets.
        out_offsets: Room for one more than there are values, of a type that counts as far.

    Returns:
        The bytes of all values, or `MALFORMED` when offsets decrease or leave their chunk.
    """
    kernel = load("values.variable")
    if kernel is None:
        return reference.decode(
            data=data,
            starts=starts,
            sizes=sizes,
            counts=counts,
            width=width,
            out=out,
            out_offsets=out_offsets,
        )
    return int(kernel.decode(data, starts, sizes, counts, width, out, out_offsets))


def gather(*, data: Bytes, starts: Integers, lengths: Integers, out: Bytes, out_offsets: Offsets) -> None:
    """Concatenate values.

    Args:
        data: Bytes that hold them.
        starts: Shape (values,): first byte of each, within the data.
        lengths: Shape (values,): bytes of each, within the data.
        out: Room for all of them.
        out_offsets: Shape (values + 1,): gets their offsets, of a type that counts as far.
    """
    kernel = load("values.variable")
    if kernel is None:
        reference.gather(data=data, starts=starts, lengths=lengths, out=out, out_offsets=out_offsets)
    else:
        kernel.gather(data, starts, lengths, out, out_offsets)


def plan(*, ends: Integers, width: int, chunk_bytes: int, max_count: int, counts: Integers) -> int:
    """Cut values into chunks: powers of two, at least two, of them in each but the last.

    Args:
        ends: Shape (values + 1,): offsets of the values, the first being 0, not decreasing.
        width: Bytes of an offset: 4 or 8.
        chunk_bytes: What a chunk holds at most, if it is not of two values only.
        max_count: Values that a chunk holds at most.
        counts: Room for half as many as there are values, rounded up; gets the values of each chunk.

    Returns:
        How many chunks there are.
    """
    kernel = load("values.variable")
    if kernel is None:
        return reference.plan(
            ends=ends, width=width, chunk_bytes=chunk_bytes, max_count=max_count, counts=counts
        )
    return int(kernel.plan(ends, width, chunk_bytes, max_count, counts))


def encode(
    *, data: Bytes, ends: Integers, counts: Integers, starts: Integers, words: Words, out: Bytes
) -> None:
    """Write chunks.

    Args:
        data: The bytes of the values.
        ends: Shape (values + 1,): offsets of the values in the data, the first being 0.
        counts: Shape (chunks,): values of each chunk.
        starts: Shape (chunks,): the byte at which each begins in the output, a multiple of the width of
            offsets, with room for its offsets and bytes.
        words: The output as words of 32 or 64 bits, as wide as offsets.
        out: The output as bytes.
    """
    kernel = load("values.variable")
    if kernel is None:
        reference.encode(data=data, ends=ends, counts=counts, starts=starts, words=words, out=out)
    else:
        kernel.encode(data, ends, counts, starts, words, out)
