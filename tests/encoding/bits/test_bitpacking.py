import numpy as np
import pytest

from lance_ops.encoding.bits.bitpacking import (
    BLOCK,
    pack_inline,
    pack_out_of_line,
    pack_parts,
    unpack_blocks,
    unpack_inline,
    unpack_parts,
)
from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.errors import CorruptFileError

ORDER = (0, 4, 2, 6, 1, 5, 3, 7)


def pack_block(values: np.ndarray, width: int, bits: int) -> bytes:
    """One block, bit by bit, straight from the definition."""
    lanes = BLOCK // bits
    words = [[0] * lanes for _ in range(width)]
    for row in range(bits):
        for lane in range(lanes):
            value = int(values[ORDER[row // 8] * 16 + row % 8 * 128 + lane])
            for bit in range(width):
                index, shift = divmod(row * width + bit, bits)
                words[index][lane] |= (value >> bit & 1) << shift
    return np.array(words, dtype=f"<u{bits // 8}").tobytes()


def random_block(width: int, bits: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, (1 << width) - 1, BLOCK, dtype=np.uint64, endpoint=True).astype(f"<u{bits // 8}")


def as_bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, dtype=np.uint8)


def parts(*data: bytes) -> ChunkBuffer:
    return ChunkBuffer.from_parts([as_bytes(part) for part in data])


@pytest.mark.parametrize(
    ("width", "bits"),
    [(1, 8), (7, 8), (8, 8), (3, 16), (16, 16), (5, 32), (31, 32), (17, 64), (63, 64), (64, 64)],
)
def test_blocks_are_unpacked_in_the_order_of_fastlanes(width: int, bits: int) -> None:
    blocks = [random_block(width, bits, seed) for seed in range(2)]
    packed = b"".join(pack_block(block, width, bits) for block in blocks)
    assert unpack_blocks(as_bytes(packed), width, bits).tolist() == [block.tolist() for block in blocks]


def test_each_chunk_has_a_width_of_its_own() -> None:
    blocks = [random_block(width, 32, width) for width in (3, 9, 0, 3)]
    chunks = [
        np.uint32(width).tobytes() + (pack_block(block, width, 32) if width else b"")
        for width, block in zip((3, 9, 0, 3), blocks, strict=True)
    ]
    counts = np.array([1024, 1024, 1024, 10])
    found = unpack_inline(ChunkBuffer.from_parts([as_bytes(chunk) for chunk in chunks]), counts, 32)
    expected = np.concatenate([block[:count] for block, count in zip(blocks, counts, strict=True)])
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("starts", [(0, 1), (5, 3), (4, 4)])
def test_chunks_may_begin_at_any_byte(starts: tuple[int, int]) -> None:
    blocks = [random_block(width, 16, width) for width in (3, 16, 7)]
    data, places = b"", []
    for number, (width, block) in enumerate(zip((3, 16, 7), blocks, strict=True)):
        data += bytes(starts[number % 2])
        places.append(len(data))
        data += np.uint16(width).tobytes() + pack_block(block, width, 16)
    sizes = np.array([2 + width * 128 for width in (3, 16, 7)])
    chunks = ChunkBuffer(as_bytes(data), np.array(places), sizes)
    found = unpack_inline(chunks, np.array([1024, 1024, 1000]), 16)
    assert found.tolist() == np.concatenate(blocks)[:3048].tolist()
    cut = ChunkBuffer(as_bytes(data[:-1]), np.array(places), sizes)
    with pytest.raises(CorruptFileError, match="too early"):
        unpack_inline(cut, np.array([1024, 1024, 1000]), 16)


@pytest.mark.parametrize("tail", [0, 1, 37, 1023])
@pytest.mark.parametrize("plain", [False, True])
def test_the_rest_of_a_run_is_padded_or_plain(tail: int, plain: bool) -> None:
    blocks = [random_block(5, 16, 1), random_block(5, 16, 2)]
    data = pack_block(blocks[0], 5, 16)
    if tail:
        data += blocks[1][:tail].tobytes() if plain else pack_block(blocks[1], 5, 16)
    found = unpack_parts(parts(data, data), np.array([1024 + tail] * 2), 5, 16)
    assert found.tolist() == np.concatenate([blocks[0], blocks[1][:tail]]).tolist() * 2


def test_no_bits_are_zeros() -> None:
    assert unpack_parts(parts(b""), np.array([5]), 0, 16).tolist() == [0] * 5
    with pytest.raises(CorruptFileError, match="without bits"):
        unpack_parts(parts(b""), np.array([1 << 40]), 0, 16)


def test_impossible_widths_and_sizes_are_refused() -> None:
    short = ChunkBuffer.from_parts([as_bytes(np.uint32(9).tobytes() + bytes(100))])
    with pytest.raises(CorruptFileError, match="too short"):
        unpack_inline(short, np.array([1024]), 32)
    wide = ChunkBuffer.from_parts([as_bytes(np.uint32(33).tobytes() + bytes(5000))])
    with pytest.raises(CorruptFileError, match="packed into 33"):
        unpack_inline(wide, np.array([1024]), 32)
    with pytest.raises(CorruptFileError, match="cannot hold 1025"):
        unpack_inline(wide, np.array([1025]), 32)
    with pytest.raises(CorruptFileError, match="24 bits"):
        unpack_blocks(as_bytes(bytes(3000)), 5, 24)
    with pytest.raises(CorruptFileError, match="too early"):
        unpack_parts(parts(bytes(100)), np.array([1024]), 5, 16)


WIDTHS = [
    (bits, width) for bits in (8, 16, 32, 64) for width in (0, 1, bits // 2 - 1, bits // 2, bits - 1, bits)
]


def random_values(count: int, width: int, bits: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    return rng.integers(0, (1 << width) - 1, count, dtype=np.uint64, endpoint=True).astype(f"<u{bits // 8}")


def even_counts(total: int, count: int) -> np.ndarray:
    return np.minimum(count, total - np.arange(0, total, count))


@pytest.mark.parametrize(("bits", "width"), WIDTHS)
def test_a_block_is_packed_as_the_definition_says(bits: int, width: int) -> None:
    block = random_block(width, bits) if width else np.zeros(BLOCK, f"<u{bits // 8}")
    packed = pack_inline(block)
    header = np.array([width], f"<u{bits // 8}").tobytes()
    assert packed.parts()[0].tobytes() == header + (pack_block(block, width, bits) if width else b"")
    if width:
        assert pack_out_of_line(block, width).tobytes() == pack_block(block, width, bits)


@pytest.mark.parametrize(("bits", "width"), WIDTHS)
@pytest.mark.parametrize("count", [1, 7, 1024, 1025, 3000])
def test_packed_values_come_back(count: int, bits: int, width: int) -> None:
    values = random_values(count, width, bits)
    packed = pack_inline(values)
    assert unpack_inline(packed, even_counts(count, BLOCK), bits).tolist() == values.tolist()
    if width:
        run = pack_out_of_line(values, width)
        assert (
            unpack_parts(ChunkBuffer.from_parts([run]), np.array([count]), width, bits).tolist()
            == values.tolist()
        )


def test_short_blocks_between_others_are_unpacked_too() -> None:
    counts = np.array([7, 1024, 1, 512] * 600)
    values = random_values(int(counts.sum()), 9, 32)
    ends = np.cumsum(counts).tolist()
    chunks = [
        pack_inline(values[end - count : end]).parts()[0]
        for end, count in zip(ends, counts.tolist(), strict=True)
    ]
    assert unpack_inline(ChunkBuffer.from_parts(chunks), counts, 32).tolist() == values.tolist()


@pytest.mark.parametrize("counts", [[2048, 1024, 500], [3, 1024, 2000, 1], [1], [0, 5, 0]])
def test_parts_are_packed_one_by_one(counts: list[int]) -> None:
    values = random_values(sum(counts), 3, 16)
    packed = pack_parts(values, np.array(counts), 3)
    ends = np.cumsum(counts).tolist()
    parts = [values[end - count : end] for end, count in zip(ends, counts, strict=True)]
    assert [part.tobytes() for part in packed.parts()] == [
        pack_out_of_line(part, 3).tobytes() for part in parts
    ]
    assert unpack_parts(packed, np.array(counts), 3, 16).tolist() == values.tolist()
