"""Data files of many fragments as columns, read from their bytes without an object for each.

All fragments are walked side by side: one step reads the next field of each, by numpy. Fragments that
`fronts.wire` does not know in full are left to the message library.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers
from lance_ops.table.manifest.fragments.fragment_list import IRREGULAR, FragmentList

_AT_ONCE = 1 << 16
_FILES_TAG = 0x12
_PATH_TAG, _MAJOR_TAG, _MINOR_TAG, _SIZE_TAG, _BASE_TAG = 0x0A, 0x20, 0x28, 0x30, 0x38
_LENGTH = 2

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class DataFileColumns:
    """Data files of some fragments, in their order.

    Attributes:
        positions: Position of the fragment of each file, int64.
        paths: Path of each, as in the manifest.
        sizes: Recorded bytes, int64; 0 if unknown.
        bases: Id of the base, int64; -1 for the root of the dataset.
        majors: Major version of the file format, int64.
        minors: Minor version, int64.
        others: Positions of fragments that are not among these: their objects have to be asked.
    """

    positions: Integers
    paths: list[str]
    sizes: Integers
    bases: Integers
    majors: Integers
    minors: Integers
    others: Integers


def iter_data_files(fragments: FragmentList) -> Iterator[DataFileColumns]:
    """Yield the data files of all fragments, some ten thousand fragments at once."""
    for first in range(0, len(fragments), _AT_ONCE):
        part = fragments[first : first + _AT_ONCE]
        regular = ~part.has(IRREGULAR)
        places = np.flatnonzero(regular)
        data, starts, stops = part.encoded
        yield _read(data, starts[places], stops[places], places + first, np.flatnonzero(~regular) + first)


def _read(
    data: bytes, starts: Integers, stops: Integers, positions: Integers, others: Integers
) -> DataFileColumns:
    content = np.frombuffer(data, np.uint8)
    none = np.zeros(0, np.int64)
    found = [(none, none, none)]
    for at, tag, begin, end, _ in _fields(content, starts, stops):
        if tag == _FILES_TAG:
            found.append((at, begin, end))
    owners, begins, ends = (np.concatenate(parts) for parts in zip(*found, strict=True))
    # Fields of one number are found one after the other in each fragment: order the files by fragment.
    order = np.argsort(owners, kind="stable")
    owners, begins, ends = owners[order], begins[order], ends[order]
    count = len(owners)
    from_, to = np.zeros(count, np.int64), np.zeros(count, np.int64)
    numbers = {tag: np.zeros(count, np.int64) for tag in (_MAJOR_TAG, _MINOR_TAG, _SIZE_TAG)}
    numbers[_BASE_TAG] = np.full(count, -1, np.int64)
    for at, tag, begin, end, value in _fields(content, begins, ends):
        if tag == _PATH_TAG:
            from_[at], to[at] = begin, end
        elif tag in numbers:
            numbers[tag][at] = value
    paths = [data[first:last].decode() for first, last in zip(from_.tolist(), to.tolist(), strict=True)]
    return DataFileColumns(
        positions[owners],
        paths,
        numbers[_SIZE_TAG],
        numbers[_BASE_TAG],
        numbers[_MAJOR_TAG],
        numbers[_MINOR_TAG],
        others,
    )


def _fields(
    data: Bytes, starts: Integers, stops: Integers
) -> Iterator[tuple[Integers, int, Integers, Integers, Integers]]:
    """Yield the fields of sound messages, step by step.

    Yields:
        Numbers of the messages that have the same tag at this step, the tag, where its content starts and
        stops, and the value of a field that is a number.
    """
    number, at, stop = np.arange(len(starts)), starts, stops
    while len(number):
        more = at < stop
        number, at, stop = number[more], at[more], stop[more]
        tags, at = _varints(data, at)
        values, at = _varints(data, at)
        ends = np.where((tags & 7) == _LENGTH, at + values, at)
        left = np.ones(len(number), np.bool_)
        while left.any():
            tag = int(tags[np.argmax(left)])
            same = left & (tags == tag)
            yield number[same], tag, at[same], ends[same], values[same]
            left &= ~same
        at = ends


def _varints(data: Bytes, at: Integers) -> tuple[Integers, Integers]:
    """Return a number at each place, and the places behind them."""
    if not len(at):
        return np.zeros(0, np.int64), at
    byte = data[at]
    values: Integers = (byte & 0x7F).astype(np.int64)
    after = at + 1
    longer, shift = np.flatnonzero(byte >= 0x80), 7
    while len(longer):
        byte = data[after[longer]]
        # What has more than 63 bits is passed over.
        values[longer] |= (byte & 0x7F).astype(np.int64) << min(shift, 63)
        after[longer] += 1
        longer = longer[byte >= 0x80]
        shift += 7
    return values, after
