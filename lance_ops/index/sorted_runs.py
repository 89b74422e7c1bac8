"""Merging sorted runs of rows into one, in memory bounded by the number of runs."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_ops.encoding.arrow_arrays import from_numpy
from lance_ops.index.order import sort_order


def merge_runs(runs: Sequence[Iterable[pa.Table]], schema: pa.Schema) -> Iterator[pa.Table]:
    """Merge streams of tables, each in index order of its first column, into one stream in that order.

    What is available of all runs is sorted together; rows up to the smallest of the runs' last rows cannot be
    preceded by anything unread, so they may leave.

    Args:
        runs: Streams of tables, each sorted within and across its tables.
        schema: Schema of the result.
    """
    if len(runs) == 1:
        yield from (table for table in runs[0] if table.num_rows)
        return
    sources = [iter(run) for run in runs]
    waiting: list[pa.Table | None] = [pa.Table.from_batches([], schema) for _ in sources]
    while True:
        for index, source in enumerate(sources):
            held = waiting[index]
            if held is not None and held.num_rows == 0:
                waiting[index] = next((table for table in source if table.num_rows), None)
        held_tables = [(index, table) for index, table in enumerate(waiting) if table is not None]
        if not held_tables:
            return
        if len(held_tables) == 1:
            index, table = held_tables[0]
            yield table
            waiting[index] = pa.Table.from_batches([], schema)
            continue
        yield _take_safe_rows(held_tables, waiting)


def _take_safe_rows(held: Sequence[tuple[int, pa.Table]], waiting: list[pa.Table | None]) -> pa.Table:
    together = pa.concat_tables([table for _, table in held]).combine_chunks()
    order = sort_order(one_array(together.column(0)), in_runs=True)
    ends = np.cumsum([table.num_rows for _, table in held])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    # Equal values leave their order open, also inside one run: a run's frontier is its highest rank.
    starts = np.concatenate(([0], ends[:-1]))
    frontier = min(int(rank[start:end].max()) for start, end in zip(starts, ends, strict=True))
    leaving = np.zeros(len(order), dtype=np.bool_)
    leaving[order[: frontier + 1]] = True
    for (index, table), start, end in zip(held, starts, ends, strict=True):
        waiting[index] = table.filter(from_numpy(~leaving[start:end]))
    return together.take(from_numpy(order[: frontier + 1]))


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
