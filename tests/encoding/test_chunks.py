import numpy as np
import pytest

from lance_ops.encoding.chunks import (
    CHUNK_ROOM,
    ChunkBuffer,
    allocate_parts,
    assemble_chunks,
    copy_parts,
    decode_chunk_table,
    decode_chunk_tables,
    read_words,
    split_chunks,
)
from lance_ops.errors import CorruptFileError, LanceOpsError


def words(*pairs: tuple[int, int], width: int = 2) -> np.ndarray:
    """Chunk words from (bytes, power of the count)."""
    packed = np.array([(size // 8 - 1) << 4 | power for size, power in pairs], dtype=f"<u{width}")
    return np.frombuffer(packed.tobytes(), dtype=np.uint8)


@pytest.mark.parametrize("width", [2, 4])
def test_a_page_says_where_its_chunks_are_and_how_many_values_they_hold(width: int) -> None:
    table = decode_chunk_table(
        words((64, 10), (16, 3), (8, 0), width=width), word_bytes=width, num_values=1040, size=88
    )
    assert table.starts.tolist() == [0, 64, 80]
    assert table.sizes.tolist() == [64, 16, 8]
    assert table.counts.tolist() == [1024, 8, 8]
    assert len(table) == 3


def test_tables_of_several_pages_are_parsed_at_once() -> None:
    tables = words((64, 10), (16, 3), (8, 0), (24, 1))
    table = decode_chunk_tables(
        tables,
        np.array([4, 2, 2]),
        word_bytes=2,
        num_values=np.array([1030, 5, 7]),
        room=np.array([80, 8, 24]),
    )
    assert table.numbers.tolist() == [2, 1, 1]
    assert table.firsts.tolist() == [0, 2, 3]
    assert table.starts.tolist() == [0, 64, 0, 0]
    assert table.counts.tolist() == [1024, 6, 5, 7]


@pytest.mark.parametrize(
    ("num_values", "size", "match"),
    [(1024, 88, "cannot hold"), (100_000, 88, "cannot hold"), (1040, 87, "do not fit")],
)
def test_counts_and_sizes_must_add_up(num_values: int, size: int, match: str) -> None:
    with pytest.raises(CorruptFileError, match=match):
        decode_chunk_table(words((64, 10), (16, 3), (8, 0)), word_bytes=2, num_values=num_values, size=size)


def test_a_table_is_made_of_whole_words() -> None:
    for data in (b"", b"abc"):
        with pytest.raises(CorruptFileError, match="whole words"):
            decode_chunk_table(np.frombuffer(data, np.uint8), word_bytes=2, num_values=1, size=8)


@pytest.mark.parametrize("size_bytes", [2, 4])
def test_the_parts_of_a_chunk_begin_at_multiples_of_eight(size_bytes: int) -> None:
    header = np.array([3, 5, 6], "<u2").tobytes() + np.array([2, 9], f"<u{size_bytes}").tobytes()
    parts = [b"rrrrr", b"dddddd", b"vv", b"wwwwwwwww"]
    chunk = header.ljust(-len(header) % 8 + len(header), b"?")
    for part in parts:
        chunk += part.ljust(-len(part) % 8 + len(part), b"?")
    data = np.frombuffer(chunk * 2, dtype=np.uint8)
    both = ChunkBuffer(data, np.array([0, len(chunk)]), np.array([len(chunk)] * 2))
    chunks = split_chunks(both, has_rep=True, has_def=True, num_buffers=2, size_bytes=size_bytes)
    assert chunks.num_levels.tolist() == [3, 3]
    assert chunks.rep is not None
    assert chunks.definition is not None
    found = [chunks.rep, chunks.definition, *chunks.values]
    assert [[part.tobytes() for part in buffer.parts()] for buffer in found] == [[part] * 2 for part in parts]


def test_a_part_stays_within_its_chunk() -> None:
    data = np.frombuffer(np.array([0, 9], "<u2").tobytes().ljust(16, b"\0"), dtype=np.uint8)
    arguments = {"has_rep": False, "has_def": False, "size_bytes": 2}
    with pytest.raises(CorruptFileError, match="beyond the chunk"):
        split_chunks(ChunkBuffer(data, np.array([0]), np.array([16])), num_buffers=1, **arguments)
    with pytest.raises(CorruptFileError, match="too early"):
        split_chunks(ChunkBuffer(data, np.array([0]), np.array([24])), num_buffers=1, **arguments)
    with pytest.raises(CorruptFileError, match="value buffers"):
        split_chunks(ChunkBuffer(data, np.array([0]), np.array([16])), num_buffers=1 << 40, **arguments)
    with pytest.raises(CorruptFileError, match="too short"):
        split_chunks(ChunkBuffer(data, np.array([0]), np.array([16])), num_buffers=20, **arguments)


def test_buffers_of_chunks_are_bounded() -> None:
    buffer = ChunkBuffer.from_parts([np.arange(4, dtype=np.uint8), np.arange(2, dtype=np.uint8)])
    assert buffer.join_prefixes(np.array([2, 1])).tolist() == [0, 1, 0]
    assert buffer.words(0, 2).tolist() == [256, 256]
    with pytest.raises(CorruptFileError):
        buffer.join_prefixes(np.array([2, 3]))
    with pytest.raises(CorruptFileError):
        read_words(buffer.data, np.array([len(buffer.data) - 1]), 2)


def buffer(*parts: bytes) -> ChunkBuffer:
    return ChunkBuffer.from_parts([np.frombuffer(part, dtype=np.uint8) for part in parts])


@pytest.mark.parametrize("size_bytes", [2, 4])
@pytest.mark.parametrize("levels", [False, True])
def test_chunks_are_split_as_they_were_assembled(size_bytes: int, levels: bool) -> None:
    num_levels = np.array([9, 4, 300]) if levels else None
    rep, definition = (buffer(b"r", b"", b"rrr"), buffer(b"d" * 9, b"dd", b"")) if levels else (None, None)
    values = (buffer(b"v" * 100, b"", b"vvv"), buffer(b"w", b"w" * 8, b"ww"))
    counts = np.array([1024, 2, 77])
    table_words, data = assemble_chunks(num_levels, rep, definition, values, counts, size_bytes=size_bytes)
    table = decode_chunk_table(table_words, word_bytes=size_bytes, num_values=1103, size=len(data))
    assert table.counts.tolist() == counts.tolist()
    assert int(table.sizes.sum()) == len(data)
    whole = ChunkBuffer(data, table.starts, table.sizes)
    found = split_chunks(whole, has_rep=levels, has_def=levels, num_buffers=2, size_bytes=size_bytes)
    assert found.num_levels.tolist() == ([9, 4, 300] if levels else [0, 0, 0])
    for part, expected in zip(
        (found.rep, found.definition, *found.values), (rep, definition, *values), strict=True
    ):
        assert (part is None) == (expected is None)
        if part is not None and expected is not None:
            assert [one.tobytes() for one in part.parts()] == [one.tobytes() for one in expected.parts()]


@pytest.mark.parametrize(
    ("counts", "size", "size_bytes", "match"),
    [
        ([3, 1], 8, 2, "cannot be written"),
        ([1, 1], 8, 2, "cannot be written"),
        ([2, 40_000], 8, 4, "cannot be written"),
        ([], 8, 4, "cannot be written"),
        ([2, 1], 70_000, 2, "too large"),
        ([2, 1], 32_764, 2, "too large"),
    ],
)
def test_chunks_that_the_table_cannot_describe_are_refused(
    counts: list[int], size: int, size_bytes: int, match: str
) -> None:
    values = buffer(*[bytes(size) for _ in counts])
    with pytest.raises(LanceOpsError, match=match):
        assemble_chunks(None, None, None, (values,), np.array(counts, dtype=np.int64), size_bytes=size_bytes)


def test_parts_that_lie_where_they_belong_are_not_copied() -> None:
    sizes = np.array([16, 9, 3])
    starts, data = allocate_parts(sizes, CHUNK_ROOM)
    part = ChunkBuffer(data, starts, sizes)
    copy_parts(buffer(b"a" * 16, b"b" * 9, b"ccc"), data, starts)
    _, chunks = assemble_chunks(None, None, None, (part,), np.array([8, 2, 1]), size_bytes=4)
    assert np.shares_memory(chunks, data)
    data.flags.writeable = False
    _, copied = assemble_chunks(None, None, None, (part,), np.array([8, 2, 1]), size_bytes=4)
    assert not np.shares_memory(copied, data)
    assert copied.tobytes() == chunks.tobytes()
    # What was in memory before is not in the paddings.
    assert chunks.tobytes()[24 + 8 + 9 : 24 + 24] == bytes(7)
    assert chunks.tobytes()[-5:] == bytes(5)
