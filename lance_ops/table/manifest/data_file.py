"""Data files: which fields each file of a fragment holds, and in which physical columns.

Source: table.proto, message DataFile.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lance_ops.errors import CorruptManifestError
from lance_ops.file.versions import is_legacy, version_name
from lance_ops.pb import table_pb2
from lance_ops.table.manifest.wire import unknown_bytes

TOMBSTONE = -2
"""Field id of a column of a data file whose data moved to another file; readers skip it."""


UNASSIGNED = -1
"""Field id that no writer may store: nobody can tell whose data the column holds."""


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
    """

    path: str
    fields: tuple[int, ...]
    column_indices: tuple[int, ...]
    major: int
    minor: int
    size_bytes: int = 0
    base_id: int | None = None
    unknown: bytes = b""

    @property
    def storage_version(self) -> str:
        """Name of the storage version that the numbers stand for, such as "2.0"."""
        return version_name(self.major, self.minor)

    @property
    def live_columns(self) -> dict[int, int]:
        """Field id to physical column index, without tombstones and without fields that have no column.

        Raises:
            CorruptManifestError: See `check_columns`.
        """
        return {field_id: index for field_id, index in self._checked_columns().items() if field_id >= 0}

    def lineage_column(self, name: str) -> int | None:
        """Physical column of a spilled sequence of the fragment; None when another file has it.

        Args:
            name: A key of `LINEAGE_FIELDS`.

        Raises:
            CorruptManifestError: See `check_columns`.
        """
        return self._checked_columns().get(LINEAGE_FIELDS[name])

    def check_columns(self) -> None:
        """See that every field has a column of its own, or wrong values would be read for it.

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
            return f"the manifest gives it {len(self.fields)} fields and {len(self.column_indices)} columns"
        twice = [number for number, times in Counter(self.fields).items() if times > 1 and number >= 0]
        if twice:
            return f"the manifest names field {twice[0]} of the file twice"
        columns = self._columns()
        shared = [index for index, times in Counter(columns.values()).items() if times > 1]
        if shared:
            sharing = [number for number, index in columns.items() if index == shared[0]]
            return f"the manifest has fields {sharing} all read from column {shared[0]} of the file"
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
        """The message.

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
