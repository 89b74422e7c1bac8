"""Lists of fragments in serialised manifests, walked without making an object of each.

A fragment is described by numbers where it is as most are. What is rare or damaged in any way is only marked:
the message library looks at it then, and says what is wrong.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.parallel import count_shares, run_side_by_side

IRREGULAR = 1
HAS_DELETIONS = 2
HAS_ROW_IDS = 4
ID, ROWS, DELETED, SIZE, FILES, VERSION, FLAGS = range(7)
"""Columns of a table of fragments: id, rows with deleted ones, deleted rows, bytes of data files, their
number, their version (major << 32 | minor), and the flags above."""
_KINDS_KEPT = 16
_SHARE = 5_000
"""Fragments below which to hand them to another thread takes longer than to look at them."""

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_MALFORMED = -1
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
# Places with 63 bits, so that all that is read fits into a signed number.
_MOST_SHIFT = 56
_IRREGULAR, _HAS_DELETIONS, _HAS_ROW_IDS = 1, 2, 4
_ID, _ROWS, _DELETED, _SIZE, _FILES, _VERSION, _FLAGS = 0, 1, 2, 3, 4, 5, 6


@inner(types.UniTuple(types.int64, 2)(_BYTES, types.int64, types.int64), inline="always")
def _varint(data, at, stop):
    """A number and the place behind it, which is negative where there is none of at most 63 bits."""
    value = np.int64(0)
    shift = np.int64(0)
    while at < stop and shift <= _MOST_SHIFT:
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return np.int64(0), np.int64(_MALFORMED)


@inner(types.int64(_BYTES, types.int64, types.int64, types.int64))
def _skip(data, at, stop, kind):
    """The place behind a value; negative where it does not end before `stop`, or is of no kind of today."""
    if kind == _VARINT:
        # Negative numbers have ten bytes.
        for _ in range(10):
            if at >= stop:
                return np.int64(_MALFORMED)
            at += 1
            if data[at - 1] < 0x80:
                return at
        return np.int64(_MALFORMED)
    if kind == _LENGTH:
        size, at = _varint(data, at, stop)
        return at + size if at >= 0 and size <= stop - at else np.int64(_MALFORMED)
    if kind == _FIXED64:
        return at + 8 if stop - at >= 8 else np.int64(_MALFORMED)
    if kind == _FIXED32:
        return at + 4 if stop - at >= 4 else np.int64(_MALFORMED)
    return np.int64(_MALFORMED)


@loop(types.int64(_BYTES, types.int64, types.int64[::1], types.int64[::1], types.int64[::1]))
def _find_members(data, number, begins, starts, stops):
    at, size, found = np.int64(0), np.int64(len(data)), np.int64(0)
    while at < size:
        begin = at
        tag, at = _varint(data, at, size)
        if at < 0 or tag < 8 or tag > 0xFFFF_FFFF:
            return np.int64(_MALFORMED)
        if tag >> 3 != number:
            at = _skip(data, at, size, tag & 7)
            if at < 0:
                return at
            continue
        if tag & 7 != _LENGTH:
            return np.int64(_MALFORMED)
        length, at = _varint(data, at, size)
        if at < 0 or length > size - at:
            return np.int64(_MALFORMED)
        if found < len(begins):
            begins[found], starts[found], stops[found] = begin, at, at + length
        found += 1
        at += length
    return found


@inner(types.boolean(_BYTES, types.int64, types.int64))
def _are_numbers(data, at, stop):
    """Return whether there are only integers."""
    while at < stop:
        at = _skip(data, at, stop, _VARINT)
        if at < 0:
            return False
    return True


@inner(types.boolean(_BYTES, types.int64, types.int64, types.int64[::1]))
def _read_file(data, at, stop, file):
    """Read a data file into (size, major, minor); False where it is not as most are."""
    file[0] = file[1] = file[2] = 0
    while at < stop:
        tag, at = _varint(data, at, stop)
        if at < 0:
            return False
        if tag in (0x20, 0x28, 0x30, 0x38):
            value, at = _varint(data, at, stop)
            if at < 0:
                return False
            if tag == 0x30:
                file[0] = value
            elif value > 0xFFFF_FFFF:
                return False
            elif tag == 0x20:
                file[1] = value
            elif tag == 0x28:
                file[2] = value
        elif tag in (0x0A, 0x12, 0x1A):
            size, at = _varint(data, at, stop)
            if at < 0 or size > stop - at:
                return False
            if tag == 0x0A:
                for place in range(at, at + size):
                    if data[place] >= 0x80:
                        return False
            elif not _are_numbers(data, at, at + size):
                return False
            at += size
        else:
            return False
    return True


@inner(types.int64(_BYTES, types.int64, types.int64))
def _read_deletions(data, at, stop):
    """The number of deleted rows of a deletion file; negative where it is not as most are."""
    deleted = np.int64(0)
    while at < stop:
        tag, at = _varint(data, at, stop)
        if at < 0:
            return np.int64(_MALFORMED)
        if tag == 0x18:
            # The number of the file is accidentally and may have all 64 bits.
            at = _skip(data, at, stop, _VARINT)
            if at < 0:
                return at
        elif tag in (0x08, 0x10, 0x20, 0x38):
            value, at = _varint(data, at, stop)
            if at < 0 or (tag == 0x08 and value > 1) or (tag == 0x38 and value > 0xFFFF_FFFF):
                return np.int64(_MALFORMED)
            if tag == 0x20:
                deleted = value
        else:
            return np.int64(_MALFORMED)
    return deleted


@inner(types.boolean(_BYTES, types.int64, types.int64, types.int64[::1], types.int64[::1]))
def _read_fragment(data, at, stop, row, file):
    """Read a fragment into a row of numbers; False where it is not as most are."""
    row[:] = 0
    while at < stop:
        tag, at = _varint(data, at, stop)
        if at < 0:
            return False
        if tag in (0x08, 0x20):
            value, at = _varint(data, at, stop)
            if at < 0 or value > 0xFFFF_FFFF:
                return False
            row[_ID if tag == 0x08 else _ROWS] = value
        elif tag in (0x12, 0x1A, 0x2A, 0x3A, 0x4A):
            size, at = _varint(data, at, stop)
            if at < 0 or size > stop - at:
                return False
            if tag == 0x12:
                if not _read_file(data, at, at + size, file):
                    return False
                version = file[1] << 32 | file[2]
                if row[_FILES] and row[_VERSION] != version:
                    return False
                row[_VERSION] = version
                row[_FILES] += 1
                row[_SIZE] += file[0]
                if row[_SIZE] < 0:
                    return False
            elif tag == 0x1A:
                if row[_FLAGS] & _HAS_DELETIONS:
                    return False
                deleted = _read_deletions(data, at, at + size)
                if deleted < 0:
                    return False
                row[_DELETED] = deleted
                row[_FLAGS] |= _HAS_DELETIONS
            elif tag == 0x2A:
                row[_FLAGS] |= _HAS_ROW_IDS
            at += size
        else:
            return False
    # A row address has 32 bits; what claims more is distinguished where it is read in full.
    return row[_DELETED] <= 0xFFFF_FFFF and (row[_ROWS] == 0 or row[_DELETED] <= row[_ROWS])


@loop(types.void(_BYTES, types.int64[::1], types.int64[::1], types.int64[:, ::1]))
def _read_fragments(data, starts, stops, rows):
    file = np.zeros(3, np.int64)
    for number in range(len(starts)):
        if not _read_fragment(data, starts[number], stops[number], rows[number], file):
            rows[number, :] = 0
            rows[number, _FLAGS] = _IRREGULAR


@inner(types.UniTuple(types.int64, 3)(_BYTES, types.int64, types.int64))
def _next_file(data, at, stop):
    """Where the next data file of a fragment starts and stops, and where the search goes on.

    The start is -1 where there is none any more, and -2 where the fragment is not as most are.
    """
    while at < stop:
        tag, at = _varint(data, at, stop)
        if at < 0:
            return np.int64(-2), at, at
        if tag == 0x12:
            size, at = _varint(data, at, stop)
            if at < 0 or size > stop - at:
                return np.int64(-2), at, at
            return at, at + size, at + size
        if tag not in (0x08, 0x1A, 0x20, 0x2A, 0x3A, 0x4A):
            return np.int64(-2), at, at
        at = _skip(data, at, stop, tag & 7)
        if at < 0:
            return np.int64(-2), at, at
    return np.int64(-1), at, at


@inner(types.UniTuple(types.int64, 2)(_BYTES, types.int64, types.int64))
def _next_trait(data, at, stop):
    """Where the next of fields, columns and version of a data file begins with its tag, and where it stops.

    Path, size and base are passed over. The start is -1 at the end, and -2 where it is not as most are.
    """
    while at < stop:
        begin = at
        tag, at = _varint(data, at, stop)
        if at < 0 or tag not in (0x0A, 0x12, 0x1A, 0x20, 0x28, 0x30, 0x38):
            return np.int64(-2), at
        at = _skip(data, at, stop, tag & 7)
        if at < 0:
            return np.int64(-2), at
        if tag not in (0x0A, 0x30, 0x38):
            return begin, at
    return np.int64(-1), at


@inner(types.boolean(_BYTES, types.int64, types.int64, types.int64, types.int64))
def _are_alike(data, at, stop, other, other_stop):
    """Return whether two data files have the same fields in the same columns, in the same version."""
    while True:
        begin, at = _next_trait(data, at, stop)
        other_begin, other = _next_trait(data, other, other_stop)
        if begin < 0 or other_begin < 0:
            return begin == -1 and other_begin == -1
        if at - begin != other - other_begin:
            return False
        for place in range(at - begin):
            if data[begin + place] != data[other_begin + place]:
                return False


@inner(types.boolean(_BYTES, types.int64, types.int64, types.int64, types.int64))
def _are_of_a_kind(data, at, stop, other, other_stop):
    """Return whether the data files of two fragments are alike, in sequence."""
    while True:
        start, end, at = _next_file(data, at, stop)
        other_start, other_end, other = _next_file(data, other, other_stop)
        if start < 0 or other_start < 0:
            return start == -1 and other_start == -1
        if not _are_alike(data, start, end, other_start, other_end):
            return False


@loop(types.void(_BYTES, types.int64[::1], types.int64[::1], types.int64[::1], types.int64[::1]))
def _find_kinds(data, starts, stops, known, kinds):
    count = last = following = 0
    for number in range(len(starts)):
        start, stop = starts[number], stops[number]
        kinds[number] = number
        found = -1
        for turn in range(count):
            place = (last + turn) % count
            if _are_of_a_kind(data, start, stop, starts[known[place]], stops[known[place]]):
                found = place
                break
        if found >= 0:
            last = found
            kinds[number] = known[found]
        elif _are_of_a_kind(data, start, stop, start, stop):
            known[following] = number
            last = following
            count = max(count, following + 1)
            following = (following + 1) % len(known)


def find_members(
    *, data: npt.NDArray[np.uint8], number: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Find the members of one number in a serialised message, all of which have a length.

    Args:
        data: The message.
        number: Of the members.

    Returns:
        Where each begins with its tag, where its content starts, and where it stops; None where the message
        is damaged or has members of another kind.
    """
    none = np.zeros(0, np.int64)
    count = _find_members(data, number, none, none, none)
    if count < 0:
        return None
    begins, starts, stops = (np.empty(count, np.int64) for _ in range(3))
    _find_members(data, number, begins, starts, stops)
    return begins, starts, stops


def read_fragments(
    *, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Read what adds up of serialised fragments.

    Args:
        data: What they lie in.
        starts: Where each starts.
        stops: Where each stops; within the data, and not before it starts.

    Returns:
        Shape (fragments, 7), with the columns above. A row with the flag `IRREGULAR` has nothing else: the
        fragment is damaged, or has what few have.
    """
    rows = np.empty((len(starts), 7), np.int64)

    def read(part: slice) -> None:
        _read_fragments(data, starts[part], stops[part], rows[part])

    _side_by_side(read, len(starts))
    return rows


def find_kinds(
    *, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Find fragments whose data files are alike: as many, with the same fields, columns and versions.

    Args:
        data: What they lie in.
        starts: Where each starts.
        stops: Where each stops; within the data, and not before it starts.

    Returns:
        For each the number of one that is alike, its own where none before it was found to be. There may be
        several for one kind: the last 16 are compared. A fragment that is not as most are stands for itself.
    """
    kinds = np.empty(len(starts), np.int64)
    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)

    def find(part: slice) -> None:
        known = np.empty(_KINDS_KEPT, np.int64)
        _find_kinds(data, starts[part], stops[part], known, kinds[part])
        kinds[part] += part.start

    _side_by_side(find, len(starts))
    return kinds


def _side_by_side(work: Callable[[slice], None], count: int) -> None:
    """Have some fragments after the other looked at, or several shares of them at once."""
    shares = count_shares(count, _SHARE)
    cuts = [count * share // shares for share in range(shares + 1)]
    run_side_by_side([partial(work, slice(first, last)) for first, last in pairwise(cuts)])
