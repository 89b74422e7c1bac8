"""Fragments: horizontal parts of a dataset, with data files and at most one deletion file each.

Source: table.proto, messages DataFragment, DeletionFile, ExternalFile.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptManifestError
from lance_ops.pb import table_pb2
from lance_ops.table.manifest.data_file import DataFile, Overlay, decode_overlays
from lance_ops.table.manifest.wire import unknown_bytes

DELETIONS_DIRECTORY = "_deletions"


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
        id: Random u64 that distinguishes the files of concurrent writers.
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
        """The path relative to the base's root: `_deletions/{fragment}-{read_version}-{id}.{extension}`."""
        return f"{DELETIONS_DIRECTORY}/{fragment_id}-{self.read_version}-{self.id}.{self.file_type.extension}"

    def to_proto(self) -> table_pb2.DeletionFile:
        """Convert to the message."""
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
                f"unknown deletion file type {message.file_type}", field="deletion_file.file_type"
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
    """A sequence stored as a column of one of the fragment's data files, see `LINEAGE_FIELDS`.

    Attributes:
        unknown: Serialised fields that this version of lance_ops does not know.
    """

    unknown: bytes = b""


RowSequence = bytes | ExternalFile | SpilledSequence
"""A row id or row version sequence: serialised inline, in an external file, or in a data file."""

SEQUENCES = ("row_ids", "last_updated_at_versions", "created_at_versions")
"""Attributes of a fragment with such sequences."""

_MODELLED = frozenset(
    {"id", "files", "deletion_file", "physical_rows", "overlays"}
    | {f"{form}_{name}" for form in ("inline", "external", "spilled") for name in SEQUENCES}
)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A horizontal slice of the dataset.

    Attributes:
        id: Unique in the dataset, never reused; 0 until the commit assigns it.
        files: Data files, each with some columns of the same rows.
        physical_rows: Rows in the files, deleted ones included.
        deletion_file: File with the deleted rows; None when there are none.
        row_ids: Row id sequence (tables with stable row ids only).
        last_updated_at_versions: Row version sequence (tables with stable row ids only).
        created_at_versions: Row version sequence (tables with stable row ids only).
        overlays: Newer values of single cells, oldest first: without them the data files are stale.
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
    overlays: tuple[Overlay, ...] = ()
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
        """Return whether overlays have newer values of single cells than the data files."""
        return bool(self.overlays)

    @property
    def all_files(self) -> tuple[DataFile, ...]:
        """Return all files in `data/` of the fragment: data files and those of overlays."""
        return (*self.files, *(overlay.file for overlay in self.overlays)) if self.overlays else self.files

    @property
    def spilled(self) -> tuple[str, ...]:
        """Return the names of sequences stored in a data file."""
        return tuple(name for name in SEQUENCES if isinstance(getattr(self, name), SpilledSequence))

    @property
    def data_bytes(self) -> int:
        """Return the bytes of data files and overlays with their side files; unknown sizes count 0."""
        files = self.all_files
        # Nearly all fragments have one file, and a table may have 100,000 of them.
        return files[0].stored_bytes if len(files) == 1 else sum(file.stored_bytes for file in files)

    def with_side_bytes(self, sizes: Mapping[tuple[int | None, str], int]) -> "Fragment":
        """Return the fragment with known sizes of side files; the same object if it has none.

        Args:
            sizes: Bytes of all side files of a data file, by its base and path.
        """
        if not any((file.base_id, file.path) in sizes for file in self.all_files):
            return self

        def sized(file: DataFile) -> DataFile:
            size = sizes.get((file.base_id, file.path))
            return file if size is None else replace(file, side_bytes=size)

        # The message is unchanged: it has no field for them.
        return replace(
            self,
            files=tuple(map(sized, self.files)),
            overlays=tuple(replace(item, file=sized(item.file)) for item in self.overlays),
        )

    def replace(self, **changes: object) -> "Fragment":
        """Return a copy with changed attributes."""
        return replace(self, _wire=None, **changes)  # type: ignore[arg-type]

    def to_proto(self) -> table_pb2.DataFragment:
        """Convert to the message."""
        return table_pb2.DataFragment.FromString(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the serialised message, cached: most fragments outlive many versions."""
        if self._wire is None:
            object.__setattr__(self, "_wire", self._encode())
        assert self._wire is not None
        return self._wire

    def _encode(self) -> bytes:
        # First the unmodelled fields: a sequence set below must replace another form of it.
        message = table_pb2.DataFragment.FromString(self.unknown)
        message.id = self.id
        message.files.extend(file.to_proto() for file in self.files)
        message.overlays.extend(overlay.to_proto() for overlay in self.overlays)
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
        # One pass over the set fields: manifests list thousands of fragments.
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
            overlays=decode_overlays(present["overlays"]) if "overlays" in present else (),
            unmodelled=unmodelled,
            unknown=unknown_bytes(message, unmodelled),
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "Fragment":
        """Read the serialised message and keep its bytes for `to_bytes`.

        Raises:
            CorruptManifestError: It is not such a message, or the deletion file is of an unknown type.
        """
        try:
            message = table_pb2.DataFragment.FromString(data)
        except DecodeError as error:
            raise CorruptManifestError(f"a fragment cannot be parsed: {error}", field="fragments") from error
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
