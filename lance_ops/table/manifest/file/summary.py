"""Manifest summary: metadata of a version that is read without decoding fragments."""

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from lance_ops.pb import summary_pb2, table_pb2
from lance_ops.storage import Store
from lance_ops.table.manifest.file.sections import (
    check_version,
    decode_timestamp,
    decode_transaction,
    decode_view,
    index_section,
    parse_indices,
    parse_message,
    read_bytes,
)
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.listing import ManifestLocation
from lance_ops.table.manifest.model import BasePath, WriterVersion


@dataclass(frozen=True, slots=True)
class ManifestSummary:
    """Metadata of a version that is read without decoding fragments.

    Attributes:
        version: Version number.
        timestamp: Commit time; UTC.
        transaction_file: Name below `_transactions/`; may be empty.
        transaction: The serialised Transaction kept inside the manifest file; None when there is none.
        reader_flags: Features a reader must know.
        writer_flags: Features a writer must know.
        branch: Branch name; None for main.
        fragments: Serialised DataFragment messages.
        index_section: The serialised IndexSection; None when there is no index.
        base_paths: The other bases that the version declares.
        has_fragment_tree: The fragments are stored outside of the manifest, so `fragments` is incomplete.
        may_miscount: See `Manifest.may_miscount`.
        writer: The serialised WriterVersion; empty when it is not recorded.
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
    base_paths: tuple[BasePath, ...] = ()
    has_fragment_tree: bool = False
    may_miscount: bool = False
    writer: bytes = b""

    def indices(self, *, path: str) -> tuple[IndexMetadata, ...]:
        """Return the index segments of the version; `path` names the manifest in errors.

        Raises:
            CorruptManifestError: The section cannot be read.
        """
        return parse_indices(self.index_section, path)[0] if self.index_section is not None else ()


def decode_summary(data: bytes | pa.Buffer, *, path: str) -> ManifestSummary:
    """Read a summary; fragments, indices and schema are not decoded.

    Raises:
        CorruptManifestError: The bytes are truncated or damaged.
    """
    content = memoryview(data)
    view = decode_view(content, path)
    return ManifestSummary(
        version=view.version,
        timestamp=decode_timestamp(view, path),
        transaction_file=view.transaction_file,
        transaction=decode_transaction(content, view, path),
        reader_flags=view.reader_feature_flags,
        writer_flags=view.writer_feature_flags,
        branch=view.branch if view.HasField("branch") else None,
        fragments=tuple(view.fragments),
        index_section=index_section(content, view, path),
        base_paths=tuple(_base_path(base, path) for base in view.base_paths),
        has_fragment_tree=view.HasField("fragment_tree"),
        may_miscount=bool(view.fragments) and _miscounts(view, path),
        writer=view.writer_version,
    )


def _base_path(serialised: bytes, path: str) -> BasePath:
    return BasePath.from_proto(parse_message(table_pb2.BasePath, serialised, path, "base_paths"))


def _miscounts(view: summary_pb2.ManifestView, path: str) -> bool:
    if not view.HasField("writer_version"):
        return True
    writer = parse_message(table_pb2.Manifest.WriterVersion, view.writer_version, path, "writer_version")
    return WriterVersion(writer.library, writer.version).miscounts


def read_summary(store: Store, location: ManifestLocation) -> ManifestSummary:
    """Read a summary; see `read_manifest`."""
    path = f"{store.uri}/{location.path}"
    summary = decode_summary(read_bytes(store, location), path=path)
    check_version(summary.version, location, path)
    return summary
