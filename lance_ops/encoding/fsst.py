"""FSST: strings compressed by a table of up to 255 symbols of 1 to 8 bytes (Boncz, Neumann, Leis, VLDB 2020).

Each string is compressed on its own, so that a slice of strings can be decoded without the rest. Code 255
escapes the byte after it.
"""

import struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError

_ESCAPE = 255
_MAGIC = 0x46535354
_ENCODED_FLAG = 1 << 24
_HEADER = struct.Struct("<Q")
_SYMBOL_BYTES = 8


def decode_fsst(
    symbol_table: bytes, offsets: npt.NDArray[np.int64], data: pa.Buffer
) -> tuple[npt.NDArray[np.int64], pa.Buffer]:
    """Decompress consecutive strings.

    Args:
        symbol_table: u64 header (lowest byte the number of symbols, bit 24 whether the strings are compressed
            at all, the upper half a magic number), then 8 bytes a symbol, then the lengths of the symbols.
        offsets: Of the compressed strings, shape (n + 1,).
        data: The compressed bytes from `offsets[0]` on.

    Returns:
        Offsets of the plain strings from 0, and their bytes.

    Raises:
        CorruptFileError: The table is damaged, or a string ends within an escape.
    """
    symbols, lengths = _read_table(symbol_table)
    starts = offsets - offsets[0]
    codes = np.frombuffer(data, dtype=np.uint8)[: int(starts[-1])]
    if len(codes) < int(starts[-1]):
        raise CorruptFileError("the bytes of a compressed string column end too early")
    if symbols is None:
        return starts, data.slice(0, len(codes))
    literal, escape = _find_escapes(codes)
    widths = lengths[codes]
    widths[literal] = 1
    if bool((widths[~escape] == 0).any()):
        raise CorruptFileError("a compressed string uses a symbol that the table does not have")
    widths[escape] = 0
    plain_ends = np.zeros(len(codes) + 1, dtype=np.int64)
    np.cumsum(widths, out=plain_ends[1:])
    plain = np.empty(int(plain_ends[-1]), dtype=np.uint8)
    for position in range(_SYMBOL_BYTES):
        reached = np.flatnonzero(widths > position)
        source = symbols[codes[reached], position]
        if position == 0:
            source = np.where(literal[reached], codes[reached], source)
        plain[plain_ends[reached] + position] = source
    # A string that ends within an escape would lend its last code to the next string.
    if bool(literal[starts[:-1][starts[:-1] < len(codes)]].any()):
        raise CorruptFileError("a compressed string ends within an escape")
    return plain_ends[starts], pa.py_buffer(plain)


def _read_table(
    table: bytes,
) -> tuple[npt.NDArray[np.uint8] | None, npt.NDArray[np.int64]]:
    if len(table) < _HEADER.size:
        raise CorruptFileError("the symbol table is too short")
    (header,) = _HEADER.unpack_from(table)
    if header >> 32 != _MAGIC:
        raise CorruptFileError("the symbol table does not start with its magic number")
    lengths = np.zeros(256, dtype=np.int64)
    if not header & _ENCODED_FLAG:
        return None, lengths
    count = header & 0xFF
    size = _HEADER.size + count * (_SYMBOL_BYTES + 1)
    if len(table) < size:
        raise CorruptFileError("the symbol table is too short")
    body = np.frombuffer(table, dtype=np.uint8, count=size - _HEADER.size, offset=_HEADER.size)
    symbols = np.zeros((256, _SYMBOL_BYTES), dtype=np.uint8)
    symbols[:count] = body[: count * _SYMBOL_BYTES].reshape(count, _SYMBOL_BYTES)
    lengths[:count] = body[count * _SYMBOL_BYTES :]
    if count and not (int(lengths[:count].min()) >= 1 and int(lengths[:count].max()) <= _SYMBOL_BYTES):
        raise CorruptFileError("a symbol is not 1 to 8 bytes long")
    return symbols, lengths


def _find_escapes(
    codes: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    # In a run of 255s every other one is an escape and the one after it a literal, counted from the start of
    # the run.
    is_255 = codes == _ESCAPE
    positions = np.arange(len(codes))
    run_start = np.where(is_255, -1, positions)
    np.maximum.accumulate(run_start, out=run_start)
    escape = is_255 & ((positions - run_start) % 2 == 1)
    if len(codes) and bool(escape[-1]):
        raise CorruptFileError("a compressed string ends within an escape")
    literal = np.zeros(len(codes), dtype=np.bool_)
    literal[1:] = escape[:-1]
    return literal, escape
