"""Members of JSON documents without making text of them: those that are of the type that is wanted."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrays import number_dtype
from lance_ops.encoding.kernels.values import jsonb

_NULL, _STRING, _NUMBER, _FALSE, _TRUE = range(5)
_ZERO, _INT, _UINT, _FLOAT = 0x00, 0x40, 0x50, 0x60

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def members_of(
    documents: pa.LargeBinaryArray, names: Sequence[str], result: pa.DataType
) -> tuple[pa.Array, Mask]:
    """Return the values under some names, each a member of the one before.

    Args:
        documents: As files hold them.
        names: At least one.
        result: int64, float64, string or bool.

    Returns:
        The values, and which documents have one that nothing can be said of here: it is of another type, or
        damaged; theirs are null.
    """
    _, offset_buffer, data_buffer = documents.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[documents.offset : documents.offset + len(documents) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    encoded = [name.encode() for name in names]
    kinds, starts, sizes = (np.zeros(len(documents), np.int64) for _ in range(3))
    jsonb.find_members(
        data=data,
        offsets=offsets,
        names=np.frombuffer(b"".join(encoded), np.uint8),
        ends=np.cumsum([len(name) for name in encoded], dtype=np.int64),
        kinds=kinds,
        starts=starts,
        sizes=sizes,
    )
    kinds[np.asarray(documents.is_null().to_numpy(zero_copy_only=False))] = jsonb.MISSING
    if pa.types.is_boolean(result):
        known = (kinds == _TRUE) | (kinds == _FALSE)
        values = pa.array(kinds == _TRUE, mask=~known)
    elif pa.types.is_string(result):
        known = kinds == _STRING
        values = _texts(data, starts, np.where(known, sizes, 0), known)
    else:
        numbers, known = _numbers(data, kinds, starts, sizes, number_dtype(result))
        values = pa.array(numbers, mask=~known)
    return values, ~known & (kinds != jsonb.MISSING) & (kinds != _NULL)


def _numbers(
    data: npt.NDArray[np.uint8],
    kinds: Integers,
    starts: Integers,
    sizes: Integers,
    dtype: np.dtype[np.generic],
) -> tuple[npt.NDArray[np.generic], Mask]:
    """Return numbers that are of a type as they are, and which documents have one."""
    found = np.zeros(len(kinds), dtype)
    known = np.zeros(len(kinds), np.bool_)
    rows = np.flatnonzero((kinds == _NUMBER) & (sizes > 0))
    tags = data[starts[rows]]
    zeros = rows[(tags == _ZERO) & (sizes[rows] == 1)]
    known[zeros] = True
    for tag, letter in ((_INT, "i"), (_UINT, "u"), (_FLOAT, "f")):
        for width in (8,) if tag == _FLOAT else (1, 2, 4, 8):
            some = rows[(tags == tag) & (sizes[rows] == width + 1)]
            if not len(some) or (letter == "f" and dtype.kind != "f"):
                continue
            stored = data[starts[some][:, None] + 1 + np.arange(width)].view(f">{letter}{width}").reshape(-1)
            # What needs more than 63 bits is no integer for a user, and infinity no number of JSON.
            fits = stored < 1 << 63 if tag == _UINT and width == 8 else np.isfinite(stored)
            found[some] = stored.astype(dtype)
            known[some[fits]] = True
    return found, known


def _texts(data: npt.NDArray[np.uint8], starts: Integers, sizes: Integers, known: Mask) -> pa.StringArray:
    ends = np.cumsum(sizes)
    picked = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + sizes, sizes)
    offsets = np.concatenate(([0], ends))
    validity = pa.py_buffer(np.packbits(known, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data[picked])]
    # The cast sees whether they are text.
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers).cast(pa.string())
