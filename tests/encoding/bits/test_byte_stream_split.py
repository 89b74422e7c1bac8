import numpy as np
import pytest

from lance_ops.encoding.bits.byte_stream_split import join_streams, split_streams
from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.errors import CorruptFileError


def test_the_bytes_of_a_chunk_are_split_by_their_place() -> None:
    streams = split_streams(np.array([0x04030201, 0x14131211, 5], "<u4"), np.array([2, 1]))
    found = [part.tolist() for part in streams.parts()]
    assert found == [[0x01, 0x11, 0x02, 0x12, 0x03, 0x13, 0x04, 0x14], [5, 0, 0, 0]]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("counts", [[1], [1024, 1024, 100], [0, 3]])
def test_split_values_come_back(counts: list[int], bits: int) -> None:
    values = np.frombuffer(np.random.default_rng(1).bytes(sum(counts) * bits // 8), f"<u{bits // 8}")
    streams = split_streams(values, np.array(counts))
    assert join_streams(streams, np.array(counts), bits).tobytes() == values.tobytes()


def test_streams_that_end_too_early_are_refused() -> None:
    short = ChunkBuffer.from_parts([np.zeros(31, dtype=np.uint8)])
    with pytest.raises(CorruptFileError, match="too short"):
        join_streams(short, np.array([4]), 64)
    with pytest.raises(CorruptFileError, match="12 bits"):
        join_streams(short, np.array([4]), 12)
