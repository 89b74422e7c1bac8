"""Lists of fragments in serialised manifests, walked without making an object of each.

There is no reference: where `available` says no, the message library reads one fragment after the other.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.kernels import load
from lance_ops.encoding.parallel import count_shares, run_side_by_side

IRREGULAR = 1
HAS_DELETIONS = 2
HAS_ROW_IDS = 4
ID, ROWS, DELETED, SIZE, FILES, VERSION, FLAGS = range(7)
"""Columns of a table of fragments: id, rows with deleted ones, deleted rows, bytes of data files, their
number, their version (major << 32 | minor), and the flags above."""
_KINDS_KEPT = 16
_SHARE = 5_000
"""Fragments below which to hand them to another thread takes longer than to look at them."""


def available() -> bool:
    """Return whether the other functions can be called."""
    return load("wire") is not None


def find_members(
    *, data: npt.NDArray[np.uint8], number: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Find the members of one number in a serialised message, all of which have a length.

    Args:
        data: The message.
        number: Of the members.

    Returns:
        Where each begins with its tag, where its content starts, and where it stops; None where the message
        is damaged or has members of another kind.
    """
    kernel: Any = load("wire")
    assert kernel is not None
    none = np.zeros(0, np.int64)
    count = kernel.find_members(data, number, none, none, none)
    if count < 0:
        return None
    begins, starts, stops = (np.empty(count, np.int64) for _ in range(3))
    kernel.find_members(data, number, begins, starts, stops)
    return begins, starts, stops


def read_fragments(
    *, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Read what adds up of serialised fragments.

    Args:
        data: What they lie in.
        starts: Where each starts.
        stops: Where each stops; within the data, and not before it starts.

    Returns:
        Shape (fragments, 7), with the columns above. A row with the flag `IRREGULAR` has nothing else: the
        fragment is damaged, or has what few have.
    """
    kernel: Any = load("wire")
    assert kernel is not None
    rows = np.empty((len(starts), 7), np.int64)

    def read(part: slice) -> None:
        kernel.read_fragments(data, starts[part], stops[part], rows[part])

    _side_by_side(read, len(starts))
    return rows


def find_kinds(
    *, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Find fragments whose data files are alike: as many, with the same fields, columns and versions.

    Args:
        data: What they lie in.
        starts: Where each starts.
        stops: Where each stops; within the data, and not before it starts.

    Returns:
        For each the number of one that is alike, its own where none before it was found to be. There may be
        several for one kind: the last 16 are compared. A fragment that is not as most are stands for itself.
    """
    kernel: Any = load("wire")
    assert kernel is not None
    kinds = np.empty(len(starts), np.int64)
    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)

    def find(part: slice) -> None:
        known = np.empty(_KINDS_KEPT, np.int64)
        kernel.find_kinds(data, starts[part], stops[part], known, kinds[part])
        kinds[part] += part.start

    _side_by_side(find, len(starts))
    return kinds


def _side_by_side(work: Callable[[slice], None], count: int) -> None:
    """Have some fragments after the other looked at, or several shares of them at once."""
    shares = count_shares(count, _SHARE)
    cuts = [count * share // shares for share in range(shares + 1)]
    run_side_by_side([partial(work, slice(first, last)) for first, last in pairwise(cuts)])
