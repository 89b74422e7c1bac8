"""Delete and Update: operations that mark rows deleted, and put others in their place."""

import uuid
from dataclasses import dataclass
from typing import ClassVar

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.pb import transaction_pb2
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.apply_fragments import new_fragments, replace_fragments
from lance_ops.table.transaction.operations.base import CommittedOperation, ManifestOptions, Scope
from lance_ops.table.transaction.operations.checks import check_added, check_deletions, wrong
from lance_ops.table.transaction.operations.files import data_files, deletion_files
from lance_ops.table.transaction.operations.messages import fragment_messages, fragments_of, rest
from lance_ops.table.transaction.operations.text import condition, fragment_list, rows_in


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

    def numbered_fragments(self) -> tuple[Fragment, ...]:
        return ()

    def removed_segments(self) -> frozenset[uuid.UUID]:
        return frozenset()

    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        check_deletions(manifest, self.updated_fragments, self.deleted_fragment_ids)

    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        return current.replace(
            fragments=replace_fragments(current.fragments, self.updated_fragments, self.deleted_fragment_ids)
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
    """Change rows: fragments removed, fragments with new deletion or data files, fragments added."""

    name: ClassVar[str] = "Update"
    wire_name: ClassVar[str] = "update"
    keeps_data: ClassVar[bool] = False
    scope: ClassVar[Scope] = Scope.NAMED
    removed_fragment_ids: tuple[int, ...]
    updated_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]
    fields_modified: tuple[int, ...] = ()

    def files(self) -> frozenset[str]:
        return deletion_files(self.updated_fragments) | data_files(self.new_fragments)

    def describe(self) -> str:
        where = f"Update in {fragment_list(self.changed_fragments())}"
        return f"{where} with {rows_in(self.new_fragments, 'new row')}" if self.new_fragments else where

    def changed_fragments(self) -> frozenset[int]:
        return frozenset(part.id for part in self.updated_fragments).union(self.removed_fragment_ids)

    def numbered_fragments(self) -> tuple[Fragment, ...]:
        return self.new_fragments

    def removed_segments(self) -> frozenset[uuid.UUID]:
        return frozenset()

    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        """As in `CommittedOperation`; only the form that replaces rows by new ones is committed.

        Rows that keep their ids, and other values for some columns, are not that form.
        """
        if self.fields_modified or self.unknown:
            raise InvalidArgumentError(
                "an update that changes columns in place can be read in history, not committed",
                field="fields_modified",
            )
        for fragment in self.new_fragments:
            if fragment.row_ids is not None:
                raise wrong("the new rows of an update have no row ids yet", fragment)
        check_deletions(manifest, self.updated_fragments, self.removed_fragment_ids)
        check_added(manifest, self.new_fragments, schema or manifest.schema)

    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        new, next_row_id = new_fragments(current, self.new_fragments)
        kept = replace_fragments(current.fragments, self.updated_fragments, self.removed_fragment_ids)
        return current.replace(fragments=(*kept, *new), next_row_id=next_row_id)

    def encode(self, message: transaction_pb2.Transaction.Update) -> None:
        message.removed_fragment_ids.extend(self.removed_fragment_ids)
        message.updated_fragments.extend(fragment_messages(self.updated_fragments))
        message.new_fragments.extend(fragment_messages(self.new_fragments))
        message.fields_modified.extend(self.fields_modified)

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction.Update, *, path: str) -> "Update":
        return cls(
            tuple(message.removed_fragment_ids),
            fragments_of(message.updated_fragments),
            fragments_of(message.new_fragments),
            tuple(message.fields_modified),
            unknown=rest(
                message, "removed_fragment_ids", "updated_fragments", "new_fragments", "fields_modified"
            ),
        )
