"""Error handling for index files: all errors have one type and one remedy.

An index is redundant, so damage must not change a result or stop an operation: a query scans instead
(`warn_unreadable`), a compaction removes the rewritten fragments from the coverage, and maintenance continues
with other indices. Segments are always read inside `reading`.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.cache import IdentityCache
from lance_ops.encoding.kernels.index.address_map import find_outside
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
from lance_ops.table.manifest.fragments.totals import ids_of, numbers_of, physical_rows_by_id
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan.pruner import OFFSET_BITS
from lance_ops.table.snapshot import Snapshot

NOWHERE = 0xFFFF_FFFF << OFFSET_BITS
"""Address of a removed row whose position in a file has to stay: no fragment ever gets this id."""
_ANY_OFFSET = 1 << OFFSET_BITS
_FEW_IDS = 1 << 16
REPAIR = (
    "rebuild it: create_index(uri, column, kind, replace=True, parameters={...}), or lance-ops index URI "
    "COLUMN --replace --kind KIND --param NAME=VALUE (fsck prints the whole command)"
)
_NOT_DAMAGED = "pylance can read and refresh it"
"""Hint for an index that is valid but not supported: a rebuild would change it."""


@contextmanager
def reading(segment: IndexMetadata) -> Iterator[None]:
    """Convert errors inside of the block to one type.

    Damage causes many errors, often untyped: a missing column is a KeyError, values of another type are an
    error of Arrow. Errors unrelated to the index are not converted: out of memory, and a store that fails
    (other than by refusing access, which is permanent).

    Raises:
        UnreadableIndexError: the index is missing, damaged or of an unknown layout; see the cause.
        StorageError: the store failed, so the state is unknown.
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
    """Warn that rows are scanned because an index cannot be used."""
    if isinstance(error.__cause__, PredicateError):
        # Errors of the caller are reported by the scan.
        return
    warnings.warn(f"{error}; its rows are scanned instead", UnreadableIndexWarning, stacklevel=2)


def current_addresses(
    dataset: Snapshot, segment: IndexMetadata, addresses: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """Map addresses of a segment by the fragment reuse index; see `FragmentReuse.map`.

    Args:
        dataset: The version that the segment belongs to.
        segment: One of its `indices`, which holds row addresses.
        addresses: Some of its addresses, as stored.

    Raises:
        CorruptFileError: the segment was written before a compaction with deferred remap, and covers
            fragments written after it: its coverage was mapped without its rows.
    """
    reuse = dataset.fragment_reuse
    if reuse is None or not len(addresses):
        return addresses, np.ones(len(addresses), np.bool_)
    moved, kept = reuse.map(addresses)
    live = frozenset(ids_of(dataset.fragments))
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
    """Valid row addresses of a version and of earlier ones.

    Attributes:
        highest: Greatest id that a fragment has or had.
        physical_rows: Of each fragment, by its id.
        by_id: The same as int64 of (highest + 1,), with any offset for removed fragments; None if it would be
            large.
    """

    highest: int
    physical_rows: dict[int, int]
    by_id: npt.NDArray[np.int64] | None


def _find_limits(manifest: Manifest) -> _Limits:
    physical = physical_rows_by_id(manifest.fragments)
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
    """Refuse impossible addresses: a file with garbage would silently lose rows.

    Removed fragments are allowed, because an index keeps the rows that it was built from, and `NOWHERE`.

    Args:
        manifest: Of the version that the index belongs to.
        addresses: Row addresses, in any order.
        path: The file, for errors.

    Raises:
        CorruptFileError: an address is in a fragment that never existed, or beyond its last row.
    """
    if not len(addresses):
        return
    limits = _limits_of(manifest)
    known = limits.highest
    # A table lookup takes a tenth of the time of a search.
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
    ids = np.array(numbers_of(manifest.fragments).ids.tolist(), np.uint64)
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
