"""FSST symbol table, and how a page carries it."""

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.errors import CorruptFileError

ESCAPE = 255
"""The code in front of a byte that stands for itself."""

MAX_SYMBOLS = 255
SYMBOL_BYTES = 8

_MAGIC = 0x46535354
_ENCODED_FLAG = 1 << 24
_HEADER = struct.Struct("<Q")
# Readers want room for 256 symbols, however few there are.
_TABLE_BYTES = _HEADER.size + 256 * (SYMBOL_BYTES + 1)


@dataclass(frozen=True, slots=True, eq=False)
class SymbolTable:
    """Up to 255 symbols of 1 to 8 bytes; the position of a symbol is its code.

    Attributes:
        words: The bytes of each symbol, the first of them lowest, and zeros behind it.
        lengths: Bytes of each symbol.
        terminator: A byte that no symbol of several bytes has.
        suffix_limit: The codes below it are the symbols of two bytes that others begin with.
    """

    words: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.int64]
    terminator: int = 0
    suffix_limit: int = 0

    def __len__(self) -> int:
        return len(self.words)

    def to_bytes(self) -> bytes:
        """Return the table as a page carries it."""
        header = _MAGIC << 32 | _ENCODED_FLAG
        header |= self.suffix_limit << 16 | self.terminator << 8 | len(self)
        table = _HEADER.pack(header) + self.words.astype("<u8").tobytes()
        return (table + self.lengths.astype(np.uint8).tobytes()).ljust(_TABLE_BYTES, b"\0")

    @classmethod
    def from_bytes(cls, table: bytes) -> "SymbolTable | None":
        """Parse the table of a page.

        Args:
            table: u64 header (from the lowest byte: number of symbols, terminator, suffix limit, whether the
                strings are compressed at all; the upper half is a magic number), 8 bytes a symbol, and
                the lengths of the symbols.

        Returns:
            The table, or None when the strings are not compressed.

        Raises:
            CorruptFileError: The table is damaged.
        """
        if len(table) < _HEADER.size:
            raise CorruptFileError("the symbol table is too short")
        (header,) = _HEADER.unpack_from(table)
        if header >> 32 != _MAGIC:
            raise CorruptFileError("the symbol table does not start with its magic number")
        if not header & _ENCODED_FLAG:
            return None
        count = header & 0xFF
        if len(table) < _HEADER.size + count * (SYMBOL_BYTES + 1):
            raise CorruptFileError("the symbol table is too short")
        words = np.frombuffer(table, dtype="<u8", count=count, offset=_HEADER.size)
        lengths = np.frombuffer(table, np.uint8, count, _HEADER.size + count * SYMBOL_BYTES).astype(np.int64)
        if count > MAX_SYMBOLS or not bool(((lengths >= 1) & (lengths <= SYMBOL_BYTES)).all()):
            raise CorruptFileError("a symbol is not 1 to 8 bytes long")
        used = np.uint64(0xFFFFFFFFFFFFFFFF) >> (8 * (SYMBOL_BYTES - lengths)).astype(np.uint64)
        return cls(words & used, lengths, header >> 8 & 0xFF, header >> 16 & 0xFF)

    def spread(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """Return words and lengths of all 256 codes; those of unknown codes and of the escape are 0."""
        words, lengths = np.zeros(256, dtype=np.uint64), np.zeros(256, dtype=np.int64)
        words[: len(self)], lengths[: len(self)] = self.words, self.lengths
        return words, lengths
