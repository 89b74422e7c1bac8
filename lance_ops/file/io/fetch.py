"""Stepwise fetching: a decoder requests byte ranges, possibly repeatedly, and returns its result.

A decoder is a generator that yields lists of ranges. It never touches a store, so it can be tested on bytes,
and the requests of many columns are sent together: `gather` runs decoders in lockstep, one round of requests
for all.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Self, TypeAlias, TypeVar

import pyarrow as pa

from lance_ops.encoding.parallel import count_shares, drain_side_by_side

T = TypeVar("T")

# Decoders of fewer bytes spend their time in Python, where threads only contend for the GIL.
_SHARE_BYTES = 256 << 10

Request: TypeAlias = tuple[int, int]
"""Offset in the file and length, in bytes."""


class SideRequest(tuple[int, int]):  # noqa: SLOT001 - a tuple cannot have slots that hold anything
    """A range of one of the file's side files, or of an object in a base of the table.

    Args:
        offset: In the side file.
        length: In bytes.
        name: Of the side file within its folder, or path of the object within its base.
        base: Id of the base; None for a side file.
    """

    name: str
    base: int | None

    def __new__(cls, offset: int, length: int, name: str, base: int | None = None) -> Self:
        """Create a named request, a pair like any other."""
        request = super().__new__(cls, (offset, length))
        request.name, request.base = name, base
        return request


class SparseRequest(tuple[int, int]):  # noqa: SLOT001 - as above
    """A range of which only some bytes are used, fetched as one where that costs nothing.

    Args:
        offset: In the file.
        length: In bytes.
        used: Bytes whose decoding costs as much as that of the used ones.
    """

    used: int

    def __new__(cls, offset: int, length: int, used: int) -> Self:
        """Create a sparse request, a pair like any other."""
        request = super().__new__(cls, (offset, length))
        request.used = used
        return request


Steps: TypeAlias = Generator[list[Request], list[pa.Buffer], T]
"""A decoder with result T."""

_EMPTY = pa.py_buffer(b"")


def fetch(offset: int, length: int) -> Steps[pa.Buffer]:
    """Request one range."""
    (data,) = yield [(offset, length)]
    return data


def fetch_all(ranges: list[Request]) -> Steps[list[pa.Buffer]]:
    """Request several ranges at once."""
    return (yield ranges)


def gather(parts: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Run decoders concurrently.

    Args:
        parts: Any number of decoders.

    Returns:
        Their results in order.
    """
    if len(parts) == 1:
        return [(yield from parts[0])]
    results: dict[int, T] = {}
    waiting: dict[int, list[Request]] = {}

    def advance(index: int, data: list[pa.Buffer] | None = None) -> None:
        try:
            requests = next(parts[index]) if data is None else parts[index].send(data)
        except StopIteration as stop:
            results[index] = stop.value
        else:
            waiting[index] = requests

    for index in range(len(parts)):
        advance(index)
    while waiting:
        served = sorted(waiting.items())
        waiting.clear()
        data = yield [request for _, requests in served for request in requests]
        jobs = []
        start = 0
        for index, requests in served:
            stop = start + len(requests)
            jobs.append(partial(advance, index, data[start:stop]))
            start = stop
        _advance_all(jobs, [sum(map(_weigh, requests)) for _, requests in served])
    return [results[index] for index in range(len(parts))]


def _weigh(request: Request) -> int:
    # Of a mapped file, pages are requested of which single values are used.
    return min(request.used, request[1]) if isinstance(request, SparseRequest) else request[1]


def _advance_all(jobs: Sequence[Callable[[], None]], sizes: Sequence[int]) -> None:
    """Resume decoders with the fetched bytes, concurrently those with much work."""
    large = sorted((-size, number) for number, size in enumerate(sizes) if size >= _SHARE_BYTES)
    shared = [number for _, number in large] if count_shares(len(large), 1) > 1 else []
    for number in set(range(len(jobs))).difference(shared):
        jobs[number]()
    if shared:
        drain_side_by_side([jobs[number] for number in shared])


def run(steps: Steps[T], read_ranges: Callable[[list[Request]], list[pa.Buffer]]) -> T:
    """Run a decoder to the end.

    Args:
        steps: The decoder.
        read_ranges: Fetches the ranges of one round; it is not called for empty ranges.
    """
    try:
        requests = next(steps)
        while True:
            wanted = [request for request in requests if request[1]]
            found = iter(read_ranges(wanted) if wanted else ())
            requests = steps.send([next(found) if length else _EMPTY for _, length in requests])
    except StopIteration as stop:
        result: T = stop.value
        return result
