"""Single values of mini-block pages, read from their chunks without decoding these.

What has no compiled loop here is decoded chunk by chunk instead, see `mini_block`.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import ChunkBuffer, copy_parts
from lance_ops.encoding.fsst import decode_fsst_slices
from lance_ops.encoding.kernels import load
from lance_ops.encoding.values import Fixed, Values, Variable
from lance_ops.errors import CorruptFileError
from lance_ops.file.row_selection import Integers
from lance_ops.file.v2_1.compressions import decode_variable_rows, fixed_bits
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]
Levels = npt.NDArray[np.uint16]

_LEVEL_BITS = 16
# Rows of more levels than these on average are decoded chunk by chunk.
_LEVELS_AT_ONCE, _LEVELS_OF_A_ROW = 4096, 32
_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class _Kind(Enum):
    FLAT = "flat"
    INLINE = "inline"
    VARIABLE = "variable"


@dataclass(frozen=True, slots=True)
class Picker:
    """How the values of a page can be picked.

    Attributes:
        kind: Of the values.
        width: Bits of a packed word, bytes of a plain value or of an offset.
        bits: Of a value, 0 for values of variable width.
        level_parts: Buffers of levels of a chunk.
        level_bits: Width of packed definition levels, 0 without any.
        rep_bits: Width of packed repetition levels, 0 without any, or if they are not packed.
        value_parts: Value buffers of a chunk, negative where their sizes have 4 bytes, for the kernel.
        encoding: Of the values.
    """

    kind: _Kind
    width: int
    bits: int
    level_parts: int
    level_bits: int
    rep_bits: int
    value_parts: int
    encoding: pb.CompressiveEncoding

    def pick(
        self, data: Bytes, starts: Integers, stops: Integers, firsts: Integers, slots: Integers
    ) -> tuple[Values, Levels | None]:
        """Read values.

        Args:
            data: Bytes that hold the chunks of all wanted values.
            starts: First byte of each chunk.
            stops: End of each.
            firsts: Number of the first value of each.
            slots: Numbers of the wanted values, ascending.

        Returns:
            The values, and their definition levels if these can be picked, too.

        Raises:
            CorruptFileError: A value lies outside of its chunk.
        """
        kernel: Any = load("picking")
        found = np.empty((len(slots), 4 + 2 * self.level_parts), dtype=np.int64)
        if len(starts) and int(stops[-1]) > len(data):
            raise CorruptFileError("the chunks of a page end too early")
        _check(kernel.locate(data, starts, stops, firsts, slots, self.level_parts, self.value_parts, found))
        levels = None
        if self.level_bits and self.level_parts == 1:
            levels = np.empty(len(slots), dtype=np.uint16)
            _check(kernel.pick_levels(data, found, 0, self.level_bits, levels))
        return self._pick_values(kernel, data, found, self.level_parts), levels

    def pick_lists(
        self,
        data: Bytes,
        starts: Integers,
        stops: Integers,
        begun: Integers,
        ended: Integers,
        rows: Integers,
        highest: int,
        visible: int,
    ) -> tuple[Values, Levels, Levels | None] | None:
        """Read rows of lists.

        Args:
            data: Bytes that hold the chunks of all wanted rows.
            starts: First byte of each chunk.
            stops: End of each.
            begun: Rows that begin before each chunk.
            ended: Rows that end before each chunk, with those that end before the end of the last.
            rows: The wanted rows, ascending.
            highest: The repetition level that begins a row.
            visible: The definition level below which an entry has a value.

        Returns:
            Values, repetition levels and definition levels of the rows; None where these have to be decoded.

        Raises:
            CorruptFileError: The chunks do not hold these rows.
        """
        kernel: Any = load("picking_lists")
        if kernel is None or not self.rep_bits:
            return None
        if len(starts) and int(stops[-1]) > len(data):
            raise CorruptFileError("the chunks of a page end too early")
        room = _LEVELS_AT_ONCE + _LEVELS_OF_A_ROW * len(rows)
        rep = np.empty(room, dtype=np.uint16)
        definition = np.empty(room if self.level_bits else 0, dtype=np.uint16)
        found = np.empty((room, 4 + 2 * self.level_parts), dtype=np.int64)
        totals = np.zeros(2, dtype=np.int64)
        size_bytes = 4 if self.value_parts < 0 else 2
        form = np.array(
            [self.rep_bits, self.level_bits, size_bytes, abs(self.value_parts), highest, visible], np.int64
        )
        words = data[: len(data) & -8].view(np.uint64)
        scratch = np.empty((2, kernel.ROOM >> 2), dtype=np.uint64)
        result = kernel.find_lists(
            data, words, starts, stops, begun, ended, rows, form, rep, definition, found, scratch, totals
        )
        if result == kernel.NO_ROOM:
            return None
        _check(result)
        levels, count = totals.tolist()
        values = self._pick_values(load("picking"), data, found[:count], self.level_parts)
        return values, rep[:levels], definition[:levels] if self.level_bits else None

    def _pick_values(self, kernel: Any, data: Bytes, found: npt.NDArray[np.int64], part: int) -> Values:
        count = len(found)
        if self.kind is _Kind.INLINE:
            words = np.empty(count, dtype=np.uint64)
            _check(kernel.pick_inline(data, found, part, self.width, words))
            return Fixed(self.bits, count, words.astype(_WORDS[self.bits]))
        if self.kind is _Kind.FLAT:
            plain = np.empty(count * self.width, dtype=np.uint8)
            _check(kernel.pick_flat(data, found, part, self.width, plain))
            return Fixed(self.bits, count, plain)
        starts, offsets = np.empty(count, dtype=np.int64), np.empty(count + 1, dtype=np.int64)
        _check(kernel.pick_extents(data, found, part, self.width, starts, offsets))
        if is_plain_fsst(self.encoding):
            return decode_fsst_slices(self.encoding.fsst.symbol_table, data, starts, np.diff(offsets))
        joined = np.empty(int(offsets[-1]), dtype=np.uint8)
        copy_parts(ChunkBuffer(data, starts, np.diff(offsets)), joined, offsets[:-1])
        return decode_variable_rows(self.encoding, Variable(offsets, pa.py_buffer(joined)))


def is_plain_fsst(encoding: pb.CompressiveEncoding) -> bool:
    """Whether values are strings under a symbol table and nothing else."""
    return (
        encoding.WhichOneof("compression") == "fsst"
        and encoding.fsst.values.WhichOneof("compression") == "variable"
        and not encoding.fsst.values.variable.HasField("values")
    )


def plan_picker(layout: pb.MiniBlockLayout) -> Picker | None:
    """Decide how to pick single values of a page; None if they have to be decoded.

    Args:
        layout: Of the page.
    """
    if load("picking") is None or layout.num_buffers != 1:
        return None
    has_rep, has_def = layout.HasField("rep_compression"), layout.HasField("def_compression")
    level_bits = _level_bits(layout.def_compression) if has_def else 0
    rep_bits = _level_bits(layout.rep_compression) if has_rep else 0
    if has_def and not level_bits:
        if not has_rep:
            return None
        # Then single values of lists can be picked, but no rows.
        rep_bits = 0
    levels = (has_rep + has_def, level_bits, rep_bits)
    encoding = layout.value_compression
    value_parts = -1 if layout.has_large_chunk else 1
    kind = encoding.WhichOneof("compression")
    if kind == "inline_bitpacking":
        bits = encoding.inline_bitpacking.uncompressed_bits_per_value
        if bits in _WORDS:
            return Picker(_Kind.INLINE, bits, bits, *levels, value_parts, encoding)
        return None
    if kind == "flat" or (kind == "fixed_size_list" and not encoding.fixed_size_list.has_validity):
        return _plan_flat(encoding, levels, value_parts)
    plain = encoding
    while plain.WhichOneof("compression") == "fsst":
        plain = plain.fsst.values
    if plain.WhichOneof("compression") == "variable" and not plain.variable.HasField("values"):
        offset_bits = plain.variable.offsets.flat.bits_per_value
        if offset_bits in (32, 64):
            return Picker(_Kind.VARIABLE, offset_bits // 8, 0, *levels, value_parts, encoding)
    return None


def _plan_flat(
    encoding: pb.CompressiveEncoding, levels: tuple[int, int, int], value_parts: int
) -> Picker | None:
    inner = encoding
    while inner.WhichOneof("compression") == "fixed_size_list" and not inner.fixed_size_list.has_validity:
        inner = inner.fixed_size_list.values
    if inner.WhichOneof("compression") != "flat":
        return None
    bits = fixed_bits(encoding)
    if not bits or bits % 8 or inner.flat.bits_per_value % 8:
        return None
    return Picker(_Kind.FLAT, bits // 8, bits, *levels, value_parts, encoding)


def _level_bits(encoding: pb.CompressiveEncoding) -> int:
    packed = encoding.out_of_line_bitpacking
    if (
        encoding.WhichOneof("compression") == "out_of_line_bitpacking"
        and packed.uncompressed_bits_per_value == _LEVEL_BITS
        and packed.values.WhichOneof("compression") == "flat"
    ):
        bits = int(packed.values.flat.bits_per_value)
        return bits if bits <= _LEVEL_BITS else 0
    return 0


def _check(result: int) -> None:
    if result < 0:
        raise CorruptFileError("a value lies outside of its chunk")
