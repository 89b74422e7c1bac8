"""Packed structs: all members of a row next to each other, row after row, for structs that are read whole."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

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
    rows = np.frombuffer(data, dtype=np.uint8, count=length * stride).reshape(length, stride)
    stops = np.cumsum(widths)
    return [
        pa.py_buffer(np.ascontiguousarray(rows[:, stop - width : stop]))
        for width, stop in zip(widths, stops, strict=True)
    ]


def encode_packed(members: Sequence[pa.Buffer], widths: Sequence[int], length: int) -> pa.Buffer:
    """Interleave the bytes of the members.

    Args:
        members: `length * width` bytes of each member.
        widths: Bytes per row of each member.
        length: Number of rows.
    """
    rows = np.empty((length, sum(widths)), dtype=np.uint8)
    stop = 0
    for member, width in zip(members, widths, strict=True):
        start, stop = stop, stop + width
        rows[:, start:stop] = np.frombuffer(member, dtype=np.uint8, count=length * width).reshape(
            length, width
        )
    return pa.py_buffer(rows)
