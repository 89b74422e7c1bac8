"""FSST: strings compressed by a table of up to 255 symbols of 1 to 8 bytes (Boncz, Neumann, Leis, VLDB 2020).

Each string is compressed on its own, so that a slice of strings can be decoded without the rest. Code 255
escapes the byte after it.
"""

from lance_ops.encoding.fsst.decode import decode_fsst, decode_fsst_chunks, decode_fsst_slices
from lance_ops.encoding.fsst.encode import encode_fsst
from lance_ops.encoding.fsst.table import SymbolTable
from lance_ops.encoding.fsst.train import train_symbols

__all__ = [
    "SymbolTable",
    "decode_fsst",
    "decode_fsst_chunks",
    "decode_fsst_slices",
    "encode_fsst",
    "train_symbols",
]
