import struct
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.fsst import decode_fsst
from lance_ops.errors import CorruptFileError

MAGIC = 0x46535354 << 32
COMPRESSED = 1 << 24


def table_of(*symbols: bytes, flags: int = COMPRESSED, magic: int = MAGIC) -> bytes:
    body = b"".join(symbol.ljust(8, b"\0") for symbol in symbols)
    return struct.pack("<Q", magic | flags | len(symbols)) + body + bytes(len(symbol) for symbol in symbols)


def decode(table: bytes, strings: list[bytes]) -> list[bytes]:
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in strings])]).astype(np.int64) + 5
    ends, data = decode_fsst(table, offsets, pa.py_buffer(b"".join(strings)))
    plain = data.to_pybytes()
    return [plain[start:stop] for start, stop in pairwise(ends)]


def test_symbols_and_escapes() -> None:
    table = table_of(b"http://", b"a", b"12345678")
    strings = [b"\x00\x01", b"", b"\xffx\x02", b"\xff\xff\xff\xff\x01", b"\xff\x00\x00"]
    assert decode(table, strings) == [b"http://a", b"", b"x12345678", b"\xff\xffa", b"\0http://"]


def test_long_runs_of_escapes() -> None:
    assert decode(table_of(b"ab"), [b"\xff" * 200, b"\x00" + b"\xff" * 2]) == [b"\xff" * 100, b"ab\xff"]


def test_a_table_without_the_flag_means_plain_bytes() -> None:
    assert decode(table_of(flags=0), [b"plain", b"\xff"]) == [b"plain", b"\xff"]


def test_nothing_to_decode() -> None:
    assert decode(table_of(b"a"), []) == []
    assert decode(table_of(b"a"), [b""]) == [b""]


@pytest.mark.parametrize(
    ("table", "strings"),
    [
        (b"", [b"x"]),
        (table_of(b"a", magic=0), [b"\0"]),
        (table_of(b"a")[:-1], [b"\0"]),
        (table_of(b"a" * 9), [b"\0"]),
        (table_of(b""), [b"\0"]),
        (table_of(b"a"), [b"\x00\xff"]),
        (table_of(b"a"), [b"\x00\xff", b"\x00"]),
        (table_of(b"a"), [b"\x07"]),
    ],
)
def test_damage_is_corrupt(table: bytes, strings: list[bytes]) -> None:
    with pytest.raises(CorruptFileError):
        decode(table, strings)


def test_missing_bytes_are_corrupt() -> None:
    with pytest.raises(CorruptFileError, match="too early"):
        decode_fsst(table_of(b"a"), np.array([0, 3]), pa.py_buffer(b"\0\0"))
