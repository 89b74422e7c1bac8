"""Ascending numbers, some of them by a rule: which slots of a layer are null, valid, or hold something."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.errors import CorruptFileError
from lance_ops.file.v2_1.compression.sequences import check_range, constant_of, decode_sequence
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_BITS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Numbers of slots, ascending, each once.

    Attributes:
        count: How many there are.
        start: The first, of numbers by a rule.
        step: From one to the next, of numbers by a rule.
        listed: The numbers, None of those by a rule.
    """

    count: int
    start: int = 0
    step: int = 1
    listed: Integers | None = None

    @property
    def size(self) -> int:
        """About the bytes it takes."""
        return 64 + (0 if self.listed is None else self.listed.nbytes)

    def between(self, start: int, stop: int) -> tuple[int, int]:
        """Return the first of the numbers that is at least `start`, and the first that is at least `stop`."""
        if self.listed is not None:
            first, last = np.searchsorted(self.listed, [start, stop]).tolist()
            return first, last
        return self._rank(start), self._rank(stop)

    def _rank(self, bound: int) -> int:
        return min(max(-(-(bound - self.start) // self.step), 0), self.count)

    def pick(self, first: int, last: int) -> Integers:
        """Return some of the numbers, by their places."""
        if self.listed is not None:
            return self.listed[first:last]
        return self.start + np.arange(first, last, dtype=np.int64) * self.step

    def find(self, slots: Integers) -> tuple[Integers, Mask]:
        """Return for each slot the number of smaller numbers, and whether it is one of them."""
        if self.listed is not None:
            ranks = np.searchsorted(self.listed, slots)
            found = ranks < self.count
            found[found] = self.listed[ranks[found]] == slots[found]
            return ranks, found
        ranks = np.clip(-(-(slots - self.start) // self.step), 0, self.count)
        return ranks, (ranks < self.count) & (self.start + ranks * self.step == slots)

    def mask(self, start: int, stop: int) -> Mask:
        """Return which slots of a range are among the numbers."""
        found = np.zeros(stop - start, dtype=np.bool_)
        found[self.pick(*self.between(start, stop)) - start] = True
        return found


def parse_numbers(encoding: pb.CompressiveEncoding, data: Bytes | None, count: int, slots: int) -> Numbers:
    """Parse numbers of slots.

    Args:
        encoding: Of the sequence.
        data: Its buffer, None of one that needs none.
        count: How many there are.
        slots: What all are below.

    Raises:
        CorruptFileError: They do not ascend, or are out of range.
    """
    if count > slots:
        raise CorruptFileError(f"{count} of {slots} slots are listed")
    kind = encoding.WhichOneof("compression")
    if not count or kind is None:
        if count or kind != "constant" or encoding.constant.HasField("value"):
            raise CorruptFileError("an empty list of slots must not have data")
        return Numbers(0)
    if kind == "constant" and count == 1:
        numbers = Numbers(1, constant_of(encoding.constant, _BITS))
    elif kind == "range":
        check_range(encoding.range, count, _BITS)
        numbers = Numbers(count, encoding.range.start, encoding.range.step)
    else:
        listed = decode_sequence(encoding, data, count, _BITS)
        if int(listed.max()) >= slots:
            raise CorruptFileError(f"a slot beyond the {slots} that there are")
        found = listed.astype(np.int64)
        if bool((found[1:] <= found[:-1]).any()):
            raise CorruptFileError("numbers of slots do not ascend")
        return Numbers(count, listed=found)
    if numbers.step < 1 or numbers.start + (count - 1) * numbers.step >= slots:
        raise CorruptFileError(f"a slot beyond the {slots} that there are")
    return numbers
