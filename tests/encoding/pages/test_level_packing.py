import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.encoding.bits.bitpacking import pack_parts
from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.pages.level_packing import packed_sizes, unpack_levels
from lance_ops.errors import CorruptFileError


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=6), st.integers(1, 16), st.integers(0, 2**32 - 1))
def test_levels_of_chunks_become_one_array(counts: list[int], width: int, seed: int) -> None:
    levels = np.random.default_rng(seed).integers(0, 1 << width, sum(counts)).astype(np.uint16)
    packed = pack_parts(levels, np.array(counts), width)
    assert packed.sizes.tolist() == packed_sizes(np.array(counts), width).tolist()
    assert unpack_levels(packed, np.array(counts), width).tolist() == levels.tolist()


def test_chunks_may_lie_anywhere() -> None:
    levels = np.arange(1200, dtype=np.uint16) % 8
    packed = pack_parts(levels, np.array([1100, 100]), 3)
    first, second = packed.parts()
    for gap in (0, 1, 8):
        data = np.concatenate([np.zeros(gap, np.uint8), first, np.zeros(-len(first) % 8, np.uint8), second])
        starts = np.array([gap, gap + (len(first) + 7) // 8 * 8])
        chunks = ChunkBuffer(data, starts, packed.sizes)
        assert unpack_levels(chunks, np.array([1100, 100]), 3).tolist() == levels.tolist()


@pytest.mark.parametrize(
    ("count", "width", "size"), [(1024, 1, 127), (1, 1, 0), (2048, 16, 4095), (1000, 1, 0)]
)
def test_chunks_must_have_the_bytes_of_their_levels(count: int, width: int, size: int) -> None:
    chunks = ChunkBuffer.from_parts([np.zeros(size, dtype=np.uint8)])
    with pytest.raises(CorruptFileError, match="too early"):
        unpack_levels(chunks, np.array([count]), width)


def test_a_count_alone_takes_no_memory() -> None:
    chunks = ChunkBuffer.from_parts([np.zeros(128, dtype=np.uint8)])
    with pytest.raises(CorruptFileError, match="too early"):
        unpack_levels(chunks, np.array([1 << 50]), 1)
