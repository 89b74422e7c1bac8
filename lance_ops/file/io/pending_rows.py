"""Pending rows: they wait until there are enough for a page of a column, or for the work on a batch."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from lance_ops.encoding.values.end_offsets import Extents

# A small slice of a large buffer that waits for its page would keep the whole buffer alive.
_MAX_PINNED_RATIO = 2
_PINNED_SLACK = 1 << 16

CHEAP_BYTES = 1 << 20
"""So few are copied at once; more only when they are still there with the next batch, as most are not."""

# A batch of so few rows and bytes costs more by itself than by what is in it.
_SMALL_ROWS = 4096
_SMALL_BYTES = 1 << 16
_GATHERED_ROWS = 1 << 16
_GATHERED_BYTES = 1 << 20


def gather_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, with small batches that follow each other joined.

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
            # Asked of two batches at least: in a wide table the answer costs as much as a row does.
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
    """The batch without what else its memory holds, None if it is not small."""
    if batch.num_rows >= _SMALL_ROWS:
        return None
    if batch.get_total_buffer_size() <= _SMALL_BYTES:
        return batch
    if batch.nbytes > _SMALL_BYTES:
        return None
    return pa.concat_batches([batch, batch.slice(0, 0)]) if _can_join(batch.schema) else None


def _can_join(schema: pa.Schema) -> bool:
    # Joining dictionaries may change them, and may not fit their indices.
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
    """How much a page may have at most: one of almost twice its size reads worse than two of half a size."""
    return page_bytes * 3 // 2


def split_rows(
    array: pa.Array, page_bytes: int, weigh: Callable[[pa.Array], int]
) -> Iterator[tuple[pa.Array, int]]:
    """Cut rows that are too many for a page into pieces that are not.

    Args:
        array: Any rows; nothing comes of none.
        page_bytes: Size of a page. Pieces may have up to `page_limit`, and a single row may have more.
        weigh: Says what rows count for.

    Yields:
        Pieces that follow each other, and what they count for.
    """
    if len(array) == 0:
        return
    weight = weigh(array)
    most = page_limit(page_bytes)
    if len(array) == 1 or weight <= most:
        yield array, weight
        return
    # As many pieces as are needed if rows are of one size; where they are not, these are cut again.
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
    """The same rows, copied if they keep much more memory alive than they need.

    Only worth it for rows that outlive the batch that they came with.
    """
    held = array.get_total_buffer_size()
    # Asked in this order because of what the answers cost.
    if (
        held <= _PINNED_SLACK
        or pa.types.is_dictionary(array.type)
        or held <= _MAX_PINNED_RATIO * array.nbytes + _PINNED_SLACK
    ):
        return array
    # Concatenating copies exactly the rows that are there; a single array would come back as it is.
    return pa.concat_arrays([array, array.slice(0, 0)])


def unpin_extents(extents: Extents, array: pa.Array) -> Extents:
    """The extents of an array, copied if they keep much more memory alive than they need."""
    held = array.buffers()[1]
    is_small = held is None or held.size <= _MAX_PINNED_RATIO * extents.offsets.nbytes + _PINNED_SLACK
    return extents if is_small else extents.copy()


def join_rows(arrays: Sequence[pa.Array]) -> Sequence[pa.Array]:
    """As few arrays as possible with all rows; more than one only of dictionaries."""
    if len(arrays) == 1:
        return arrays
    try:
        return [pa.concat_arrays(arrays)]
    except pa.ArrowInvalid:
        # The dictionaries of all arrays together have more entries than the index type can number.
        return arrays
