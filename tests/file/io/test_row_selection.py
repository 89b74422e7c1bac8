import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.cache import cache_stats
from lance_ops.file.io.extents import fetch_bits, fetch_extents, fetch_fixed
from lance_ops.file.io.fetch import Request, run
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import RowSelection, join_extents

DATA = np.random.default_rng(0).integers(0, 256, 4096, dtype=np.uint8)
NUMBERS = st.lists(st.integers(0, 400), unique=True, min_size=1, max_size=40).map(sorted)


class Bytes:
    """Serves ranges of the data, and remembers them."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def __call__(self, ranges: list[Request]) -> list[pa.Buffer]:
        self.requests += ranges
        return [pa.py_buffer(DATA[offset : offset + length].copy()) for offset, length in ranges]


def select(numbers: list[int], gap: int = 0) -> RowSelection:
    return RowSelection.some(np.array(numbers, dtype=np.int64), gap)


def test_rows_that_leave_nothing_out_are_a_range() -> None:
    assert select([4, 5, 6]).numbers is None
    assert (select([4, 5, 6]).start, select([4, 5, 6]).stop) == (4, 7)
    assert select([4, 6]).indices.tolist() == [4, 6]
    assert select([]).count == 0


@given(NUMBERS, st.lists(st.integers(0, 60), min_size=1, max_size=12), st.booleans())
def test_parts_share_all_rows_out(numbers: list[int], lengths: list[int], contiguous: bool) -> None:
    if contiguous:
        numbers = list(range(numbers[0], numbers[-1] + 1))
    lengths = [*lengths, max(1, numbers[-1] + 1 - sum(lengths))]
    starts = [0, *np.cumsum(lengths).tolist()]
    found = []
    for number, part in select(numbers).split(starts[:-1], starts[-1]):
        assert 0 <= part.start < part.stop <= lengths[number]
        assert part.indices.tolist() == sorted(set(part.indices.tolist()))
        found += (part.indices + starts[number]).tolist()
    assert found == numbers


@given(NUMBERS, st.integers(1, 5), st.integers(-3, 3))
def test_slots_and_other_origins(numbers: list[int], width: int, distance: int) -> None:
    rows = select(numbers)
    expected = [number * width + slot for number in numbers for slot in range(width)]
    assert rows.spread(width).indices.tolist() == expected
    assert rows.moved(distance).indices.tolist() == [number + distance for number in numbers]


@given(NUMBERS, st.integers(1, 8), st.integers(0, 64))
def test_values_come_from_few_requests(numbers: list[int], width: int, gap: int) -> None:
    source = Bytes()
    found = run(fetch_fixed(7, width, select(numbers, gap)), source)
    expected = b"".join(DATA[7 + n * width : 7 + n * width + width].tobytes() for n in numbers)
    assert found.to_pybytes() == expected
    stops = [offset + length for offset, length in source.requests]
    assert all(offset - stop > gap for stop, (offset, _) in zip(stops[:-1], source.requests[1:], strict=True))
    bits = run(fetch_bits(7, select(numbers, gap)), Bytes())
    whole = np.unpackbits(DATA[7:], bitorder="little")
    assert bits.tolist() == whole[numbers].view(np.bool_).tolist()


def test_extents_may_be_empty() -> None:
    nothing = np.empty(0, dtype=np.int64)
    assert run(fetch_extents(nothing, nothing, 10), Bytes())[0].size == 0
    starts, stops = np.array([5, 100, 2000]), np.array([5, 110, 2001])
    data, found = run(fetch_extents(starts, stops, 1), Bytes())
    joined = np.frombuffer(data, np.uint8)[join_extents(found, found + stops - starts)]
    assert joined.tolist() == [*DATA[100:110].tolist(), int(DATA[2000])]


def test_heads_that_were_not_used_for_long_are_dropped() -> None:
    heads = PageHeads(most=2)
    heads.put("a", 1, 40)
    heads.put("b", 2, 40)
    assert heads.get("a") == 1
    heads.put("c", 3, 40)
    assert [heads.get(key) for key in "abc"] == [1, None, 3]
    heads.put("large", 4, cache_stats().budget_bytes)
    assert heads.get("large") is None
    heads.put("a", 5, 90)
    assert [heads.get(key) for key in "ac"] == [5, 3]


def test_files_share_room_but_no_heads() -> None:
    one, other = PageHeads(), PageHeads()
    size = cache_stats().budget_bytes * 3 // 5
    one.put("a", 1, size)
    assert other.get("a") is None
    other.put("a", 2, size)
    assert (one.get("a"), other.get("a")) == (None, 2)


@pytest.mark.parametrize(("starts", "stops", "expected"), [([], [], []), ([1, 7], [1, 9], [7, 8])])
def test_extents_joined(starts: list[int], stops: list[int], expected: list[int]) -> None:
    found = join_extents(np.array(starts, dtype=np.int64), np.array(stops, dtype=np.int64))
    assert found.tolist() == expected
