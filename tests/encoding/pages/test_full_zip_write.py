"""Entries of full-zip pages, against bytes put together one by one."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.encoding.pages.full_zip_write import (
    control_words,
    join_pieces,
    length_rows,
    pack_index,
    zip_entries,
    zip_rows,
)
from lance_ops.encoding.values.values import Variable

TEXTS = st.binary(max_size=4) | st.sampled_from(
    [b"s" * 7, b"t" * 8, b"u" * 9, b"v" * 63, b"w" * 64, b"x" * 71]
)


def _variable(values: list[bytes], skipped: bytes = b"") -> Variable:
    lengths = [len(value) for value in values]
    offsets = len(skipped) + np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    return Variable(offsets, pa.py_buffer(b"".join(values)))


@given(
    st.lists(st.tuples(st.binary(max_size=5), st.booleans(), st.integers(0, 3)), max_size=20),
    st.sampled_from([0, 4, 8]),
    st.booleans(),
    st.booleans(),
)
def test_entries_are_levels_length_and_value(
    entries: list[tuple[bytes, bool, int]], length_bytes: int, with_levels: bool, with_absent: bool
) -> None:
    levels = np.array([level for *_, level in entries], dtype=np.uint16)
    control = control_words(None, levels, 0, 2) if with_levels else None
    present = np.array([shown for _, shown, _ in entries], dtype=np.bool_) if with_absent else None
    values = [value for value, shown, _ in entries if shown or not with_absent]

    data, starts = zip_entries(control, present, _variable(values, b"skipped"), length_bytes)

    expected, at = [], [0]
    for value, shown, level in entries:
        entry = bytes([level]) if with_levels else b""
        if shown or not with_absent:
            entry += len(value).to_bytes(length_bytes, "little") if length_bytes else b""
            entry += value
        expected.append(entry)
        at.append(at[-1] + len(entry))
    assert data.tobytes() == b"".join(expected)
    assert starts.tolist() == at


@given(st.lists(st.tuples(TEXTS, st.binary(min_size=2, max_size=2)), min_size=1, max_size=20))
def test_pieces_are_joined_row_by_row(rows: list[tuple[bytes, bytes]]) -> None:
    strings = _variable([text for text, _ in rows])
    fixed = np.frombuffer(b"".join(word for _, word in rows), dtype=np.uint8).reshape(-1, 2)

    joined = join_pieces([fixed, length_rows(strings, 4), strings, fixed, strings])

    expected = [word + len(text).to_bytes(4, "little") + text + word + text for text, word in rows]
    ends = np.cumsum([len(row) for row in expected]).tolist()
    assert joined.offsets.tolist() == [0, *ends]
    assert joined.data.to_pybytes()[: ends[-1]] == b"".join(expected)


@pytest.mark.parametrize(
    ("rep_bits", "def_bits", "width"), [(0, 0, 0), (0, 1, 1), (3, 5, 1), (4, 5, 2), (8, 8, 2), (9, 8, 4)]
)
def test_both_levels_share_a_word(rep_bits: int, def_bits: int, width: int) -> None:
    rep = np.array([0, (1 << rep_bits) - 1], dtype=np.uint16) if rep_bits else None
    definition = np.array([(1 << def_bits) - 1, 0], dtype=np.uint16) if def_bits else None

    words = control_words(rep, definition, rep_bits, def_bits)

    if not width:
        assert words is None
        return
    assert words is not None
    assert words.itemsize == width
    assert words.tolist() == [(1 << def_bits) - 1, ((1 << rep_bits) - 1) << def_bits]


def test_rows_without_levels_are_the_values_themselves() -> None:
    values = np.arange(12, dtype=np.uint8)
    assert zip_rows(None, values, 4) is values
    assert zip_rows(np.array([1, 0, 1], np.uint8), values, 4).reshape(3, 5)[:, 0].tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("largest", "width"), [(0, 1), (255, 1), (256, 2), (65535, 2), (65536, 4), (2**32, 8)]
)
def test_an_index_is_as_narrow_as_it_can_be(largest: int, width: int) -> None:
    packed = pack_index(np.array([0, largest], dtype=np.int64))
    assert packed.tobytes() == (0).to_bytes(width, "little") + largest.to_bytes(width, "little")
