"""Existing lookups and new ones become one: rows moved to where they are, the sets of equal keys joined."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_ops.index.bitmap.group import lookup_schema, same_as_before
from lance_ops.index.bitmap.row_sets import Locate, move_row_sets, restrict_row_sets, union
from lance_ops.index.row_bounds import RowBounds
from lance_ops.index.sorted_runs import merge_runs, one_array
from lance_ops.table.manifest.row_set import RowSet, join_serialized


def moved_rows(tables: Iterable[pa.Table], bounds: RowBounds, locate: Locate) -> Iterator[pa.Table]:
    """Map the rows in the sets of tables (`keys`, `bitmaps`); keys without rows are removed.

    Raises:
        CorruptFileError: A bitmap cannot be read, or has impossible rows.
    """
    for table in tables:
        bitmaps, filled = move_row_sets(one_array(table["bitmaps"]), bounds, locate)
        keys = one_array(table["keys"]).filter(pa.array(filled))
        yield pa.table([keys, bitmaps], schema=lookup_schema(keys.type))


def restricted_rows(
    tables: Iterable[pa.Table], bounds: RowBounds, fragments: frozenset[int]
) -> Iterator[pa.Table]:
    """Tables (`keys`, `bitmaps`) without the rows of other fragments; see `moved_rows`.

    Raises:
        CorruptFileError: A bitmap cannot be read, or names rows that cannot be.
    """
    for table in tables:
        bitmaps, filled = restrict_row_sets(one_array(table["bitmaps"]), bounds, fragments)
        keys = one_array(table["keys"]).filter(pa.array(filled))
        yield pa.table([keys, bitmaps], schema=lookup_schema(keys.type))


def merge_lookups(runs: Sequence[Iterable[pa.Table]], key_type: pa.DataType, path: str) -> Iterator[pa.Table]:
    """Runs of tables (`keys`, `bitmaps`), each in index order, as one with every key once.

    The sets were read or made before: nothing that is wrong with one is found here.
    """
    schema = lookup_schema(key_type)
    last: pa.Table | None = None
    for table in merge_runs(runs, schema) if runs else ():
        together = table if last is None else pa.concat_tables([last, table])
        joined = _join_equal(together.combine_chunks(), path)
        # The next table may begin with the same key.
        last = joined.slice(joined.num_rows - 1)
        yield joined.slice(0, joined.num_rows - 1)
    if last is not None:
        yield last


def _join_equal(table: pa.Table, path: str) -> pa.Table:
    same = np.concatenate(([False], same_as_before(one_array(table["keys"]))))[: table.num_rows]
    if not same.any():
        return table
    bitmaps = one_array(table["bitmaps"])
    firsts = np.flatnonzero(~same)
    stops = np.append(firsts[1:], table.num_rows)
    joined = {
        int(group): _joined(bitmaps.slice(int(firsts[group]), int(stops[group] - firsts[group])), path)
        for group in np.flatnonzero(stops - firsts > 1)
    }
    kept = bitmaps.take(pa.array(firsts))
    replaced = np.zeros(len(firsts), np.bool_)
    replaced[list(joined)] = True
    merged = pa.array(list(joined.values()), pa.binary())
    places = np.where(replaced, len(firsts) + np.cumsum(replaced) - 1, np.arange(len(firsts)))
    every = pa.concat_arrays([kept, merged]).take(pa.array(places))
    return pa.table([table["keys"].take(pa.array(firsts)), every], schema=table.schema)


def _joined(bitmaps: pa.Array, path: str) -> bytes:
    def none_left_out(owner: int) -> int:
        raise AssertionError(f"a set that was written here names all rows of {owner}")

    maps: list[bytes] = bitmaps.to_pylist()
    # New rows are of other fragments.
    joined = join_serialized(maps)
    if joined is not None:
        return joined
    sets = [RowSet.deserialize(data, path=path, rows_of=none_left_out) for data in maps]
    return union(sets).serialize()
