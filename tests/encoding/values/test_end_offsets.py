import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.encoding.bits.bitmap import decode_bitmap
from lance_ops.encoding.values.end_offsets import (
    Extents,
    decode_end_offsets,
    decode_words,
    encode_end_offsets,
    encode_extents,
    narrow_offsets,
)
from lance_ops.errors import CorruptFileError

ROWS = st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=40)


def test_the_example_of_the_format() -> None:
    # [[A, B], null, [], [C, D, E]]
    ends, adjustment, total = encode_end_offsets(np.array([2, 0, 0, 3]), np.array([True, False, True, True]))
    assert (ends.tolist(), adjustment, total) == ([2, 8, 2, 5], 6, 5)


@given(ROWS, st.integers(0, 40), st.integers(0, 40))
def test_any_range_of_rows_is_read_back(rows: list[int | None], start: int, stop: int) -> None:
    start, stop = sorted((min(start, len(rows)), min(stop, len(rows))))
    lengths = np.array([row or 0 for row in rows], dtype=np.int64)
    valid = np.array([row is not None for row in rows], dtype=np.bool_)
    ends, adjustment, total = encode_end_offsets(lengths, None if valid.all() else valid)
    assert ends.dtype == np.uint64
    part = ends[max(start - 1, 0) : stop]
    offsets, validity = decode_end_offsets(part, adjustment, total, has_predecessor=start > 0)
    assert np.diff(offsets).tolist() == lengths[start:stop].tolist()
    assert int(offsets[0]) == int(lengths[:start].sum())
    found = np.ones(stop - start, dtype=bool) if validity is None else decode_bitmap(validity, stop - start)
    assert found.tolist() == valid[start:stop].tolist()


@pytest.mark.parametrize("word", [np.int32, np.int64])
@pytest.mark.parametrize("nulls", [0, 0.3, 1])
@pytest.mark.parametrize("hidden", [False, True])
def test_ends_of_several_parts_are_those_of_all_rows(word: type, nulls: float, hidden: bool) -> None:
    random = np.random.default_rng(7)
    for first in (0, 1, 8, 13):
        parts, lengths, valids = [], [], []
        for rows in (0, 1, 7, 8, 9, 100):
            valid = random.random(rows) >= nulls
            own = random.integers(0, 5, rows) * (valid | hidden)
            offsets = (np.concatenate([[0], np.cumsum(own)]) + 3).astype(word)
            bitmap = np.packbits(np.concatenate([np.ones(first, bool), valid]), bitorder="little")
            parts.append(Extents(offsets, None if valid.all() else bitmap, first))
            lengths.append(own * valid)
            valids.append(valid)
            assert parts[-1].measure() == (own * valid).sum()
            assert parts[-1].span == own.sum()
        found = encode_extents(parts, [part.measure() for part in parts])
        expected = encode_end_offsets(np.concatenate(lengths), np.concatenate(valids))
        assert found[0].tolist() == expected[0].tolist()
        assert found[1:] == expected[1:]


@pytest.mark.parametrize(
    ("ends", "adjustment", "limit"),
    [([3, 2], 6, 5), ([2, 6], 20, 5), ([2**64 - 1], 0, 5), ([5, 6 + 4], 6, 5), ([2**64 - 1], 1, 2**62)],
)
def test_ends_that_cannot_be_are_corrupt(ends: list[int], adjustment: int, limit: int) -> None:
    with pytest.raises(CorruptFileError):
        decode_end_offsets(np.array(ends, dtype=np.uint64), adjustment, limit, has_predecessor=False)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_ends_of_any_width_are_read(bits: int) -> None:
    data = pa.py_buffer(np.array([1, 200, 255], dtype=f"u{bits // 8}"))
    words = decode_words(data, bits, 3)
    assert (words.dtype, words.tolist()) == (np.uint64, [1, 200, 255])
    with pytest.raises(CorruptFileError):
        decode_words(data, bits, 4)
    with pytest.raises(CorruptFileError, match="12 bits"):
        decode_words(data, 12, 1)


def test_offsets_start_at_zero_and_must_fit() -> None:
    assert np.frombuffer(narrow_offsets(np.array([5, 7]), large=False), dtype=np.int32).tolist() == [0, 2]
    wide = np.array([5, 5 + 2**31])
    assert np.frombuffer(narrow_offsets(wide, large=True), dtype=np.int64).tolist() == [0, 2**31]
    with pytest.raises(CorruptFileError, match="32-bit offsets"):
        narrow_offsets(wide, large=False)
