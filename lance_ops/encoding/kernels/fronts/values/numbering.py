"""Numbering distinct values in the order in which they first occur."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers, Offsets, Words64
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.values import numbering as reference

TOO_MANY = reference.TOO_MANY
SPARE_BYTES = 8
"""Bytes behind the items of strings, which may be read and written."""


def number_strings(
    *,
    data: Bytes,
    offsets: Offsets,
    limit: int,
    max_bytes: int,
    positions: npt.NDArray[np.uint32],
    items: Bytes,
    item_offsets: Integers,
    hashes: Words64,
) -> int:
    """Number strings.

    Args:
        data: The bytes from the first offset on, as many as the offsets say.
        offsets: Shape (strings + 1,), not decreasing.
        limit: How many distinct ones there may be.
        max_bytes: How many bytes these may have.
        positions: Shape (strings,): gets the number of each string.
        items: Room for the bytes of the distinct strings, as many as there may be, and `SPARE_BYTES` more.
        item_offsets: Shape (limit + 1,): gets their offsets.
        hashes: Shape (limit,), for the loop to keep hashes in.

    Returns:
        How many distinct strings there are, or `TOO_MANY`.
    """
    kernel = load("values.numbering")
    if kernel is None:
        return reference.number_strings(
            data=data,
            offsets=offsets,
            limit=limit,
            max_bytes=max_bytes,
            positions=positions,
            items=items,
            item_offsets=item_offsets,
        )
    return int(kernel.number_strings(data, offsets, limit, max_bytes, positions, items, item_offsets, hashes))


def number_words(
    *,
    words: Words64,
    width: int,
    limit: int,
    positions: npt.NDArray[np.uint32],
    firsts: Integers,
    hashes: Words64,
) -> int:
    """Number values of a fixed number of words.

    Args:
        words: Shape (values * width,): of the values; need not be aligned.
        width: Words of a value, at least 1.
        limit: How many distinct ones there may be.
        positions: Shape (values,): gets the number of each value.
        firsts: Shape (limit,): gets the position at which each distinct value first occurs.
        hashes: Shape (limit,), for the loop to keep hashes in.

    Returns:
        How many distinct values there are, or `TOO_MANY`.
    """
    kernel = load("values.numbering")
    if kernel is None:
        return reference.number_words(
            words=words, width=width, limit=limit, positions=positions, firsts=firsts
        )
    return int(kernel.number_words(words, width, limit, positions, firsts, hashes))
