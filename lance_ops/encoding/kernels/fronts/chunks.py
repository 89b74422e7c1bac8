"""Chunks of mini-block pages."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference import chunks as reference

HEADER_TOO_SHORT = reference.HEADER_TOO_SHORT
PART_TOO_LONG = reference.PART_TOO_LONG
CHUNK_TOO_LONG = reference.CHUNK_TOO_LONG
CHUNKS_TOO_LARGE = reference.CHUNKS_TOO_LARGE
BAD_COUNT = reference.BAD_COUNT
NUMBER_TOO_LARGE = reference.NUMBER_TOO_LARGE


def copy_parts(*, data: Bytes, starts: Integers, sizes: Integers, target: Bytes, positions: Integers) -> None:
    """Copy parts of some bytes into others.

    Args:
        data: The bytes.
        starts: Shape (parts,): the first byte of each, within the data up to the end.
        sizes: Shape (parts,): bytes of each, not negative.
        target: Where to; it does not overlap the data.
        positions: Shape (parts,): the byte at which each goes, where it fits into the target.
    """
    kernel = load("chunks")
    if kernel is None:
        reference.copy_parts(data=data, starts=starts, sizes=sizes, target=target, positions=positions)
    else:
        kernel.copy_parts(data, starts, sizes, target, positions)


def split(
    *,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    num_levels: int,
    num_buffers: int,
    size_bytes: int,
    levels: Integers,
    part_starts: npt.NDArray[np.int64],
    part_sizes: npt.NDArray[np.int64],
) -> int:
    """Find the parts of chunks.

    Args:
        data: The bytes of the chunks; all positions in it are checked.
        starts: Shape (chunks,): first byte of each.
        sizes: Shape (chunks,): bytes of each, not negative.
        num_levels: Kinds of levels, whose sizes take 2 bytes each.
        num_buffers: Value buffers.
        size_bytes: Bytes of the sizes of value buffers: 2 or 4.
        levels: Shape (chunks,): gets the number of levels of each chunk.
        part_starts: Shape (num_levels + num_buffers, chunks): gets the byte at which each part begins.
        part_sizes: Of the same shape: gets the bytes of each part.

    Returns:
        0, or what is wrong with some chunk: `CHUNK_TOO_LONG`, `HEADER_TOO_SHORT`, or `PART_TOO_LONG`. Then
        what is filled in is not whole.
    """
    kernel = load("chunks")
    if kernel is None:
        return reference.split(
            data=data,
            starts=starts,
            sizes=sizes,
            num_levels=num_levels,
            num_buffers=num_buffers,
            size_bytes=size_bytes,
            levels=levels,
            part_starts=part_starts,
            part_sizes=part_sizes,
        )
    return int(
        kernel.split(
            data, starts, sizes, num_levels, num_buffers, size_bytes, levels, part_starts, part_sizes
        )
    )


def measure_values(*, addresses: Words64, sizes: Integers, size_bytes: int, value_sizes: Integers) -> int:
    """Read how many bytes of values there are in chunks without levels and with one value buffer.

    Args:
        addresses: Shape (chunks,): of the first byte of each; the caller keeps what lies there.
        sizes: Shape (chunks,): bytes of each, not negative.
        size_bytes: Bytes of the sizes of value buffers: 2 or 4.
        value_sizes: Shape (chunks,): gets the bytes of values of each, which begin at its eighth byte.

    Returns:
        0, or what is wrong with some chunk: `HEADER_TOO_SHORT` or `PART_TOO_LONG`.
    """
    kernel = load("chunks")
    assert kernel is not None
    return int(kernel.measure_values(addresses, sizes, size_bytes, value_sizes))


def find_chunks(
    *,
    words: Bytes,
    width: int,
    numbers: Integers,
    num_values: Integers,
    room: Integers,
    starts: Integers,
    sizes: Integers,
    counts: Integers,
) -> int:
    """Find the chunks of pages in the tables that describe them.

    Args:
        words: Shape (chunks * width,), the tables in sequence: of each chunk its eighths of bytes
            less one, and four bits of its values.
        width: Bytes of each word: 2 or 4.
        numbers: Shape (pages,): chunks of each page, at least one; `chunks` together.
        num_values: Shape (pages,): values of each page; its last chunk has what the others leave.
        room: Shape (pages,): bytes that the chunks of each page may take.
        starts: Shape (chunks,): gets the first byte of each, counted from the first chunk of its page.
        sizes: Shape (chunks,): gets the bytes of each.
        counts: Shape (chunks,): gets the values of each.

    Returns:
        0, or what is wrong with some page: `CHUNKS_TOO_LARGE`, or `BAD_COUNT`, if its last chunk cannot have
        what the others leave.
    """
    kernel = load("chunks")
    if kernel is None:
        return reference.find_chunks(
            words=words,
            width=width,
            numbers=numbers,
            num_values=num_values,
            room=room,
            starts=starts,
            sizes=sizes,
            counts=counts,
        )
    return int(kernel.find_chunks(words, width, numbers, num_values, room, starts, sizes, counts))


def lay_out(
    *,
    sizes: Integers,
    levels: Integers,
    counts: Integers,
    num_levels: int,
    size_bytes: int,
    starts: Integers,
    places: Integers,
    words: Bytes,
) -> int:
    """Decide where chunks and their parts go, each at a multiple of 8 bytes, and describe the chunks.

    Args:
        sizes: Shape (parts, chunks): bytes of each part, not negative, those of levels first.
        levels: Shape (chunks,): number of levels of each chunk.
        counts: Shape (chunks,), at least one: values of each chunk.
        num_levels: Kinds of levels, whose sizes take 2 bytes each.
        size_bytes: Bytes of the sizes of value buffers, and of the words of the table: 2 or 4.
        starts: Shape (chunks + 1,): gets the first byte of each chunk, and the end of the last.
        places: Shape (parts, chunks): gets the first byte of each part.
        words: Shape (chunks * size_bytes,): gets the table of the chunks.

    Returns:
        0, or what is wrong with some chunk: `BAD_COUNT`, if it cannot have as many values;
        `NUMBER_TOO_LARGE`, if its header cannot say how many levels or bytes there are; `CHUNKS_TOO_LARGE`,
        if the table cannot say how long it is. Then what is filled in is not whole.
    """
    kernel = load("chunks")
    if kernel is None:
        return reference.lay_out(
            sizes=sizes,
            levels=levels,
            counts=counts,
            num_levels=num_levels,
            size_bytes=size_bytes,
            starts=starts,
            places=places,
            words=words,
        )
    return int(kernel.lay_out(sizes, levels, counts, num_levels, size_bytes, starts, places, words))


def write_heads(
    *,
    sizes: Integers,
    places: Integers,
    levels: Integers,
    starts: Integers,
    num_levels: int,
    size_bytes: int,
    data: Bytes,
) -> None:
    """Write the headers of chunks that `lay_out` has placed, and zeros between their parts.

    Args:
        sizes: Shape (parts, chunks): as it was given.
        places: Shape (parts, chunks): as it found.
        levels: Shape (chunks,): as it was given.
        starts: Shape (chunks + 1,): as it found.
        num_levels: As it was given.
        size_bytes: As it was given.
        data: Shape (starts[-1],): the bytes of all chunks.
    """
    kernel = load("chunks")
    if kernel is None:
        reference.write_heads(
            sizes=sizes,
            places=places,
            levels=levels,
            starts=starts,
            num_levels=num_levels,
            size_bytes=size_bytes,
            data=data,
        )
    else:
        kernel.write_heads(sizes, places, levels, starts, num_levels, size_bytes, data)
