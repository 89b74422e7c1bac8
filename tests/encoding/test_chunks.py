import numpy as np
import pytest

from lance_ops.encoding.chunks import ChunkBuffer, decode_chunk_table, read_words, split_chunks
from lance_ops.errors import CorruptFileError


def words(*pairs: tuple[int, int], width: int = 2) -> np.ndarray:
    """Chunk words from (bytes, power of the count)."""
    packed = np.array([(size // 8 - 1) << 4 | power for size, power in pairs], dtype=f"<u{width}")
    return np.frombuffer(packed.tobytes(), dtype=np.uint8)


@pytest.mark.parametrize("width", [2, 4])
def test_a_page_says_where_its_chunks_are_and_how_many_values_they_hold(width: int) -> None:
    table = decode_chunk_table(
        words((64, 10), (16, 3), (8, 0), width=width), word_bytes=width, num_values=1040, size=88
    )
    assert table.starts.tolist() == [0, 64, 80, 88]
    assert table.first_values.tolist() == [0, 1024, 1032, 1040]
    assert len(table) == 3


@pytest.mark.parametrize(
    ("num_values", "size", "match"),
    [(1024, 88, "cannot hold -8"), (100_000, 88, "cannot hold"), (1040, 87, "do not fit into 87")],
)
def test_counts_and_sizes_must_add_up(num_values: int, size: int, match: str) -> None:
    with pytest.raises(CorruptFileError, match=match):
        decode_chunk_table(words((64, 10), (16, 3), (8, 0)), word_bytes=2, num_values=num_values, size=size)


def test_a_table_is_made_of_whole_words() -> None:
    for data in (b"", b"abc"):
        with pytest.raises(CorruptFileError, match="no table of chunks"):
            decode_chunk_table(np.frombuffer(data, np.uint8), word_bytes=2, num_values=1, size=8)


@pytest.mark.parametrize("size_bytes", [2, 4])
def test_the_parts_of_a_chunk_begin_at_multiples_of_eight(size_bytes: int) -> None:
    header = np.array([3, 5, 6], "<u2").tobytes() + np.array([2, 9], f"<u{size_bytes}").tobytes()
    parts = [b"rrrrr", b"dddddd", b"vv", b"wwwwwwwww"]
    chunk = header.ljust(-len(header) % 8 + len(header), b"?")
    for part in parts:
        chunk += part.ljust(-len(part) % 8 + len(part), b"?")
    data = np.frombuffer(chunk * 2, dtype=np.uint8)
    starts = np.array([0, len(chunk), 2 * len(chunk)])
    chunks = split_chunks(data, starts, has_rep=True, has_def=True, num_buffers=2, size_bytes=size_bytes)
    assert chunks.num_levels.tolist() == [3, 3]
    assert chunks.rep is not None
    assert chunks.definition is not None
    found = [chunks.rep, chunks.definition, *chunks.values]
    assert [[part.tobytes() for part in buffer.parts()] for buffer in found] == [[part] * 2 for part in parts]


def test_a_part_stays_within_its_chunk() -> None:
    data = np.frombuffer(np.array([0, 9], "<u2").tobytes().ljust(16, b"\0"), dtype=np.uint8)
    arguments = {"has_rep": False, "has_def": False, "size_bytes": 2}
    with pytest.raises(CorruptFileError, match="beyond the chunk"):
        split_chunks(data, np.array([0, 16]), num_buffers=1, **arguments)
    with pytest.raises(CorruptFileError, match="too early"):
        split_chunks(data, np.array([0, 24]), num_buffers=1, **arguments)
    with pytest.raises(CorruptFileError, match="value buffers"):
        split_chunks(data, np.array([0, 16]), num_buffers=1 << 40, **arguments)
    with pytest.raises(CorruptFileError, match="too short"):
        split_chunks(data, np.array([0, 16]), num_buffers=20, **arguments)


def test_buffers_of_chunks_are_bounded() -> None:
    buffer = ChunkBuffer.from_parts([np.arange(4, dtype=np.uint8), np.arange(2, dtype=np.uint8)])
    assert buffer.join_prefixes(np.array([2, 1])).tolist() == [0, 1, 0]
    assert buffer.words(0, 2).tolist() == [256, 256]
    with pytest.raises(CorruptFileError):
        buffer.join_prefixes(np.array([2, 3]))
    with pytest.raises(CorruptFileError):
        read_words(buffer.data, np.array([5]), 2)
