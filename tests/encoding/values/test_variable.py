from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.values.values import Variable
from lance_ops.encoding.values.variable import (
    check_offsets,
    decode_variable_block,
    decode_variable_chunks,
    encode_variable_block,
    encode_variable_chunks,
    gather_values,
    plan_chunks,
)
from lance_ops.errors import CorruptFileError, InvalidArgumentError
from tests.support.oracles import oracles_in_place

texts = st.lists(st.binary(max_size=40), min_size=1, max_size=60)


def values_of(strings: list[bytes], first: int = 0) -> Variable:
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in strings])]).astype(np.int64) + first
    return Variable(offsets, pa.py_buffer(b"".join(strings)))


def strings_of(values: Variable) -> list[bytes]:
    offsets = (values.offsets - values.offsets[0]).tolist()
    data = values.data.to_pybytes()
    return [data[start:stop] for start, stop in pairwise(offsets)]


@settings(max_examples=100)
@given(strings=texts, width=st.sampled_from([4, 8]), limit=st.sampled_from([16, 64, 100, 4096]))
def test_chunks_come_back(strings: list[bytes], width: int, limit: int) -> None:
    counts, chunks = encode_variable_chunks(values_of(strings, 3), width, chunk_bytes=limit)
    assert strings_of(decode_variable_chunks(chunks, counts, width)) == strings
    assert int(counts.sum()) == len(strings)
    for count, size, start in zip(
        counts.tolist(), chunks.sizes.tolist(), chunks.starts.tolist(), strict=True
    ):
        assert size % width == 0
        assert start % width == 0
        assert size - limit < width or count <= 2
    # All but the last are powers of two.
    assert all(count >= 2 and count & (count - 1) == 0 for count in counts[:-1].tolist())


def test_kernels_and_numpy_write_the_same_chunks() -> None:
    values = values_of([b"x" * (n % 37) for n in range(5000)])
    counts, chunks = encode_variable_chunks(values, 4)
    with oracles_in_place():
        other_counts, other = encode_variable_chunks(values, 4)
    assert counts.tolist() == other_counts.tolist()
    assert [bytes(part) for part in chunks.parts()] == [bytes(part) for part in other.parts()]
    assert chunks.starts.tolist() == other.starts.tolist()


def test_chunks_fill_their_space_but_never_hold_too_many() -> None:
    assert plan_chunks(np.arange(101) * 12, 4, 1024).tolist() == [32, 32, 36]
    assert plan_chunks(np.zeros(100_001, np.int64), 4, 1 << 30).tolist() == [32768, 32768, 32768, 1696]
    assert plan_chunks(np.arange(6) * 5000, 4, 4096).tolist() == [2, 2, 1]
    assert plan_chunks(np.array([0]), 4, 4096).tolist() == []


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize(
    "offsets",
    [
        [12, 14, 13],
        [11, 12, 13],
        [12, 13, 40],
        [0, 0, 0],
        [12, 2**31, 2**31],
        [2**31 + 5, 2**31 + 5, 2**31 + 5],
    ],
)
def test_offsets_that_leave_their_chunk_are_corrupt(offsets: list[int], width: int) -> None:
    shift = 12 if width == 8 else 0
    table = np.array([offset + shift * (0 < offset < 100) for offset in offsets], dtype=f"<u{width}")
    if width == 4:
        data = np.frombuffer(table.tobytes() + b"abcd", dtype=np.uint8)
    else:
        data = np.frombuffer(table.tobytes() + b"abcdefgh", dtype=np.uint8)
    chunk = ChunkBuffer(data, np.array([0]), np.array([len(data)]))
    with pytest.raises(CorruptFileError, match="offsets of a chunk"):
        decode_variable_chunks(chunk, np.array([2]), width)


def test_offsets_beyond_every_address_are_corrupt() -> None:
    for offset in (2**63, 2**64 - 1):
        data = np.frombuffer(np.array([24, offset, offset], "<u8").tobytes() + b"abcdefgh", dtype=np.uint8)
        with pytest.raises(CorruptFileError):
            decode_variable_chunks(ChunkBuffer(data, np.array([0]), np.array([32])), np.array([2]), 8)


def test_chunks_too_short_for_their_offsets_are_corrupt() -> None:
    data = np.zeros(8, dtype=np.uint8)
    with pytest.raises(CorruptFileError, match="too short"):
        decode_variable_chunks(ChunkBuffer(data, np.array([0]), np.array([8])), np.array([2]), 4)


@settings(max_examples=100)
@given(data=st.binary(max_size=120), count=st.integers(0, 20), width=st.sampled_from([4, 8]))
def test_any_bytes_end_in_values_or_an_error(data: bytes, count: int, width: int) -> None:
    view = np.frombuffer(data, dtype=np.uint8)
    chunk = ChunkBuffer(view, np.array([0]), np.array([len(data)]))
    try:
        found = decode_variable_chunks(chunk, np.array([count]), width)
    except CorruptFileError:
        return
    assert len(found.offsets) == count + 1
    assert found.data.size == int(found.offsets[-1] - found.offsets[0]) <= len(data)


@settings(max_examples=50)
@given(strings=st.lists(st.binary(max_size=20), max_size=20), width=st.sampled_from([4, 8]))
def test_blocks_come_back(strings: list[bytes], width: int) -> None:
    block = encode_variable_block(values_of(strings, 2), width)
    assert strings_of(decode_variable_block(block, len(strings))) == strings


def test_a_block_cannot_hold_more_than_its_offsets_count() -> None:
    class Huge:
        size = 2**31

    with pytest.raises(InvalidArgumentError, match="too many"):
        encode_variable_block(Variable(np.array([0, 2**31]), Huge()), 4)


@pytest.mark.parametrize(
    "block",
    [
        b"\x10\0\0\0" + bytes(20),
        b"\x20\0\0\0" + b"\xff\0\0\0" + bytes(8),
        b"\x20\0\0\0" + b"\x10\0\0\0" + bytes(4),
        np.array([32, 16, 0, 9], "<u4").tobytes() + b"abc",
        np.array([32, 16, 3, 1], "<u4").tobytes() + b"abc",
        b"\x20\0",
    ],
)
def test_damaged_blocks_are_corrupt(block: bytes) -> None:
    with pytest.raises(CorruptFileError):
        decode_variable_block(np.frombuffer(block, dtype=np.uint8), 1)


def test_values_that_lie_apart_are_put_together() -> None:
    data = np.frombuffer(b"xxabcyydez", dtype=np.uint8)
    found = gather_values(data, np.array([2, 9, 7]), np.array([3, 0, 2]))
    assert strings_of(found) == [b"abc", b"", b"de"]
    assert strings_of(gather_values(data, np.empty(0, np.int64), np.empty(0, np.int64))) == []
    for start, length in [(9, 2), (-1, 1), (3, -2)]:
        with pytest.raises(CorruptFileError, match="within its page"):
            gather_values(data, np.array([start]), np.array([length]))


def test_offsets_are_checked() -> None:
    check_offsets(np.array([0, 3, 3]), 3)
    for offsets in ([-1, 2], [0, 4], [0, 2, 1]):
        with pytest.raises(CorruptFileError, match="decrease"):
            check_offsets(np.array(offsets), 3)
