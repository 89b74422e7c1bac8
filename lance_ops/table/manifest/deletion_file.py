"""Deletion files: written under random names, and identified by a stamp when the response of the put is lost.

A name has 64 random bits, which identify the file. If they begin with the mark of a job, for cleanup, only 16
random bits are left, and two runs of the job may choose the same name. So such a file is put only if absent,
and its content has a stamp: only a file with this stamp is ours.
"""

import contextlib
import secrets
from dataclasses import dataclass

from lance_ops.errors import AlreadyExistsError, InvalidArgumentError, LanceOpsError
from lance_ops.storage import Durability, Store
from lance_ops.table.manifest.deletion_vector import BITMAP_FROM, DeletionVector, encode_deletion_vector
from lance_ops.table.manifest.fragment import DeletionFile, DeletionFileType

STAMP_BYTES = 16
# Of an id that begins with a mark.
_CHANCE_BITS = 16


@dataclass(frozen=True, slots=True)
class StoredDeletions:
    """A deletion file that was written.

    Attributes:
        file: Its entry in a fragment.
        size: Bytes of the file.
    """

    file: DeletionFile
    size: int


def write_deletion_file(
    store: Store,
    fragment_id: int,
    read_version: int,
    vector: DeletionVector,
    *,
    physical_rows: int,
    durable: Durability = "now",
    mark: int | None = None,
) -> StoredDeletions:
    """Write a deletion vector to a new file under the root of the table; an error leaves none behind.

    Args:
        store: Root of the table.
        fragment_id: Fragment whose rows are deleted.
        read_version: Version that the deletion was computed on.
        vector: All deleted rows of the fragment, earlier deletions included.
        physical_rows: Rows of the fragment.
        durable: See `write_data_files`.
        mark: First 48 of 64 bits of the file's id, which identify the job; only on stores with put-if-absent,
            since few ids are left to distinguish writers.

    Raises:
        InvalidArgumentError: Nothing is deleted, or a row that the fragment does not have.
    """
    if not len(vector) or vector.bitmap.max() >= physical_rows:
        raise InvalidArgumentError(
            f"fragment {fragment_id} of {physical_rows} rows cannot have these {len(vector)} deleted rows",
            field="vector",
        )
    file_type = DeletionFileType.BITMAP if len(vector) >= BITMAP_FROM else DeletionFileType.ARROW_ARRAY
    if mark is not None:
        data = encode_deletion_vector(vector, file_type, secrets.token_bytes(STAMP_BYTES))
        file = DeletionFile(
            file_type=file_type,
            read_version=read_version,
            id=mark << _CHANCE_BITS | secrets.randbits(_CHANCE_BITS),
            num_deleted_rows=len(vector),
        )
        path = file.path(fragment_id)
        try:
            store.put(path, data, if_absent=True, durable=durable)
        except AlreadyExistsError:
            # Written by another run of the job, or by us: the store retried and lost the first response.
            _remove_stamped(store, path, data)
        except LanceOpsError:
            _remove_stamped(store, path, data)
            raise
        else:
            return StoredDeletions(file, len(data))
    data = encode_deletion_vector(vector, file_type)
    file = DeletionFile(
        file_type=file_type,
        read_version=read_version,
        id=secrets.randbits(64),
        num_deleted_rows=len(vector),
    )
    path = file.path(fragment_id)
    try:
        store.put(path, data, durable=durable)
    except LanceOpsError:
        # Only the response may be lost, and only this process knows the name of the file.
        with contextlib.suppress(LanceOpsError):
            store.delete(path)
        raise
    return StoredDeletions(file, len(data))


def _remove_stamped(store: Store, path: str, data: bytes) -> None:
    """Remove a file if it has our stamp; if that is unknown, cleanup identifies it by its mark."""
    with contextlib.suppress(LanceOpsError):
        if bytes(memoryview(store.read(path))) == data:
            store.delete(path)
