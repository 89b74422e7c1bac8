"""From the rows of a column to its distinct values, in order, with the set of rows of each."""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.index.bitmap.row_sets import encode_row_sets
from lance_ops.index.order import sort_order
from lance_ops.index.sorted_runs import one_array
from lance_ops.table.manifest.row_set import Addresses

RUN_ROWS = 1 << 22
"""Maximum rows sorted at once; more rows are sorted as several runs."""

_PART_BYTES = 8 << 20
_MANY = 1 << 16


def lookup_schema(key_type: pa.DataType) -> pa.Schema:
    """Arrow schema of `bitmap_page_lookup.lance`."""
    return pa.schema([pa.field("keys", key_type), pa.field("bitmaps", pa.binary())])


def grouped_runs(batches: Iterable[pa.Table], key_type: pa.DataType) -> Iterator[Iterator[pa.Table]]:
    """Runs of distinct values (`keys`, `bitmaps`), nulls first, from tables (`values`, `ids`).

    A run comes as tables of a few megabytes each, and has to be used up before the next.
    """
    held: list[pa.Table] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= RUN_ROWS:
            yield _group(pa.concat_tables(held), key_type)
            held, rows = [], 0
    if rows:
        yield _group(pa.concat_tables(held), key_type)


def _group(rows: pa.Table, key_type: pa.DataType) -> Iterator[pa.Table]:
    values = one_array(rows["values"]).cast(key_type)
    ids = np.asarray(one_array(rows["ids"]).to_numpy(), np.uint64)
    keys, places = _ranks(values)
    ranks = np.asarray(places)
    ids, ranks = ids[order := np.argsort(ranks, kind="stable")], ranks[order]
    # An item may be in a list twice, then its row is next to itself.
    new = np.ones(len(ids), np.bool_)
    new[1:] = (ids[1:] != ids[:-1]) | (ranks[1:] != ranks[:-1])
    yield from _tables(keys, ids[new], np.bincount(ranks[new], minlength=len(keys)).astype(np.int64))


def _ranks(values: pa.Array) -> tuple[pa.Array, npt.NDArray[np.generic]]:
    """Return the distinct values in index order, and the place of each value among them."""
    encoded = _bits(values).dictionary_encode()
    distinct = (
        encoded.dictionary.view(values.type) if pa.types.is_floating(values.type) else encoded.dictionary
    )
    codes = np.asarray(encoded.indices.fill_null(len(distinct)).to_numpy(), np.int64)
    if values.null_count:
        distinct = pa.concat_arrays([distinct, pa.nulls(1, values.type)])
    order = sort_order(distinct)
    place = np.empty(len(order), np.uint16 if len(order) < _MANY else np.int64)
    place[order] = np.arange(len(order))
    return distinct.take(pa.array(order)), place[codes]


def _bits(values: pa.Array) -> pa.Array:
    """Return values that are equal only where the same bytes are stored: the zeros of floats are two."""
    if not pa.types.is_floating(values.type):
        return values
    return values.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[values.type.bit_width])


def _tables(keys: pa.Array, ids: Addresses, sizes: npt.NDArray[np.int64]) -> Iterator[pa.Table]:
    schema = lookup_schema(keys.type)
    stops = np.cumsum(sizes)
    # A row takes two bytes of a bitmap, and a small set more for itself.
    weight = np.cumsum(2 * sizes + 40)
    start = 0
    while start < len(keys):
        before = int(weight[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(weight, before + _PART_BYTES)))
        first = int(stops[start - 1]) if start else 0
        bitmaps = encode_row_sets(ids[first : int(stops[stop - 1])], sizes[start:stop])
        yield pa.table([keys.slice(start, stop - start), bitmaps], schema=schema)
        start = stop


def same_as_before(keys: pa.Array) -> npt.NDArray[np.bool_]:
    """Return a mask of keys equal to their predecessor, for all keys but the first."""
    bits = _bits(keys)
    later, earlier = bits.slice(1), bits.slice(0, max(len(bits) - 1, 0))
    both_null = pc.and_(later.is_null(), earlier.is_null())
    equal = pc.if_else(both_null, True, pc.equal(later, earlier).fill_null(False))
    return np.asarray(equal.to_numpy(zero_copy_only=False), np.bool_)
