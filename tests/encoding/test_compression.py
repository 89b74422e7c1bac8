import pyarrow as pa
import pytest

from lance_ops.encoding.compression import compress, decompress
from lance_ops.encoding.packed_struct import decode_packed, encode_packed
from lance_ops.errors import CorruptFileError, UnsupportedError

TEXT = pa.py_buffer(b"lance " * 1000)


@pytest.mark.parametrize("scheme", ["zstd", "lz4", "none"])
@pytest.mark.parametrize("data", [b"", b"x", b"lance " * 1000, bytes(1 << 20)])
def test_buffers_are_read_back(scheme: str, data: bytes) -> None:
    packed = compress(scheme, pa.py_buffer(data))
    assert decompress(scheme, packed).to_pybytes() == data
    if scheme != "none" and len(data) > 1000:
        assert packed.size < len(data) / 10


def test_levels_are_used() -> None:
    data = pa.py_buffer(b"".join(str(n * n).encode() for n in range(20_000)))
    assert compress("zstd", data, 19).size < compress("zstd", data, 1).size


@pytest.mark.parametrize("scheme", ["zstd", "lz4"])
def test_damaged_buffers_are_corrupt(scheme: str) -> None:
    packed = compress(scheme, TEXT).to_pybytes()
    header = 8 if scheme == "zstd" else 4
    for damaged in (
        packed[:3],
        packed[:header],
        packed[:-3],
        (2**31).to_bytes(header, "little") + packed[header:],
        (5).to_bytes(header, "little") + packed[header:],
        packed[:header] + bytes(len(packed) - header),
    ):
        with pytest.raises(CorruptFileError, match=scheme):
            decompress(scheme, pa.py_buffer(damaged))
    assert decompress(scheme, pa.py_buffer(b"")).size == 0


def test_a_declared_size_that_cannot_be_is_not_allocated() -> None:
    packed = compress("zstd", TEXT).to_pybytes()
    with pytest.raises(CorruptFileError, match="cannot hold"):
        decompress("zstd", pa.py_buffer((2**60).to_bytes(8, "little") + packed[8:]))


def test_unknown_schemes_are_named() -> None:
    with pytest.raises(UnsupportedError, match="brotli"):
        compress("brotli", TEXT)
    with pytest.raises(UnsupportedError, match="brotli"):
        decompress("brotli", TEXT)


def test_packed_rows_are_read_back() -> None:
    members = [pa.py_buffer(b"abcd"), pa.py_buffer(b"112233445566")]
    packed = encode_packed(members, [1, 3], 4)
    assert packed.to_pybytes() == b"a112b233c445d566"
    assert decode_packed(packed, [1, 3], 4) == members
    assert decode_packed(packed, [1, 3], 0) == [pa.py_buffer(b"")] * 2
    with pytest.raises(CorruptFileError, match="5 packed rows"):
        decode_packed(packed, [1, 3], 5)
