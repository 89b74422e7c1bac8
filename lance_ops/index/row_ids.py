"""From the row ids that an index holds, in a table with stable ones, to the places of the rows."""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from lance_ops.errors import CorruptFileError
from lance_ops.index.reading import NOWHERE, reading
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_address_map import row_addresses
from lance_ops.table.manifest.row_ids import find_row_ids
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.row_lineage.read import read_sequence
from lance_ops.table.snapshot import Snapshot

Addresses = npt.NDArray[np.uint64]


def locate_row_ids(
    dataset: Snapshot, segment: IndexMetadata, fragment_ids: Collection[int], ids: Addresses
) -> tuple[Addresses, npt.NDArray[np.bool_]]:
    """Return addresses of the rows with some ids.

    An update moves a row to another fragment and keeps its id; the deleted row that it leaves behind still
    has it. Only live rows count, and only those of covered fragments.

    Args:
        dataset: A version with stable row ids.
        segment: Its files have the ids.
        fragment_ids: Fragments to search.
        ids: Row ids in any order.

    Returns:
        (addresses, found), as many as `ids`. Where `found` is false the address is undefined.

    Raises:
        UnreadableIndexError: An id was never allocated: it is probably a row address.
        CorruptManifestError: The row ids of a fragment cannot be read.
        CorruptFileError: Its deletion file, or the file that holds its row ids, is damaged.
        FileMissingError: One of them does not exist.
    """
    with reading(segment):
        _check_given(dataset, ids)
    addresses = np.zeros(len(ids), dtype=np.uint64)
    found = np.zeros(len(ids), dtype=np.bool_)
    for fragment in dataset.fragments:
        if fragment.id not in fragment_ids or not len(ids):
            continue
        offsets = _offsets(dataset, fragment, ids)
        here = np.flatnonzero(offsets >= 0)
        deleted = dataset.deletion_vector(fragment)
        if deleted is not None and len(here):
            here = here[~np.isin(offsets[here], deleted.offsets())]
        addresses[here] = row_addresses(fragment.id, offsets[here])
        found[here] = True
    return addresses, found


def _check_given(dataset: Snapshot, ids: Addresses) -> None:
    """Refuse numbers that cannot be row ids, as of files with addresses and a wrong index version."""
    given = dataset.manifest.next_row_id
    wrong = (ids >= np.uint64(given)) & (ids < np.uint64(NOWHERE)) if given else np.zeros(0, np.bool_)
    if wrong.any():
        raise CorruptFileError(
            f"row id {int(ids[np.argmax(wrong)]):,} exceeds the {given:,} allocated ids: the index "
            "version says row ids, but the files have addresses",
            path=dataset.uri,
            field="index_version",
        )


def _offsets(dataset: Snapshot, fragment: Fragment, ids: Addresses) -> npt.NDArray[np.int64]:
    if isinstance(fragment.row_ids, bytes):
        return find_row_ids(fragment.row_ids, ids, rows=fragment.physical_rows, path=dataset.uri)
    values = read_sequence(dataset.bases, fragment, "row_ids")
    order = np.argsort(values, kind="stable")
    places = order[np.minimum(np.searchsorted(values, ids, sorter=order), len(values) - 1)]
    return np.where(values[places] == ids, places, -1)


def present_row_ids(dataset: Snapshot) -> RowSet:
    """Return the ids of all rows of a version; deleted rows count until a compaction removes them.

    Those of one fragment are in memory at a time, and of all only bitmaps.

    Raises:
        CorruptManifestError: The row ids of a fragment cannot be read.
        CorruptFileError: The file that holds the row ids of a fragment is damaged.
        FileMissingError: It is gone.
    """
    return RowSet.gathered(
        read_sequence(dataset.bases, fragment, "row_ids") for fragment in dataset.fragments
    )


def absent_row_ids(dataset: Snapshot, ids: Addresses) -> npt.NDArray[np.bool_]:
    """Return which ids no row of a version has, deleted ones included, for a compaction has removed the rows.

    Args:
        dataset: A version with stable row ids.
        ids: Row ids in any order.

    Raises:
        CorruptManifestError: The row ids of a fragment cannot be read.
        CorruptFileError: The file that holds the row ids of a fragment is damaged; or an id was never given.
        FileMissingError: It is gone.
    """
    _check_given(dataset, ids)
    absent = np.ones(len(ids), np.bool_)
    for fragment in dataset.fragments:
        left = np.flatnonzero(absent)
        if not len(left):
            break
        absent[left] = _offsets(dataset, fragment, ids[left]) < 0
    return absent


def live_row_ids(dataset: Snapshot, fragment_ids: Collection[int]) -> RowSet:
    """Return the ids of the live rows of some fragments, as `present_row_ids` holds them.

    Args:
        dataset: A version with stable row ids.
        fragment_ids: Which fragments.

    Raises:
        CorruptManifestError: The row ids of a fragment cannot be read.
        CorruptFileError: Its deletion file, or the file that holds its row ids, is damaged.
        FileMissingError: One of them is gone.
    """
    return RowSet.gathered(
        _live(dataset, fragment) for fragment in dataset.fragments if fragment.id in fragment_ids
    )


def _live(dataset: Snapshot, fragment: Fragment) -> Addresses:
    ids = read_sequence(dataset.bases, fragment, "row_ids")
    deleted = dataset.deletion_vector(fragment)
    return ids if deleted is None else np.delete(ids, deleted.offsets())
