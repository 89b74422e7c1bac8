"""Manifest files: the bytes of a manifest, and the transaction inside it.

Sections come first, each a little-endian u32 length and a message: the indices, then the transaction that
made the version. The Manifest message follows in the same framing, and a footer of 16 bytes points to it: i64
position, i16 major, i16 minor, "LANC". Fragments stay in their serialised form on the way in and out, so that
a commit to a dataset of many fragments costs what it changes. Source: format, "Manifest".
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError, Message
from google.protobuf.timestamp_pb2 import Timestamp

from lance_ops.errors import (
    CorruptManifestError,
    FileMissingError,
    FormatError,
    UnsupportedError,
    VersionNotFoundError,
)
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import schema_protos
from lance_ops.pb import file_pb2, summary_pb2, table_pb2
from lance_ops.storage import Store
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.listing import ManifestLocation, latest
from lance_ops.table.manifest.model import BasePath, Manifest, WriterVersion
from lance_ops.table.manifest.wire import unknown_bytes, unmodelled_fields

_LENGTH = struct.Struct("<I")
_FOOTER = struct.Struct("<qhh4s")
_MAGIC = b"LANC"
_VERSION = (0, 2)
_LISTINGS = 5
_MAX_ROWS = 1 << 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_M = TypeVar("_M", bound=Message)

# Bounds what the caches below keep alive: fragments with long row id sequences are not cached.
_SMALL_FRAGMENT = 512
_SMALL_MANIFEST = 1 << 20

MAX_INLINE_TRANSACTION = 20 << 20
"""Larger transactions go into their own file only, as the peer does: a manifest is read on every open."""

_MODELLED = frozenset(
    {
        "fields",
        "fragments",
        "version",
        "schema_metadata",
        "index_section",
        "timestamp",
        "tag",
        "reader_feature_flags",
        "writer_feature_flags",
        "max_fragment_id",
        "transaction_file",
        "writer_version",
        "next_row_id",
        "data_format",
        "config",
        "blob_dataset_version",
        "base_paths",
        "table_metadata",
        "branch",
        "transaction_section",
        "inline_transaction_section",
        # Describes one version alone: a commit must not hand it on.
        "version_aux_data",
    }
)


@dataclass(frozen=True, slots=True)
class ManifestSummary:
    """What a list of versions shows, read without looking into fragments.

    Attributes:
        version: Version number.
        timestamp: When it was made; UTC.
        transaction_file: Name below `_transactions/`; may be empty.
        transaction: The serialised Transaction kept inside the manifest file; None when there is none.
        reader_flags: Features a reader must know.
        writer_flags: Features a writer must know.
        branch: Branch name; None for main.
        fragments: Serialised DataFragment messages.
        index_section: The serialised IndexSection; None when there is no index.
        base_paths: How many other bases the version declares.
        has_fragment_tree: The fragments are kept outside the manifest, so that `fragments` is not all.
        may_miscount: See `Manifest.may_miscount`.
    """

    version: int
    timestamp: datetime
    transaction_file: str
    transaction: bytes | None
    reader_flags: int
    writer_flags: int
    branch: str | None
    fragments: tuple[bytes, ...]
    index_section: bytes | None = None
    base_paths: int = 0
    has_fragment_tree: bool = False
    may_miscount: bool = False

    def indices(self, *, path: str) -> tuple[IndexMetadata, ...]:
        """Index segments of the version; `path` names the manifest in errors.

        Raises:
            CorruptManifestError: The section cannot be read.
        """
        return _parse_indices(self.index_section, path)[0] if self.index_section is not None else ()


def encode_manifest(manifest: Manifest) -> bytes:
    """The whole manifest file.

    Raises:
        CorruptManifestError: A data file has an unassigned field id.
    """
    parts: list[bytes] = []
    position = 0

    def add_section(data: bytes) -> int:
        nonlocal position
        start = position
        parts.extend((_LENGTH.pack(len(data)), data))
        position += _LENGTH.size + len(data)
        return start

    head = _head_message(manifest)
    if manifest.indices or manifest.index_section_unknown:
        section = table_pb2.IndexSection.FromString(manifest.index_section_unknown)
        section.indices.extend(index.to_proto() for index in manifest.indices)
        head.index_section = add_section(section.SerializeToString(deterministic=True))
    if manifest.transaction is not None and len(manifest.transaction) <= MAX_INLINE_TRANSACTION:
        start = add_section(manifest.transaction)
        # 21 is the number of the specification, 23 the one that pylance 14 writes; it reads both.
        head.transaction_section = start
        head.inline_transaction_section = start
    fragments = summary_pb2.ManifestView(fragments=[fragment.to_bytes() for fragment in manifest.fragments])
    start = add_section(fragments.SerializeToString() + head.SerializeToString(deterministic=True))
    parts.append(_FOOTER.pack(start, *_VERSION, _MAGIC))
    return b"".join(parts)


def decode_manifest(data: bytes | pa.Buffer, *, path: str) -> Manifest:
    """Read a whole manifest file.

    Args:
        data: All bytes of the file.
        path: Names the file in errors.

    Raises:
        CorruptManifestError: The bytes are truncated or damaged, or contradict themselves in a way that makes
            the table unsafe to use.
        UnsupportedError: The manifest does not list its fragments itself.
    """
    content = memoryview(data)
    view = _decode_view(content, path)
    fragments = _decode_fragments(view.fragments, path)
    view.ClearField("fragments")
    message = _parse(table_pb2.Manifest, view.SerializeToString(), path, "manifest")
    if message.HasField("fragment_tree"):
        raise UnsupportedError(
            "the fragments of this version are kept in a tree of files, which is not implemented",
            path=path,
            field="fragment_tree",
        )
    _check_fragments(message, fragments, path)
    writer = message.writer_version
    try:
        schema = _recurring_schema(
            tuple([field.SerializeToString(deterministic=True) for field in message.fields]),
            tuple(sorted(message.schema_metadata.items())),
        )
    except FormatError as error:
        raise CorruptManifestError(error.message, path=path, field="fields") from error
    unmodelled = unmodelled_fields(message, _MODELLED)
    indices, index_section_unknown = _decode_indices(content, message, path)
    return Manifest(
        version=message.version,
        schema=schema,
        fragments=fragments,
        timestamp=_decode_timestamp(message, path),
        indices=indices,
        reader_flags=message.reader_feature_flags,
        writer_flags=message.writer_feature_flags,
        max_fragment_id=_max_fragment_id(message, fragments),
        transaction_file=message.transaction_file,
        transaction=_decode_transaction(content, view, path),
        writer_version=(
            WriterVersion(
                library=writer.library,
                version=writer.version,
                prerelease=writer.prerelease if writer.HasField("prerelease") else None,
                build_metadata=writer.build_metadata if writer.HasField("build_metadata") else None,
            )
            if message.HasField("writer_version")
            else None
        ),
        next_row_id=message.next_row_id,
        data_format=(message.data_format.file_format, message.data_format.version),
        config=dict(message.config),
        table_metadata=dict(message.table_metadata),
        base_paths=_decode_base_paths(message, path),
        branch=message.branch if message.HasField("branch") else None,
        tag=message.tag,
        blob_dataset_version=message.blob_dataset_version,
        index_section_unknown=index_section_unknown,
        unknown=unknown_bytes(message, unmodelled, ("data_format",)),
    )


def decode_summary(data: bytes | pa.Buffer, *, path: str) -> ManifestSummary:
    """Read what a list of versions shows; fragments, indices and schema are not looked into.

    Raises:
        CorruptManifestError: The bytes are truncated or damaged.
    """
    content = memoryview(data)
    view = _decode_view(content, path)
    return ManifestSummary(
        version=view.version,
        timestamp=_decode_timestamp(view, path),
        transaction_file=view.transaction_file,
        transaction=_decode_transaction(content, view, path),
        reader_flags=view.reader_feature_flags,
        writer_flags=view.writer_feature_flags,
        branch=view.branch if view.HasField("branch") else None,
        fragments=tuple(view.fragments),
        index_section=_index_section(content, view, path),
        base_paths=len(view.base_paths),
        has_fragment_tree=view.HasField("fragment_tree"),
        may_miscount=bool(view.fragments) and _miscounts(view, path),
    )


def _miscounts(view: summary_pb2.ManifestView, path: str) -> bool:
    if not view.HasField("writer_version"):
        return True
    writer = _parse(table_pb2.Manifest.WriterVersion, view.writer_version, path, "writer_version")
    return WriterVersion(writer.library, writer.version).miscounts


def read_manifest(store: Store, location: ManifestLocation) -> Manifest:
    """Read the manifest of a version with one request.

    Raises:
        VersionNotFoundError: The file is gone.
        CorruptManifestError: See `decode_manifest`; also when name and content disagree on the version.
    """
    path = f"{store.uri}/{location.path}"
    data = _read(store, location)
    if data.size <= _SMALL_MANIFEST:
        manifest = _recurring_manifest(data.to_pybytes(), path)
    else:
        manifest = decode_manifest(data, path=path)
    _check_version(manifest.version, location, path)
    return manifest


def read_latest(store: Store, known: Manifest | None = None) -> tuple[ManifestLocation, Manifest]:
    """Find the newest version and read its manifest.

    Args:
        store: Root of the dataset.
        known: A version that need not be read again.

    Raises:
        DatasetNotFoundError: There is no manifest.
        CorruptManifestError: See `read_manifest`.
    """
    for attempt in range(_LISTINGS):
        location = latest(store)
        if known is not None and known.version == location.version:
            return location, known
        try:
            return location, read_manifest(store, location)
        except VersionNotFoundError:
            # Others committed, and a cleanup removed it, since the listing: then there is a newer one.
            if attempt == _LISTINGS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def read_summary(store: Store, location: ManifestLocation) -> ManifestSummary:
    """Like `read_manifest`, for the summary."""
    path = f"{store.uri}/{location.path}"
    summary = decode_summary(_read(store, location), path=path)
    _check_version(summary.version, location, path)
    return summary


def _read(store: Store, location: ManifestLocation) -> pa.Buffer:
    try:
        return store.read(location.path)
    except FileMissingError as error:
        raise VersionNotFoundError(
            f"the manifest of version {location.version} is gone; cleanup may have removed it",
            path=f"{store.uri}/{location.path}",
        ) from error


def _check_version(version: int, location: ManifestLocation, path: str) -> None:
    if version != location.version:
        raise CorruptManifestError(
            f"the file is named for version {location.version} and holds version {version}",
            path=path,
            field="version",
        )


def _head_message(manifest: Manifest) -> table_pb2.Manifest:
    message = table_pb2.Manifest.FromString(manifest.unknown)
    message.fields.extend(schema_protos(manifest.schema))
    for field in message.fields:
        if field.encoding == file_pb2.DICTIONARY:
            # The oldest readers insist on it, although dictionaries have been in the pages since 2.0.
            field.dictionary.SetInParent()
    message.version = manifest.version
    for key in sorted(manifest.schema.metadata):
        message.schema_metadata[key] = manifest.schema.metadata[key]
    message.timestamp.CopyFrom(_encode_timestamp(manifest.timestamp))
    message.tag = manifest.tag
    message.reader_feature_flags = manifest.reader_flags
    message.writer_feature_flags = manifest.writer_flags
    if manifest.max_fragment_id is not None:
        message.max_fragment_id = manifest.max_fragment_id
    message.transaction_file = manifest.transaction_file
    if manifest.writer_version is not None:
        writer = manifest.writer_version
        message.writer_version.library = writer.library
        message.writer_version.version = writer.version
        if writer.prerelease is not None:
            message.writer_version.prerelease = writer.prerelease
        if writer.build_metadata is not None:
            message.writer_version.build_metadata = writer.build_metadata
    message.next_row_id = manifest.next_row_id
    message.data_format.file_format, message.data_format.version = manifest.data_format
    for key in sorted(manifest.config):
        message.config[key] = manifest.config[key]
    for key in sorted(manifest.table_metadata):
        message.table_metadata[key] = manifest.table_metadata[key]
    # Deprecated, but dropping it from an old table would cut it off from its blobs.
    message.blob_dataset_version = manifest.blob_dataset_version
    message.base_paths.extend(base.to_proto() for base in manifest.base_paths)
    if manifest.branch is not None:
        message.branch = manifest.branch
    return message


def _decode_view(content: memoryview, path: str) -> summary_pb2.ManifestView:
    if len(content) < _FOOTER.size:
        raise CorruptManifestError(f"a manifest of {len(content)} bytes", path=path)
    end = len(content) - _FOOTER.size
    position, _, _, magic = _FOOTER.unpack(content[end:])
    if magic != _MAGIC:
        raise CorruptManifestError("the file does not end in LANC", path=path, hint="it may be truncated")
    return _parse(
        summary_pb2.ManifestView, _section(content, position, end, path, "manifest"), path, "manifest"
    )


def _section(content: memoryview, position: int, end: int, path: str, field: str) -> bytes:
    if not 0 <= position <= end - _LENGTH.size:
        raise CorruptManifestError(f"it would start at {position} of {end} bytes", path=path, field=field)
    start = position + _LENGTH.size
    (length,) = _LENGTH.unpack(content[position:start])
    if length > end - start:
        raise CorruptManifestError(
            f"{length} bytes at {start} do not fit into the file of {end}", path=path, field=field
        )
    return bytes(content[start : start + length])


def _parse(kind: type[_M], data: bytes, path: str, field: str) -> _M:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise CorruptManifestError(f"the message cannot be read: {error}", path=path, field=field) from error


@lru_cache(maxsize=16)
def _recurring_schema(fields: tuple[bytes, ...], metadata: tuple[tuple[str, bytes], ...]) -> Schema:
    # Versions of a table mostly have the same schema: what follows from it is kept for this very object.
    return Schema.from_protos([file_pb2.Field.FromString(field) for field in fields], dict(metadata))


@lru_cache(maxsize=8)
def _recurring_manifest(data: bytes, path: str) -> Manifest:
    # Who reads a dataset often opens the same version again and again.
    return decode_manifest(data, path=path)


def _decode_fragments(serialised: Sequence[bytes], path: str) -> tuple[Fragment, ...]:
    try:
        if max(map(len, serialised), default=0) <= _SMALL_FRAGMENT:
            return tuple(map(_recurring_fragment, serialised))
        return tuple(
            _recurring_fragment(data) if len(data) <= _SMALL_FRAGMENT else _checked(Fragment.from_bytes(data))
            for data in serialised
        )
    except CorruptManifestError as error:
        raise CorruptManifestError(error.message, path=path, field=error.field) from error


@lru_cache(maxsize=16_384)
def _recurring_fragment(data: bytes) -> Fragment:
    # The next version has nearly the same fragments, and a commit reads one version after the other.
    return _checked(Fragment.from_bytes(data))


def _checked(fragment: Fragment) -> Fragment:
    """A fragment, unless it claims what no file holds."""
    # A row address has 32 bits for the row; sums over more than that would not fit their types.
    if max(fragment.physical_rows, fragment.num_deleted_rows) > _MAX_ROWS:
        raise CorruptManifestError(
            f"fragment {fragment.id} claims {fragment.physical_rows} rows, "
            f"{fragment.num_deleted_rows} of them deleted, which no file holds",
            field="fragments",
        )
    # Legacy writers did not record the number of rows.
    if 0 < fragment.physical_rows < fragment.num_deleted_rows:
        raise CorruptManifestError(
            f"fragment {fragment.id} has {fragment.physical_rows} rows and more of them deleted",
            field="fragments",
        )
    return fragment


def _check_fragments(message: table_pb2.Manifest, fragments: tuple[Fragment, ...], path: str) -> None:
    ids = {fragment.id for fragment in fragments}
    if len(ids) != len(fragments):
        raise CorruptManifestError("two fragments have the same id", path=path, field="fragments")
    highest = max(ids, default=-1)
    if highest >= 1 << 32:
        # A row address has 32 bits for the fragment.
        raise CorruptManifestError(f"fragment id {highest} is out of range", path=path, field="fragments")
    if message.HasField("max_fragment_id") and highest > message.max_fragment_id:
        raise CorruptManifestError(
            f"fragment {highest} is beyond the highest id ever given out, {message.max_fragment_id}",
            path=path,
            field="max_fragment_id",
        )


def _max_fragment_id(message: table_pb2.Manifest, fragments: tuple[Fragment, ...]) -> int | None:
    if message.HasField("max_fragment_id"):
        return message.max_fragment_id
    # Legacy writers stored no number while it was 0.
    return max((fragment.id for fragment in fragments), default=None)


def _decode_indices(
    content: memoryview, message: table_pb2.Manifest, path: str
) -> tuple[tuple[IndexMetadata, ...], bytes]:
    data = _index_section(content, message, path)
    return ((), b"") if data is None else _parse_indices(data, path)


def _index_section(
    content: memoryview, message: table_pb2.Manifest | summary_pb2.ManifestView, path: str
) -> bytes | None:
    if not message.HasField("index_section"):
        return None
    return _section(content, message.index_section, len(content) - _FOOTER.size, path, "index_section")


def _parse_indices(data: bytes, path: str) -> tuple[tuple[IndexMetadata, ...], bytes]:
    """The entries, and what else is in the section."""
    section = _parse(table_pb2.IndexSection, data, path, "index_section")
    indices = tuple(IndexMetadata.from_proto(index, path=path) for index in section.indices)
    return indices, unknown_bytes(section)


def _decode_transaction(content: memoryview, view: summary_pb2.ManifestView, path: str) -> bytes | None:
    if view.HasField("transaction_section"):
        position = view.transaction_section
    elif view.HasField("inline_transaction_section"):
        position = view.inline_transaction_section
    else:
        return None
    return _section(content, position, len(content) - _FOOTER.size, path, "transaction_section")


def _decode_base_paths(message: table_pb2.Manifest, path: str) -> tuple[BasePath, ...]:
    bases = tuple(BasePath.from_proto(base) for base in message.base_paths)
    if len({base.id for base in bases}) != len(bases):
        raise CorruptManifestError("two base paths have the same id", path=path, field="base_paths")
    return bases


def _encode_timestamp(moment: datetime) -> Timestamp:
    span = moment - _EPOCH
    return Timestamp(seconds=span.days * 86_400 + span.seconds, nanos=span.microseconds * 1000)


def _decode_timestamp(message: table_pb2.Manifest | summary_pb2.ManifestView, path: str) -> datetime:
    # Cleanup decides by age: a manifest without a time must not look like the oldest of all.
    if not message.HasField("timestamp"):
        raise CorruptManifestError("the version has no timestamp", path=path, field="timestamp")
    stamp = message.timestamp
    try:
        return _EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)
    except OverflowError as error:
        raise CorruptManifestError(
            f"the timestamp of {stamp.seconds} seconds is out of range", path=path, field="timestamp"
        ) from error
