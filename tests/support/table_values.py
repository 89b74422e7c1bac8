"""Fragments, indices, manifests and transactions as values, for tests that touch no store."""

import uuid
from datetime import UTC, datetime

import pyarrow as pa

from lance_ops.file.schema.model import Schema
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import DeletionFile, DeletionFileType, Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.model import Manifest, WriterVersion
from lance_ops.table.transaction.operations import Operation
from lance_ops.table.transaction.transaction import Transaction, new_transaction

SCHEMA = Schema.from_arrow(pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string())]))
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BTREE = "/lance.table.BTreeIndexDetails"


def data_file(name: str, *, fields: tuple[int, ...] = (0, 1), minor: int = 0) -> DataFile:
    return DataFile(
        path=f"{name}.lance",
        fields=fields,
        column_indices=tuple(range(len(fields))),
        major=2,
        minor=minor,
        size_bytes=100,
    )


def fragment(
    fragment_id: int, rows: int = 10, *, deleted: int = 0, name: str | None = None, **more
) -> Fragment:
    """A fragment of one file; equal arguments give equal fragments."""
    deletion_file = DeletionFile(DeletionFileType.ARROW_ARRAY, 1, deleted, deleted) if deleted else None
    files = more.pop("files", (data_file(name or f"f{fragment_id}"),))
    return Fragment(fragment_id, files, rows, deletion_file, **more)


def index(
    name: str,
    fragment_ids: set[int] | None,
    *,
    fields: tuple[int, ...] = (0,),
    type_url: str | None = BTREE,
    index_version: int = 0,
) -> IndexMetadata:
    return IndexMetadata(
        uuid=uuid.uuid4(),
        name=name,
        fields=fields,
        dataset_version=1,
        fragment_ids=None if fragment_ids is None else frozenset(fragment_ids),
        type_url=type_url,
        index_version=index_version,
    )


def manifest(*fragments: Fragment, version: int = 1, **more) -> Manifest:
    """A version that holds these fragments."""
    more.setdefault("max_fragment_id", max((f.id for f in fragments), default=None))
    more.setdefault("writer_version", WriterVersion("lance_ops", "0.1.0"))
    return Manifest(
        version=version, schema=more.pop("schema", SCHEMA), fragments=fragments, timestamp=NOW, **more
    )


def transaction(operation: Operation, read_version: int = 1) -> Transaction:
    return new_transaction(operation, read_version)
