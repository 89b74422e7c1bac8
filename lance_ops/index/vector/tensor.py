"""Tensor: an array of numbers in the format's own message, with its shape and type."""

from typing import Any

import numpy as np
import numpy.typing as npt

from lance_ops.errors import CorruptFileError
from lance_ops.pb import index_pb2

_TYPES: dict[Any, np.dtype[Any]] = {
    index_pb2.Tensor.FLOAT16: np.dtype("<f2"),
    index_pb2.Tensor.FLOAT32: np.dtype("<f4"),
    index_pb2.Tensor.FLOAT64: np.dtype("<f8"),
    index_pb2.Tensor.UINT8: np.dtype("u1"),
}
_NUMBERS = {dtype: number for number, dtype in _TYPES.items()}


def encode_tensor(values: npt.NDArray[Any]) -> index_pb2.Tensor:
    """Return the message of an array of floats or bytes."""
    dtype = values.dtype.newbyteorder("<")
    data = np.ascontiguousarray(values, dtype).tobytes()
    return index_pb2.Tensor(data_type=_NUMBERS[dtype], shape=values.shape, data=data)


def decode_tensor(message: index_pb2.Tensor, *, path: str, field: str) -> npt.NDArray[Any]:
    """Return the array of a message.

    Args:
        message: The message.
        path: The file, for errors.
        field: Name of the field, for errors.

    Raises:
        CorruptFileError: its type is not supported, or its size does not match its shape.
    """
    dtype = _TYPES.get(message.data_type)
    if dtype is None:
        raise CorruptFileError(f"numbers of type {message.data_type}", path=path, field=field)
    shape = tuple(message.shape)
    count = 1
    for length in shape:
        count *= length
    if not shape or count * dtype.itemsize != len(message.data):
        raise CorruptFileError(
            f"{len(message.data):,} bytes do not match {dtype} of shape {shape}", path=path, field=field
        )
    return np.frombuffer(message.data, dtype).reshape(shape)
