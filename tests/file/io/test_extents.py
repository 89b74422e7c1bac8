"""Extents of a file: all of them at hand, and nothing large copied for the sake of what lies between."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.file.io.extents import fetch_extents
from lance_ops.file.io.fetch import run

FILE = pa.py_buffer(np.random.default_rng(3).integers(0, 256, 1 << 20, dtype=np.uint8).tobytes())


def fetch(starts, stops, gap):
    asked = []

    def read(ranges):
        asked.extend(ranges)
        return [FILE.slice(*part) for part in ranges]

    starts, stops = np.array(starts, np.int64), np.array(stops, np.int64)
    data, found = run(fetch_extents(starts, stops, gap), read)
    return [
        bytes(data.slice(at, size)) for at, size in zip(found.tolist(), stops - starts, strict=True)
    ], asked


@given(
    extents=st.lists(st.tuples(st.integers(0, 1 << 19), st.integers(1, 5000)), max_size=20),
    gap=st.sampled_from([0, 100, 64 << 10, 1 << 40]),
    ascend=st.booleans(),
)
def test_every_extent_is_at_hand(extents, gap, ascend):
    extents = sorted(extents) if ascend else extents
    starts, stops = [start for start, _ in extents], [start + size for start, size in extents]
    found, _ = fetch(starts, stops, gap)
    assert found == [
        bytes(FILE.slice(start, stop - start)) for start, stop in zip(starts, stops, strict=True)
    ]


@pytest.mark.parametrize("order", [1, -1])
def test_bytes_between_extents_are_asked_for_only_where_they_are_not_copied(order):
    # Of a file that is mapped: one range takes no memory, several are put together.
    extents = [(100, 110), (900_000, 900_010), (500_000, 500_010)][::order]
    _, asked = fetch([start for start, _ in extents], [stop for _, stop in extents], 1 << 40)
    assert sum(size for _, size in asked) == 30
    _, asked = fetch([100, 900_000], [110, 900_010], 1 << 40)
    assert asked == [(100, 899_910)]
