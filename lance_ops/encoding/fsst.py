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
_BLOCK_CODES = 64 << 10


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
    words = symbols.view(np.uint64).reshape(-1)
    # For each code, which of the eight bytes of its symbol count.
    used = (np.arange(_SYMBOL_BYTES) < lengths[:, np.newaxis]).view(np.uint64).reshape(-1)
    unknown = lengths == 0
    unknown[_ESCAPE] = False
    plain_starts = np.zeros(len(starts), dtype=np.int64)
    pieces = []
    first = total = 0
    while first < len(starts) - 1:
        # Blocks keep the intermediate arrays within the processor's caches.
        last = int(np.searchsorted(starts, starts[first] + _BLOCK_CODES, side="right")) - 1
        last = max(last, first + 1)
        block = codes[int(starts[first]) : int(starts[last])]
        inner = starts[first : last + 1] - starts[first]
        piece, ends = _decode_block(block, inner, words, used, unknown)
        plain_starts[first : last + 1] = total + ends
        pieces.append(piece)
        total += len(piece)
        first = last
    plain = np.concatenate(pieces) if pieces else codes[:0]
    return plain_starts, pa.py_buffer(plain)


def _decode_block(
    codes: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    words: npt.NDArray[np.uint64],
    used: npt.NDArray[np.uint64],
    unknown: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    values, keep = words[codes], used[codes]
    absent = unknown[codes]
    escapes = _find_escapes(codes)
    if len(escapes):
        literals = escapes + 1
        # A string that ends within an escape would lend its last code to the next string.
        if int(literals[-1]) >= len(codes) or bool(np.isin(literals, starts).any()):
            raise CorruptFileError("a compressed string ends within an escape")
        values[literals] = codes[literals]
        keep[literals] = 1
        keep[escapes] = 0
        absent[literals] = False
    if bool(absent.any()):
        raise CorruptFileError("a compressed string uses a symbol that the table does not have")
    flags = keep.view(np.uint8)
    ends = np.zeros(len(codes) + 1, dtype=np.int64)
    # Each kept byte counts one: multiplying adds up the eight of a word in its highest byte.
    np.cumsum((keep * np.uint64(0x0101010101010101)) >> np.uint64(56), out=ends[1:])
    return values.view(np.uint8)[flags.view(np.bool_)], ends[starts]


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


def _find_escapes(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    # In a run of 255s every other one is an escape and the one after it a literal, counted from the start of
    # the run.
    found = np.flatnonzero(codes == _ESCAPE)
    if not len(found):
        return found
    begins = np.ones(len(found), dtype=np.bool_)
    begins[1:] = np.diff(found) > 1
    run_starts = found[begins][np.cumsum(begins) - 1]
    escapes: npt.NDArray[np.int64] = found[(found - run_starts) % 2 == 0]
    return escapes
