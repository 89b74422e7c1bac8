"""Row addresses (fragment id << 32 | row offset): where rows are after a rewrite, and which there can be."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers, Words64
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.index import address_map as reference
from lance_ops.encoding.row_blocks import RowBlocks


def follow(
    *,
    addresses: Words64,
    old_ids: Words64,
    old_rows: Integers,
    first_rank: Integers,
    deleted_stops: Integers,
    blocks: RowBlocks,
    new_start: Integers,
    new_ids: Words64,
    mapped: Words64,
    kept: npt.NDArray[np.bool_],
) -> int:
    """Map row addresses of rewritten fragments.

    Args:
        addresses: Before the rewrite, in any order.
        old_ids: Shape (old,): ids of the rewritten fragments, ascending.
        old_rows: Shape (old,): their rows, deleted ones included.
        first_rank: Shape (old,): rank of the first surviving row of each among all survivors.
        deleted_stops: Shape (old,): how many deleted rows there are up to the end of each.
        blocks: Of these fragments and their deleted rows, see `RowBlocks`.
        new_start: Shape (new,): rank of the first row of each new fragment that has rows, ascending from 0;
            they have as many rows as survive.
        new_ids: Shape (new,): their ids.
        mapped: Shape of `addresses`: gets where they are. Those of other fragments stay; those of deleted
            rows, too.
        kept: Shape of `addresses`: gets whether a row is there.

    Returns:
        The position of an address behind the last row of its fragment; -1 if there is none.
    """
    kernel = load("index.address_map")
    if kernel is None:
        return reference.follow(
            addresses=addresses,
            old_ids=old_ids,
            old_rows=old_rows,
            first_rank=first_rank,
            deleted=blocks.addresses(old_ids),
            new_start=new_start,
            new_ids=new_ids,
            mapped=mapped,
            kept=kept,
        )
    return int(
        kernel.follow(
            addresses,
            old_ids,
            old_rows,
            first_rank,
            blocks.deleted,
            deleted_stops,
            blocks.first,
            blocks.starts,
            blocks.bits,
            blocks.words,
            new_start,
            new_ids,
            mapped,
            kept,
        )
    )


def find_outside(*, addresses: Words64, limits: Integers) -> int:
    """Return the first address that no row can have.

    Args:
        addresses: In any order.
        limits: Rows that each fragment has at most, by its id. Fragment 0xFFFF_FFFF has any.

    Returns:
        Its position; -1 if there is none.
    """
    kernel = load("index.address_map")
    if kernel is None:
        return reference.find_outside(addresses=addresses, limits=limits)
    return int(kernel.find_outside(addresses, limits))
