"""Manifest: all metadata of one version of a dataset, as a value.

`file` reads and writes its bytes. Source: table.proto, message Manifest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from lance_ops.file.schema.model import Schema
from lance_ops.file.versions import ALIASES, DEFAULT_STORAGE_VERSION, version_name
from lance_ops.pb import table_pb2
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import file_numbers, find_fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.wire import unknown_bytes

_FIRST = "0.1"
_COUNTS_SINCE = (0, 8, 15)
# 0.16 did not yet, 0.19 did; releases in between were not tested.
_NAMES_SINCE = (0, 19)


@dataclass(frozen=True, slots=True)
class BasePath:
    """Another location of files of this dataset.

    Attributes:
        id: Key that files refer to.
        path: Absolute path or URI.
        is_dataset_root: Files are in `data/`, `_deletions/`, `_indices/` below it; else directly in it.
        name: Optional alias; the tag name when the dataset is a shallow clone of a tag.
        unknown: Serialised fields that this version of lance_ops does not know.
    """

    id: int
    path: str
    is_dataset_root: bool
    name: str | None = None
    unknown: bytes = b""

    def to_proto(self) -> table_pb2.BasePath:
        """Convert to the message."""
        message = table_pb2.BasePath(
            id=self.id, name=self.name, is_dataset_root=self.is_dataset_root, path=self.path
        )
        message.MergeFromString(self.unknown)
        return message

    @classmethod
    def from_proto(cls, message: table_pb2.BasePath) -> "BasePath":
        """Read the message."""
        return cls(
            id=message.id,
            path=message.path,
            is_dataset_root=message.is_dataset_root,
            name=message.name if message.HasField("name") else None,
            unknown=unknown_bytes(message),
        )


@dataclass(frozen=True, slots=True)
class WriterVersion:
    """Library that wrote the manifest; `version` is major.minor.patch, without the rest of the semver."""

    library: str
    version: str
    prerelease: str | None = None
    build_metadata: str | None = None

    @property
    def miscounts(self) -> bool:
        """Whether its recorded row counts and index coverages may be wrong (before 0.8.15)."""
        return self._is_before(_COUNTS_SINCE)

    @property
    def misnames_files(self) -> bool:
        """Whether it recorded 2.0 for data files of 2.1 (the first releases that wrote these)."""
        return self._is_before(_NAMES_SINCE)

    def _is_before(self, release: tuple[int, ...]) -> bool:
        number = tuple(int(part) for part in self.version.split(".") if part.isdigit())
        return self.library == "lance" and number < release


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version of a dataset.

    Attributes:
        version: Version number; each commit adds one.
        schema: Fields with their ids, and the schema metadata.
        fragments: In the order of rows; ids ascend except in rewritten groups. Equal to a tuple of them.
        indices: Index segments of this version.
        timestamp: Commit time; UTC.
        reader_flags: Features a reader must know.
        writer_flags: Features a writer must know.
        max_fragment_id: Highest fragment id ever given; None when there never was a fragment.
        transaction_file: Name below `_transactions/`; empty when none was written.
        transaction: The serialised Transaction kept inside the manifest file; None when there is none.
        writer_version: None when not recorded.
        next_row_id: Next unused stable row id.
        data_format: (file format, version) of the data files as stored, e.g. ("lance", "2.0"); see
            `storage_version`.
        config: Table config.
        table_metadata: Metadata of the table, apart from schema metadata.
        base_paths: Locations other than the root.
        branch: Branch name; None for main.
        tag: The manifest's own tag field, apart from `_refs/tags`; empty usually.
        blob_dataset_version: Version of the attached blob dataset of old tables; 0 for none.
        index_section_unknown: Serialised fields of the list of indices, apart from these, that this version
            of lance_ops does not know.
        unknown: Serialised fields that this version of lance_ops does not know.
    """

    version: int
    schema: Schema
    fragments: Sequence[Fragment]
    timestamp: datetime
    indices: tuple[IndexMetadata, ...] = ()
    reader_flags: int = 0
    writer_flags: int = 0
    max_fragment_id: int | None = None
    transaction_file: str = ""
    transaction: bytes | None = None
    writer_version: WriterVersion | None = None
    next_row_id: int = 0
    data_format: tuple[str, str] = ("lance", "2.0")
    config: Mapping[str, str] = field(default_factory=dict)
    table_metadata: Mapping[str, str] = field(default_factory=dict)
    base_paths: tuple[BasePath, ...] = ()
    branch: str | None = None
    tag: str = ""
    blob_dataset_version: int = 0
    index_section_unknown: bytes = b""
    unknown: bytes = b""
    _file_versions: frozenset[str] | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def may_miscount(self) -> bool:
        """Whether its row counts and index coverages may be wrong, because of an old writer."""
        return bool(self.fragments) and (self.writer_version is None or self.writer_version.miscounts)

    @property
    def uses_stable_row_ids(self) -> bool:
        """Whether fragments have row id sequences (reader feature flag 2, as in pylance)."""
        return bool(self.reader_flags & 2)

    @property
    def storage_version(self) -> str:
        """Storage version that writers must use, such as "2.0"; never empty.

        In legacy manifests it is derived from the files; some of release 0.16 say 0.1 for files of 2.0. The
        meaning of names such as "stable" has changed since then.
        """
        named = self.data_format[1]
        if named and named != _FIRST and named not in ALIASES:
            return named
        versions = self.file_versions
        if len(versions) == 1:
            return next(iter(versions))
        if named in ALIASES:
            return ALIASES[named]
        is_later = not named and (self.reader_flags | self.writer_flags) & 4
        return DEFAULT_STORAGE_VERSION if is_later else _FIRST

    @property
    def file_versions(self) -> frozenset[str]:
        """Storage versions of the existing data files."""
        if self._file_versions is None:
            # By their numbers first: there may be many thousands of files of one version.
            found = frozenset(version_name(*pair) for pair in file_numbers(self.fragments))
            object.__setattr__(self, "_file_versions", found)
            return found
        return self._file_versions

    def fragment(self, fragment_id: int) -> Fragment | None:
        """Return the fragment of this id, or None."""
        return find_fragment(self.fragments, fragment_id)

    def replace(self, **changes: object) -> "Manifest":
        """Return a copy with changed attributes."""
        changed: Manifest = replace(self, **changes)  # type: ignore[arg-type]
        if "fragments" not in changes:
            object.__setattr__(changed, "_file_versions", self._file_versions)
        return changed
