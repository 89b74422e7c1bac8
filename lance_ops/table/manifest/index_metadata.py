"""Index metadata: the manifest entry of a segment. Source: table.proto, IndexMetadata and IndexFile."""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from google.protobuf.any_pb2 import Any as AnyMessage
from pyroaring import BitMap

from lance_ops.errors import CorruptManifestError
from lance_ops.file.schema.model import Schema
from lance_ops.pb import table_pb2
from lance_ops.table.manifest.data_file import Overlay
from lance_ops.table.manifest.wire import unknown_bytes, unmodelled_fields, uuid_from_proto

FRAGMENT_REUSE_INDEX = "__lance_frag_reuse"
"""Name of the fragment reuse index, which has row maps of deferred remaps."""

# Far beyond any manifest. A few bytes of a bitmap can stand for billions of ids.
_MAX_FRAGMENTS = 1 << 22

_MODELLED = frozenset(
    {
        "uuid",
        "fields",
        "name",
        "dataset_version",
        "fragment_bitmap",
        "index_details",
        "index_version",
        "created_at",
        "base_id",
        "files",
        "covering_fields",
    }
)


_TEXT_KIND = "invertedindexdetails"
_TEXT_FILE = re.compile(r"part_\d+_docs\.lance")


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One file of an index segment.

    Attributes:
        path: Relative to `_indices/{uuid}/`.
        size_bytes: As recorded.
        unknown: Serialised fields that this version of lance_ops does not know.
    """

    path: str
    size_bytes: int
    unknown: bytes = b""

    def to_proto(self) -> table_pb2.IndexFile:
        """Convert to the message."""
        message = table_pb2.IndexFile(path=self.path, size_bytes=self.size_bytes)
        message.MergeFromString(self.unknown)
        return message


@dataclass(frozen=True, slots=True)
class IndexMetadata:
    """One segment of an index. Several segments may share a name; their fragment sets are disjoint.

    Attributes:
        uuid: Names the directory `_indices/{uuid}/`; unique over all versions.
        name: Index name, unique in a version except for segments of one index.
        fields: Ids of the indexed fields; empty for system indices.
        dataset_version: Version that the segment was built from.
        fragment_ids: Fragments that the segment covers; None when the writer recorded no bitmap.
        type_url: Kind of the index, e.g. `/lance.table.BTreeIndexDetails`; None when not recorded.
        details: Serialised details message of that type.
        index_version: Minimum reader version of the index format; None when not recorded.
        created_at: Milliseconds since the epoch, UTC; None when not recorded.
        base_id: Key into the manifest's base paths; None for the dataset's own root.
        files: Files of the segment; empty when not recorded.
        covering_fields: Those of `fields` whose values the segment carries beside its keys.
        unknown: Serialised fields that this version of lance_ops does not know.
    """

    uuid: uuid.UUID
    name: str
    fields: tuple[int, ...]
    dataset_version: int
    fragment_ids: frozenset[int] | None
    type_url: str | None = None
    details: bytes = b""
    index_version: int | None = None
    created_at: int | None = None
    base_id: int | None = None
    files: tuple[IndexFile, ...] = ()
    covering_fields: tuple[int, ...] = ()
    unknown: bytes = b""

    @property
    def kind(self) -> str | None:
        """Last part of the type URL in lower case: `btreeindexdetails`. Case and prefix do not count.

        Some writers of text indices omit it: these are recognised by their files, as in pylance.
        """
        if self.type_url:
            return self.type_url.rsplit("/", 1)[-1].rsplit(".", 1)[-1].lower()
        names = {file.path for file in self.files}
        is_text = "metadata.lance" in names and any(_TEXT_FILE.fullmatch(name) for name in names)
        return _TEXT_KIND if is_text else None

    @property
    def directory(self) -> str:
        """Directory of the segment's files, relative to its base's root."""
        return f"_indices/{self.uuid}"

    @property
    def size_bytes(self) -> int:
        """Bytes of its files, as far as recorded."""
        return sum(file.size_bytes for file in self.files)

    @property
    def is_system(self) -> bool:
        """Return whether it is an index that the format itself keeps (fragment reuse, MemWAL)."""
        return self.name.startswith("__lance_")

    def to_proto(self) -> table_pb2.IndexMetadata:
        """Convert to the message."""
        message = table_pb2.IndexMetadata(
            uuid=table_pb2.UUID(uuid=self.uuid.bytes),
            fields=self.fields,
            name=self.name,
            dataset_version=self.dataset_version,
            index_version=self.index_version,
            created_at=self.created_at,
            base_id=self.base_id,
            files=[file.to_proto() for file in self.files],
            covering_fields=self.covering_fields,
        )
        if self.fragment_ids is not None:
            message.fragment_bitmap = BitMap(sorted(self.fragment_ids)).serialize()
        if self.type_url is not None:
            message.index_details.CopyFrom(AnyMessage(type_url=self.type_url, value=self.details))
        message.MergeFromString(self.unknown)
        return message

    @classmethod
    def from_proto(cls, message: table_pb2.IndexMetadata, *, path: str) -> "IndexMetadata":
        """Read the message; `path` names the manifest or transaction in errors.

        Raises:
            CorruptManifestError: the UUID or the fragment bitmap cannot be read.
        """
        fragment_ids: frozenset[int] | None = None
        if message.fragment_bitmap:
            try:
                fragment_ids = _decode_fragment_ids(message.fragment_bitmap)
            except ValueError as error:
                raise CorruptManifestError(
                    f"the fragment bitmap of index {message.name!r} cannot be read: {error}",
                    path=path,
                    field="index_section.indices.fragment_bitmap",
                ) from error
        has_details = message.HasField("index_details")
        unmodelled = unmodelled_fields(message, _MODELLED)
        return cls(
            uuid=uuid_from_proto(message.uuid, path=path, field="index_section.indices.uuid"),
            name=message.name,
            fields=tuple(message.fields),
            dataset_version=message.dataset_version,
            fragment_ids=fragment_ids,
            type_url=message.index_details.type_url if has_details else None,
            details=message.index_details.value if has_details else b"",
            index_version=message.index_version if message.HasField("index_version") else None,
            created_at=message.created_at if message.HasField("created_at") else None,
            base_id=message.base_id if message.HasField("base_id") else None,
            files=tuple(IndexFile(file.path, file.size_bytes, unknown_bytes(file)) for file in message.files),
            covering_fields=tuple(message.covering_fields),
            unknown=unknown_bytes(message, unmodelled, ("index_details", "uuid")),
        )


def _decode_fragment_ids(data: bytes) -> frozenset[int]:
    bitmap = BitMap.deserialize(data)
    if len(bitmap) > _MAX_FRAGMENTS:
        raise ValueError(f"fragment bitmap has {len(bitmap)} ids")
    return frozenset(bitmap)


def without_overlaid(
    indices: Sequence[IndexMetadata], overlays: Sequence[tuple[int, Overlay]], schema: Schema
) -> tuple[IndexMetadata, ...]:
    """Return indices without the fragments whose indexed values were overlaid after the build.

    Args:
        indices: Of a version.
        overlays: All of its overlays, each with the id of its fragment.
        schema: Of the version.
    """
    return tuple(_without(index, overlays, schema) for index in indices)


def _without(index: IndexMetadata, overlays: Sequence[tuple[int, Overlay]], schema: Schema) -> IndexMetadata:
    if not index.fragment_ids:
        return index
    indexed = {
        node.id
        for field in schema.walk()
        if field.id in index.fields or field.id in index.covering_fields
        for node in field.walk()
    }
    stale = {
        fragment_id
        for fragment_id, overlay in overlays
        if overlay.committed_version > index.dataset_version and not indexed.isdisjoint(overlay.file.fields)
    }
    if index.fragment_ids.isdisjoint(stale):
        return index
    return replace(index, fragment_ids=index.fragment_ids - stale)
