from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import CorruptFileError, InvalidArgumentError
from lance_ops.storage import open_store
from lance_ops.storage.fsspec_store import FsspecStore
from lance_ops.storage.ranges import MergedRead, check_possible, plan_merged_reads, resolve_range

RANGES = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 60)), max_size=30)


def test_neighbours_share_a_request():
    ranges = [(100, 10), (0, 10), (15, 5), (115, 5), (500, 1)]
    assert plan_merged_reads(ranges, gap=5, max_length=1000) == [
        MergedRead(0, 20, (1, 2)),
        MergedRead(100, 20, (0, 3)),
        MergedRead(500, 1, (4,)),
    ]


def test_requests_stop_growing_at_the_maximum():
    assert plan_merged_reads([(0, 10), (10, 10), (20, 10)], gap=0, max_length=20) == [
        MergedRead(0, 20, (0, 1)),
        MergedRead(20, 10, (2,)),
    ]


def test_overlapping_ranges_are_fetched_once_however_long():
    assert plan_merged_reads([(0, 100), (50, 10)], gap=0, max_length=20) == [MergedRead(0, 100, (0, 1))]
    assert plan_merged_reads([(0, 100), (50, 100)], gap=0, max_length=20) == [MergedRead(0, 150, (0, 1))]


@given(RANGES, st.integers(0, 50), st.integers(1, 200))
def test_every_range_lies_inside_exactly_one_request(ranges, gap, max_length):
    reads = plan_merged_reads(ranges, gap=gap, max_length=max_length)
    parts = [index for read in reads for index in read.parts]
    assert sorted(parts) == [index for index, (_, length) in enumerate(ranges) if length]
    for read in reads:
        for index in read.parts:
            offset, length = ranges[index]
            assert read.offset <= offset
            assert offset + length <= read.offset + read.length
    for before, after in pairwise(reads):
        assert before.offset + before.length <= after.offset


@given(RANGES, st.integers(0, 50), st.integers(1, 200))
def test_a_long_request_holds_only_overlapping_ranges(ranges, gap, max_length):
    for read in plan_merged_reads(ranges, gap=gap, max_length=max_length):
        first, *others = sorted(ranges[index] for index in read.parts)
        end = first[0] + first[1]
        for offset, length in others:
            assert offset < end or offset + length - read.offset <= max_length
            end = max(end, offset + length)


@given(RANGES, st.integers(0, 50))
def test_no_more_than_the_gap_is_fetched_in_vain(ranges, gap):
    for read in plan_merged_reads(ranges, gap=gap, max_length=10_000):
        wanted = set()
        for index in read.parts:
            offset, length = ranges[index]
            wanted.update(range(offset, offset + length))
        vain = 0
        for byte in range(read.offset, read.offset + read.length):
            vain = 0 if byte in wanted else vain + 1
            assert vain <= gap


@pytest.mark.parametrize(("offset", "length"), [(1 << 63, None), ((1 << 64) - 1, 8), (8, (1 << 63) - 1)])
def test_ranges_that_no_request_can_name_are_damage(offset, length, tmp_path):
    with pytest.raises(CorruptFileError, match="out of range"):
        check_possible("x", offset, length)
    (tmp_path / "x").write_bytes(b"abc")
    for store in (open_store(tmp_path), FsspecStore(f"file://{tmp_path}")):
        with pytest.raises(CorruptFileError):
            store.read("x", offset, length)


def test_ranges_are_checked_against_the_size():
    assert resolve_range("x", 3, None, 10) == 7
    assert resolve_range("x", 10, None, 10) == 0
    assert resolve_range("x", 10, 0, 10) == 0
    for offset, length in [(11, None), (11, 0), (10, 1), (0, 1 << 70)]:
        with pytest.raises(CorruptFileError, match=r"x.*truncated"):
            resolve_range("x", offset, length, 10)
    for offset, length in [(-1, None), (0, -1)]:
        with pytest.raises(InvalidArgumentError):
            resolve_range("x", offset, length, 10)
