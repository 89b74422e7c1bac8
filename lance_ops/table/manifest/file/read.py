"""Reader of manifest files: decode a manifest, and find the newest of a dataset.

Sections come first, each a little-endian u32 length and a message: the indices, then the transaction that
made the version. The Manifest message follows in the same framing, and a footer of 16 bytes points to it: i64
position, i16 major, i16 minor, "LANC". Fragments stay serialised when read and written, so that the cost of a
commit to a dataset of many fragments depends on its changes. Source: format, "Manifest".
"""

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from lance_ops.errors import (
    CorruptManifestError,
    FormatError,
    UnsupportedError,
    VersionNotFoundError,
)
from lance_ops.file.schema.model import Schema
from lance_ops.pb import file_pb2, summary_pb2, table_pb2
from lance_ops.storage import Store
from lance_ops.storage.retry import retry
from lance_ops.table.manifest.file.recurring import SMALL_MANIFEST, recurring
from lance_ops.table.manifest.file.sections import (
    check_version,
    decode_timestamp,
    decode_transaction,
    index_section,
    manifest_section,
    parse_indices,
    parse_message,
    read_bytes,
)
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.fragment_list import (
    FragmentTuple,
    check_fragment,
    check_id_range,
    read_list,
)
from lance_ops.table.manifest.fragments.totals import are_distinct, fragments_with_overlays, highest_id
from lance_ops.table.manifest.index_metadata import IndexMetadata, without_overlaid
from lance_ops.table.manifest.listing import ManifestLocation, latest
from lance_ops.table.manifest.model import BasePath, Manifest, WriterVersion
from lance_ops.table.manifest.wire import unknown_bytes, unmodelled_fields

# Before each further listing and read.
_PAUSES = (0.0,) * 4
_MAX_ROWS = 1 << 32

# Bounds the memory of the caches below: fragments with long row id sequences are not cached.
_SMALL_FRAGMENT = 512
# Some thousands of fragments: from here on loading the compiled loops takes less than creating objects.
_SMALL_LIST = 1 << 20
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
        # Describes one version alone: a commit must not copy it to the next one.
        "version_aux_data",
    }
)


def decode_manifest(data: bytes | pa.Buffer, *, path: str) -> Manifest:
    """Read a whole manifest file.

    Args:
        data: All bytes of the file.
        path: Names the file in errors.

    Raises:
        CorruptManifestError: The bytes are truncated or damaged, or are inconsistent in a way that makes
            the table unsafe to use.
        UnsupportedError: The fragments are stored outside of the manifest.
    """
    content = memoryview(data)
    fragments, rest = _decode_fragments(manifest_section(content, path), path)
    message = parse_message(table_pb2.Manifest, rest, path, "manifest")
    if message.HasField("fragment_tree"):
        raise UnsupportedError(
            "the fragments of this version are stored in a tree of files, which is not implemented",
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
    overlays = [
        (item.id, overlay) for item in fragments_with_overlays(fragments) for overlay in item.overlays
    ]
    if overlays and indices:
        indices = without_overlaid(indices, overlays, schema)
    return Manifest(
        version=message.version,
        schema=schema,
        fragments=fragments,
        timestamp=decode_timestamp(message, path),
        indices=indices,
        reader_flags=message.reader_feature_flags,
        writer_flags=message.writer_feature_flags,
        max_fragment_id=_max_fragment_id(message, fragments),
        transaction_file=message.transaction_file,
        transaction=decode_transaction(content, message, path),
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


def read_manifest(store: Store, location: ManifestLocation) -> Manifest:
    """Read the manifest of a version with one request.

    Raises:
        VersionNotFoundError: The file was removed.
        CorruptManifestError: See `decode_manifest`; also when name and content disagree on the version.
    """
    path = f"{store.uri}/{location.path}"
    data = read_bytes(store, location)
    if data.size <= SMALL_MANIFEST:
        serialised = data.to_pybytes()
        manifest = recurring.get(path, serialised)
        if manifest is None:
            manifest = decode_manifest(serialised, path=path)
            recurring.keep(path, serialised, manifest)
    else:
        manifest = decode_manifest(data, path=path)
    check_version(manifest.version, location, path)
    return manifest


def read_latest(store: Store, known: Manifest | None = None) -> tuple[ManifestLocation, Manifest]:
    """Find the newest version and read its manifest.

    Args:
        store: Root of the dataset.
        known: A version already read.

    Raises:
        DatasetNotFoundError: There is no manifest.
        CorruptManifestError: See `read_manifest`.
    """

    def read_listed() -> tuple[ManifestLocation, Manifest]:
        location = latest(store)
        if known is not None and known.version == location.version:
            return location, known
        return location, read_manifest(store, location)

    # Others committed, and a cleanup removed it, since the listing: then there is a newer one.
    return retry(read_listed, _PAUSES, on=VersionNotFoundError)


@lru_cache(maxsize=16)
def _recurring_schema(fields: tuple[bytes, ...], metadata: tuple[tuple[str, bytes], ...]) -> Schema:
    # Versions of a table mostly have the same schema: values derived from it are cached by identity.
    return Schema.from_protos([file_pb2.Field.FromString(field) for field in fields], dict(metadata))


def _decode_fragments(message: bytes, path: str) -> tuple[Sequence[Fragment], bytes]:
    """Split a serialised manifest into its fragments and the rest."""
    try:
        found = read_list(message) if len(message) > _SMALL_LIST else None
        if found is not None:
            return found
        view = parse_message(summary_pb2.ManifestView, message, path, "manifest")
        serialised = tuple(view.fragments)
        view.ClearField("fragments")
        return _decode_few(serialised), view.SerializeToString()
    except CorruptManifestError as error:
        raise CorruptManifestError(error.message, path=path, field=error.field) from error


def _decode_few(serialised: Sequence[bytes]) -> FragmentTuple:
    if max(map(len, serialised), default=0) <= _SMALL_FRAGMENT:
        return FragmentTuple(map(_recurring_fragment, serialised))
    return FragmentTuple(
        _recurring_fragment(data)
        if len(data) <= _SMALL_FRAGMENT
        else check_fragment(Fragment.from_bytes(data))
        for data in serialised
    )


@lru_cache(maxsize=16_384)
def _recurring_fragment(data: bytes) -> Fragment:
    # Consecutive versions, which a commit reads, share almost all fragments.
    return check_fragment(Fragment.from_bytes(data))


def _check_fragments(message: table_pb2.Manifest, fragments: Sequence[Fragment], path: str) -> None:
    if not are_distinct(fragments):
        raise CorruptManifestError("two fragments have the same id", path=path, field="fragments")
    highest = highest_id(fragments)
    try:
        check_id_range(highest)
    except CorruptManifestError as error:
        raise CorruptManifestError(error.message, path=path, field=error.field) from error
    if message.HasField("max_fragment_id") and highest > message.max_fragment_id:
        raise CorruptManifestError(
            f"fragment {highest} is above the highest allocated id {message.max_fragment_id}",
            path=path,
            field="max_fragment_id",
        )


def _max_fragment_id(message: table_pb2.Manifest, fragments: Sequence[Fragment]) -> int | None:
    if message.HasField("max_fragment_id"):
        return message.max_fragment_id
    # Legacy writers did not store a value of 0.
    return highest_id(fragments) if fragments else None


def _decode_indices(
    content: memoryview, message: table_pb2.Manifest, path: str
) -> tuple[tuple[IndexMetadata, ...], bytes]:
    data = index_section(content, message, path)
    return ((), b"") if data is None else parse_indices(data, path)


def _decode_base_paths(message: table_pb2.Manifest, path: str) -> tuple[BasePath, ...]:
    bases = tuple(BasePath.from_proto(base) for base in message.base_paths)
    if len({base.id for base in bases}) != len(bases):
        raise CorruptManifestError("two base paths have the same id", path=path, field="base_paths")
    return bases
