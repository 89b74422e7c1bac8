"""Packed structs: members next to each other, row after row."""

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.values.packed_struct import decode_packed, encode_packed, pick_column
from lance_ops.errors import CorruptFileError


@pytest.mark.parametrize("length", [0, 1, 1000])
@pytest.mark.parametrize("widths", [[1], [4, 8], [3, 1, 12], [16, 300]])
def test_members_of_any_width_come_back(widths: list[int], length: int) -> None:
    random = np.random.default_rng(1)
    members = [pa.py_buffer(random.integers(0, 256, length * width, dtype=np.uint8)) for width in widths]
    packed = encode_packed(members, widths, length)
    assert packed.size == length * sum(widths)
    found = decode_packed(packed, widths, length)
    assert [member.to_pybytes() for member in found] == [member.to_pybytes() for member in members]


def test_rows_may_begin_at_any_byte() -> None:
    rows = np.arange(37, dtype=np.uint8)[1:]
    assert pick_column(rows, 4, 9, 2, 4).reshape(4, 4)[:, 0].tolist() == [3, 12, 21, 30]


def test_too_few_bytes_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="do not fit"):
        decode_packed(pa.py_buffer(bytes(23)), [4, 8], 2)
    with pytest.raises(CorruptFileError, match="do not fit"):
        pick_column(np.zeros(23, dtype=np.uint8), 2, 12, 0, 4)
