"""Attached blobs: columns whose values old writers (0.19 to 0.30) stored in a dataset of their own, `_blobs`.

The manifest names its version, which is usually detached; rows of both have the same stable ids. Nothing is
written there. Source: table.proto of that age, `blob_dataset_version`.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptManifestError, LanceOpsError
from lance_ops.file.schema.model import Schema
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.listing import locate
from lance_ops.table.row_lineage.read import read_sequence
from lance_ops.table.scan.fragment_reader import FragmentReader
from lance_ops.table.snapshot import Snapshot

FOLDER = "_blobs"

Ids = npt.NDArray[np.uint64]


class AttachedBlobs:
    """The values of the attached columns of a version.

    Args:
        snapshot: The version, which names a version of its blob dataset.

    Raises:
        CorruptManifestError: There is no such version, or it cannot be read.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        store = snapshot.store.child(FOLDER)
        version = snapshot.manifest.blob_dataset_version
        try:
            manifest = read_manifest(store, locate(store, version))
        except LanceOpsError as error:
            raise CorruptManifestError(
                f"version {version} of the blob dataset cannot be read: {error.message}",
                path=store.uri,
                field="blob_dataset_version",
                hint="select other columns",
            ) from error
        self._blobs = Snapshot(store, manifest, snapshot.storage_options)
        ids, numbers, offsets = [], [], []
        for number, fragment in enumerate(self._blobs.fragments):
            held = read_sequence(self._blobs.bases, fragment, "row_ids")
            deleted = self._blobs.deletion_vector(fragment)
            live = np.arange(len(held)) if deleted is None else deleted.live_offsets(len(held))
            ids.append(held[live])
            numbers.append(np.full(len(live), number, np.int64))
            offsets.append(live.astype(np.int64))
        none = np.zeros(0, np.int64)
        every = np.concatenate([none.astype(np.uint64), *ids])
        order = np.argsort(every, kind="stable")
        self._ids = every[order]
        self._numbers = np.concatenate([none, *numbers])[order]
        self._offsets = np.concatenate([none, *offsets])[order]

    @property
    def size_bytes(self) -> int:
        """Memory of what tells where rows are."""
        return self._ids.nbytes + self._numbers.nbytes + self._offsets.nbytes

    def read(self, schema: Schema, ids: Ids) -> pa.Table:
        """Return values of some rows, in the given order.

        Args:
            schema: Attached columns, of the dataset that they are attached to.
            ids: Stable row ids.

        Raises:
            CorruptManifestError: The blob dataset does not have one of the rows, or of the columns.
        """
        places = np.searchsorted(self._ids, ids)
        known = places < len(self._ids)
        known[known] = self._ids[places[known]] == ids[known]
        if not known.all():
            raise CorruptManifestError(
                f"the blob dataset has no row with id {ids[~known][0]}",
                path=self._blobs.uri,
                field="_rowid",
            )
        self._check_columns(schema)
        numbers, offsets = self._numbers[places], self._offsets[places]
        order = np.lexsort((offsets, numbers))
        parts = []
        for number in np.unique(numbers):
            mine = offsets[order][numbers[order] == number]
            reader = FragmentReader(self._blobs, self._blobs.fragments[number])
            parts.append(reader.take(mine, schema))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_tables(parts).take(pa.array(back)) if parts else schema.to_arrow().empty_table()

    def _check_columns(self, schema: Schema) -> None:
        held = {node.id for node in self._blobs.lance_schema.walk()}
        for field in schema.fields:
            if field.id not in held:
                raise CorruptManifestError(
                    f"the blob dataset has no column {field.name!r}", path=self._blobs.uri, field=field.name
                )


def attached_blobs(snapshot: Snapshot) -> AttachedBlobs:
    """Return the attached blob dataset of a version, opened once.

    Raises:
        CorruptManifestError: See `AttachedBlobs`.
    """
    origin = snapshot.origin
    blobs = origin.cache("attached blobs")
    found: AttachedBlobs = blobs.load("", lambda: AttachedBlobs(origin), lambda made: made.size_bytes)
    return found
