"""Packed structs: all members of a row next to each other, row after row, for structs that are read whole."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.memory import empty
from lance_ops.errors import CorruptFileError


def decode_packed(data: pa.Buffer, widths: Sequence[int], length: int) -> list[pa.Buffer]:
    """Collect the bytes of each member.

    Args:
        data: `length` rows of `sum(widths)` bytes.
        widths: Bytes per row of each member.
        length: Number of rows.

    Raises:
        CorruptFileError: There are too few bytes.
    """
    stride = sum(widths)
    if data.size < length * stride:
        raise CorruptFileError(f"{length} packed rows of {stride} bytes do not fit into {data.size} bytes")
    rows = np.frombuffer(data, dtype=np.uint8, count=length * stride)
    starts = accumulate(widths, initial=0)
    return [
        pa.py_buffer(pick_column(rows, length, stride, start, width))
        for start, width in zip(starts, widths, strict=False)
    ]


def pick_column(
    rows: npt.NDArray[np.uint8], length: int, stride: int, start: int, width: int
) -> npt.NDArray[np.uint8]:
    """Collect the bytes that some column has in each row.

    Args:
        rows: The bytes of the rows.
        length: Number of rows.
        stride: Bytes of a row.
        start: First byte of the column in a row.
        width: Bytes of the column.

    Raises:
        CorruptFileError: There are too few bytes.
    """
    if len(rows) < length * stride:
        raise CorruptFileError(f"{length} rows of {stride} bytes do not fit into {len(rows)} bytes")
    column = empty(length * width, np.uint8)
    if len(column):
        # As wide elements, which need no alignment: byte by byte takes ten times as long.
        column.view(f"V{width}")[:] = _column(rows, length, stride, start, width)
    return column


def _column(
    rows: npt.NDArray[np.uint8], length: int, stride: int, start: int, width: int
) -> npt.NDArray[np.void]:
    return np.ndarray((length,), f"V{width}", rows, start, (stride,))


def encode_packed(members: Sequence[pa.Buffer], widths: Sequence[int], length: int) -> pa.Buffer:
    """Interleave the bytes of the members.

    Args:
        members: `length * width` bytes of each member.
        widths: Bytes per row of each member.
        length: Number of rows.
    """
    stride = sum(widths)
    rows = empty(length * stride, np.uint8)
    start = 0
    for member, width in zip(members, widths, strict=True):
        if length:
            _column(rows, length, stride, start, width)[:] = np.frombuffer(member, f"V{width}", length)
        start += width
    return pa.py_buffer(rows)
