"""Merging sorted runs."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.index.btree.pages import page_data_schema
from lance_ops.index.order import sort_order
from lance_ops.index.sorted_runs import merge_runs

SCHEMA = page_data_schema(pa.int64())
VALUES = st.one_of(st.none(), st.integers(-5, 5))


def run_of(values: list[int | None], first_id: int, chunk: int) -> list[pa.Table]:
    ids = range(first_id, first_id + len(values))
    table = pa.table([pa.array(values, pa.int64()), pa.array(ids, pa.uint64())], schema=SCHEMA)
    table = table.take(pa.array(sort_order(table["values"].combine_chunks())))
    return [table.slice(start, chunk) for start in range(0, table.num_rows, chunk)]


@given(runs=st.lists(st.lists(VALUES, max_size=30), min_size=1, max_size=5), chunk=st.integers(1, 7))
def test_merged_runs_hold_every_row_once_and_in_order(runs: list[list[int | None]], chunk: int) -> None:
    inputs = [run_of(values, 1000 * number, chunk) for number, values in enumerate(runs)]
    merged = pa.concat_tables([SCHEMA.empty_table(), *merge_runs(inputs, SCHEMA)])
    values = merged["values"].to_pylist()
    assert values == sorted(values, key=lambda value: (value is not None, value or 0))
    expected = sorted(
        (identifier, value)
        for table in (table for run in inputs for table in run)
        for value, identifier in zip(table["values"].to_pylist(), table["ids"].to_pylist(), strict=True)
    )
    assert sorted(zip(merged["ids"].to_pylist(), values, strict=True), key=lambda row: row[0]) == expected


def test_no_runs_leave_nothing() -> None:
    assert list(merge_runs([], SCHEMA)) == []
