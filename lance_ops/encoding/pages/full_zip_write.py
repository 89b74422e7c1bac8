"""Full-zip: the bytes of one entry after the other, each its levels, its length, and its value."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.pages import full_zip_encode as loops
from lance_ops.encoding.memory import empty
from lance_ops.encoding.values.values import Variable
from lance_ops.errors import LanceOpsError

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Levels = npt.NDArray[np.uint16]

_INDEX_WORDS = (np.uint8, np.uint16, np.uint32, np.uint64)


def control_words(
    rep: Levels | None, definition: Levels | None, rep_bits: int, def_bits: int
) -> npt.NDArray[np.unsignedinteger] | None:
    """Both levels of each entry in one little-endian word of 1, 2 or 4 bytes, None without levels.

    Args:
        rep: Repetition levels.
        definition: Definition levels.
        rep_bits: Bits of a repetition level, 0 without.
        def_bits: Bits of a definition level, which are the lowest ones; 0 without.
    """
    bits = rep_bits + def_bits
    if bits == 0:
        return None
    word = np.dtype("u1" if bits <= 8 else "<u2" if bits <= 16 else "<u4")
    levels = rep if rep is not None else definition
    assert levels is not None
    words = np.zeros(len(levels), dtype=word)
    if definition is not None:
        words |= definition.astype(word)
    if rep is not None:
        words |= rep.astype(word) << word.type(def_bits)
    return words


def zip_rows(control: npt.NDArray[np.unsignedinteger] | None, values: Bytes, width: int) -> Bytes:
    """Entries that all have a value of the same width.

    Args:
        control: Levels, one word an entry; None without, and then nothing is copied.
        values: `width` bytes an entry.
        width: In bytes.
    """
    if control is None:
        return values
    stride = control.itemsize + width
    rows = np.empty((len(control), stride), dtype=np.uint8)
    rows[:, : control.itemsize] = control.view(np.uint8).reshape(len(control), control.itemsize)
    rows[:, control.itemsize :] = values.reshape(len(control), width)
    return rows.reshape(-1)


def zip_entries(
    control: npt.NDArray[np.unsignedinteger] | None,
    present: npt.NDArray[np.bool_] | None,
    values: Variable,
    length_bytes: int,
) -> tuple[Bytes, Integers]:
    """Entries of different sizes.

    Args:
        control: Levels, one word an entry; None without.
        present: Which entries have a length and a value, None when all have; the others are levels alone.
        values: Of the entries that have one.
        length_bytes: Width of the length in front of each value: 4, 8, or 0 for none.

    Returns:
        The bytes, and where each entry starts, with the end of the last one.
    """
    count = values.length if present is None else len(present)
    lengths = np.diff(values.offsets)
    if length_bytes == 4 and len(lengths) and int(lengths.max()) > np.iinfo(np.uint32).max:
        raise LanceOpsError(f"a value of {int(lengths.max())} bytes is too long for its column")
    sizes = lengths
    offsets = values.offsets
    if present is not None:
        sizes = np.zeros(count, dtype=np.int64)
        sizes[present] = lengths
        offsets = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
    heads, head_offsets = _heads(control, present, lengths, length_bytes, count)
    starts = np.diff(head_offsets) + sizes
    starts = np.concatenate([[0], np.cumsum(starts)])
    joined = join_pieces([Variable(head_offsets, pa.py_buffer(heads)), Variable(offsets, values.data)])
    return np.frombuffer(joined.data, dtype=np.uint8, count=int(starts[-1])), starts


def length_rows(values: Variable, length_bytes: int) -> Bytes:
    """Return the length of each value as a row of bytes, shape (n, length_bytes)."""
    lengths = np.diff(values.offsets).astype(f"<u{length_bytes}")
    return lengths.view(np.uint8).reshape(values.length, length_bytes)


def join_pieces(pieces: Sequence[Bytes | Variable]) -> Variable:
    """Append pieces of rows to each other, row by row.

    Args:
        pieces: At least one: bytes of shape (n, width), or strings; all have the same number of rows.
    """
    flat = [np.ascontiguousarray(_piece_bytes(piece)) for piece in pieces]
    offsets = [_piece_offsets(piece) for piece in pieces]
    widths = [piece.shape[1] if isinstance(piece, np.ndarray) else 0 for piece in pieces]
    count = len(pieces[0]) if isinstance(pieces[0], np.ndarray) else pieces[0].length
    total = sum(map(len, flat))
    joined, ends = empty(total + loops.SLACK, np.uint8), empty(count + 1, np.int64)
    loops.join(pieces=flat, offsets=offsets, widths=widths, count=count, target=joined, ends=ends)
    return Variable(ends, pa.py_buffer(joined[:total]))


def _piece_bytes(piece: Bytes | Variable) -> Bytes:
    if isinstance(piece, np.ndarray):
        return piece.reshape(-1)
    return np.frombuffer(piece.data, dtype=np.uint8, count=int(piece.offsets[-1] - piece.offsets[0]))


def _piece_offsets(piece: Bytes | Variable) -> Integers | None:
    if isinstance(piece, np.ndarray):
        return None
    return np.ascontiguousarray(piece.offsets - piece.offsets[0], dtype=np.int64)


def pack_index(positions: Integers) -> Bytes:
    """Return positions in the narrowest of 1, 2, 4 and 8 bytes that holds the largest one."""
    largest = int(positions.max()) if len(positions) else 0
    word = next(word for word in _INDEX_WORDS if largest <= np.iinfo(word).max)
    return positions.astype(np.dtype(word).newbyteorder("<")).view(np.uint8)


def _heads(
    control: npt.NDArray[np.unsignedinteger] | None,
    present: npt.NDArray[np.bool_] | None,
    lengths: Integers,
    length_bytes: int,
    count: int,
) -> tuple[Bytes, Integers]:
    control_bytes = 0 if control is None else control.itemsize
    width = control_bytes + length_bytes
    rows = np.zeros((count, width), dtype=np.uint8)
    if control is not None:
        rows[:, :control_bytes] = control.view(np.uint8).reshape(count, control_bytes)
    if length_bytes:
        words = lengths.astype(f"<u{length_bytes}").view(np.uint8).reshape(len(lengths), length_bytes)
        rows[slice(None) if present is None else present, control_bytes:] = words
    if present is None or not length_bytes:
        return rows.reshape(-1), np.arange(count + 1, dtype=np.int64) * width
    kept = np.ones((count, width), dtype=np.bool_)
    kept[~present, control_bytes:] = False
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(control_bytes + np.where(present, length_bytes, 0), out=offsets[1:])
    return rows[kept], offsets
