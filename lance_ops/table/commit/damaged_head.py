"""Damaged head: recover from a newest version that cannot be opened, by a restore on top of it."""

import contextlib
import struct
from collections.abc import Iterator, Mapping

from google.protobuf.message import DecodeError

from lance_ops.errors import FormatError, LanceOpsError
from lance_ops.pb import table_pb2
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.file.summary import read_summary
from lance_ops.table.manifest.listing import latest, list_versions

RESTORED_OVER = "lance_ops.restored_over"
"""Transaction property of a restore on top of a damaged version: number of that version."""

_FOOTER = struct.Struct("<qhh4s")
_LENGTH = struct.Struct("<I")
_LAST_FRAGMENT_ID = (1 << 32) - 2


def stand_in_for_head(store: Store, storage_options: Mapping[str, str] | None = None) -> Dataset | None:
    """Return a stand-in manifest for a newest version that cannot be opened.

    It has the number of that version and no rows. Fragment and row ids continue from the damaged manifest, as
    far as it can be read, and from the newest version that opens.

    Args:
        store: Root of the dataset.
        storage_options: For the stores of other bases.

    Returns:
        None when the newest version opens, or when no older one does.

    Raises:
        DatasetNotFoundError: There is no manifest.
    """
    head = latest(store)
    try:
        Dataset(store, head, read_manifest(store, head))
    except FormatError:
        sound = newest_sound_version(store, head.version)
    else:
        return None
    if sound is None:
        return None
    manifest, damaged = sound.manifest, _message(store, head.path)
    ids = [number for number in _fragment_ids(damaged) if 0 <= number <= _LAST_FRAGMENT_ID]
    if manifest.max_fragment_id is not None:
        ids.append(manifest.max_fragment_id)
    stand_in = manifest.replace(
        version=head.version,
        fragments=(),
        indices=(),
        max_fragment_id=max(ids, default=None),
        next_row_id=max(manifest.next_row_id, damaged.next_row_id),
        transaction=None,
    )
    # The commit identifies the dataset by these; without them it skips the check.
    with contextlib.suppress(FormatError):
        summary = read_summary(store, head)
        stand_in = stand_in.replace(timestamp=summary.timestamp, transaction_file=summary.transaction_file)
    return Dataset(store, head, stand_in, storage_options=storage_options)


def newest_sound_version(store: Store, below: int) -> Dataset | None:
    """Return the newest version whose manifest opens; None when there is none."""
    for location in reversed(list_versions(store)):
        if location.version < below:
            try:
                return Dataset(store, location, read_manifest(store, location))
            except LanceOpsError:
                continue
    return None


def _message(store: Store, path: str) -> table_pb2.Manifest:
    """Parse as much of a manifest as possible; an empty message if nothing can be read."""
    data = bytes(store.read(path))
    try:
        start = _FOOTER.unpack_from(data, len(data) - _FOOTER.size)[0]
        (length,) = _LENGTH.unpack_from(data, start)
        return table_pb2.Manifest.FromString(data[start + _LENGTH.size :][:length])
    except (struct.error, DecodeError):
        return table_pb2.Manifest()


def _fragment_ids(message: table_pb2.Manifest) -> Iterator[int]:
    yield from (fragment.id for fragment in message.fragments)
    if message.HasField("max_fragment_id"):
        yield message.max_fragment_id
