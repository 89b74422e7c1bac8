"""Filtered values: rows dropped from those of a page, in whatever form they are between two compressions.

Strings that are compressed one by one are values of variable width here: their bytes move as they are.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import CHUNK_ROOM
from lance_ops.encoding.kernels.pages import page_copy
from lance_ops.encoding.memory import empty
from lance_ops.encoding.values.values import Fixed, Lists, Nulls, Packed, Values, Variable
from lance_ops.errors import CorruptFileError

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Values in so long runs, of those that stay and those that go, are faster copied run by run.
_LONG_RUN = 16
_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def keep_values(values: Values, keep: Mask) -> Values:
    """Return the values that stay.

    Args:
        values: Of any kind.
        keep: Shape (values.length,).

    Raises:
        CorruptFileError: The mask is of another length, which means that levels and values disagree.
    """
    if len(keep) != values.length:
        raise CorruptFileError(f"{values.length} values where the levels say {len(keep)}")
    count = int(np.count_nonzero(keep))
    if isinstance(values, Nulls):
        return Nulls(count)
    if isinstance(values, Variable):
        return _keep_variable(values, keep)
    if isinstance(values, Packed):
        return Packed(count, tuple(keep_values(member, keep) for member in values.members))
    if isinstance(values, Lists):
        items = np.repeat(keep, values.size)
        valid = None if values.valid is None else values.valid[items]
        inner = values.items
        if isinstance(inner, Fixed) and inner.bits % 8 == 0:
            rows = keep_values(Fixed(inner.bits * values.size, values.length, inner.data), keep)
            assert isinstance(rows, Fixed)
            kept: Values = Fixed(inner.bits, count * values.size, rows.data)
        else:
            kept = keep_values(inner, items)
        return Lists(values.size, count, kept, valid)
    return Fixed(values.bits, count, _keep_rows(values, keep))


def _keep_rows(values: Fixed, keep: Mask) -> npt.NDArray[Any]:
    if values.bits == 1:
        if isinstance(values.data, pa.Buffer):
            flags = np.unpackbits(
                np.frombuffer(values.data, np.uint8), count=values.length, bitorder="little"
            )
            return flags.view(np.bool_)[keep]
        return values.data.reshape(-1)[: values.length][keep]
    data = np.frombuffer(values.data, np.uint8) if isinstance(values.data, pa.Buffer) else values.data
    flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    size = values.length * values.bits // 8
    if len(flat) < size:
        raise CorruptFileError(f"{values.length} values of {values.bits} bits in {len(flat)} bytes")
    width = values.bits // 8
    starts, stops = mask_ranges(keep)
    if len(keep) >= _LONG_RUN * len(starts):
        return gather_ranges(flat[:size], starts * width, stops * width)
    word = _WORDS.get(values.bits)
    if word is not None:
        return flat[:size].view(word)[keep]
    return flat[:size].reshape(values.length, width)[keep].reshape(-1)


def _keep_variable(values: Variable, keep: Mask) -> Variable:
    ends = values.offsets.astype(np.int64, copy=False) - values.offsets[0]
    lengths = np.diff(ends)[keep]
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    first, last = mask_ranges(keep)
    data = gather_ranges(np.frombuffer(values.data, dtype=np.uint8), ends[first], ends[last])
    return Variable(offsets, pa.py_buffer(data))


def keep_strings(
    table: Bytes,
    chunks: Bytes,
    num_values: int,
    gone: tuple[Integers, Integers],
    *,
    word_bytes: int,
    width: int,
    chunk_bytes: int,
    limit: int,
) -> tuple[Bytes, Bytes] | None:
    """Drop values from the chunks of a page without levels, whose only buffer are offsets and bytes.

    Args:
        table: The words that describe the chunks.
        chunks: The chunks.
        num_values: Of the page, not all of which go.
        gone: Starts and stops of the values that go, ascending.
        word_bytes: Bytes of a word: 2 (2.1) or 4 (2.2).
        width: Bytes of an offset: 4 or 8.
        chunk_bytes: What the buffer of a chunk holds at most, if it is not of two values only.
        limit: What it holds at most.

    Returns:
        The new table and the new chunks; None when values are too large.

    Raises:
        CorruptFileError: The chunks are not what the table says.
    """
    if len(table) % word_bytes or not len(table) or not 0 < num_values <= len(chunks) // width:
        raise CorruptFileError(f"{num_values} strings cannot be in {len(chunks)} bytes")
    starts, stops = gone
    count = num_values - int((stops - starts).sum())
    if count <= 0:
        raise CorruptFileError(f"{num_values} strings where more are to go")
    # Chunks have two values at least, and take so much besides.
    most = (count + 1) // 2
    new_table = np.empty(most * word_bytes, dtype=np.uint8)
    room = len(chunks) + count * width + most * (2 * CHUNK_ROOM + 2 * width)
    words = empty((room + 7) // 8, np.uint64)
    used = np.zeros(2, dtype=np.int64)
    status = page_copy.keep_strings(
        table=np.ascontiguousarray(table),
        data=np.ascontiguousarray(chunks),
        word_bytes=word_bytes,
        num_values=num_values,
        gone_starts=_integers(starts),
        gone_stops=_integers(stops),
        chunk_bytes=chunk_bytes,
        limit=limit,
        new_table=new_table,
        new_data=words.view(np.uint8),
        new_words=words.view(f"<u{width}"),
        used=used,
    )
    if status == page_copy.MALFORMED:
        raise CorruptFileError("the chunks of a page of strings are not what its table says")
    if status == page_copy.TOO_LARGE:
        return None
    return new_table[: int(used[0])], words.view(np.uint8)[: int(used[1])]


def mask_ranges(keep: Mask) -> tuple[Integers, Integers]:
    """Return starts and ends of the runs of true."""
    edges = np.flatnonzero(keep[1:] != keep[:-1]) + 1
    bounds = np.concatenate([[0], edges, [len(keep)]]) if len(keep) else np.empty(0, np.int64)
    pairs = bounds[int(not keep[0]) :] if len(keep) else bounds
    starts = pairs[: len(pairs) // 2 * 2 : 2]
    return starts, pairs[1::2]


def gather_ranges(data: Bytes, starts: Integers, stops: Integers) -> Bytes:
    """Return bytes of ranges, in sequence.

    Args:
        data: Any bytes.
        starts: First byte of each range.
        stops: End of each.

    Raises:
        CorruptFileError: A range leaves the data.
    """
    if bool((stops < starts).any()) or bool((starts < 0).any()) or bool((stops > len(data)).any()):
        raise CorruptFileError("a value lies outside of its page")
    if len(starts) == 1:
        return data[int(starts[0]) : int(stops[0])]
    out = empty(int((stops - starts).sum()), np.uint8)
    page_copy.gather_ranges(
        data=np.ascontiguousarray(data), starts=_integers(starts), stops=_integers(stops), out=out
    )
    return out


def count_entries(
    data: Bytes,
    starts: Integers,
    stops: Integers,
    *,
    control_bytes: int,
    def_bits: int,
    length_bytes: int,
    value_bytes: int,
    visible_below: int,
) -> tuple[int, int]:
    """Count the entries of rows of a full-zip page.

    Args:
        data: The entries.
        starts: First byte of each row.
        stops: End of each.
        control_bytes: Levels in front of each entry.
        def_bits: The lowest bits of them, which are the definition level.
        length_bytes: Length in front of a value, 0 for values of fixed width.
        value_bytes: Of a value of fixed width.
        visible_below: Entries of a definition level below this have a slot.

    Returns:
        Entries, and those of them that have a slot.

    Raises:
        CorruptFileError: An entry reaches beyond its row.
    """
    counts = np.zeros(2, dtype=np.int64)
    status = page_copy.count_entries(
        data=np.ascontiguousarray(data),
        starts=_integers(starts),
        stops=_integers(stops),
        control_bytes=control_bytes,
        def_bits=def_bits,
        length_bytes=length_bytes,
        value_bytes=value_bytes,
        visible_below=visible_below,
        counts=counts,
    )
    if status == page_copy.MALFORMED:
        raise CorruptFileError("a value of a full-zip page reaches beyond its row, or takes no bytes")
    return int(counts[0]), int(counts[1])


def _integers(values: npt.NDArray[Any]) -> Integers:
    return np.ascontiguousarray(values, dtype=np.int64)
