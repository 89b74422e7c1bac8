"""Random bytes for every compression of numbers: values or a typed error, the same as by the oracles."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.values.values import Fixed, as_bits, as_bytes
from lance_ops.errors import CorruptFileError, LanceOpsError
from lance_ops.file.v2_1.compression.decode import decode_block, decode_chunk_values, decode_levels
from lance_ops.file.v2_1.compression.descriptions import (
    describe_flat,
    describe_general,
    describe_inline_bitpacking,
    describe_out_of_line_bitpacking,
    describe_runs,
    describe_split_streams,
)
from lance_ops.file.v2_1.compression.fixed import compress_fixed
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.pb import encodings21_pb2 as pb
from tests.support.oracles import oracles_in_place

ENCODINGS = [
    *(describe_flat(bits) for bits in (1, 8, 64, 128, 24)),
    *(describe_inline_bitpacking(bits) for bits in (8, 16, 32, 64, 12)),
    *(
        describe_out_of_line_bitpacking(bits, width)
        for bits, width in ((16, 1), (16, 3), (32, 31), (64, 64), (8, 9))
    ),
    *(describe_runs(bits) for bits in (8, 16, 32, 64, 128, 0)),
    *(describe_split_streams(bits) for bits in (16, 32, 64, 128)),
    describe_general("lz4", None, describe_inline_bitpacking(32)),
    describe_general("zstd", None, describe_runs(16)),
    describe_general("lz4", None, describe_flat(64)),
]


def outcome(decode: Callable[[], object]) -> object:
    """The bytes of the values, or that there is an error."""
    try:
        values = decode()
    except LanceOpsError:
        return "error"
    if isinstance(values, np.ndarray):
        return values.tobytes()
    assert isinstance(values, Fixed)
    return values.length, (as_bits(values) if values.bits == 1 else as_bytes(values)).tobytes()


def as_its_oracle(decode: Callable[[], object]) -> object:
    found = outcome(decode)
    with oracles_in_place():
        assert outcome(decode) == found
    return found


@st.composite
def chunk_buffers(draw: st.DrawFn, chunks: int) -> ChunkBuffer:
    """Parts at multiples of 8 of random bytes, as a page can have them; small numbers are frequent."""
    sizes = draw(st.lists(st.integers(0, 300), min_size=chunks, max_size=chunks))
    seed, small = draw(st.integers(0, 2**32)), draw(st.booleans())
    rng = np.random.default_rng(seed)
    return ChunkBuffer.from_parts(
        [rng.integers(0, 20 if small else 256, size).astype(np.uint8) for size in sizes]
    )


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: str(encoding.WhichOneof("compression")))
@given(data=st.data())
@settings(max_examples=60)
def test_random_chunks_are_values_or_corrupt(encoding: pb.CompressiveEncoding, data: st.DataObject) -> None:
    counts = np.array(data.draw(st.lists(st.integers(0, 1100), min_size=1, max_size=4)), dtype=np.int64)
    buffers = [data.draw(chunk_buffers(len(counts))) for _ in range(2 if "rle" in str(encoding) else 1)]
    found = as_its_oracle(lambda: decode_chunk_values(encoding, tuple(buffers), counts))
    assert found == "error" or found[0] == counts.sum()  # type: ignore[index]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: str(encoding.WhichOneof("compression")))
@given(data=st.data())
@settings(max_examples=30)
def test_random_blocks_and_levels_are_values_or_corrupt(
    encoding: pb.CompressiveEncoding, data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, 1100) | st.integers(0, 2**31))
    buffer = data.draw(chunk_buffers(1))
    as_its_oracle(lambda: decode_block(encoding, buffer.parts()[0], count))
    counts = np.array(data.draw(st.lists(st.integers(0, 1100), min_size=3, max_size=3)), dtype=np.int64)
    levels = data.draw(chunk_buffers(3))
    as_its_oracle(lambda: decode_levels(encoding, levels, counts))


# Made when a test asks: collecting the tests does not wait for the compiler.
WORDS: dict[str, Callable[[np.random.Generator], np.ndarray[Any, np.dtype[Any]]]] = {
    "counting": lambda rng: np.arange(5000, dtype=np.uint64),
    "small": lambda rng: rng.integers(0, 60, 5000).astype(np.uint8),
    "runs": lambda rng: np.repeat(rng.integers(0, 2**40, 100), rng.integers(1, 300, 100)).astype(np.uint64),
    "random": lambda rng: rng.random(3000).view(np.uint64),
}
OPTIONS = {
    "default": FieldOptions(),
    "lz4": FieldOptions(compression="lz4"),
    "zstd": FieldOptions(compression="zstd", bss="on"),
}


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("options", OPTIONS)
def test_damaged_chunks_are_values_or_corrupt(words: str, options: str) -> None:
    values = WORDS[words](np.random.default_rng(1))
    page = compress_fixed(Fixed(values.dtype.itemsize * 8, len(values), values), OPTIONS[options], "2.2")
    rng = np.random.default_rng(2)
    for _ in range(40):
        buffers = []
        for buffer in page.buffers:
            data = buffer.data.copy()
            places = rng.integers(0, len(data), 4)
            data[places] = rng.integers(0, 256, 4)
            if rng.random() < 0.3:
                # The first byte of a chunk decides most.
                data[rng.choice(buffer.starts)] = rng.integers(0, 256)
            buffers.append(ChunkBuffer(data, buffer.starts, buffer.sizes))
        decode = partial(decode_chunk_values, page.encoding, tuple(buffers), page.counts)
        as_its_oracle(decode)


def test_counts_that_overflow_are_refused() -> None:
    data = np.zeros(100, dtype=np.uint8)
    with pytest.raises(CorruptFileError, match="values of 17179869184 bits"):
        decode_block(describe_flat(1 << 34), data, (1 << 31) - 1)
    lists = describe_flat(8)
    for _ in range(3):
        lists = pb.CompressiveEncoding(
            fixed_size_list=pb.FixedSizeList(items_per_value=(1 << 31) - 1, values=lists)
        )
    with pytest.raises(CorruptFileError, match=f"fixed-size lists of {((1 << 31) - 1) ** 2} items"):
        decode_block(lists, data, 1000)
