"""Writer of manifest files; see `read`."""

from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from lance_ops.file.schema.prepared import schema_protos
from lance_ops.pb import file_pb2, table_pb2
from lance_ops.table.manifest.file.sections import EPOCH, FOOTER, LENGTH, MAGIC, VERSION
from lance_ops.table.manifest.fragments.totals import framed
from lance_ops.table.manifest.model import Manifest

MAX_INLINE_TRANSACTION = 20 << 20
"""Maximum size of a transaction inside a manifest, as in pylance; larger ones have a file of their own only.
"""


def encode_manifest(manifest: Manifest) -> bytes:
    """Serialise a manifest file.

    Raises:
        CorruptManifestError: A data file has an unassigned field id.
    """
    parts: list[bytes] = []
    position = 0

    def add_section(data: bytes) -> int:
        nonlocal position
        start = position
        parts.extend((LENGTH.pack(len(data)), data))
        position += LENGTH.size + len(data)
        return start

    head = _head_message(manifest)
    if manifest.indices or manifest.index_section_unknown:
        section = table_pb2.IndexSection.FromString(manifest.index_section_unknown)
        section.indices.extend(index.to_proto() for index in manifest.indices)
        head.index_section = add_section(section.SerializeToString(deterministic=True))
    if manifest.transaction is not None and has_room_for(manifest.transaction):
        start = add_section(manifest.transaction)
        # The specification says 21, pylance 14 writes 23; it reads both.
        head.transaction_section = start
        head.inline_transaction_section = start
    start = add_section(framed(manifest.fragments) + head.SerializeToString(deterministic=True))
    parts.append(FOOTER.pack(start, *VERSION, MAGIC))
    return b"".join(parts)


def has_room_for(transaction: bytes) -> bool:
    """Return whether a serialised transaction is stored inside the manifest file."""
    return len(transaction) <= MAX_INLINE_TRANSACTION


def _head_message(manifest: Manifest) -> table_pb2.Manifest:
    message = table_pb2.Manifest.FromString(manifest.unknown)
    message.fields.extend(schema_protos(manifest.schema))
    for field in message.fields:
        if field.encoding == file_pb2.DICTIONARY:
            # The oldest readers need it, although dictionaries have been in the pages since 2.0.
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
    # Deprecated, but removing it from an old table would lose its blobs.
    message.blob_dataset_version = manifest.blob_dataset_version
    message.base_paths.extend(base.to_proto() for base in manifest.base_paths)
    if manifest.branch is not None:
        message.branch = manifest.branch
    return message


def _encode_timestamp(moment: datetime) -> Timestamp:
    span = moment - EPOCH
    return Timestamp(seconds=span.days * 86_400 + span.seconds, nanos=span.microseconds * 1000)
