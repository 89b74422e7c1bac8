"""Rows that wait."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.file.io.pending_rows import gather_batches, page_limit, split_rows


def batch_of(start: int, rows: int) -> pa.RecordBatch:
    numbers = range(start, start + rows)
    return pa.record_batch({"a": pa.array(numbers, pa.int64()), "s": [f"{n}" for n in numbers]})


@given(st.lists(st.sampled_from([0, 1, 3, 100, 5000, 20_000]), max_size=12))
def test_gathered_batches_have_the_same_rows_in_the_same_order(sizes: list[int]) -> None:
    starts = np.cumsum([0, *sizes]).tolist()
    batches = [batch_of(start, rows) for start, rows in zip(starts, sizes, strict=False)]
    found = [number for batch in gather_batches(batches) for number in batch["a"].to_pylist()]
    assert found == list(range(sum(sizes)))


def test_small_batches_are_joined_and_large_ones_are_not_touched() -> None:
    small, large = batch_of(0, 100), batch_of(0, 20_000)
    gathered = list(gather_batches([*[small] * 2000, large, small]))
    assert [batch.num_rows for batch in gathered][-2:] == [20_000, 100]
    assert len(gathered) < 10
    assert gathered[-2] is large
    assert gathered[-1] is small


def test_batches_are_joined_with_their_like_only() -> None:
    first, other = batch_of(0, 10), pa.record_batch({"a": [1]})
    named = first.replace_schema_metadata({"k": "v"})
    sizes = [batch.num_rows for batch in gather_batches([first, first, other, named, named, first])]
    assert sizes == [20, 1, 20, 10]


@pytest.mark.parametrize(
    "data_type",
    [
        pa.dictionary(pa.int8(), pa.string()),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
        pa.struct([("x", pa.dictionary(pa.int8(), pa.string()))]),
    ],
    ids=str,
)
def test_dictionaries_stay_as_they_are(data_type: pa.DataType) -> None:
    batch = pa.record_batch([pa.nulls(3, data_type)], names=["a"])
    assert [id(found) for found in gather_batches([batch, batch])] == [id(batch)] * 2


def test_batches_without_columns_keep_their_rows() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    assert [found.num_rows for found in gather_batches([batch, batch])] == [3, 3]


def test_gathered_slices_do_not_keep_large_batches_alive() -> None:
    before = pa.total_allocated_bytes()
    seen = 0

    def slices():
        nonlocal seen
        for _ in range(50):
            yield pa.record_batch({"a": pa.array(range(100_000))}).slice(7, 10)
            seen = max(seen, pa.total_allocated_bytes() - before)

    assert sum(batch.num_rows for batch in gather_batches(slices())) == 500
    assert seen < 2_000_000


def test_pieces_have_about_the_size_of_a_page() -> None:
    array = pa.array(np.arange(100_000))
    for page_bytes in (1, 7, 1000, 300_000, 500_000, 600_000, 10_000_000):
        pieces = list(split_rows(array, page_bytes, lambda piece: int(piece.nbytes)))
        assert pa.concat_arrays([piece for piece, _ in pieces]).equals(array)
        assert all(weight <= page_limit(page_bytes) or len(piece) == 1 for piece, weight in pieces)
        assert len(pieces) <= -(-array.nbytes // page_bytes)
