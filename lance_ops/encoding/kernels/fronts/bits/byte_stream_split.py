"""Byte stream split."""

from lance_ops.encoding.arrays import Bytes, Integers
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.bits import byte_stream_split as reference

_WORDS = {4: "<u4", 8: "<u8"}


def join(*, data: Bytes, starts: Integers, counts: Integers, width: int, values: Bytes) -> None:
    """Join the byte streams of values.

    Args:
        data: The streams of all chunks.
        starts: Shape (chunks,): the byte at which those of each begin; `counts * width` bytes are there.
        counts: Shape (chunks,): values of each.
        width: Bytes of a value; compiled for 4 and 8.
        values: Room for all values, shape (values * width,), aligned as values of this width are.
    """
    word = _WORDS.get(width)
    kernel = load("bits.byte_stream_split")
    if kernel is None or word is None:
        reference.join(data=data, starts=starts, counts=counts, width=width, values=values)
    else:
        kernel.join(data, starts, counts, values.view(word))


def split(*, values: Bytes, counts: Integers, width: int, data: Bytes) -> None:
    """Split the bytes of the values of each chunk.

    Args:
        values: Of all chunks, shape (values * width,), aligned as values of this width are.
        counts: Shape (chunks,): values of each.
        width: Bytes of a value; compiled for 4 and 8.
        data: Room for the streams, as many bytes, of one chunk after the other.
    """
    word = _WORDS.get(width)
    kernel = load("bits.byte_stream_split")
    if kernel is None or word is None:
        reference.split(values=values, counts=counts, width=width, data=data)
    else:
        kernel.split(values.view(word), counts, data)
