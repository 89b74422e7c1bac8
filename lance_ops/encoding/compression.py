"""General compression: a whole buffer as one zstd frame or LZ4 block, with its plain size in front."""

import struct

import pyarrow as pa

from lance_ops.errors import CorruptFileError, UnsupportedError

_ZSTD_SIZE = struct.Struct("<Q")
_LZ4_SIZE = struct.Struct("<I")

# What the two formats can reach at best (a zstd block of 128 KiB costs at least 4 bytes, LZ4 counts lengths
# in bytes of 255): a declared size beyond that is a lie, and must not be allocated.
_ZSTD_MAX_RATIO = 32768
_LZ4_MAX_RATIO = 255

NONE, ZSTD, LZ4 = "none", "zstd", "lz4"


def decompress(scheme: str, data: pa.Buffer) -> pa.Buffer:
    """Undo `compress`.

    Args:
        scheme: "zstd", "lz4", or "none".
        data: The size in bytes (u64 for zstd, u32 for LZ4), then the frame or block. An empty buffer stays
            empty.

    Raises:
        UnsupportedError: Another scheme.
        CorruptFileError: The size cannot be, or the frame is damaged.
    """
    if scheme in ("", NONE) or (data.size == 0 and scheme in (ZSTD, LZ4)):
        return data
    header, ratio = {ZSTD: (_ZSTD_SIZE, _ZSTD_MAX_RATIO), LZ4: (_LZ4_SIZE, _LZ4_MAX_RATIO)}.get(
        scheme, (None, 0)
    )
    if header is None:
        raise UnsupportedError(f"compression scheme {scheme!r} is not supported")
    if data.size < header.size:
        raise CorruptFileError(f"a buffer compressed with {scheme} is only {data.size} bytes long")
    (plain_size,) = header.unpack(memoryview(data)[: header.size])
    body = data.slice(header.size)
    if plain_size > body.size * ratio:
        raise CorruptFileError(
            f"{body.size} bytes of {scheme} cannot hold the {plain_size} that they declare"
        )
    if plain_size == 0:
        return pa.py_buffer(b"")
    try:
        return pa.Codec("lz4_raw" if scheme == LZ4 else scheme).decompress(body, decompressed_size=plain_size)
    except (OSError, ValueError, MemoryError) as error:
        raise CorruptFileError(f"a buffer compressed with {scheme} is damaged: {error}") from error


def compress(scheme: str, data: pa.Buffer, level: int | None = None) -> pa.Buffer:
    """Compress a buffer.

    Args:
        scheme: "zstd", "lz4", or "none".
        data: Any bytes.
        level: Of zstd; None for the library's default.

    Raises:
        UnsupportedError: Another scheme.
    """
    if scheme == NONE:
        return data
    if scheme == ZSTD:
        frame = pa.Codec(ZSTD, compression_level=level).compress(data)
        return pa.py_buffer(_ZSTD_SIZE.pack(data.size) + frame.to_pybytes())
    if scheme == LZ4:
        block = pa.Codec("lz4_raw").compress(data)
        return pa.py_buffer(_LZ4_SIZE.pack(data.size) + block.to_pybytes())
    raise UnsupportedError(f"compression scheme {scheme!r} is not supported")
