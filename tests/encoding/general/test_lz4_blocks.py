"""Blocks of LZ4 that are whole, and those that are not though the library unpacks them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.encoding.general.lz4_blocks import unpack_block
from lance_ops.errors import CorruptFileError
from tests.support.oracles import oracles_in_place

CODEC = pa.Codec("lz4_raw")
VALUES = [
    b"x",
    b"abc" * 10,
    bytes(70_000),
    bytes(range(256)) * 3,
    np.random.default_rng(0).bytes(5000),
    b"".join(f"user-{n:08d}".encode() for n in np.random.default_rng(0).integers(0, 10**8, 3000)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(len(value)))
def test_whole_blocks_are_unpacked(value: bytes) -> None:
    assert unpack_block(CODEC.compress(value), len(value)).to_pybytes() == value


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(len(value)))
def test_a_block_becomes_as_much_as_it_says(value: bytes) -> None:
    block = CODEC.compress(value)
    for wrong in (len(value) - 1, len(value) + 1, 2 * len(value)):
        with pytest.raises(CorruptFileError, match="lz4"):
            unpack_block(block, wrong)
    with pytest.raises(CorruptFileError, match="lz4"):
        unpack_block(block.slice(0, block.size - 1), len(value))


@pytest.mark.parametrize("distance", [0, 5, 0xFFFF])
def test_nothing_is_repeated_that_was_not_written(distance: int) -> None:
    def block(distance: int) -> pa.Buffer:
        return pa.py_buffer(b"\x44abcd" + distance.to_bytes(2, "little") + b"\x50edcba")

    assert unpack_block(block(4), 17).to_pybytes() == b"abcd" * 3 + b"edcba"
    with pytest.raises(CorruptFileError, match="lz4"):
        unpack_block(block(distance), 17)


@given(st.binary(max_size=60), st.integers(1, 400))
def test_any_bytes_always_become_the_same(block: bytes, size: int) -> None:
    def outcome() -> bytes | None:
        try:
            return unpack_block(pa.py_buffer(block), size).to_pybytes()
        except CorruptFileError:
            return None

    first = outcome()
    with oracles_in_place():
        assert outcome() == first
