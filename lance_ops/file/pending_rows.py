"""Rows of one column that wait until there are enough of them for a page."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

# A small slice of a large buffer that waits for its page would keep the whole buffer alive.
_MAX_PINNED_RATIO = 2
_PINNED_SLACK = 1 << 16


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
    if pa.types.is_dictionary(array.type) or (
        array.get_total_buffer_size() <= _MAX_PINNED_RATIO * array.nbytes + _PINNED_SLACK
    ):
        return array
    # Concatenating copies exactly the rows that are there; a single array would come back as it is.
    return pa.concat_arrays([array, array.slice(0, 0)])


def join_rows(arrays: Sequence[pa.Array]) -> Sequence[pa.Array]:
    """As few arrays as possible with all rows; more than one only of dictionaries."""
    if len(arrays) == 1:
        return arrays
    try:
        return [pa.concat_arrays(arrays)]
    except pa.ArrowInvalid:
        # The dictionaries of all arrays together have more entries than the index type can number.
        return arrays
