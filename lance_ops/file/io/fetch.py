"""Fetching in steps: a decoder asks for byte ranges, may ask for more, and returns its result.

A decoder is a generator that yields lists of ranges. It never touches a store, so that it can be tested on
bytes, and so that the requests of many columns go out together: `gather` runs decoders in lockstep, one round
of requests for all.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Self, TypeAlias, TypeVar

import pyarrow as pa

T = TypeVar("T")

Request: TypeAlias = tuple[int, int]
"""Offset in the file and length, in bytes."""


class SideRequest(tuple[int, int]):  # noqa: SLOT001 - a tuple cannot have slots that hold anything
    """A range of one of the file's side files.

    Args:
        offset: In the side file.
        length: In bytes.
        name: Of the side file within its folder.
    """

    name: str

    def __new__(cls, offset: int, length: int, name: str) -> Self:
        """A pair like any other request, with a name."""
        request = super().__new__(cls, (offset, length))
        request.name = name
        return request


Steps: TypeAlias = Generator[list[Request], list[pa.Buffer], T]
"""A decoder that ends in a T."""

_EMPTY = pa.py_buffer(b"")


def fetch(offset: int, length: int) -> Steps[pa.Buffer]:
    """Ask for one range."""
    (data,) = yield [(offset, length)]
    return data


def fetch_all(ranges: list[Request]) -> Steps[list[pa.Buffer]]:
    """Ask for some ranges at once."""
    return (yield ranges)


def gather(parts: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Run decoders side by side.

    Args:
        parts: Any number of decoders.

    Returns:
        Their results in order.
    """
    if len(parts) == 1:
        return [(yield from parts[0])]
    results: dict[int, T] = {}
    waiting: list[tuple[int, list[Request]]] = []

    def advance(index: int, data: list[pa.Buffer] | None) -> None:
        try:
            requests = next(parts[index]) if data is None else parts[index].send(data)
        except StopIteration as stop:
            results[index] = stop.value
        else:
            waiting.append((index, requests))

    for index in range(len(parts)):
        advance(index, None)
    while waiting:
        data = yield [request for _, requests in waiting for request in requests]
        served, waiting = waiting, []
        start = 0
        for index, requests in served:
            stop = start + len(requests)
            advance(index, data[start:stop])
            start = stop
    return [results[index] for index in range(len(parts))]


def run(steps: Steps[T], read_ranges: Callable[[list[Request]], list[pa.Buffer]]) -> T:
    """Drive a decoder to its end.

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
