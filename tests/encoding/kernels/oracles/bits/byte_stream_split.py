"""Byte stream split."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers


def join(*, data: Bytes, starts: Integers, counts: Integers, width: int, values: Bytes) -> None:
    """Put the bytes of each value together."""
    sizes = counts * width
    places = np.cumsum(sizes) - sizes
    for start, size, place in zip(starts.tolist(), sizes.tolist(), places.tolist(), strict=True):
        streams = data[start : start + size].reshape(width, -1)
        values[place : place + size].reshape(-1, width)[...] = streams.T


def split(*, values: Bytes, counts: Integers, width: int, data: Bytes) -> None:
    """Split the bytes of the values of each chunk."""
    stops = np.cumsum(counts * width)
    for start, stop in zip((stops - counts * width).tolist(), stops.tolist(), strict=True):
        data[start:stop].reshape(width, -1)[...] = values[start:stop].reshape(-1, width).T
