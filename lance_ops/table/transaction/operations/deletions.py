"""Delete and Update: operations that delete rows, and replace them by others."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pyroaring import BitMap

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.pb import transaction_pb2
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import with_fragments
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.apply_fragments import new_fragments, touch_rows, without_dropped
from lance_ops.table.transaction.apply_indices import without_fields
from lance_ops.table.transaction.apply_mem_wal import MergedGeneration, record_merged
from lance_ops.table.transaction.key_filter import KeyFilter
from lance_ops.table.transaction.operations.base import (
    CommittedOperation,
    ManifestOptions,
    Scope,
    condition,
    data_files,
    deletion_files,
    fragment_list,
    fragment_messages,
    fragments_of,
    rest,
    rows_in,
)
from lance_ops.table.transaction.operations.checks import (
    check_columns_updated,
    check_deletions,
    check_files,
    check_moved_rows,
    check_new_fragments,
    check_no_deletions,
)


@dataclass(frozen=True, slots=True)
class Delete(CommittedOperation):
    """Mark rows deleted: fragments with new deletion files, ids of emptied fragments, the predicate."""

    name: ClassVar[str] = "Delete"
    wire_name: ClassVar[str] = "delete"
    keeps_data: ClassVar[bool] = False
    scope: ClassVar[Scope] = Scope.NAMED
    updated_fragments: tuple[Fragment, ...]
    deleted_fragment_ids: tuple[int, ...]
    predicate: str

    def files(self) -> frozenset[str]:
        return deletion_files(self.updated_fragments)

    def describe(self) -> str:
        return f"Delete in {fragment_list(self.changed_fragments())}{condition(self.predicate)}"

    def changed_fragments(self) -> frozenset[int]:
        return frozenset(part.id for part in self.updated_fragments).union(self.deleted_fragment_ids)

    def emptied_fragments(self) -> frozenset[int]:
        """Return ids of the fragments that lose their last row."""
        return frozenset(self.deleted_fragment_ids)

    def numbered_fragments(self) -> tuple[Fragment, ...]:
        return ()

    def removed_segments(self) -> frozenset[uuid.UUID]:
        return frozenset()

    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        check_deletions(manifest, self.updated_fragments, self.deleted_fragment_ids)

    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        return current.replace(
            fragments=with_fragments(current.fragments, self.updated_fragments, self.deleted_fragment_ids)
        )

    def encode(self, message: transaction_pb2.Transaction.Delete) -> None:
        message.updated_fragments.extend(fragment_messages(self.updated_fragments))
        message.deleted_fragment_ids.extend(self.deleted_fragment_ids)
        message.predicate = self.predicate

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction.Delete, *, path: str) -> "Delete":
        return cls(
            fragments_of(message.updated_fragments),
            tuple(message.deleted_fragment_ids),
            message.predicate,
            unknown=rest(message, "updated_fragments", "deleted_fragment_ids", "predicate"),
        )


@dataclass(frozen=True, slots=True)
class Update(CommittedOperation):
    """Update rows: fragments removed, fragments with new deletion or data files, fragments added.

    Replacing rows come first in their fragment, with the stable ids and creation versions of the replaced
    rows, if the dataset has stable ids; other rows of it are new.

    Rows may also be updated in place, by new data files of their fragments for some columns: then
    `fields_modified` names these columns.

    Attributes:
        fields_modified: Fields with changed values in the updated fragments.
        preserving_fields: Fields with changed values in the new fragments, from which pylance derives which
            indices may cover them.
        inserted_keys: Keys of newly inserted rows; None if they are not needed.
        rewrites_columns: It is marked as an in-place update of columns.
        offsets: Roaring bitmaps of the rows updated in place, by fragment; without them, row versions are
            unchanged, as in pylance.
        merged_generations: Last generation of each MemWAL shard whose rows it brings.
        sees_new_rows: It would have updated rows that others add concurrently. Not stored.
    """

    name: ClassVar[str] = "Update"
    wire_name: ClassVar[str] = "update"
    keeps_data: ClassVar[bool] = False
    scope: ClassVar[Scope] = Scope.NAMED
    removed_fragment_ids: tuple[int, ...]
    updated_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]
    fields_modified: tuple[int, ...] = ()
    preserving_fields: tuple[int, ...] = ()
    inserted_keys: KeyFilter | None = None
    rewrites_columns: bool = False
    offsets: Mapping[int, bytes] = field(default_factory=dict)
    merged_generations: tuple[MergedGeneration, ...] = ()
    sees_new_rows: bool = field(default=True, compare=False)

    def files(self) -> frozenset[str]:
        changed = data_files(self.updated_fragments) if self.fields_modified else frozenset()
        return changed | deletion_files(self.updated_fragments) | data_files(self.new_fragments)

    def describe(self) -> str:
        what = f"Update in {fragment_list(self.changed_fragments())}"
        if self.new_fragments:
            what += f" with {rows_in(self.new_fragments, 'new row')}"
        for item in self.merged_generations:
            what += f", MemWAL up to generation {item.generation} of shard {item.shard}"
        return what

    def changed_fragments(self) -> frozenset[int]:
        return frozenset(part.id for part in self.updated_fragments).union(self.removed_fragment_ids)

    def emptied_fragments(self) -> frozenset[int]:
        """Return ids of the fragments that lose their last row."""
        return frozenset(self.removed_fragment_ids)

    def numbered_fragments(self) -> tuple[Fragment, ...]:
        return self.new_fragments

    def removed_segments(self) -> frozenset[uuid.UUID]:
        return frozenset()

    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        if self.unknown:
            raise InvalidArgumentError(
                "the update has parts that are not implemented: it can be read in history, not committed",
                field="unknown",
            )
        if self.fields_modified:
            check_columns_updated(manifest, self.updated_fragments, self.removed_fragment_ids)
            for number, data in self.offsets.items():
                _offsets(data, number, self.updated_fragments)
        else:
            check_deletions(manifest, self.updated_fragments, self.removed_fragment_ids)
        check_new_fragments(self.new_fragments, schema or manifest.schema)
        check_no_deletions(self.new_fragments)
        check_files(manifest, self.new_fragments)
        check_moved_rows(manifest, self.new_fragments)

    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        new, next_row_id = new_fragments(current, without_dropped(self.new_fragments, current.schema))
        updated = self.updated_fragments
        indices = current.indices
        if self.fields_modified:
            fields = frozenset(self.fields_modified)
            indices = without_fields(indices, current.schema, fields, frozenset(part.id for part in updated))
            if current.uses_stable_row_ids:
                updated = tuple(
                    touch_rows(part, current.version + 1, _offsets(self.offsets[part.id], part.id, updated))
                    if part.id in self.offsets
                    else part
                    for part in updated
                )
        fragments = with_fragments(current.fragments, updated, self.removed_fragment_ids, new)
        indices = record_merged(indices, self.merged_generations, current.version + 1)
        return current.replace(fragments=fragments, next_row_id=next_row_id, indices=indices)

    def encode(self, message: transaction_pb2.Transaction.Update) -> None:
        message.removed_fragment_ids.extend(self.removed_fragment_ids)
        message.updated_fragments.extend(fragment_messages(self.updated_fragments))
        message.new_fragments.extend(fragment_messages(self.new_fragments))
        message.fields_modified.extend(self.fields_modified)
        message.fields_for_preserving_frag_bitmap.extend(self.preserving_fields)
        if self.inserted_keys is not None:
            self.inserted_keys.encode(message.inserted_rows)
        if self.rewrites_columns:
            message.update_mode = transaction_pb2.Transaction.REWRITE_COLUMNS
        message.merged_generations.extend(item.to_proto() for item in self.merged_generations)
        for number in sorted(self.offsets):
            message.updated_fragment_offset_bitmaps[number] = self.offsets[number]

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction.Update, *, path: str) -> "Update":
        return cls(
            tuple(message.removed_fragment_ids),
            fragments_of(message.updated_fragments),
            fragments_of(message.new_fragments),
            tuple(message.fields_modified),
            tuple(message.fields_for_preserving_frag_bitmap),
            KeyFilter.decode(message.inserted_rows) if message.HasField("inserted_rows") else None,
            message.update_mode == transaction_pb2.Transaction.REWRITE_COLUMNS,
            dict(message.updated_fragment_offset_bitmaps),
            tuple(map(MergedGeneration.from_proto, message.merged_generations)),
            unknown=rest(
                message,
                "removed_fragment_ids",
                "updated_fragments",
                "new_fragments",
                "fields_modified",
                "fields_for_preserving_frag_bitmap",
                "inserted_rows",
                "update_mode",
                "updated_fragment_offset_bitmaps",
                "merged_generations",
            ),
        )


def _offsets(data: bytes, number: int, updated: Sequence[Fragment]) -> Sequence[int]:
    """Decode the offsets of a bitmap.

    Raises:
        InvalidArgumentError: It is invalid, or has rows that the fragment does not have.
    """
    rows = next((part.physical_rows for part in updated if part.id == number), 0)
    try:
        found = list(BitMap.deserialize(data))
    except (ValueError, MemoryError) as error:
        raise InvalidArgumentError(
            f"the row offsets of fragment {number} cannot be decoded: {error}", field="offsets"
        ) from error
    if found and found[-1] >= rows:
        raise InvalidArgumentError(
            f"row {found[-1]} of fragment {number} does not exist: it has {rows}", field="offsets"
        )
    return found
