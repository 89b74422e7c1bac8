"""Picking: single values of mini-block pages, read from their chunks without decoding these.

What has no compiled loop here is decoded chunk by chunk instead, see `read`.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import ChunkBuffer, copy_parts
from lance_ops.encoding.fsst import decode_fsst_slices
from lance_ops.encoding.kernels.pages import picking, picking_lists
from lance_ops.encoding.values.values import Fixed, Values, Variable
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.row_selection import Integers
from lance_ops.file.v2_1.compression.decode_rows import decode_variable_rows, fixed_bits
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]
Levels = npt.NDArray[np.uint16]

_LEVEL_BITS, _RUN_LENGTH_BITS = 16, 8
_MAX_RUN_BITS = 256
# Runs of levels begin with the size of the levels.
_RUN_SIZE_BYTES = 8
# Rows of more levels than these on average are decoded chunk by chunk.
_LEVELS_AT_ONCE, _LEVELS_OF_A_ROW = 4096, 32
_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class _Kind(Enum):
    BITS = "bits"
    FLAT = "flat"
    INLINE = "inline"
    RUNS = "runs"
    VARIABLE = "variable"


@dataclass(frozen=True, slots=True)
class Picker:
    """Parameters for reading single values of a page.

    Attributes:
        kind: Of the values.
        width: Bits of a packed word, bytes of a plain value or of an offset.
        bits: Of a value, 0 for values of variable width.
        level_parts: Buffers of levels of a chunk.
        level_bits: Width of packed definition levels, `picking_lists.RUNS` of runs of them, 0 without any.
        rep_bits: The same of repetition levels; 0 also where rows of lists cannot be picked.
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

    @property
    def is_packed(self) -> bool:
        """Return whether chunks have only a block of packed numbers."""
        return self.kind is _Kind.INLINE and not self.level_parts

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
        parts = self.level_parts + abs(self.value_parts)
        found = np.empty((len(slots), 2 + 2 * parts), dtype=np.int64)
        if len(starts) and int(stops.max()) > len(data):
            raise CorruptFileError("the chunks of a page end too early")
        status = picking.locate(
            data=data,
            starts=starts,
            stops=stops,
            firsts=firsts,
            slots=slots,
            level_parts=self.level_parts,
            value_parts=self.value_parts,
            found=found,
        )
        _check(status)
        levels = None
        if self.level_bits and self.level_parts == 1:
            levels = np.empty(len(slots), dtype=np.uint16)
            _pick_levels(data, found, self.level_bits, levels)
        return self._pick_values(data, found, self.level_parts), levels

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
        if not self.rep_bits:
            return None
        if len(starts) and int(stops.max()) > len(data):
            raise CorruptFileError("the chunks of a page end too early")
        room = _LEVELS_AT_ONCE + _LEVELS_OF_A_ROW * len(rows)
        rep = np.empty(room, dtype=np.uint16)
        definition = np.empty(room if self.level_bits else 0, dtype=np.uint16)
        parts = self.level_parts + abs(self.value_parts)
        found = np.empty((room, 2 + 2 * parts), dtype=np.int64)
        totals = np.zeros(2, dtype=np.int64)
        size_bytes = 4 if self.value_parts < 0 else 2
        form = np.array(
            [self.rep_bits, self.level_bits, size_bytes, abs(self.value_parts), highest, visible], np.int64
        )
        words = data[: len(data) & -8].view(np.uint64)
        scratch = np.empty((2, picking_lists.ROOM >> 2), dtype=np.uint64)
        result = picking_lists.find_lists(
            data=data,
            words=words,
            starts=starts,
            stops=stops,
            begun=begun,
            ended=ended,
            rows=rows,
            form=form,
            rep=rep,
            definition=definition,
            found=found,
            scratch=scratch,
            totals=totals,
        )
        if result == picking_lists.NO_ROOM:
            return None
        _check(result)
        levels, count = totals.tolist()
        values = self._pick_values(data, found[:count], self.level_parts)
        return values, rep[:levels], definition[:levels] if self.level_bits else None

    def _pick_values(self, data: Bytes, found: npt.NDArray[np.int64], part: int) -> Values:
        count = len(found)
        if self.kind is _Kind.INLINE:
            words = np.empty(count, dtype=np.uint64)
            _check(picking.pick_inline(data=data, found=found, part=part, bits=self.width, values=words))
            return Fixed(self.bits, count, words.astype(_WORDS[self.bits]))
        if self.kind is _Kind.FLAT:
            plain = np.empty(count * self.width, dtype=np.uint8)
            _check(picking.pick_flat(data=data, found=found, part=part, width=self.width, values=plain))
            return Fixed(self.bits, count, plain)
        if self.kind is _Kind.RUNS:
            plain = np.empty(count * self.width, dtype=np.uint8)
            status = picking.pick_runs(
                data=data, found=found, part=part, split=0, width=self.width, values=plain
            )
            _check(status)
            return Fixed(self.bits, count, plain)
        if self.kind is _Kind.BITS:
            flags = np.empty(count, dtype=np.bool_)
            _check(picking.pick_bits(data=data, found=found, part=part, values=flags))
            return Fixed(1, count, flags)
        starts, offsets = np.empty(count, dtype=np.int64), np.empty(count + 1, dtype=np.int64)
        status = picking.pick_extents(
            data=data, found=found, part=part, width=self.width, starts=starts, offsets=offsets
        )
        _check(status)
        if is_plain_fsst(self.encoding):
            return decode_fsst_slices(self.encoding.fsst.symbol_table, data, starts, np.diff(offsets))
        joined = np.empty(int(offsets[-1]), dtype=np.uint8)
        copy_parts(ChunkBuffer(data, starts, np.diff(offsets)), joined, offsets[:-1])
        return decode_variable_rows(self.encoding, Variable(offsets, pa.py_buffer(joined)))


def pick_levels(
    encoding: pb.CompressiveEncoding | None, data: Bytes, count: int, numbers: Integers
) -> Levels | None:
    """Read single levels of a whole page.

    Args:
        encoding: Of the levels; None when they are plain.
        data: All of them.
        count: How many levels these are.
        numbers: The wanted ones, ascending, each below `count`.

    Returns:
        Those levels; None where all have to be decoded.

    Raises:
        CorruptFileError: There are fewer.
    """
    if encoding is None:
        return data.view("<u2")[numbers] if len(data) == 2 * count else None
    bits = _level_bits(encoding)
    if not bits:
        return None
    found = np.empty((len(numbers), 4), dtype=np.int64)
    found[:, 0] = numbers
    found[:, 1:] = count, 0, len(data)
    levels = np.empty(len(numbers), dtype=np.uint16)
    _pick_levels(data, found, bits, levels)
    return levels


def _pick_levels(data: Bytes, found: npt.NDArray[np.int64], bits: int, levels: Levels) -> None:
    if bits == picking_lists.RUNS:
        status = picking.pick_runs(
            data=data,
            found=found,
            part=0,
            split=_RUN_SIZE_BYTES,
            width=2,
            values=levels.view(np.uint8),
        )
    else:
        status = picking.pick_levels(data=data, found=found, part=0, width=bits, levels=levels)
    _check(status)


def is_plain_fsst(encoding: pb.CompressiveEncoding) -> bool:
    """Return whether values are strings under a symbol table and nothing else."""
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
    encoding = layout.value_compression
    kind = encoding.WhichOneof("compression")
    if layout.num_buffers != (2 if kind == "rle" else 1):
        return None
    has_rep, has_def = layout.HasField("rep_compression"), layout.HasField("def_compression")
    level_bits = _level_bits(layout.def_compression) if has_def else 0
    rep_bits = _level_bits(layout.rep_compression) if has_rep else 0
    if has_def and not level_bits:
        if not has_rep:
            return None
        # Then single values of lists can be picked, but no rows.
        rep_bits = 0
    form = _plan_values(encoding, kind)
    if form is None:
        return None
    value_parts = -layout.num_buffers if layout.has_large_chunk else layout.num_buffers
    return Picker(*form, has_rep + has_def, level_bits, rep_bits, value_parts, encoding)


def _plan_values(encoding: pb.CompressiveEncoding, kind: str | None) -> tuple[_Kind, int, int] | None:
    # What they are, their width, and the bits of a value.
    if kind == "inline_bitpacking":
        bits = encoding.inline_bitpacking.uncompressed_bits_per_value
        return (_Kind.INLINE, bits, bits) if bits in _WORDS else None
    if kind == "rle":
        bits = _plain_bits(encoding.rle.values)
        in_bytes = 0 < bits <= _MAX_RUN_BITS and _plain_bits(encoding.rle.run_lengths) == _RUN_LENGTH_BITS
        return (_Kind.RUNS, bits // 8, bits) if in_bytes else None
    if kind == "flat" and encoding.flat.bits_per_value == 1:
        return _Kind.BITS, 0, 1
    if kind == "flat" or (kind == "fixed_size_list" and not encoding.fixed_size_list.has_validity):
        inner = encoding
        while inner.WhichOneof("compression") == "fixed_size_list" and not inner.fixed_size_list.has_validity:
            inner = inner.fixed_size_list.values
        bits = fixed_bits(encoding) if _plain_bits(inner) else 0
        return (_Kind.FLAT, bits // 8, bits) if bits else None
    while encoding.WhichOneof("compression") == "fsst":
        encoding = encoding.fsst.values
    if encoding.WhichOneof("compression") == "variable" and not encoding.variable.HasField("values"):
        offset_bits = encoding.variable.offsets.flat.bits_per_value
        return (_Kind.VARIABLE, offset_bits // 8, 0) if offset_bits in (32, 64) else None
    return None


def _plain_bits(encoding: pb.CompressiveEncoding) -> int:
    """Return bits of plain values in whole bytes, 0 of others."""
    if encoding.WhichOneof("compression") != "flat" or encoding.flat.HasField("data"):
        return 0
    bits = int(encoding.flat.bits_per_value)
    return 0 if bits % 8 else bits


def _level_bits(encoding: pb.CompressiveEncoding) -> int:
    """How levels are stored, as in `Picker`; 0 where these cannot be picked."""
    kind = encoding.WhichOneof("compression")
    if kind == "rle":
        widths = (_plain_bits(encoding.rle.values), _plain_bits(encoding.rle.run_lengths))
        return picking_lists.RUNS if widths == (_LEVEL_BITS, _RUN_LENGTH_BITS) else 0
    packed = encoding.out_of_line_bitpacking
    if (
        kind == "out_of_line_bitpacking"
        and packed.uncompressed_bits_per_value == _LEVEL_BITS
        and packed.values.WhichOneof("compression") == "flat"
    ):
        bits = int(packed.values.flat.bits_per_value)
        return bits if bits <= _LEVEL_BITS else 0
    return 0


def _check(result: int) -> None:
    if result < 0:
        raise CorruptFileError("a value is outside of its chunk")
