"""Columns of row sets: what goes in comes out, small sets and large ones, and nothing that cannot be."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import CorruptFileError
from lance_ops.index.bitmap.row_sets import (
    addresses_of_row_sets,
    encode_row_sets,
    move_row_sets,
    restrict_row_sets,
    union_of_row_sets,
)
from lance_ops.index.row_bounds import RowBounds
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.row_set import RowSet

ROWS = 70_000
SETS = st.lists(
    st.sets(
        st.tuples(st.integers(0, 1), st.one_of(st.integers(0, 40), st.integers(ROWS - 9, ROWS - 1))),
        max_size=5,
    ),
    max_size=8,
)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    uri = "memory://row_sets"
    lo.write_dataset(pa.table({"x": np.zeros(2 * ROWS, np.int8)}), uri, max_rows_per_file=ROWS)
    return lo.dataset(uri)


def column_of(sets: list[set[tuple[int, int]]]) -> pa.Array:
    rows = [owner << 32 | offset for found in sets for owner, offset in found]
    return encode_row_sets(np.array(rows, np.uint64), np.array([len(found) for found in sets], np.int64))


@given(SETS)
def test_each_set_is_the_map_that_the_format_keeps(
    dataset: Dataset, sets: list[set[tuple[int, int]]]
) -> None:
    column = column_of(sets)
    expected = [
        RowSet.of(np.array([owner << 32 | offset for owner, offset in found], np.uint64)) for found in sets
    ]
    assert column.to_pylist() == [rows.serialize() for rows in expected]
    bounds = RowBounds(dataset, True, "file")
    parts = list(addresses_of_row_sets(column, bounds))
    assert sorted(np.concatenate(parts).tolist()) == sorted(
        owner << 32 | offset for found in sets for owner, offset in found
    )
    everything = {owner << 32 | offset for found in sets for owner, offset in found}
    assert union_of_row_sets(column, bounds) == RowSet.of(np.array(sorted(everything), np.uint64))
    assert union_of_row_sets(column.slice(1), bounds) == union_of_row_sets(column_of(sets[1:]), bounds)


@given(SETS)
def test_sets_move_and_those_without_a_row_go(dataset: Dataset, sets: list[set[tuple[int, int]]]) -> None:
    def locate(addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return addresses + np.uint64(5 << 32), addresses % np.uint64(2) == 0

    moved, filled = move_row_sets(column_of(sets), RowBounds(dataset, True, "file"), locate)
    expected = [{(owner + 5, offset) for owner, offset in found if offset % 2 == 0} for found in sets]
    assert filled.tolist() == [bool(found) for found in expected]
    assert moved.equals(column_of([found for found in expected if found]))


def test_a_set_without_a_bitmap_is_all_rows_of_its_fragment(dataset: Dataset) -> None:
    whole = pa.array([b"\x01\0\0\0" + b"\x01\0\0\0" + b"\0\0\0\0"], pa.binary())
    found = union_of_row_sets(whole, RowBounds(dataset, True, "file"))
    assert found == RowSet.of_ranges([(1, 0, ROWS)])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (RowSet.of_ranges([(0, 0, 2**32)]), "behind the last one"),
        (RowSet.of([ROWS]), "behind the last one"),
        (RowSet.of([7 << 32]), "never was"),
        (RowSet.of([7 << 32, 7 << 32 | 1]), "never was"),
    ],
)
def test_rows_that_cannot_be_are_refused_before_they_are_counted_out(
    dataset: Dataset, rows: RowSet, message: str
) -> None:
    with pytest.raises(CorruptFileError, match=message):
        union_of_row_sets(pa.array([rows.serialize()], pa.binary()), RowBounds(dataset, True, "file"))


def test_row_ids_end_where_none_was_given(dataset: Dataset) -> None:
    uri = "memory://row_sets_stable"
    lo.write_dataset(pa.table({"x": range(10)}), uri, enable_stable_row_ids=True)
    bounds = RowBounds(lo.dataset(uri), False, "file")
    assert len(union_of_row_sets(encode_row_sets(np.array([9], np.uint64), np.array([1])), bounds)) == 1
    with pytest.raises(CorruptFileError, match="behind the last one"):
        union_of_row_sets(encode_row_sets(np.array([10], np.uint64), np.array([1])), bounds)
    with pytest.raises(CorruptFileError, match="never given"):
        union_of_row_sets(encode_row_sets(np.array([1 << 32], np.uint64), np.array([1])), bounds)


def test_cut_or_garbled_bytes_are_an_error(dataset: Dataset) -> None:
    data = RowSet.of(np.arange(0, 60_000, 3, dtype=np.uint64)).serialize()
    rng = np.random.default_rng(3)
    bounds = RowBounds(dataset, True, "file")
    failed = 0
    for _ in range(500):
        garbled = bytearray(data[: rng.integers(1, len(data))] if rng.random() < 0.3 else data)
        garbled[rng.integers(0, min(len(garbled), 40))] = rng.integers(0, 256)
        try:
            assert len(union_of_row_sets(pa.array([bytes(garbled)], pa.binary()), bounds)) <= 2 * ROWS
        except CorruptFileError:
            failed += 1
    assert failed > 100


@given(SETS, st.sets(st.integers(0, 1)))
def test_sets_lose_the_rows_of_other_fragments(
    dataset: Dataset, sets: list[set[tuple[int, int]]], fragments: set[int]
) -> None:
    bounds = RowBounds(dataset, True, "file")
    restricted, filled = restrict_row_sets(column_of(sets), bounds, frozenset(fragments))
    expected = [{(owner, offset) for owner, offset in found if owner in fragments} for found in sets]
    assert filled.tolist() == [bool(found) for found in expected]
    assert restricted.equals(column_of([found for found in expected if found]))
