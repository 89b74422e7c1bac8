"""Reading the files of an index: whatever goes wrong there has one name, and one way out.

An index only repeats what the rows say, so nothing that is wrong with one may change an answer or stop an
operation: a query scans instead (`warn_unreadable`), a compaction takes the fragments that it rewrites out of
the coverage, and the upkeep of indices goes on with the others. Whoever reads a segment does so inside
`reading`.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.cache import IdentityCache
from lance_ops.encoding.kernels.fronts.index.address_map import find_outside
from lance_ops.errors import (
    CorruptFileError,
    LanceOpsError,
    PermissionDeniedError,
    PredicateError,
    StorageError,
    UnreadableIndexError,
    UnreadableIndexWarning,
    UnsupportedError,
)
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan.pruner import OFFSET_BITS
from lance_ops.table.snapshot import Snapshot

NOWHERE = 0xFFFF_FFFF << OFFSET_BITS
"""Address of rows that are gone and whose place in a file has to stay: no fragment ever gets this id."""
_ANY_OFFSET = 1 << OFFSET_BITS
_FEW_IDS = 1 << 16
REPAIR = (
    "build it anew: create_index(uri, column, kind, replace=True, parameters={...}), or lance-ops index URI "
    "COLUMN --replace --kind KIND --param NAME=VALUE (fsck prints the whole command)"
)
_NOT_DAMAGED = "pylance can read and refresh it"
"""What to do about an index that is sound and beyond what is known here: a rebuild would change it."""


@contextmanager
def reading(segment: IndexMetadata) -> Iterator[None]:
    """Give everything that fails inside one name.

    Damage shows in many ways, by far not all of them typed: a column of another name is a KeyError, values of
    another type are an error of Arrow. What says nothing about the index passes as it is: a lack of memory,
    and a store that fails (other than by refusing access, which lasts).

    Raises:
        UnreadableIndexError: what was read is missing, damaged or of an unknown layout; the cause says more.
        StorageError: the store failed, so that nobody knows.
    """
    try:
        yield
    except (MemoryError, UnreadableIndexError):
        raise
    except Exception as error:
        if isinstance(error, StorageError) and not isinstance(error, PermissionDeniedError):
            raise
        known = error if isinstance(error, LanceOpsError) else None
        what = known.message if known is not None else f"{type(error).__name__}: {error}"
        raise UnreadableIndexError(
            f"index {segment.name!r} cannot be read: {what}",
            path=(known.path if known is not None else None) or segment.directory,
            field=known.field if known is not None else None,
            hint=(error.hint or _NOT_DAMAGED) if isinstance(error, UnsupportedError) else REPAIR,
        ) from error


def warn_unreadable(error: LanceOpsError) -> None:
    """Tell whoever listens to warnings that rows are scanned because an index is of no use."""
    if isinstance(error.__cause__, PredicateError):
        # What the caller got wrong, if anything, is what the scan will say.
        return
    warnings.warn(f"{error}; its rows are scanned instead", UnreadableIndexWarning, stacklevel=2)


def current_addresses(
    dataset: Snapshot, segment: IndexMetadata, addresses: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """Where rows that a segment names are now, by the fragment reuse index; see `FragmentReuse.map`.

    Args:
        dataset: The version that the segment belongs to.
        segment: One of its `indices`, which holds row addresses.
        addresses: Some of its addresses, as they are in its files.

    Raises:
        CorruptFileError: the segment was written before a compaction that left the indices as they were, and
            claims fragments that were written after it: whoever moved its coverage did not move its rows.
    """
    reuse = dataset.fragment_reuse
    if reuse is None or not len(addresses):
        return addresses, np.ones(len(addresses), np.bool_)
    moved, kept = reuse.map(addresses)
    live = frozenset(fragment.id for fragment in dataset.fragments)
    claimed = live & (segment.fragment_ids or frozenset())
    owners = np.unique((moved if kept.all() else moved[kept]) >> np.uint64(OFFSET_BITS))
    lost = frozenset(owners.tolist()) - live
    if lost:
        present = frozenset(np.unique(addresses >> np.uint64(OFFSET_BITS)).tolist())
        for number in range(len(reuse.generations)):
            young = reuse.younger(number, claimed)
            if young and lost & reuse.descendants(number) and present & reuse.ancestors(number):
                raise CorruptFileError(
                    f"it claims fragment {min(young)} and names rows as they were before a compaction that "
                    f"is older than it",
                    path=segment.directory,
                )
    return moved, kept


@dataclass(frozen=True, slots=True)
class _Limits:
    """Which addresses rows of a version, and of those before it, can have.

    Attributes:
        highest: Greatest id that a fragment has or had.
        physical_rows: Of each fragment, by its id.
        by_id: The same as int64 of (highest + 1,), with any offset for fragments that are gone; None where
            that would take much.
    """

    highest: int
    physical_rows: dict[int, int]
    by_id: npt.NDArray[np.int64] | None


def _find_limits(manifest: Manifest) -> _Limits:
    physical = {fragment.id: fragment.physical_rows for fragment in manifest.fragments}
    highest = max([manifest.max_fragment_id or 0, *physical])
    by_id = None
    if highest < _FEW_IDS:
        by_id = np.full(highest + 1, _ANY_OFFSET, np.int64)
        by_id[list(physical)] = list(physical.values())
    return _Limits(highest, physical, by_id)


_limits_of = IdentityCache("row limits", _find_limits, 4)


def check_rows(manifest: Manifest, rows: RowSet, path: str) -> None:
    """See `check_addresses`: the same of rows that are known by fragment."""
    limits = _limits_of(manifest)
    for owner, last in rows.last_offsets():
        if owner > limits.highest and owner != NOWHERE >> OFFSET_BITS:
            raise CorruptFileError(f"it names rows of fragment {owner:,}, which never was", path=path)
        if last >= limits.physical_rows.get(owner, _ANY_OFFSET):
            raise CorruptFileError(f"it names rows behind the last one of fragment {owner}", path=path)


def check_addresses(manifest: Manifest, addresses: npt.NDArray[np.uint64], path: str) -> None:
    """Refuse addresses that no row can have: a file whose numbers are garbage would lose rows in silence.

    Fragments that are gone may be named, for an index keeps the rows that it was built from, and `NOWHERE`.

    Args:
        manifest: Of the version that the index belongs to.
        addresses: Row addresses, in any order.
        path: The file they come from, for the message.

    Raises:
        CorruptFileError: an address is in a fragment that was never there, or behind the last of its rows.
    """
    if not len(addresses):
        return
    limits = _limits_of(manifest)
    known = limits.highest
    # A look into a table is a tenth of a search.
    if (
        limits.by_id is not None
        and find_outside(addresses=np.ascontiguousarray(addresses), limits=limits.by_id) < 0
    ):
        return
    owners = addresses >> np.uint64(OFFSET_BITS)
    gone = owners == np.uint64(NOWHERE >> OFFSET_BITS)
    if gone.any():
        addresses, owners = addresses[~gone], owners[~gone]
    if not len(addresses):
        return
    highest = int(owners.max())
    if highest > known:
        raise CorruptFileError(f"it names rows of fragment {highest:,}, which never was", path=path)
    ids = np.array([fragment.id for fragment in manifest.fragments], np.uint64)
    if not len(ids):
        return
    rows = np.array([fragment.physical_rows for fragment in manifest.fragments], np.uint64)
    offsets = addresses & np.uint64((1 << OFFSET_BITS) - 1)
    order = np.argsort(ids)
    position = np.minimum(np.searchsorted(ids, owners, sorter=order), len(ids) - 1)
    position = order[position]
    behind = (ids[position] == owners) & (offsets >= rows[position])
    if behind.any():
        wrong = int(owners[np.argmax(behind)])
        raise CorruptFileError(f"it names rows behind the last one of fragment {wrong}", path=path)
