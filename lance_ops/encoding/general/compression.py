"""General compression: a whole buffer as one zstd frame or LZ4 block, with its plain size in front."""

import struct
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import ChunkBuffer, read_words
from lance_ops.encoding.general.lz4_blocks import unpack_block
from lance_ops.encoding.memory import empty
from lance_ops.encoding.parallel import count_shares, run_side_by_side
from lance_ops.errors import CorruptFileError, UnsupportedError

_ZSTD_SIZE = struct.Struct("<Q")
_LZ4_SIZE = struct.Struct("<I")

# What the two formats can reach at best (a zstd block of 128 KiB costs at least 4 bytes, LZ4 counts lengths
# in bytes of 255): a declared size beyond that is a lie, and must not be allocated.
_ZSTD_MAX_RATIO = 32768
_LZ4_MAX_RATIO = 255

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_RESERVED = 0b1_0000
_STEP = 16 << 20
# Below, handing a share to another thread takes longer than to compress or to decompress it.
_SHARE_BYTES = 512 << 10
# Frames that saved little hold plain bytes, which take no longer to decompress than to be put together.
_WORTH_SHARING = 2.25

NONE, ZSTD, LZ4 = "none", "zstd", "lz4"

# Of a zstd frame or an LZ4 block, beside what grows with its content.
_MAX_FRAME_BYTES = 128

_SIZES = {ZSTD: _ZSTD_SIZE, LZ4: _LZ4_SIZE}
_MAX_RATIO = {ZSTD: _ZSTD_MAX_RATIO, LZ4: _LZ4_MAX_RATIO}
_LZ4_BLOCK = pa.Codec("lz4_raw")


def decompress(scheme: str, data: pa.Buffer) -> pa.Buffer:
    """Undo `compress`.

    Args:
        scheme: "zstd", "lz4", or "none".
        data: The size in bytes (u64 for zstd, u32 for LZ4), then the frame or block. An empty buffer stays
            empty. A zstd frame may lack the size, as the first writers left it out.

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
    if scheme == ZSTD and _is_bare_frame(data):
        return _decompress_frame(data)
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
    if scheme == LZ4:
        return unpack_block(body, plain_size)
    try:
        return pa.Codec(scheme).decompress(body, decompressed_size=plain_size)
    except (OSError, ValueError, MemoryError) as error:
        raise CorruptFileError(f"a buffer compressed with {scheme} is damaged: {error}") from error


def decompress_parts(scheme: str, parts: ChunkBuffer) -> ChunkBuffer:
    """Undo `compress` for each of several buffers.

    Args:
        scheme: "zstd" or "lz4".
        parts: The compressed buffers.

    Raises:
        UnsupportedError: Another scheme.
        CorruptFileError: A size cannot be, or a frame is damaged.
    """
    if scheme not in _MAX_RATIO:
        raise UnsupportedError(f"compression scheme {scheme!r} is not supported")
    header = _SIZES[scheme].size
    blank = parts.sizes == 0
    if bool((~blank & (parts.sizes < header)).any()):
        raise CorruptFileError(f"a buffer compressed with {scheme} is shorter than its size")
    sizes = np.zeros(len(parts.sizes), dtype=np.int64)
    declared = read_words(parts.data, parts.starts[~blank], header)
    bodies = ChunkBuffer(parts.data, parts.starts + header, np.maximum(parts.sizes - header, 0))
    if bool((declared > (bodies.sizes[~blank] * _MAX_RATIO[scheme]).astype(np.uint64)).any()):
        raise CorruptFileError(f"a buffer of {scheme} declares more bytes than it can hold")
    sizes[~blank] = declared.astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    # A block of nothing is still a block.
    chosen = np.flatnonzero(~blank if scheme == ZSTD else sizes > 0)
    bodies = ChunkBuffer(bodies.data, bodies.starts[chosen], bodies.sizes[chosen])
    if scheme == LZ4:
        plain = np.empty(int(sizes.sum()), dtype=np.uint8)
        for body, start, size in zip(
            bodies.parts(), starts[chosen].tolist(), sizes[chosen].tolist(), strict=True
        ):
            plain[start : start + size] = np.frombuffer(unpack_block(pa.py_buffer(body), size), np.uint8)
        return ChunkBuffer(plain, starts, sizes)
    try:
        # Frames can follow each other, and setting up the library for each costs more than its values.
        plain = _decompress_frames(bodies, sizes[chosen])
    except (OSError, ValueError, MemoryError) as error:
        raise CorruptFileError(f"a buffer compressed with {scheme} is damaged: {error}") from error
    return ChunkBuffer(plain, starts, sizes)


def _decompress_frames(frames: ChunkBuffer, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Decompress frames of which each has so many plain bytes, in shares where there are many."""
    size = int(sizes.sum())
    if size == 0:
        return np.empty(0, dtype=np.uint8)
    shares = _cut_evenly(frames.sizes) if size > _WORTH_SHARING * int(frames.sizes.sum()) else []
    if len(shares) < 2:
        return _decompress_at_once(frames, size)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    out = empty(size, np.uint8)

    def decompress_share(some: slice) -> None:
        start, stop = int(ends[some.start]), int(ends[some.stop])
        part = ChunkBuffer(frames.data, frames.starts[some], frames.sizes[some])
        if start < stop:
            out[start:stop] = _decompress_at_once(part, stop - start)

    run_side_by_side([partial(decompress_share, some) for some in shares])
    return out


def _decompress_at_once(frames: ChunkBuffer, size: int) -> npt.NDArray[np.uint8]:
    joined = pa.py_buffer(frames.join_prefixes(frames.sizes))
    plain = np.frombuffer(pa.Codec(ZSTD).decompress(joined, decompressed_size=size), dtype=np.uint8)
    if len(plain) != size:
        raise ValueError(f"{len(plain)} bytes where {size} are expected")
    return plain


def _cut_evenly(sizes: npt.NDArray[np.int64]) -> list[slice]:
    """Shares of consecutive parts, by their bytes."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    count = count_shares(total, _SHARE_BYTES)
    cuts = np.searchsorted(ends, np.arange(1, count) * (total // count)) + 1
    places = [0, *sorted({int(cut) for cut in cuts if cut < len(sizes)}), len(sizes)]
    return [slice(*pair) for pair in pairwise(places)]


def compress_parts(scheme: str, parts: ChunkBuffer, level: int | None = None) -> ChunkBuffer:
    """Compress each of several buffers; see `compress`.

    Args:
        scheme: "zstd" or "lz4".
        parts: The buffers.
        level: Of zstd; None for the library's default.
    """
    if scheme not in _SIZES:
        raise UnsupportedError(f"compression scheme {scheme!r} is not supported")
    shares = [
        ChunkBuffer(parts.data, parts.starts[some], parts.sizes[some]) for some in _cut_evenly(parts.sizes)
    ]
    made = run_side_by_side([partial(_compress_share, scheme, share, level) for share in shares])
    if len(made) == 1:
        return made[0]
    compressed, sizes = (np.concatenate([getattr(one, name) for one in made]) for name in ("data", "sizes"))
    return ChunkBuffer(compressed, np.cumsum(sizes) - sizes, sizes)


def _compress_share(scheme: str, parts: ChunkBuffer, level: int | None) -> ChunkBuffer:
    codec = _LZ4_BLOCK if scheme == LZ4 else pa.Codec(ZSTD, compression_level=level)
    header = _SIZES[scheme].size
    # More than what does not get smaller takes with either.
    room = int((parts.sizes + (parts.sizes >> 7)).sum()) + len(parts.sizes) * (header + _MAX_FRAME_BYTES)
    compressed = empty(room, np.uint8)
    sizes = np.zeros(len(parts.sizes), dtype=np.int64)
    end = 0
    for number, part in enumerate(parts.parts()):
        block = np.frombuffer(codec.compress(part), dtype=np.uint8)
        start = end + header
        end = start + len(block)
        compressed[start:end] = block
        sizes[number] = header + len(block)
    starts = np.cumsum(sizes) - sizes
    heads = parts.sizes.astype(f"<u{header}").view(np.uint8).reshape(-1, header)
    compressed[starts[:, np.newaxis] + np.arange(header)] = heads
    return ChunkBuffer(compressed[:end], starts, sizes)


def _is_bare_frame(data: pa.Buffer) -> bool:
    # The first writers put no size in front. A size cannot look like the start of a frame (RFC 8878, 3.1.1):
    # where it has the same first bytes, the fifth has a bit that is reserved in frames.
    start = data[: len(_ZSTD_MAGIC) + 1].to_pybytes()
    return len(start) > len(_ZSTD_MAGIC) and start.startswith(_ZSTD_MAGIC) and not start[-1] & _ZSTD_RESERVED


def _decompress_frame(frame: pa.Buffer) -> pa.Buffer:
    parts: list[bytes] = []
    limit = frame.size * _ZSTD_MAX_RATIO
    try:
        with pa.CompressedInputStream(pa.BufferReader(frame), ZSTD) as stream:
            while part := stream.read(_STEP):
                parts.append(part)
                limit -= len(part)
                if limit < 0:
                    raise CorruptFileError("a zstd frame is longer than it can be")
    except (OSError, ValueError, MemoryError) as error:
        raise CorruptFileError(f"a buffer compressed with zstd is damaged: {error}") from error
    return pa.py_buffer(b"".join(parts))


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
