"""End offsets with a null adjustment: how 2.0 stores the extents of strings and lists.

A page holds, for each row, where its bytes (or items) end, counted from the start of the page; the leading
zero of Arrow's offsets is left out. A null row has `null adjustment` added to the end, which is larger than
any real end, so that one row can be read from its own entry and the one before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.values import end_offsets_decode, end_offsets_encode
from lance_ops.encoding.memory import empty
from lance_ops.errors import CorruptFileError

_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}

_NO_NULLS = np.zeros(0, dtype=np.uint8)

_Offsets = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Extents:
    """Extents of the bytes (or items) of consecutive rows, as in Arrow.

    Attributes:
        offsets: Shape (n + 1,), of 32 or 64 bits.
        validity: Bitmap, None if no row is null.
        bit: Of the first row in the bitmap.
    """

    offsets: _Offsets
    validity: npt.NDArray[np.uint8] | None
    bit: int

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of_array(cls, array: pa.Array, *, large: bool) -> "Extents":
        """Return those of strings or lists, without a copy.

        Args:
            array: string, binary, list, or the large type of one; may be a slice.
            large: True if it is a large type.
        """
        validity, data = array.buffers()[:2]
        if data is None or len(array) == 0:
            # Arrow allows empty arrays to lack their buffers.
            return cls(np.zeros(1, dtype=np.int64), None, 0)
        dtype: Any = np.dtype(np.int64 if large else np.int32)
        offsets = np.frombuffer(data, dtype, len(array) + 1, array.offset * dtype.itemsize)
        if not offsets.flags.aligned:
            # As in messages from other programs; compiled loops refuse them.
            offsets = offsets.copy()
        if array.null_count == 0:
            return cls(offsets, None, 0)
        bits = array.offset + len(array)
        return cls(offsets, np.frombuffer(validity, np.uint8, (bits + 7) // 8), array.offset)

    @property
    def span(self) -> int:
        """Bytes from where the first row begins to where the last one ends, those under null rows too."""
        return int(self.offsets[-1] - self.offsets[0])

    def copy(self) -> "Extents":
        """Return the same, in memory of its own."""
        if self.validity is None:
            return Extents(self.offsets.copy(), None, 0)
        return Extents(self.offsets.copy(), self.validity[self.bit // 8 :].copy(), self.bit % 8)

    def measure(self) -> int:
        """Return bytes of the rows that are not null."""
        if self.validity is None or not self.span:
            return self.span
        return end_offsets_encode.measure(offsets=self.offsets, validity=self.validity, bit=self.bit)

    def valid(self) -> npt.NDArray[np.bool_]:
        """One boolean a row."""
        if self.validity is None:
            return np.ones(len(self), dtype=np.bool_)
        bits = np.unpackbits(self.validity, count=self.bit + len(self), bitorder="little")
        return bits[self.bit :].view(np.bool_)


def decode_words(data: pa.Buffer, bits: int, length: int) -> npt.NDArray[np.uint64]:
    """Unsigned integers of any byte width as 64-bit ones.

    Raises:
        CorruptFileError: The width is none of 8, 16, 32, 64, or there are too few bytes.
    """
    word = _WORDS.get(bits)
    if word is None:
        raise CorruptFileError(f"offsets of {bits} bits")
    if data.size < length * bits // 8:
        raise CorruptFileError(f"{length} offsets of {bits} bits do not fit into {data.size} bytes")
    return np.frombuffer(data, dtype=word, count=length).astype(np.uint64, copy=False)


def decode_end_offsets(
    ends: npt.NDArray[np.uint64], adjustment: int, limit: int, *, has_predecessor: bool
) -> tuple[npt.NDArray[np.int64], pa.Buffer | None]:
    """Turn stored ends into Arrow offsets.

    Args:
        ends: Stored ends of consecutive rows, shape (n,) or (n + 1,) with the row before them in front.
        adjustment: The null adjustment of the page; 0 when it has none.
        limit: Size of what the offsets point into.
        has_predecessor: True if the first entry belongs to the row before; without it the rows start at 0.

    Returns:
        Offsets of shape (n + 1,), the first being where the first row starts in the page, and the validity
        bitmap of the n rows, None if none is null.

    Raises:
        CorruptFileError: The ends decrease, or exceed the limit.
    """
    length = len(ends) - has_predecessor
    offsets = empty(length + 1, np.int64)
    bits = np.zeros((length + 7) // 8, dtype=np.uint8)
    nulls = end_offsets_decode.decode(
        ends=ends,
        step=adjustment,
        limit=limit,
        skipped=int(has_predecessor),
        offsets=offsets,
        validity=bits,
    )
    if nulls == end_offsets_decode.TOO_LARGE:
        raise CorruptFileError(f"an end offset exceeds the {limit} that there are")
    if nulls == end_offsets_decode.DECREASING:
        raise CorruptFileError("end offsets decrease")
    return offsets, pa.py_buffer(bits) if nulls else None


def encode_end_offsets(
    lengths: npt.NDArray[np.int64], valid: npt.NDArray[np.bool_] | None
) -> tuple[npt.NDArray[np.uint64], int, int]:
    """Ends of rows of the given lengths.

    Args:
        lengths: Shape (n,), 0 for null rows.
        valid: Shape (n,), None if no row is null.

    Returns:
        The ends, the null adjustment, and the total length.
    """
    ends = np.cumsum(lengths, dtype=np.uint64)
    total = int(ends[-1]) if len(ends) else 0
    adjustment = total + 1
    if valid is not None:
        ends[~valid] += np.uint64(adjustment)
    return ends, adjustment, total


def encode_extents(
    parts: Sequence[Extents], lengths: Sequence[int]
) -> tuple[npt.NDArray[np.uint64], int, int]:
    """Ends of rows that follow each other.

    Args:
        parts: The rows; null rows have no length, whatever their offsets say.
        lengths: What `Extents.measure` says of each part.

    Returns:
        The ends, the null adjustment, and the total length.
    """
    ends: npt.NDArray[np.uint64] = empty(sum(map(len, parts)), np.uint64)
    adjustment = sum(lengths) + 1
    row, base = 0, 0
    for part, length in zip(parts, lengths, strict=True):
        end_offsets_encode.encode(
            offsets=part.offsets,
            validity=_NO_NULLS if part.validity is None else part.validity,
            bit=part.bit,
            base=base,
            adjustment=adjustment,
            ends=ends[row : row + len(part)],
        )
        row += len(part)
        base += length
    return ends, adjustment, base


def narrow_offsets(offsets: npt.NDArray[np.int64] | npt.NDArray[np.int32], *, large: bool) -> pa.Buffer:
    """Offsets, moved to start at 0, in the width of the Arrow type; without a copy where nothing changes.

    Raises:
        CorruptFileError: They need 64 bits, and the type has 32.
    """
    moved = offsets - offsets[0] if offsets[0] else offsets
    if large:
        return pa.py_buffer(moved.astype(np.int64, copy=False))
    if int(moved[-1]) >= 2**31:
        raise CorruptFileError(
            f"{int(moved[-1])} bytes or items do not fit into one array with 32-bit offsets",
            hint="read fewer rows at once, or declare the column with a large_ type",
        )
    return pa.py_buffer(moved.astype(np.int32, copy=False))
