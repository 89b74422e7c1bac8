"""The operations a transaction can carry, as values. Source: transaction.proto.

`operation_codec` maps them to and from the wire, `conflicts` says which pairs collide, `apply` builds the
next manifest.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from lance_ops.file.schema import Schema
from lance_ops.table.fragment import DataFile, Fragment
from lance_ops.table.index_metadata import IndexFile, IndexMetadata
from lance_ops.table.manifest import BasePath


@dataclass(frozen=True, slots=True)
class Operation:
    """Base of all operations.

    Attributes:
        name: Used in history, conflict messages and Dagster metadata.
        unknown: Serialised fields of the message that the value has no place for.
    """

    name: ClassVar[str] = "Operation"
    unknown: bytes = field(default=b"", kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Append(Operation):
    """Add new rows. Ids of the fragments are not assigned yet (0)."""

    name: ClassVar[str] = "Append"
    fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class Delete(Operation):
    """Mark rows deleted: fragments with new deletion files, ids of emptied fragments, the predicate."""

    name: ClassVar[str] = "Delete"
    updated_fragments: tuple[Fragment, ...]
    deleted_fragment_ids: tuple[int, ...]
    predicate: str


@dataclass(frozen=True, slots=True)
class Overwrite(Operation):
    """Create the dataset or replace all of it. Ids of the fragments are not assigned yet."""

    name: ClassVar[str] = "Overwrite"
    fragments: tuple[Fragment, ...]
    schema: Schema
    config_upsert: Mapping[str, str] = field(default_factory=dict)
    initial_bases: tuple[BasePath, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateIndex(Operation):
    """Add index segments, replace or drop them. Segments are removed by UUID, never by name."""

    name: ClassVar[str] = "CreateIndex"
    new_indices: tuple[IndexMetadata, ...]
    removed_indices: tuple[IndexMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Fragments replaced by others with the same live rows in the same order, under reserved ids."""

    old_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class RewrittenIndex:
    """An index segment whose row addresses moved along with a rewrite; `files` are those of the new one."""

    old_uuid: uuid.UUID
    new_uuid: uuid.UUID
    type_url: str | None = None
    details: bytes = b""
    index_version: int = 0
    files: tuple[IndexFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewrite(Operation):
    """Rearrange data without changing them.

    Attributes:
        groups: Replaced fragments and their replacements.
        rewritten_indices: Segments that were remapped.
        fragment_reuse_index: The reuse index that this rewrite replaces. The wire has no place for it, so it
            is None in every operation that was read from a transaction.
    """

    name: ClassVar[str] = "Rewrite"
    groups: tuple[RewriteGroup, ...]
    rewritten_indices: tuple[RewrittenIndex, ...] = ()
    fragment_reuse_index: IndexMetadata | None = None


@dataclass(frozen=True, slots=True)
class Merge(Operation):
    """Add columns: the full fragment list and the new schema.

    `preserves_nullability` promises that no column became or appeared required, so that rows written without
    knowledge of the change stay valid.
    """

    name: ClassVar[str] = "Merge"
    fragments: tuple[Fragment, ...]
    schema: Schema
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class Restore(Operation):
    """Make an old version the newest one."""

    name: ClassVar[str] = "Restore"
    version: int


@dataclass(frozen=True, slots=True)
class ReserveFragments(Operation):
    """Raise the highest fragment id, for a later Rewrite."""

    name: ClassVar[str] = "ReserveFragments"
    num_fragments: int


@dataclass(frozen=True, slots=True)
class Update(Operation):
    """Change rows: fragments removed, fragments with new deletion or data files, fragments added."""

    name: ClassVar[str] = "Update"
    removed_fragment_ids: tuple[int, ...]
    updated_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]
    fields_modified: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Project(Operation):
    """Drop columns: the schema that remains; `preserves_nullability` as in `Merge`."""

    name: ClassVar[str] = "Project"
    schema: Schema
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class MapUpdate:
    """Changes of a string map: a value of None removes the key; `replace` starts from an empty map."""

    entries: Mapping[str, str | None]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class UpdateConfig(Operation):
    """Change config, table, schema or field metadata (the last by field id). None leaves a map alone."""

    name: ClassVar[str] = "UpdateConfig"
    config: MapUpdate | None = None
    table_metadata: MapUpdate | None = None
    schema_metadata: MapUpdate | None = None
    field_metadata: Mapping[int, MapUpdate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DataReplacement(Operation):
    """Swap data files: (fragment id, new file) each."""

    name: ClassVar[str] = "DataReplacement"
    replacements: tuple[tuple[int, DataFile], ...]


@dataclass(frozen=True, slots=True)
class ForeignOperation(Operation):
    """An operation that lance_ops reads in history but never commits.

    Attributes:
        kind: Name of the wire message: DataOverlay, UpdateMemWalState, Clone, UpdateBases, or Unknown for a
            number that this version does not know.
        wire: The serialised message; empty for Unknown.
        fragment_ids: Fragments whose values a DataOverlay changes.
    """

    name: ClassVar[str] = "Foreign"
    kind: str
    wire: bytes = field(default=b"", repr=False)
    fragment_ids: tuple[int, ...] = ()


def kind_of(operation: Operation) -> str:
    """Name of the operation's wire message, by which history and the conflict matrix know it."""
    return operation.kind if isinstance(operation, ForeignOperation) else operation.name
