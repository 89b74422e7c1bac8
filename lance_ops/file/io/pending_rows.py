"""Pending rows: rows collected until there are enough for a page or for a batch."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from lance_ops.encoding.values.end_offsets import Extents

# A small slice that waits for its page would keep its whole buffer alive.
_MAX_PINNED_RATIO = 2
_PINNED_SLACK = 1 << 16

CHEAP_BYTES = 1 << 20
"""Size up to which rows are copied at once; larger ones only if still pending at the next batch."""

# Below this size, the fixed cost of a batch exceeds the cost of its rows.
_SMALL_ROWS = 4096
_SMALL_BYTES = 1 << 16
_GATHERED_ROWS = 1 << 16
_GATHERED_BYTES = 1 << 20


def gather_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join consecutive small batches.

    Args:
        batches: Of any schema each.
    """
    waiting: list[pa.RecordBatch] = []
    rows, size = 0, 0
    for batch in batches:
        kept = _keep_small(batch)
        alike = (
            kept is not None
            and waiting
            and batch.schema.equals(waiting[0].schema, check_metadata=True)
            # Checked for two batches at least: in a wide table the check costs as much as a row.
            and (len(waiting) > 1 or _can_join(batch.schema))
        )
        if waiting and (not alike or rows >= _GATHERED_ROWS or size >= _GATHERED_BYTES):
            yield _join_batches(waiting)
            waiting, rows, size = [], 0, 0
        if kept is None:
            yield batch
        else:
            waiting.append(kept)
            rows += kept.num_rows
            size += kept.get_total_buffer_size()
    if waiting:
        yield _join_batches(waiting)


def _keep_small(batch: pa.RecordBatch) -> pa.RecordBatch | None:
    """Return the batch without unused memory, None if it is not small."""
    if batch.num_rows >= _SMALL_ROWS:
        return None
    if batch.get_total_buffer_size() <= _SMALL_BYTES:
        return batch
    if batch.nbytes > _SMALL_BYTES:
        return None
    return pa.concat_batches([batch, batch.slice(0, 0)]) if _can_join(batch.schema) else None


def _can_join(schema: pa.Schema) -> bool:
    # Joining dictionaries may change them, and may exceed the index type.
    return len(schema) > 0 and not any(map(_has_dictionary, schema.types))


def _has_dictionary(data_type: pa.DataType) -> bool:
    if isinstance(data_type, pa.BaseExtensionType):
        return _has_dictionary(data_type.storage_type)
    if not data_type.num_fields:
        return bool(pa.types.is_dictionary(data_type))
    inner = (data_type.field(number).type for number in range(data_type.num_fields))
    return pa.types.is_dictionary(data_type) or any(map(_has_dictionary, inner))


def _join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def page_limit(page_bytes: int) -> int:
    """Return the maximum size of a page: one of almost twice the size reads slower than two halves."""
    return page_bytes * 3 // 2


def split_rows(
    array: pa.Array, page_bytes: int, weigh: Callable[[pa.Array], int]
) -> Iterator[tuple[pa.Array, int]]:
    """Split rows that exceed a page.

    Args:
        array: Any rows; no pieces for none.
        page_bytes: Size of a page. Pieces may have up to `page_limit`, and a single row may have more.
        weigh: Returns the size of rows.

    Yields:
        Consecutive pieces, and their sizes.
    """
    if len(array) == 0:
        return
    weight = weigh(array)
    most = page_limit(page_bytes)
    if len(array) == 1 or weight <= most:
        yield array, weight
        return
    # As many pieces as needed for rows of equal size; others are split again.
    rows = -(-len(array) // -(-weight // page_bytes))
    for start in range(0, len(array), rows):
        piece = array.slice(start, rows)
        if (own := weigh(piece)) <= most:
            yield piece, own
        else:
            half = max(len(piece) // 2, 1)
            yield from split_rows(piece.slice(0, half), page_bytes, weigh)
            yield from split_rows(piece.slice(half), page_bytes, weigh)


def unpin(array: pa.Array) -> pa.Array:
    """Return the same rows, copied if they keep much more memory alive than they need.

    Only useful for rows that outlive their batch.
    """
    held = array.get_total_buffer_size()
    # Ordered by the cost of the checks.
    if (
        held <= _PINNED_SLACK
        or pa.types.is_dictionary(array.type)
        or held <= _MAX_PINNED_RATIO * array.nbytes + _PINNED_SLACK
    ):
        return array
    # Concatenating copies exactly these rows; a single array would be returned as it is.
    return pa.concat_arrays([array, array.slice(0, 0)])


def unpin_extents(extents: Extents, array: pa.Array) -> Extents:
    """Return the extents of an array, copied if they keep much more memory alive than they need."""
    held = array.buffers()[1]
    is_small = held is None or held.size <= _MAX_PINNED_RATIO * extents.offsets.nbytes + _PINNED_SLACK
    return extents if is_small else extents.copy()


def join_rows(arrays: Sequence[pa.Array]) -> Sequence[pa.Array]:
    """Join rows into as few arrays as possible; several only for dictionaries."""
    if len(arrays) == 1:
        return arrays
    try:
        return [pa.concat_arrays(arrays)]
    except pa.ArrowInvalid:
        # The dictionaries of all arrays together have more entries than the index type allows.
        return arrays
