"""Row windows of a scan: rows that are read together, and the batches cut from them."""

from collections.abc import Iterator

import pyarrow as pa

from lance_ops.encoding.values.fixed_size_list import contains_nested, rebase_nested

_WINDOW_BYTES = 32 << 20
# Columns with only nulls take no bytes in the file, but do in memory.
_WINDOW_ROWS = 1 << 20


def plan_windows(start: int, stop: int, batch_rows: int, window_rows: int) -> Iterator[tuple[int, int]]:
    """Split a scan into windows that are read at once.

    Args:
        start: First row.
        stop: End of the rows.
        batch_rows: Windows of more rows than this are multiples of it.
        window_rows: Maximum rows in memory.
    """
    whole_batches = window_rows // batch_rows * batch_rows
    step = whole_batches or max(window_rows, 1)
    for first in range(start, stop, step):
        yield first, min(first + step, stop)


def fitting_rows(row_bytes: float) -> int:
    """Return the number of rows of a window, 0 for the widest.

    Args:
        row_bytes: What a row takes in memory, above 0.
    """
    return min(int(_WINDOW_BYTES / row_bytes), _WINDOW_ROWS)


def cut_batches(table: pa.Table, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Split a table into batches of at most so many rows; items of nested arrays start at 0 in each."""
    for batch in table.to_batches(max_chunksize=batch_rows):
        if any(contains_nested(field.type) for field in table.schema):
            columns = [rebase_nested(column) for column in batch.columns]
            yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)
        else:
            yield batch
