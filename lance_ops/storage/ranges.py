"""Plans which bytes to fetch for a set of ranges, so that neighbours share one request."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_ops.errors import CorruptFileError, InvalidArgumentError

LARGEST_OFFSET = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class MergedRead:
    """One request that serves one or more ranges.

    Args:
        offset: First byte.
        length: Number of bytes.
        parts: Indices into the planned ranges that lie inside.
    """

    offset: int
    length: int
    parts: tuple[int, ...]


def plan_merged_reads(ranges: Sequence[tuple[int, int]], *, gap: int, max_length: int) -> list[MergedRead]:
    """Merge adjacent ranges, so that no byte is fetched twice.

    Args:
        ranges: `(offset, length)` in bytes, in any order, overlaps allowed. Empty ranges need no request.
        gap: Maximum unused bytes fetched between two ranges.
        max_length: Ranges that do not overlap are merged up to this length; overlapping ones always are.

    Returns:
        Disjoint requests in ascending order of offset; each non-empty range belongs to exactly one.
    """
    merged: list[MergedRead] = []
    start = end = 0
    parts: list[int] = []
    for index in sorted(range(len(ranges)), key=ranges.__getitem__):
        offset, length = ranges[index]
        if length == 0:
            continue
        stop = offset + length
        if parts and offset >= end and (offset - end > gap or stop - start > max_length):
            merged.append(MergedRead(start, end - start, tuple(parts)))
            parts = []
        if not parts:
            start, end = offset, stop
        end = max(end, stop)
        parts.append(index)
    if parts:
        merged.append(MergedRead(start, end - start, tuple(parts)))
    return merged


def resolve_range(where: str, offset: int, length: int | None, size: int) -> int:
    """Check a range against the size of the object and return its length.

    Args:
        where: The object, for the error.
        offset: First byte.
        length: Number of bytes, None for all from `offset` on.
        size: Of the object.

    Raises:
        InvalidArgumentError: A negative offset or length.
        CorruptFileError: The range ends beyond the object.
    """
    check_not_negative(where, offset, length)
    end = max(offset, size) if length is None else offset + length
    if end > size or offset > size:
        raise CorruptFileError(
            f"bytes {offset} to {end} were requested, but the file has {size}",
            path=where,
            hint="the file is truncated, or the metadata with its layout are damaged",
        )
    return end - offset


def check_not_negative(where: str, offset: int, length: int | None) -> None:
    """Reject ranges that no object can have.

    Raises:
        InvalidArgumentError: A negative offset or length.
    """
    if offset < 0 or (length is not None and length < 0):
        raise InvalidArgumentError(f"a range cannot start at {offset} with length {length}", path=where)


def cut_ranges(pieces: Iterable[bytes], ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
    """Cut ranges out of an object that arrives in pieces; only their bytes are kept.

    Args:
        pieces: The whole object, in order.
        ranges: `(offset, length)` in bytes, in any order, overlaps allowed; none ends beyond the object.

    Returns:
        One buffer per range, in the order of `ranges`.
    """
    found = [bytearray() for _ in ranges]
    position = 0
    for piece in pieces:
        view = memoryview(piece)
        for (offset, length), data in zip(ranges, found, strict=True):
            data += view[max(0, offset - position) : max(0, offset + length - position)]
        position += len(view)
    return [pa.py_buffer(data) for data in found]


def check_possible(where: str, offset: int, length: int | None) -> None:
    """Reject ranges that no object can have, also those that no request can name.

    Raises:
        InvalidArgumentError: A negative offset or length.
        CorruptFileError: The range ends beyond 2^63.
    """
    check_not_negative(where, offset, length)
    if offset + (length or 0) > LARGEST_OFFSET:
        raise CorruptFileError(
            f"bytes from {offset} on were requested, which is out of range",
            path=where,
            hint="the metadata with the size or the layout of the file are damaged",
        )
