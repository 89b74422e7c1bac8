import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.encoding.pages.full_zip_read import Entries, EntryFormat, split_fixed_rows, walk_rows
from lance_ops.errors import CorruptFileError
from tests.support.oracles import oracles_in_place

# A list of nullable strings that can be null or empty itself: entries from level 2 on have no slot.
STRINGS = EntryFormat(1, 1, 2, 4, 0, 2)
NUMBERS = EntryFormat(1, 1, 2, 0, 3, 2)
PLAIN_STRINGS = EntryFormat(0, 0, 0, 8, 0, 1)
NULLABLE_NUMBERS = EntryFormat(1, 0, 1, 0, 5, 2)

ENTRIES = st.tuples(st.integers(0, 1), st.integers(0, 3), st.binary(max_size=9))
ROWS = st.lists(st.lists(ENTRIES, min_size=1, max_size=30), max_size=40)


def encode(rows: list[list[tuple[int, int, bytes]]], form: EntryFormat) -> tuple[np.ndarray, np.ndarray]:
    data, ends = bytearray(), [0]
    for row in rows:
        for rep, level, value in row:
            data += (rep << form.def_bits | level).to_bytes(form.control_bytes, "little")
            if form.length_bytes:
                if level == 0:
                    data += len(value).to_bytes(form.length_bytes, "little") + value
            elif level < form.visible:
                data += value[: form.value_bytes].ljust(form.value_bytes, b"\0")
        ends.append(len(data))
    return np.frombuffer(bytes(data), np.uint8), np.array(ends, dtype=np.int64)


def read_both(data: np.ndarray, ends: np.ndarray, form: EntryFormat, *, single: bool = False) -> Entries:
    found = walk_rows(data, ends[:-1], ends[1:], form, single=single)
    with oracles_in_place():
        other = walk_rows(data, ends[:-1], ends[1:], form, single=single)
    for name in ("count", "rep", "definition", "starts", "offsets"):
        assert np.array_equal(getattr(found, name), getattr(other, name)), name
    return found


def values_of(data: np.ndarray, found: Entries) -> list[bytes]:
    lengths = np.diff(found.offsets)
    return [data[start : start + size].tobytes() for start, size in zip(found.starts, lengths, strict=True)]


@given(ROWS)
def test_entries_of_strings_in_lists(rows: list[list[tuple[int, int, bytes]]]) -> None:
    data, ends = encode(rows, STRINGS)
    found = read_both(data, ends, STRINGS)
    entries = [entry for row in rows for entry in row]
    assert found.count == len(entries)
    assert found.rep is not None
    assert found.definition is not None
    assert found.rep.tolist() == [rep for rep, _, _ in entries]
    assert found.definition.tolist() == [level for _, level, _ in entries]
    expected = [value if level == 0 else b"" for _, level, value in entries if level < 2]
    assert values_of(data, found) == expected


@given(ROWS)
def test_entries_of_fixed_width_in_lists(rows: list[list[tuple[int, int, bytes]]]) -> None:
    data, ends = encode(rows, NUMBERS)
    found = read_both(data, ends, NUMBERS)
    expected = [value[:3].ljust(3, b"\0") for row in rows for _, level, value in row if level < 2]
    assert values_of(data, found) == expected


@given(st.lists(st.binary(max_size=20), max_size=30))
def test_one_string_a_row(values: list[bytes]) -> None:
    data, ends = encode([[(0, 0, value)] for value in values], PLAIN_STRINGS)
    found = read_both(data, ends, PLAIN_STRINGS, single=True)
    assert (found.rep, found.definition) == (None, None)
    assert values_of(data, found) == values


def test_nulls_of_fixed_width_keep_their_bytes() -> None:
    data, _ = encode([[(0, n % 2, bytes([n] * 5))] for n in range(7)], NULLABLE_NUMBERS)
    rep, definition, values = split_fixed_rows(data, NULLABLE_NUMBERS, 7)
    assert rep is None
    assert definition is not None
    assert definition.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert values.tobytes() == b"".join(bytes([n] * 5) for n in range(7))


@given(st.binary(max_size=60), st.lists(st.integers(0, 70), min_size=1, max_size=8), st.booleans())
def test_any_bytes_are_read_or_refused(data: bytes, ends: list[int], single: bool) -> None:
    rows = np.sort(np.array([0, *ends], dtype=np.int64))
    plain = np.frombuffer(data, np.uint8)
    for form in (STRINGS, NUMBERS, PLAIN_STRINGS):
        try:
            found = walk_rows(plain, rows[:-1], rows[1:], form, single=single)
        except CorruptFileError:
            continue
        lengths = np.diff(found.offsets)
        assert (lengths >= 0).all()
        assert (found.starts + lengths <= len(plain)).all()


@pytest.mark.parametrize(
    ("row", "single"),
    [
        (b"\x00\x05\x00\x00\x00ab", True),
        (b"\x00\x01\x00\x00\x00ab", True),
        (b"\x00\xff\xff\xff\xffab", False),
    ],
)
def test_rows_that_do_not_fit_are_refused(row: bytes, single: bool) -> None:
    data, ends = np.frombuffer(row, np.uint8), np.array([0, len(row)])
    with pytest.raises(CorruptFileError):
        walk_rows(data, ends[:-1], ends[1:], STRINGS, single=single)
    with oracles_in_place(), pytest.raises(CorruptFileError):
        walk_rows(data, ends[:-1], ends[1:], STRINGS, single=single)
