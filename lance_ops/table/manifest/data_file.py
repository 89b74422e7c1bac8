"""Data files: which fields each file of a fragment holds, and in which physical columns; overlays over them.

Overlays are newer values of single cells. A fragment lists them oldest first, and the newest that covers a
cell has its value. They are read and preserved, never written. Source: table.proto, messages DataFile,
DataOverlayFile and FieldCoverage.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import FrozenBitMap

from lance_ops.errors import CorruptManifestError
from lance_ops.file.versions import is_legacy, version_name
from lance_ops.pb import table_pb2
from lance_ops.table.manifest.wire import unknown_bytes

TOMBSTONE = -2
"""Field id of a column whose data moved to another file; readers skip it."""


UNASSIGNED = -1
"""Field id that no writer may store: the owner of the column would be unknown."""


LINEAGE_FIELDS: Mapping[str, int] = MappingProxyType(
    {"row_ids": -3, "created_at_versions": -4, "last_updated_at_versions": -5}
)
"""Reserved field ids of the hidden columns that hold spilled sequences, by attribute of `Fragment`."""

_STORABLE = frozenset({TOMBSTONE, *LINEAGE_FIELDS.values()})


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file of a fragment.

    Attributes:
        path: Relative to `data/` of its base.
        fields: Field ids stored in the file; `TOMBSTONE` where a column is no longer in use, one of
            `LINEAGE_FIELDS` where it holds a sequence of the fragment.
        column_indices: Physical column of each entry of `fields`, -1 for none; empty in storage version 0.1.
        major: File version as the manifest counts it: (2, 0), (2, 1), (2, 2); 0.1 is (0, 1) or (0, 2).
        minor: See `major`.
        size_bytes: Size on disk; 0 when the writer did not record it.
        base_id: Key into the manifest's base paths; None for the dataset's own root.
        unknown: Serialised fields that this version of lance_ops does not know.
        side_bytes: Bytes of the side files with its blobs; None if not listed; manifests do not record them.
    """

    path: str
    fields: tuple[int, ...]
    column_indices: tuple[int, ...]
    major: int
    minor: int
    size_bytes: int = 0
    base_id: int | None = None
    unknown: bytes = b""
    side_bytes: int | None = field(default=None, compare=False)

    @property
    def stored_bytes(self) -> int:
        """Bytes on disk with the side files, as far as known."""
        return self.size_bytes + (self.side_bytes or 0)

    @property
    def storage_version(self) -> str:
        """Name of the storage version, such as "2.0"."""
        return version_name(self.major, self.minor)

    @property
    def live_columns(self) -> dict[int, int]:
        """Map field ids to physical column indices, without tombstones and fields without a column.

        Raises:
            CorruptManifestError: See `check_columns`.
        """
        return {field_id: index for field_id, index in self._checked_columns().items() if field_id >= 0}

    def lineage_column(self, name: str) -> int | None:
        """Return the physical column of a spilled sequence of the fragment; None when another file has it.

        Args:
            name: A key of `LINEAGE_FIELDS`.

        Raises:
            CorruptManifestError: See `check_columns`.
        """
        return self._checked_columns().get(LINEAGE_FIELDS[name])

    def check_columns(self) -> None:
        """Check that every field has its own column; otherwise wrong values would be read.

        Raises:
            CorruptManifestError: There are more or fewer columns than fields, a field occurs twice, or two
                fields share a column.
        """
        if not self.column_indices and is_legacy(self.major, self.minor):
            return
        damage = self._column_damage()
        if damage is not None:
            raise CorruptManifestError(
                damage, path=self.path, field="column_indices", hint="restore an older version"
            )

    def _column_damage(self) -> str | None:
        if len(self.fields) != len(self.column_indices):
            return (
                f"the manifest lists {len(self.fields)} fields and {len(self.column_indices)} "
                "columns of the file; the numbers must be equal"
            )
        twice = [number for number, times in Counter(self.fields).items() if times > 1 and number >= 0]
        if twice:
            return f"the manifest lists field {twice[0]} of the file twice"
        columns = self._columns()
        shared = [index for index, times in Counter(columns.values()).items() if times > 1]
        if shared:
            sharing = [number for number, index in columns.items() if index == shared[0]]
            return f"the manifest maps fields {sharing} all to column {shared[0]} of the file"
        return None

    def _checked_columns(self) -> dict[int, int]:
        self.check_columns()
        return self._columns()

    def _columns(self) -> dict[int, int]:
        if not self.column_indices and is_legacy(self.major, self.minor):
            # Files of 0.1 have a column for every id from their first one on.
            first = self.fields[0] if self.fields else 0
            return {field_id: field_id - first for field_id in self.fields if field_id >= 0 and first >= 0}
        return {
            field_id: index
            for field_id, index in zip(self.fields, self.column_indices, strict=True)
            if index >= 0 and field_id != TOMBSTONE
        }

    def to_proto(self) -> table_pb2.DataFile:
        """Convert to the message.

        Raises:
            CorruptManifestError: A field id is not assigned; such an id must never be stored.
        """
        if any(field_id < 0 and field_id not in _STORABLE for field_id in self.fields):
            raise CorruptManifestError(
                "an unassigned field id cannot be stored", path=self.path, field="fields"
            )
        message = table_pb2.DataFile(
            path=self.path,
            fields=self.fields,
            column_indices=self.column_indices,
            file_major_version=self.major,
            file_minor_version=self.minor,
            file_size_bytes=self.size_bytes,
            base_id=self.base_id,
        )
        message.MergeFromString(self.unknown)
        return message

    @classmethod
    def from_proto(cls, message: table_pb2.DataFile) -> "DataFile":
        """Read the message."""
        return cls(
            path=message.path,
            fields=tuple(message.fields),
            column_indices=tuple(message.column_indices),
            major=message.file_major_version,
            minor=message.file_minor_version,
            size_bytes=message.file_size_bytes,
            base_id=message.base_id if message.HasField("base_id") else None,
            unknown=unknown_bytes(message),
        )

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON values, named as in pylance's `FragmentMetadata.to_json`."""
        return {
            "path": self.path,
            "fields": list(self.fields),
            "column_indices": list(self.column_indices),
            "file_major_version": self.major,
            "file_minor_version": self.minor,
            "file_size_bytes": self.size_bytes or None,
            "base_id": self.base_id,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "DataFile":
        """Read the result of `to_json`, of lance_ops or pylance.

        Raises:
            KeyError: A value is missing; of the wrong kind, TypeError or ValueError.
        """
        return cls(
            path=str(values["path"]),
            fields=tuple(map(int, values["fields"])),
            column_indices=tuple(map(int, values.get("column_indices") or ())),
            major=int(values["file_major_version"]),
            minor=int(values["file_minor_version"]),
            size_bytes=int(values.get("file_size_bytes") or 0),
            base_id=values.get("base_id"),
        )


@dataclass(frozen=True, slots=True)
class Overlay:
    """One overlay of a fragment.

    Attributes:
        file: File with one value of each field for every covered row, in row order.
        bitmaps: 32-bit Roaring bitmaps of the covered row offsets: one for all fields, or one for each.
        shared: True if there is one bitmap for all fields.
        committed_version: Version that added it; indices built on an older version do not include it.
        unknown: Serialised fields that this version of lance_ops does not know.
    """

    file: DataFile
    bitmaps: tuple[bytes, ...]
    shared: bool
    committed_version: int
    unknown: bytes = b""

    def coverage(self, rows: int) -> dict[int, npt.NDArray[np.uint32]]:
        """Return covered row offsets of each field in the file, ascending.

        Args:
            rows: Of the fragment, deleted ones included.

        Raises:
            CorruptManifestError: A bitmap is damaged, or covers a row that the fragment does not have.
        """
        bitmaps = self.bitmaps * len(self.file.fields) if self.shared else self.bitmaps
        try:
            return {
                number: _offsets(bitmap, rows)
                for number, bitmap in zip(self.file.fields, bitmaps, strict=True)
                if number >= 0
            }
        except ValueError as error:
            raise CorruptManifestError(
                f"the coverage bitmap of an overlay cannot be read: {error}",
                path=self.file.path,
                field="overlays",
            ) from error

    def to_proto(self) -> table_pb2.DataOverlayFile:
        """Convert to the message."""
        message = table_pb2.DataOverlayFile(
            data_file=self.file.to_proto(), committed_version=self.committed_version
        )
        if self.shared:
            message.shared_offset_bitmap = self.bitmaps[0]
        else:
            message.field_coverage.offset_bitmaps.extend(self.bitmaps)
            message.field_coverage.SetInParent()
        message.MergeFromString(self.unknown)
        return message

    @classmethod
    def from_proto(cls, message: table_pb2.DataOverlayFile) -> "Overlay":
        """Read the message.

        Raises:
            CorruptManifestError: It has no file or no coverage, or bitmaps and fields differ in number.
        """
        if not message.HasField("data_file"):
            raise CorruptManifestError("an overlay has no data file", field="overlays")
        file = DataFile.from_proto(message.data_file)
        kind = message.WhichOneof("coverage")
        if kind is None:
            raise CorruptManifestError("an overlay has no coverage", path=file.path, field="overlays")
        shared = kind == "shared_offset_bitmap"
        bitmaps = (message.shared_offset_bitmap,) if shared else tuple(message.field_coverage.offset_bitmaps)
        if not shared and len(bitmaps) != len(file.fields):
            raise CorruptManifestError(
                f"an overlay of {len(file.fields)} fields has {len(bitmaps)} coverage bitmaps",
                path=file.path,
                field="overlays",
            )
        return cls(file, bitmaps, shared, message.committed_version, unknown_bytes(message))


@lru_cache(maxsize=256)
def _offsets(data: bytes, rows: int) -> npt.NDArray[np.uint32]:
    if not data:
        raise ValueError("bitmap is empty")
    bitmap = FrozenBitMap.deserialize(data)
    # Checked before it is expanded: a few bytes can stand for billions of rows.
    if len(bitmap) and bitmap.max() >= rows:
        raise ValueError(f"bitmap covers row {bitmap.max()} of a fragment of {rows} rows")
    offsets = np.array(bitmap.to_array(), dtype=np.uint32)
    offsets.flags.writeable = False
    return offsets


def decode_overlays(messages: Iterable[table_pb2.DataOverlayFile]) -> tuple[Overlay, ...]:
    """Decode the overlays of a fragment, oldest first.

    Raises:
        CorruptManifestError: One is invalid, or an older one follows a newer one.
    """
    found = tuple(map(Overlay.from_proto, messages))
    for before, after in pairwise(found):
        if before.committed_version > after.committed_version:
            raise CorruptManifestError(
                f"an overlay of version {after.committed_version} follows one of the newer version "
                f"{before.committed_version}",
                path=after.file.path,
                field="overlays",
            )
    return found
