"""Rewrite and ReserveFragments: operations of compaction.

Rewrite groups: check that the new fragments have all live rows and columns of the old ones. Pure.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from google.protobuf.any_pb2 import Any as AnyMessage

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Field, Schema
from lance_ops.pb import table_pb2, transaction_pb2
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import by_id, ids_of
from lance_ops.table.manifest.index_metadata import IndexFile, IndexMetadata
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.wire import uuid_from_proto
from lance_ops.table.transaction.apply_fragments import next_fragment_id, rewrite_fragments
from lance_ops.table.transaction.apply_indices import rewrite_indices
from lance_ops.table.transaction.operations.base import (
    CommittedOperation,
    ManifestOperation,
    ManifestOptions,
    Scope,
    count,
    data_files,
    deletion_files,
    files_of,
    fragment_list,
    fragment_messages,
    fragments_of,
    listed,
    rest,
)
from lance_ops.table.transaction.operations.checks import check_files, check_row_ids, wrong
from lance_ops.table.transaction.rewrite_group import RewriteGroup, RewrittenIndex


def check_group(manifest: Manifest, group: RewriteGroup) -> None:
    """Refuse a group that would lose or add rows, columns or row ids.

    Raises:
        InvalidArgumentError: The group is invalid.
    """
    before = sum(fragment.num_rows for fragment in group.old_fragments)
    after = sum(fragment.num_rows for fragment in group.new_fragments)
    if before != after:
        ids = [fragment.id for fragment in group.old_fragments]
        raise InvalidArgumentError(
            f"rewriting fragments {ids[:8]} would turn {before:,} live rows into {after:,}", field="groups"
        )
    if not group.new_fragments:
        return
    _check_columns(group, manifest.schema)
    if group.is_in_place:
        (old,), (new,) = group.old_fragments, group.new_fragments
        if new.replace(files=old.files) != old:
            raise wrong("a rewrite in place may only change data files", new)
        return
    stable = manifest.uses_stable_row_ids
    check_row_ids(group.new_fragments, required=stable, allowed=stable)


def _check_columns(group: RewriteGroup, schema: Schema) -> None:
    stored = _stored_fields(group.old_fragments)
    leaves = {leaf.id: line for leaf, line in _leaves(schema) if _is_stored(line, stored)}
    for fragment in group.new_fragments:
        if not fragment.files or fragment.physical_rows <= 0:
            raise wrong("it has no data", fragment)
        present = _stored_fields([fragment])
        lost = [schema.path(leaf) for leaf, line in leaves.items() if not _is_stored(line, present)]
        if lost:
            raise wrong(f"columns {', '.join(lost[:8])} would be lost", fragment)


def _stored_fields(fragments: Iterable[Fragment]) -> set[int]:
    return {field_id for fragment in fragments for file in fragment.files for field_id in file.fields}


def _leaves(schema: Schema) -> Iterable[tuple[Field, Sequence[Field]]]:
    def descend(node: Field, line: tuple[Field, ...]) -> Iterable[tuple[Field, Sequence[Field]]]:
        line = (*line, node)
        if not node.children:
            yield node, line
        for child in node.children:
            yield from descend(child, line)

    for top in schema.fields:
        yield from descend(top, ())


def _is_stored(line: Sequence[Field], stored: set[int]) -> bool:
    """Return whether the files have the last field of a path of fields.

    Storage versions differ in which fields of a struct they list: all, the leaves only, or a packed struct
    alone.
    """
    *ancestors, leaf = line
    if leaf.id in stored:
        return True
    for ancestor in reversed(ancestors):
        if ancestor.id in stored:
            return not any(node.id in stored for node in ancestor.walk() if node is not ancestor)
    return False


Proto = transaction_pb2.Transaction


@dataclass(frozen=True, slots=True)
class Rewrite(CommittedOperation):
    """Rewrite data files without changing rows.

    Attributes:
        groups: Replaced fragments and their replacements.
        rewritten_indices: Segments that were remapped.
        fragment_reuse_index: The reuse index that this rewrite replaces. It is not part of the message, so it
            is None in every operation read from a transaction.
    """

    name: ClassVar[str] = "Rewrite"
    wire_name: ClassVar[str] = "rewrite"
    keeps_data: ClassVar[bool] = True
    scope: ClassVar[Scope] = Scope.NAMED
    groups: tuple[RewriteGroup, ...]
    rewritten_indices: tuple[RewrittenIndex, ...] = ()
    fragment_reuse_index: IndexMetadata | None = None

    @property
    def new_fragments(self) -> tuple[Fragment, ...]:
        """The replacements of all groups."""
        return tuple(fragment for group in self.groups for fragment in group.new_fragments)

    def replaced_files(self) -> frozenset[str]:
        """Return files of the fragments that it replaces, as `files` names them, in any base."""
        old = (files_of(fragment) for group in self.groups for fragment in group.old_fragments)
        kept = (files_of(new) for group in self.groups if group.is_in_place for new in group.new_fragments)
        return frozenset().union(*old).difference(*kept)

    def new_data_files(self) -> frozenset[str]:
        """Return the data files that it adds, relative to the root; none of other bases."""
        return data_files(self._with_new_files())

    def _with_new_files(self) -> tuple[Fragment, ...]:
        """Return the new fragments, those in place with their new data files alone."""
        return tuple(
            fragment.replace(
                files=tuple(file for file in fragment.files if file not in group.old_fragments[0].files),
                overlays=(),
                deletion_file=None,
            )
            if group.is_in_place
            else fragment
            for group in self.groups
            for fragment in group.new_fragments
        )

    def files(self) -> frozenset[str]:
        segments = (f"_indices/{index.new_uuid}/" for index in self.rewritten_indices)
        reuse = () if self.fragment_reuse_index is None else (f"{self.fragment_reuse_index.directory}/",)
        # The new fragments have deletion files if rows were deleted after they had been read.
        own = self.new_data_files() | deletion_files(self._with_new_files())
        return own.union(segments, reuse)

    def describe(self) -> str:
        new = sorted(fragment.id for fragment in self.new_fragments)
        return f"Rewrite of {fragment_list(self.changed_fragments())} into {listed(new) or 'none'}"

    def changed_fragments(self) -> frozenset[int]:
        return frozenset(fragment.id for group in self.groups for fragment in group.old_fragments)

    def moved_fragments(self) -> frozenset[int]:
        """Return ids of the replaced fragments whose rows get other addresses."""
        moved = (group for group in self.groups if not group.is_in_place)
        return frozenset(fragment.id for group in moved for fragment in group.old_fragments)

    def numbered_fragments(self) -> tuple[Fragment, ...]:
        # Their ids were reserved before, or are those of the fragments they replace.
        return ()

    def removed_segments(self) -> frozenset[uuid.UUID]:
        return frozenset(index.old_uuid for index in self.rewritten_indices)

    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        existing = by_id(manifest.fragments)
        old_ids: set[int] = set()
        for group in self.groups:
            if not group.old_fragments:
                raise InvalidArgumentError(
                    "a rewrite group must replace at least one fragment", field="groups"
                )
            for fragment in group.old_fragments:
                if existing.get(fragment.id) != fragment:
                    raise wrong(f"it is not the fragment of that id in version {manifest.version}", fragment)
                if fragment.id in old_ids:
                    raise wrong("it is rewritten twice", fragment)
                old_ids.add(fragment.id)
            check_group(manifest, group)
        check_files(manifest, self._with_new_files())

    def check_reserved_ids(self, head: Manifest) -> None:
        """Refuse new fragments whose ids were not reserved by the rewrite; those in place keep theirs.

        Args:
            head: The version to commit on; the ids are reserved after its read version.

        Raises:
            InvalidArgumentError: An id is in use, or was never reserved.
        """
        taken = ids_of(head.fragments)
        moved = (group for group in self.groups if not group.is_in_place)
        for fragment in (fragment for group in moved for fragment in group.new_fragments):
            if fragment.id in taken:
                raise wrong("its id is in use", fragment)
            if head.max_fragment_id is None or fragment.id > head.max_fragment_id:
                raise wrong(
                    "its id was not reserved", fragment, hint="commit ReserveFragments before the Rewrite"
                )
            taken.add(fragment.id)

    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        self.check_reserved_ids(current)
        return current.replace(
            fragments=rewrite_fragments(current.fragments, self.groups),
            indices=rewrite_indices(
                current.indices,
                self.groups,
                self.rewritten_indices,
                reuse=self.fragment_reuse_index,
                stable_row_ids=current.uses_stable_row_ids,
            ),
        )

    def encode(self, message: Proto.Rewrite) -> None:
        for group in self.groups:
            message.groups.add(
                old_fragments=fragment_messages(group.old_fragments),
                new_fragments=fragment_messages(group.new_fragments),
            )
        for index in self.rewritten_indices:
            rewritten = message.rewritten_indices.add(
                old_id=table_pb2.UUID(uuid=index.old_uuid.bytes),
                new_id=table_pb2.UUID(uuid=index.new_uuid.bytes),
                new_index_version=index.index_version,
                new_index_files=[
                    table_pb2.IndexFile(path=file.path, size_bytes=file.size_bytes) for file in index.files
                ],
            )
            if index.type_url is not None:
                details = AnyMessage(type_url=index.type_url, value=index.details)
                rewritten.new_index_details.CopyFrom(details)

    @classmethod
    def decode(cls, message: Proto.Rewrite, *, path: str) -> "Rewrite":
        groups = [
            RewriteGroup(fragments_of(group.old_fragments), fragments_of(group.new_fragments))
            for group in message.groups
        ]
        # The flat form of old writers is one group; the commit assigned the ids of its new fragments.
        if message.old_fragments or message.new_fragments:
            old, new = fragments_of(message.old_fragments), fragments_of(message.new_fragments)
            groups.append(RewriteGroup(old, new))
        return cls(
            tuple(groups),
            tuple(_rewritten_index(index, path) for index in message.rewritten_indices),
            unknown=rest(message, "groups", "rewritten_indices", "old_fragments", "new_fragments"),
        )


def _rewritten_index(message: Proto.Rewrite.RewrittenIndex, path: str) -> RewrittenIndex:
    has_details = message.HasField("new_index_details")
    return RewrittenIndex(
        uuid_from_proto(message.old_id, path=path, field="rewrite.rewritten_indices.old_id"),
        uuid_from_proto(message.new_id, path=path, field="rewrite.rewritten_indices.new_id"),
        message.new_index_details.type_url if has_details else None,
        message.new_index_details.value if has_details else b"",
        message.new_index_version,
        tuple(IndexFile(file.path, file.size_bytes) for file in message.new_index_files),
    )


@dataclass(frozen=True, slots=True)
class ReserveFragments(ManifestOperation):
    """Raise the highest fragment id, for a later Rewrite."""

    name: ClassVar[str] = "ReserveFragments"
    wire_name: ClassVar[str] = "reserve_fragments"
    keeps_data: ClassVar[bool] = True
    scope: ClassVar[Scope] = Scope.NAMED
    num_fragments: int

    def describe(self) -> str:
        return f"ReserveFragments of {count(self.num_fragments, 'id')}"

    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        if self.num_fragments <= 0:
            raise InvalidArgumentError(
                f"num_fragments must be at least 1, got {self.num_fragments}", field="num_fragments"
            )

    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        return current.replace(max_fragment_id=next_fragment_id(current) + self.num_fragments - 1)

    def encode(self, message: Proto.ReserveFragments) -> None:
        message.num_fragments = self.num_fragments

    @classmethod
    def decode(cls, message: Proto.ReserveFragments, *, path: str) -> "ReserveFragments":
        return cls(message.num_fragments, unknown=rest(message, "num_fragments"))
