"""Rows of one column that wait until there are enough of them for a page."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

# A small slice of a large buffer that waits for its page would keep the whole buffer alive.
_MAX_PINNED_RATIO = 2
_PINNED_SLACK = 1 << 16


def split_rows(
    array: pa.Array, page_bytes: int, weigh: Callable[[pa.Array], int]
) -> Iterator[tuple[pa.Array, int]]:
    """Cut rows that are too many for a page into pieces that are not.

    Args:
        array: Any rows; nothing comes of none.
        page_bytes: Size of a page. A single row may exceed it.
        weigh: Says what rows count for.

    Yields:
        Pieces that follow each other, and what they count for.
    """
    if len(array) == 0:
        return
    weight = weigh(array)
    if len(array) == 1 or weight <= page_bytes:
        yield array, weight
        return
    # Into as many pieces as are needed if rows are of one size; where they are not, these are cut again.
    rows = max(len(array) * page_bytes // weight, 1)
    for start in range(0, len(array), rows):
        piece = array.slice(start, rows)
        if (own := weigh(piece)) <= page_bytes:
            yield piece, own
        else:
            half = max(len(piece) // 2, 1)
            yield from split_rows(piece.slice(0, half), page_bytes, weigh)
            yield from split_rows(piece.slice(half), page_bytes, weigh)


def unpin(array: pa.Array) -> pa.Array:
    """The same rows, copied if they keep much more memory alive than they need."""
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
