"""Fragments: the rows of a dataset, each a set of data files side by side and at most one deletion file.

Source: table.proto, messages DataFragment, DataFile, DeletionFile, ExternalFile.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from google.protobuf.message import DecodeError

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


class DeletionFileType(IntEnum):
    """How a deletion file stores row offsets."""

    ARROW_ARRAY = 0
    BITMAP = 1

    @property
    def extension(self) -> str:
        """File name extension, without the dot."""
        return "arrow" if self is DeletionFileType.ARROW_ARRAY else "bin"


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """Reference to the file that holds the deleted row offsets of one fragment.

    Attributes:
        file_type: Arrow array or Roaring bitmap.
        read_version: Version of the dataset that the deletion was computed on.
        id: Random u64 that tells concurrent writers' files apart.
        num_deleted_rows: Exact count of offsets in the file; None when an old writer did not record it.
        base_id: Key into the manifest's base paths; None for the dataset's own root.
        unknown: Serialised fields that this version of lance_ops does not know.
    """

    file_type: DeletionFileType
    read_version: int
    id: int
    num_deleted_rows: int
    base_id: int | None = None
    unknown: bytes = b""

    def path(self, fragment_id: int) -> str:
        """Path relative to the base's root: `_deletions/{fragment}-{read_version}-{id}.{extension}`."""
        return f"_deletions/{fragment_id}-{self.read_version}-{self.id}.{self.file_type.extension}"

    def to_proto(self) -> table_pb2.DeletionFile:
        """The message."""
        message = table_pb2.DeletionFile(
            file_type=table_pb2.DeletionFile.DeletionFileType.ValueType(int(self.file_type)),
            read_version=self.read_version,
            id=self.id,
            num_deleted_rows=self.num_deleted_rows,
            base_id=self.base_id,
        )
        message.MergeFromString(self.unknown)
        return message

    @classmethod
    def from_proto(cls, message: table_pb2.DeletionFile) -> "DeletionFile":
        """Read the message.

        Raises:
            CorruptManifestError: the file type is neither an array nor a bitmap.
        """
        try:
            file_type = DeletionFileType(message.file_type)
        except ValueError:
            raise CorruptManifestError(
                f"deletion file of unknown type {message.file_type}", field="deletion_file.file_type"
            ) from None
        return cls(
            file_type=file_type,
            read_version=message.read_version,
            id=message.id,
            num_deleted_rows=message.num_deleted_rows,
            base_id=message.base_id if message.HasField("base_id") else None,
            unknown=unknown_bytes(message),
        )


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """A byte range of a file under the dataset root."""

    path: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class SpilledSequence:
    """A sequence that is a column of one of the fragment's data files, see `LINEAGE_FIELDS`.

    Attributes:
        unknown: Serialised fields that this version of lance_ops does not know.
    """

    unknown: bytes = b""


RowSequence = bytes | ExternalFile | SpilledSequence
"""A row id or row version sequence: serialised inline, in an external file, or in a data file."""

SEQUENCES = ("row_ids", "last_updated_at_versions", "created_at_versions")
"""Attributes of a fragment that are such sequences."""

_MODELLED = frozenset(
    {"id", "files", "deletion_file", "physical_rows"}
    | {f"{form}_{name}" for form in ("inline", "external", "spilled") for name in SEQUENCES}
)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A horizontal slice of the dataset.

    Attributes:
        id: Unique in the dataset, never reused; 0 until the commit assigns it.
        files: Data files, each with some columns of the same rows.
        physical_rows: Rows in the files, deleted ones included.
        deletion_file: Which rows are deleted; None when none are.
        row_ids: Row id sequence (tables with stable row ids only).
        last_updated_at_versions: Row version sequence (tables with stable row ids only).
        created_at_versions: Row version sequence (tables with stable row ids only).
        unmodelled: Names of message fields that are set and have no attribute here; `unknown` carries them.
        unknown: Serialised fields that this version of lance_ops does not know.
    """

    id: int
    files: tuple[DataFile, ...]
    physical_rows: int
    deletion_file: DeletionFile | None = None
    row_ids: RowSequence | None = None
    last_updated_at_versions: RowSequence | None = None
    created_at_versions: RowSequence | None = None
    unmodelled: tuple[str, ...] = ()
    unknown: bytes = b""
    _wire: bytes | None = field(default=None, compare=False, repr=False)

    @property
    def num_deleted_rows(self) -> int:
        """Deleted rows, 0 without a deletion file."""
        return self.deletion_file.num_deleted_rows if self.deletion_file else 0

    @property
    def num_rows(self) -> int:
        """Live rows."""
        return self.physical_rows - self.num_deleted_rows

    @property
    def has_overlays(self) -> bool:
        """Whether newer values of single cells lie over the data files, so that these are stale."""
        return "overlays" in self.unmodelled

    @property
    def spilled(self) -> tuple[str, ...]:
        """Names of the sequences that lie in a data file."""
        return tuple(name for name in SEQUENCES if isinstance(getattr(self, name), SpilledSequence))

    @property
    def data_bytes(self) -> int:
        """Bytes of the data files as recorded; files of unknown size count 0."""
        return sum(file.size_bytes for file in self.files)

    def replace(self, **changes: object) -> "Fragment":
        """A copy with some attributes changed."""
        return replace(self, _wire=None, **changes)  # type: ignore[arg-type]

    def to_proto(self) -> table_pb2.DataFragment:
        """The message."""
        return table_pb2.DataFragment.FromString(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The serialised message, kept after the first call: most fragments outlive many versions."""
        if self._wire is None:
            object.__setattr__(self, "_wire", self._encode())
        assert self._wire is not None
        return self._wire

    def _encode(self) -> bytes:
        # First what we do not model: a sequence set below must displace another form of it.
        message = table_pb2.DataFragment.FromString(self.unknown)
        message.id = self.id
        message.files.extend(file.to_proto() for file in self.files)
        message.physical_rows = self.physical_rows
        if self.deletion_file is not None:
            message.deletion_file.CopyFrom(self.deletion_file.to_proto())
        for name in SEQUENCES:
            value: RowSequence | None = getattr(self, name)
            if isinstance(value, ExternalFile):
                external = getattr(message, f"external_{name}")
                external.path, external.offset, external.size = value.path, value.offset, value.size
                external.SetInParent()
            elif isinstance(value, SpilledSequence):
                spilled = getattr(message, f"spilled_{name}")
                spilled.MergeFromString(value.unknown)
                spilled.SetInParent()
            elif value is not None:
                setattr(message, f"inline_{name}", value)
        return message.SerializeToString()

    @classmethod
    def from_proto(cls, message: table_pb2.DataFragment) -> "Fragment":
        """Read the message."""
        # One look at the fields that are set: manifests list fragments by the thousand.
        present = {descriptor.name: value for descriptor, value in message.ListFields()}
        unmodelled = tuple(name for name in present if name not in _MODELLED)
        deletion_file = present.get("deletion_file")
        return cls(
            id=message.id,
            files=tuple(DataFile.from_proto(file) for file in present.get("files", ())),
            physical_rows=message.physical_rows,
            deletion_file=None if deletion_file is None else DeletionFile.from_proto(deletion_file),
            row_ids=_sequence(present, "row_ids"),
            last_updated_at_versions=_sequence(present, "last_updated_at_versions"),
            created_at_versions=_sequence(present, "created_at_versions"),
            unmodelled=unmodelled,
            unknown=unknown_bytes(message, unmodelled),
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "Fragment":
        """Read the serialised message and keep its bytes for `to_bytes`.

        Raises:
            CorruptManifestError: It is no such message, or the deletion file is of an unknown type.
        """
        try:
            message = table_pb2.DataFragment.FromString(data)
        except DecodeError as error:
            raise CorruptManifestError(f"a fragment cannot be read: {error}", field="fragments") from error
        fragment = cls.from_proto(message)
        object.__setattr__(fragment, "_wire", data)
        return fragment


def _sequence(present: Mapping[str, Any], name: str) -> RowSequence | None:
    inline: bytes | None = present.get(f"inline_{name}")
    if inline is not None:
        return inline
    external: table_pb2.ExternalFile | None = present.get(f"external_{name}")
    if external is not None:
        return ExternalFile(external.path, external.offset, external.size)
    spilled: table_pb2.SpilledSequence | None = present.get(f"spilled_{name}")
    return None if spilled is None else SpilledSequence(unknown_bytes(spilled))


def live_fragments(fragments: tuple[Fragment, ...]) -> Iterator[Fragment]:
    """The fragments that still hold live rows."""
    return (fragment for fragment in fragments if fragment.num_rows > 0)
