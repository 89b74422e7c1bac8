import contextlib

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding import parallel
from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.general import compression
from lance_ops.encoding.general.compression import compress, compress_parts, decompress, decompress_parts
from lance_ops.encoding.values.packed_struct import decode_packed, encode_packed
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


PARTS = [b"abc" * 1000, b"", b"x", bytes(70_000), bytes(range(256)) * 40]


@pytest.mark.parametrize("scheme", ["zstd", "lz4"])
def test_parts_are_compressed_and_decompressed_like_single_buffers(scheme: str) -> None:
    parts = ChunkBuffer.from_parts([np.frombuffer(part, dtype=np.uint8) for part in PARTS])
    compressed = compress_parts(scheme, parts)
    single = [decompress(scheme, pa.py_buffer(part.tobytes())).to_pybytes() for part in compressed.parts()]
    assert single == PARTS
    assert [part.tobytes() for part in decompress_parts(scheme, compressed).parts()] == PARTS
    for part, plain in zip(compressed.parts(), PARTS, strict=True):
        assert compress(scheme, pa.py_buffer(plain)).to_pybytes() == part.tobytes()


@pytest.mark.parametrize("scheme", ["zstd", "lz4"])
def test_a_part_without_bytes_stays_empty(scheme: str) -> None:
    nothing = ChunkBuffer.from_parts([np.empty(0, dtype=np.uint8)] * 2)
    assert decompress_parts(scheme, nothing).sizes.tolist() == [0, 0]


@pytest.mark.parametrize("scheme", ["zstd", "lz4"])
def test_damaged_parts_are_refused(scheme: str) -> None:
    parts = compress_parts(scheme, ChunkBuffer.from_parts([np.arange(200, dtype=np.uint8)] * 3))
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = parts.data.copy()
        damaged[rng.integers(0, len(damaged), 3)] = rng.integers(0, 256, 3)
        # Damage within plain bytes goes unnoticed: neither format has a checksum here.
        with contextlib.suppress(CorruptFileError):
            found = decompress_parts(scheme, ChunkBuffer(damaged, parts.starts, parts.sizes))
            assert int(found.sizes.sum()) == len(found.data)
    huge = parts.data.copy()
    huge[:4] = 255
    with pytest.raises(CorruptFileError, match="more bytes than it can hold"):
        decompress_parts(scheme, ChunkBuffer(huge, parts.starts, parts.sizes))
    with pytest.raises(CorruptFileError, match="shorter than its size"):
        decompress_parts(scheme, ChunkBuffer(huge, parts.starts, np.array([2, 0, 0])))


def test_parts_of_unknown_schemes_are_refused() -> None:
    nothing = ChunkBuffer.from_parts([])
    for function in (compress_parts, decompress_parts):
        with pytest.raises(UnsupportedError, match="snappy"):
            function("snappy", nothing)


@pytest.mark.parametrize("scheme", ["zstd", "lz4"])
@pytest.mark.parametrize("count", [0, 1, 2, 300])
@pytest.mark.parametrize("share", [1, 500])
def test_threads_do_not_change_what_parts_become(monkeypatch, scheme: str, count: int, share: int) -> None:
    rng = np.random.default_rng(count)
    parts = ChunkBuffer.from_parts(
        [rng.integers(0, 4, size).astype(np.uint8) for size in rng.integers(0, 900, count).tolist()]
    )
    monkeypatch.setattr(compression, "_SHARE_BYTES", share)
    monkeypatch.setattr(compression, "_WORTH_SHARING", 0)
    monkeypatch.setattr(parallel, "available_threads", lambda: 1)
    alone = compress_parts(scheme, parts)
    monkeypatch.setattr(parallel, "available_threads", lambda: 3)
    packed = compress_parts(scheme, parts)
    for name in ("data", "starts", "sizes"):
        assert getattr(packed, name).tolist() == getattr(alone, name).tolist()
    plain = decompress_parts(scheme, packed)
    assert [part.tobytes() for part in plain.parts()] == [part.tobytes() for part in parts.parts()]


def test_damage_in_any_share_is_corrupt(monkeypatch) -> None:
    monkeypatch.setattr(compression, "_SHARE_BYTES", 1)
    monkeypatch.setattr(compression, "_WORTH_SHARING", 0)
    monkeypatch.setattr(parallel, "available_threads", lambda: 3)
    packed = compress_parts("zstd", ChunkBuffer.from_parts([np.arange(200, dtype=np.uint8)] * 30))
    for number in (0, 14, 29):
        data = packed.data.copy()
        data[packed.starts[number] + 8 :][:4] = 0
        with pytest.raises(CorruptFileError, match="damaged"):
            decompress_parts("zstd", ChunkBuffer(data, packed.starts, packed.sizes))
