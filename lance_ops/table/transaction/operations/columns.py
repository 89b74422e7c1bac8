"""Merge, Project and DataReplacement: operations on columns."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.pb import transaction_pb2
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import by_id, with_fragments
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.apply_fragments import project_fragments, replace_columns, touch_rows
from lance_ops.table.transaction.apply_indices import indices_of_schema, without_fields
from lance_ops.table.transaction.operations.base import (
    CommittedOperation,
    ManifestOperation,
    ManifestOptions,
    Scope,
    data_files,
    deletion_files,
    fragment_list,
    fragment_messages,
    fragments_of,
    listed,
    rest,
    schema_metadata,
    schema_of,
)
from lance_ops.table.transaction.operations.checks import check_files, wrong

Proto = transaction_pb2.Transaction


@dataclass(frozen=True, slots=True)
class Merge(CommittedOperation):
    """Add columns: the full fragment list and the new schema.

    `preserves_nullability`: no column became required and no new one is, so that rows written without
    knowledge of the change stay valid. `schema_only`: the fragments are those of the read version, or of any
    later one: new columns are null in all rows. It is not stored.
    """

    name: ClassVar[str] = "Merge"
    wire_name: ClassVar[str] = "merge"
    keeps_data: ClassVar[bool] = False
    scope: ClassVar[Scope] = Scope.OPEN
    fragments: tuple[Fragment, ...]
    schema: Schema
    preserves_nullability: bool = False
    schema_only: bool = field(default=False, compare=False)

    def files(self) -> frozenset[str]:
        return data_files(self.fragments) | deletion_files(self.fragments)

    def describe(self) -> str:
        return f"Merge to columns {listed(self.schema.names)}"

    def changed_fragments(self) -> frozenset[int]:
        # It may add columns to any fragment, and updates no value.
        return frozenset()

    def numbered_fragments(self) -> tuple[Fragment, ...]:
        return ()

    def removed_segments(self) -> frozenset[uuid.UUID]:
        return frozenset()

    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        new = {fragment.id: fragment for fragment in self.fragments}
        if len(new) != len(self.fragments):
            raise InvalidArgumentError("a fragment occurs twice in the merge", field="fragments")
        for fragment in manifest.fragments:
            merged = new.pop(fragment.id, None)
            if merged is None:
                raise wrong("the merge omits it", fragment)
            before = (fragment.physical_rows, fragment.deletion_file)
            if (merged.physical_rows, merged.deletion_file) != before:
                raise wrong("the merge would change its rows", fragment)
        if new:
            raise InvalidArgumentError(f"the merge adds fragments {sorted(new)[:8]}", field="fragments")

    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        fragments = project_fragments(self.fragments, self.schema)
        if current.uses_stable_row_ids:
            # As in pylance: a fragment with an additional value was changed.
            before = {fragment.id: fragment.files for fragment in current.fragments}
            fragments = tuple(
                fragment if self._keeps(fragment, before) else touch_rows(fragment, current.version + 1)
                for fragment in fragments
            )
        return current.replace(
            schema=self.schema,
            fragments=fragments,
            indices=indices_of_schema(current.indices, self.schema),
        )

    @staticmethod
    def _keeps(fragment: Fragment, before: Mapping[int, tuple[DataFile, ...]]) -> bool:
        return set(fragment.files) <= set(before.get(fragment.id, ()))

    def encode(self, message: Proto.Merge) -> None:
        message.fragments.extend(fragment_messages(self.fragments))
        message.schema.extend(self.schema.to_protos())
        message.schema_metadata.update(schema_metadata(self.schema))
        message.preserves_nullability = self.preserves_nullability

    @classmethod
    def decode(cls, message: Proto.Merge, *, path: str) -> "Merge":
        return cls(
            fragments_of(message.fragments),
            schema_of(message.schema, message.schema_metadata),
            message.preserves_nullability,
            unknown=rest(message, "fragments", "schema", "schema_metadata", "preserves_nullability"),
        )


@dataclass(frozen=True, slots=True)
class Project(ManifestOperation):
    """Drop columns: the remaining schema; `preserves_nullability` as in `Merge`."""

    name: ClassVar[str] = "Project"
    wire_name: ClassVar[str] = "project"
    keeps_data: ClassVar[bool] = False
    scope: ClassVar[Scope] = Scope.OPEN
    schema: Schema
    preserves_nullability: bool = False

    def describe(self) -> str:
        return f"Project to columns {listed(self.schema.names)}"

    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        added = {node.id for node in self.schema.walk()} - {node.id for node in manifest.schema.walk()}
        if added:
            raise InvalidArgumentError(f"fields {sorted(added)[:8]} are not in the dataset", field="schema")

    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        schema = replace(self.schema, metadata=current.schema.metadata)
        return current.replace(
            schema=schema,
            fragments=project_fragments(current.fragments, schema),
            indices=indices_of_schema(current.indices, schema),
        )

    def encode(self, message: Proto.Project) -> None:
        message.schema.extend(self.schema.to_protos())
        message.preserves_nullability = self.preserves_nullability

    @classmethod
    def decode(cls, message: Proto.Project, *, path: str) -> "Project":
        return cls(
            schema_of(message.schema),
            message.preserves_nullability,
            unknown=rest(message, "schema", "preserves_nullability"),
        )


@dataclass(frozen=True, slots=True)
class DataReplacement(CommittedOperation):
    """Replace whole columns of fragments: (fragment id, new file) each; the rows are unchanged."""

    name: ClassVar[str] = "DataReplacement"
    wire_name: ClassVar[str] = "data_replacement"
    keeps_data: ClassVar[bool] = False
    scope: ClassVar[Scope] = Scope.NAMED
    replacements: tuple[tuple[int, DataFile], ...]

    @property
    def fields(self) -> frozenset[int]:
        """Fields whose values are replaced."""
        return frozenset(number for _, file in self.replacements for number in file.fields if number >= 0)

    def files(self) -> frozenset[str]:
        return frozenset(
            f"{DATA_DIRECTORY}/{file.path}" for _, file in self.replacements if file.base_id is None
        )

    def describe(self) -> str:
        return f"DataReplacement in {fragment_list(self.changed_fragments())}"

    def changed_fragments(self) -> frozenset[int]:
        return frozenset(fragment_id for fragment_id, _ in self.replacements)

    def numbered_fragments(self) -> tuple[Fragment, ...]:
        return ()

    def removed_segments(self) -> frozenset[uuid.UUID]:
        return frozenset()

    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        known = {node.id for node in manifest.schema.walk()}
        present = by_id(manifest.fragments)
        if len(self.changed_fragments()) != len(self.replacements):
            raise InvalidArgumentError("a fragment is listed twice in the replacement", field="replacements")
        for number, file in self.replacements:
            if number not in present:
                raise InvalidArgumentError(
                    f"fragment {number} is not in version {manifest.version}", field="replacements"
                )
            fragment = present[number].replace(files=(file,))
            if not file.fields or any(item < 0 for item in file.fields):
                raise wrong("the new file has fields that are not columns", fragment)
            unknown = set(file.fields) - known
            if unknown:
                raise wrong(f"fields {sorted(unknown)} are not in the dataset", fragment)
            if present[number].has_overlays:
                raise wrong("it has overlays, which would override the new values", fragment)
            check_files(manifest, [fragment])

    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        present = by_id(current.fragments)
        changed = [
            replace_columns(present[number], file) for number, file in self.replacements if number in present
        ]
        if current.uses_stable_row_ids:
            changed = [touch_rows(fragment, current.version + 1) for fragment in changed]
        ids = self.changed_fragments()
        return current.replace(
            fragments=with_fragments(current.fragments, changed),
            indices=without_fields(current.indices, current.schema, self.fields, ids),
        )

    def encode(self, message: Proto.DataReplacement) -> None:
        for fragment_id, file in self.replacements:
            message.replacements.add(fragment_id=fragment_id, new_file=file.to_proto())

    @classmethod
    def decode(cls, message: Proto.DataReplacement, *, path: str) -> "DataReplacement":
        return cls(
            tuple(
                (replacement.fragment_id, DataFile.from_proto(replacement.new_file))
                for replacement in message.replacements
            ),
            unknown=rest(message, "replacements"),
        )
