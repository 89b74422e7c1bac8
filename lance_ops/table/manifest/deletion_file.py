"""Deletion files: put under a name of their own, and proven ours when the answer of the put is lost.

A name has room for 64 bits. By chance alone they tell the file from all others. Where they begin with the
mark of a job, so that cleanup knows whose it is, 16 are left to chance, and two runs of the job may meet in
one name. So such a file is put only where none is, and its content bears a stamp: what can be read back with
that stamp is ours and no one else's.
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
        file: What a fragment says of it.
        size: Its bytes.
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
        mark: What the file's id begins with, 48 bits of 64, so that it is known whose it is; only on a store
            that puts if absent, since few ids are left to tell writers apart.

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
            # Of another run of the job, or ours: the store tried twice and lost the first answer.
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
        # The response may be all that was lost, and only we know the name of the file.
        with contextlib.suppress(LanceOpsError):
            store.delete(path)
        raise
    return StoredDeletions(file, len(data))


def _remove_stamped(store: Store, path: str, data: bytes) -> None:
    """Remove a file if it has our stamp; where nobody can tell, cleanup knows it by its mark."""
    with contextlib.suppress(LanceOpsError):
        if bytes(memoryview(store.read(path))) == data:
            store.delete(path)
