import numpy as np
import pytest

from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.rle import decode_runs
from lance_ops.errors import CorruptFileError


def buffer(*parts: np.ndarray) -> ChunkBuffer:
    return ChunkBuffer.from_parts([np.frombuffer(part.tobytes(), dtype=np.uint8) for part in parts])


def test_runs_of_several_chunks_are_repeated() -> None:
    values = buffer(np.array([7, 8], "<u4"), np.array([9], "<u4"))
    lengths = buffer(np.array([2, 1], "u1"), np.array([255], "u1"))
    found = decode_runs(values, lengths, np.array([3, 255]), 32, 8)
    assert found.tolist() == [7, 7, 8, *[9] * 255]


def test_wide_values_come_back_as_bytes() -> None:
    value = np.arange(16, dtype=np.uint8)
    found = decode_runs(buffer(value), buffer(np.array([3], "u1")), np.array([3]), 128, 8)
    assert found.tolist() == [value.tolist()] * 3


@pytest.mark.parametrize(
    ("lengths", "counts", "match"),
    [([2, 2], [3], "do not add up"), ([1], [1], "not as many"), ([1, 1, 1], [3], "not as many")],
)
def test_lengths_must_fit(lengths: list[int], counts: list[int], match: str) -> None:
    with pytest.raises(CorruptFileError, match=match):
        decode_runs(buffer(np.array([7, 8], "<u4")), buffer(np.array(lengths, "u1")), np.array(counts), 32, 8)
