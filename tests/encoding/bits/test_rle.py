import numpy as np
import pytest

from lance_ops.encoding.bits.rle import (
    count_runs,
    decode_runs,
    encode_run_blocks,
    encode_runs,
)
from lance_ops.encoding.chunks import ChunkBuffer
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


def random_runs(total: int, longest: int, dtype: str = "<u4") -> np.ndarray:
    rng = np.random.default_rng(longest)
    return np.repeat(rng.integers(0, 3, total), rng.integers(1, longest + 1, total))[:total].astype(dtype)


@pytest.mark.parametrize("dtype", ["<u1", "<u2", "<u4", "<u8"])
@pytest.mark.parametrize("longest", [1, 4, 700])
@pytest.mark.parametrize("counts", [[1], [2048, 2048, 1000], [5, 300, 1]])
def test_runs_come_back(counts: list[int], longest: int, dtype: str) -> None:
    values = random_runs(sum(counts), longest, dtype)
    run_values, run_lengths = encode_runs(values, np.array(counts))
    bits = values.dtype.itemsize * 8
    assert decode_runs(run_values, run_lengths, np.array(counts), bits, 8).tolist() == values.tolist()


def test_long_runs_are_several() -> None:
    run_values, run_lengths = encode_runs(np.full(600, 7, np.uint8), np.array([512, 88]))
    assert [part.tolist() for part in run_values.parts()] == [[7] * 3, [7]]
    assert [part.tolist() for part in run_lengths.parts()] == [[255, 255, 2], [88]]


def test_a_block_of_runs_begins_with_the_size_of_the_values() -> None:
    values = np.array([5, 5, 5, 6], "<u2")
    expected = (4).to_bytes(8, "little") + np.array([5, 6], "<u2").tobytes() + bytes([3, 1])
    blocks = encode_run_blocks(values, np.array([4, 2][:1]))
    assert [part.tobytes() for part in blocks.parts()] == [expected]


def test_runs_are_counted_however_long() -> None:
    assert count_runs(np.array([], "<u4")) == 0
    assert count_runs(np.full(1000, 3, "<u4")) == 1
    assert count_runs(np.array([1, 1, 2, 1], "<u8")) == 3
