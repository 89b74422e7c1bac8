"""Dropping values before they are compressed again."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.encoding.chunks import ChunkBuffer, assemble_chunks, decode_chunk_table, split_chunks
from lance_ops.encoding.values.filter_values import (
    count_entries,
    gather_ranges,
    keep_strings,
    keep_values,
    mask_ranges,
)
from lance_ops.encoding.values.values import Fixed, Lists, Nulls, Packed, Variable, as_bytes, as_flags
from lance_ops.encoding.values.variable import decode_variable_chunks, encode_variable_chunks
from lance_ops.errors import CorruptFileError

MASKS = st.lists(st.booleans(), max_size=60).map(lambda flags: np.array(flags, dtype=bool))


@given(MASKS)
def test_ranges_of_a_mask_cover_what_is_true(mask):
    starts, stops = mask_ranges(mask)
    found = np.zeros(len(mask), dtype=bool)
    for start, stop in zip(starts, stops, strict=True):
        assert not found[start:stop].any()
        assert start < stop
        found[start:stop] = True
    assert (found == mask).all()
    assert (starts[1:] > stops[:-1]).all()


@given(
    MASKS | st.integers(0, 59).map(lambda gone: np.arange(60) != gone),
    st.sampled_from([8, 16, 24, 32, 64, 128]),
)
def test_values_of_whole_bytes(mask, bits):
    rows = np.arange(len(mask) * bits // 8, dtype=np.uint8).reshape(len(mask), bits // 8)
    for data in (rows.reshape(-1), pa.py_buffer(rows.tobytes())):
        kept = keep_values(Fixed(bits, len(mask), data), mask)
        assert kept.length == mask.sum()
        assert as_bytes(kept).tobytes() == rows[mask].tobytes()


@given(MASKS)
def test_single_bits_from_booleans_and_from_bitmaps(mask):
    flags = np.arange(len(mask)) % 3 == 0
    for data in (flags, pa.py_buffer(np.packbits(flags, bitorder="little"))):
        kept = keep_values(Fixed(1, len(mask), data), mask)
        assert as_flags(kept).tolist() == flags[mask].tolist()


@given(MASKS, st.integers(0, 5), st.sampled_from([np.int32, np.int64]))
def test_values_of_variable_width(mask, base, word):
    words = [b"ab" * (n % 4) for n in range(len(mask))]
    offsets = np.concatenate([[0], np.cumsum([len(item) for item in words])]).astype(word) + word(base)
    kept = keep_values(Variable(offsets, pa.py_buffer(b"".join(words))), mask)
    data = memoryview(kept.data)
    found = [bytes(data[start:stop]) for start, stop in zip(kept.offsets, kept.offsets[1:], strict=False)]
    assert found == [item for item, stays in zip(words, mask, strict=True) if stays]


@given(MASKS, st.integers(1, 4), st.booleans())
def test_lists_structs_and_nulls(mask, size, has_nulls):
    count = len(mask)
    items = np.arange(count * size, dtype=np.uint16)
    valid = items % 5 != 0 if has_nulls else None
    kept = keep_values(Lists(size, count, Fixed(16, count * size, items), valid), mask)
    chosen = np.repeat(mask, size)
    assert (kept.length, kept.items.length) == (mask.sum(), chosen.sum())
    assert as_bytes(kept.items).view(np.uint16).tolist() == items[chosen].tolist()
    assert kept.valid is None or kept.valid.tolist() == valid[chosen].tolist()
    flags = Lists(size, count, Fixed(1, count * size, items % 2 == 0), None)
    assert as_flags(keep_values(flags, mask).items).tolist() == (items % 2 == 0)[chosen].tolist()
    packed = keep_values(Packed(count, (Nulls(count), Fixed(16, count, items[:count]))), mask)
    assert [member.length for member in packed.members] == [mask.sum()] * 2


def test_masks_of_another_length_and_missing_bytes_are_damage():
    with pytest.raises(CorruptFileError):
        keep_values(Nulls(3), np.ones(2, dtype=bool))
    for bits in (16, 24):
        with pytest.raises(CorruptFileError):
            keep_values(Fixed(bits, 3, np.zeros(5, np.uint8)), np.ones(3, dtype=bool))


def test_ranges_outside_of_the_data_are_damage():
    data = np.arange(10, dtype=np.uint8)
    picked = gather_ranges(data, np.array([1, 5, 9]), np.array([3, 5, 10]))
    assert picked.tolist() == [1, 2, 9]
    assert gather_ranges(data, np.empty(0, np.int64), np.empty(0, np.int64)).tolist() == []
    for starts, stops in (([0, 8], [1, 11]), ([-1, 0], [1, 1]), ([0, 4], [1, 3])):
        with pytest.raises(CorruptFileError):
            gather_ranges(data, np.array(starts), np.array(stops))


def string_page(words, width, word_bytes, chunk_bytes=200):
    ends = np.cumsum([0, *(len(word) for word in words)])
    values = Variable(ends, pa.py_buffer(b"".join(words)))
    counts, buffer = encode_variable_chunks(values, width, chunk_bytes=chunk_bytes)
    return assemble_chunks(None, None, None, (buffer,), counts, size_bytes=word_bytes)


def read_string_page(table, chunks, count, width, word_bytes):
    found = decode_chunk_table(table, word_bytes=word_bytes, num_values=count, size=len(chunks))
    assert found.sizes.sum() == len(chunks)
    whole = ChunkBuffer(chunks, found.starts, found.sizes)
    parts = split_chunks(whole, has_rep=False, has_def=False, num_buffers=1, size_bytes=word_bytes)
    values = decode_variable_chunks(parts.values[0], found.counts, width)
    data = bytes(values.data)
    return [data[start:stop] for start, stop in zip(values.offsets, values.offsets[1:], strict=False)]


@given(
    st.lists(st.tuples(st.binary(max_size=40), st.booleans()), min_size=1, max_size=90),
    st.sampled_from([4, 8]),
    st.sampled_from([2, 4]),
    st.integers(40, 400),
)
def test_strings_move_from_chunk_to_chunk(rows, width, word_bytes, chunk_bytes):
    words, keep = [word for word, _ in rows], np.array([stays for _, stays in rows])
    keep[len(rows) // 2] = True
    table, chunks = string_page(words, width, word_bytes)
    sizes = {"word_bytes": word_bytes, "width": width, "chunk_bytes": chunk_bytes, "limit": 31 << 10}
    kept = keep_strings(table, chunks, len(words), mask_ranges(~keep), **sizes)
    expected = [word for word, stays in zip(words, keep, strict=True) if stays]
    assert read_string_page(*kept, len(expected), width, word_bytes) == expected
    assert kept[0].tobytes() == string_page(expected, width, word_bytes, chunk_bytes)[0].tobytes()
    assert kept[1].tobytes() == string_page(expected, width, word_bytes, chunk_bytes)[1].tobytes()


def test_strings_too_long_for_a_chunk_of_two_are_left_to_others():
    words = [b"a" * 20_000, b"b", b"c" * 20_000, b"d"]
    table, chunks = string_page(words, 4, 2)
    sizes = {"word_bytes": 2, "width": 4, "chunk_bytes": 8 << 10, "limit": 31 << 10}
    gone = np.array([1]), np.array([2])
    assert keep_strings(table, chunks, 4, gone, **sizes) is None


@pytest.mark.parametrize("seed", range(6))
def test_damaged_chunks_of_strings_are_found_or_harmless(seed):
    rng = np.random.default_rng(seed)
    words = [bytes(size) for size in rng.integers(0, 40, 60).tolist()]
    width, word_bytes = (4, 8)[seed % 2], (2, 4)[seed // 2 % 2]
    table, chunks = string_page(words, width, word_bytes)
    gone = np.array([3, 20]), np.array([5, 21])
    sizes = {"word_bytes": word_bytes, "width": width, "chunk_bytes": 300, "limit": 31 << 10}
    for _ in range(400):
        broken = [table.copy(), chunks.copy()]
        target = broken[int(rng.integers(2))]
        target[rng.integers(len(target))] = rng.integers(256)
        count = int(rng.choice([60, 60, 60, 59, 61, 2, 3, 1 << 40]))
        cut = broken[1][: rng.integers(len(chunks) + 1)] if rng.random() < 0.2 else broken[1]
        try:
            kept = keep_strings(broken[0], cut, count, gone, **sizes)
        except CorruptFileError:
            continue
        assert kept is not None
        assert len(read_string_page(*kept, count - 3, width, word_bytes)) == count - 3


FORM = {"control_bytes": 1, "def_bits": 2, "length_bytes": 4, "value_bytes": 0, "visible_below": 2}


def entry(level, value=b""):
    return bytes([level]) + (len(value).to_bytes(4, "little") + value if level == 0 else b"")


def test_entries_are_counted_row_by_row():
    rows = [entry(0, b"abc") + entry(1), entry(2), entry(0) + entry(0, b"x") + entry(3)]
    data = np.frombuffer(b"".join(rows), dtype=np.uint8)
    ends = np.cumsum([len(row) for row in rows])
    starts = ends - [len(row) for row in rows]
    assert count_entries(data, starts, ends, **FORM) == (6, 4)
    assert count_entries(data, starts[1:2], ends[1:2], **FORM) == (1, 0)
    assert count_entries(data, starts[:0], ends[:0], **FORM) == (0, 0)
    fixed = {"control_bytes": 1, "def_bits": 1, "length_bytes": 0, "value_bytes": 3, "visible_below": 1}
    plain = np.frombuffer(b"\0abc\1\0def", dtype=np.uint8)
    assert count_entries(plain, np.array([0]), np.array([9]), **fixed) == (3, 2)


@pytest.mark.parametrize(
    "data",
    [b"\0\5\0\0\0abc", b"\0\1\0", b"\0\xff\xff\xff\xff", b"\0\1\0\0\0"],
    ids=["value", "length", "huge", "nothing"],
)
def test_entries_that_leave_their_row_are_damage(data):
    values = np.frombuffer(data, dtype=np.uint8)
    with pytest.raises(CorruptFileError):
        count_entries(values, np.array([0]), np.array([len(values)]), **FORM)


def test_rows_outside_of_the_data_and_empty_entries_are_damage():
    values = np.zeros(4, dtype=np.uint8)
    for start, stop in ((-1, 2), (0, 5)):
        with pytest.raises(CorruptFileError):
            count_entries(values, np.array([start]), np.array([stop]), **FORM)
    empty = {"control_bytes": 0, "def_bits": 0, "length_bytes": 0, "value_bytes": 0, "visible_below": 1}
    with pytest.raises(CorruptFileError):
        count_entries(values, np.array([0]), np.array([4]), **empty)
