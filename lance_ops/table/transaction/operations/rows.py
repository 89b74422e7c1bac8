"""Append and Overwrite: operations that add rows."""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.pb import transaction_pb2
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import with_fragments
from lance_ops.table.manifest.model import BasePath, Manifest
from lance_ops.table.transaction.apply_fragments import (
    new_fragments,
    storage_version,
    without_dropped,
)
from lance_ops.table.transaction.operations.base import (
    CommittedOperation,
    ManifestOptions,
    Scope,
    data_files,
    fragment_messages,
    fragments_of,
    rest,
    rows_in,
    schema_metadata,
    schema_of,
)
from lance_ops.table.transaction.operations.checks import (
    check_added,
    check_new_fragments,
    check_no_deletions,
    check_once,
    check_row_ids,
)

_STORAGE_VERSION = re.compile(r"0\.1|2\.[0-9]+")


@dataclass(frozen=True, slots=True)
class Append(CommittedOperation):
    """Add new rows. Ids of the fragments are not assigned yet (0)."""

    name: ClassVar[str] = "Append"
    wire_name: ClassVar[str] = "append"
    keeps_data: ClassVar[bool] = False
    scope: ClassVar[Scope] = Scope.NAMED
    fragments: tuple[Fragment, ...]

    def files(self) -> frozenset[str]:
        return data_files(self.fragments)

    def describe(self) -> str:
        return f"Append of {rows_in(self.fragments)}"

    def changed_fragments(self) -> frozenset[int]:
        return frozenset()

    def numbered_fragments(self) -> tuple[Fragment, ...]:
        return self.fragments

    def removed_segments(self) -> frozenset[uuid.UUID]:
        return frozenset()

    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        check_added(manifest, self.fragments, schema or manifest.schema)

    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        new, next_row_id = new_fragments(current, without_dropped(self.fragments, current.schema))
        return current.replace(
            fragments=with_fragments(current.fragments, added=new), next_row_id=next_row_id
        )

    def encode(self, message: transaction_pb2.Transaction.Append) -> None:
        message.fragments.extend(fragment_messages(self.fragments))

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction.Append, *, path: str) -> "Append":
        return cls(fragments_of(message.fragments), unknown=rest(message, "fragments"))


@dataclass(frozen=True, slots=True)
class Overwrite(CommittedOperation):
    """Create the dataset or replace all of it. Ids of the fragments are not assigned yet."""

    name: ClassVar[str] = "Overwrite"
    wire_name: ClassVar[str] = "overwrite"
    keeps_data: ClassVar[bool] = False
    scope: ClassVar[Scope] = Scope.ALL
    fragments: tuple[Fragment, ...]
    schema: Schema
    config_upsert: Mapping[str, str] = field(default_factory=dict)
    initial_bases: tuple[BasePath, ...] = ()

    def files(self) -> frozenset[str]:
        return data_files(self.fragments)

    def describe(self) -> str:
        return f"Overwrite with {rows_in(self.fragments)}"

    def changed_fragments(self) -> frozenset[int]:
        return frozenset()

    def numbered_fragments(self) -> tuple[Fragment, ...]:
        return self.fragments

    def removed_segments(self) -> frozenset[uuid.UUID]:
        return frozenset()

    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        if self.initial_bases and manifest.version:
            raise InvalidArgumentError(
                "bases can only be declared when a dataset is created", field="initial_bases"
            )
        check_new_fragments(self.fragments, self.schema)
        check_no_deletions(self.fragments)
        check_once(self.fragments)
        versions = self._storage_versions()
        if len(versions) > 1:
            raise InvalidArgumentError(
                f"data files must have one storage version, got {', '.join(sorted(versions))}",
                field="fragments",
            )
        check_row_ids(self.fragments, required=False, allowed=manifest.uses_stable_row_ids)

    def _storage_versions(self) -> frozenset[str]:
        return frozenset(storage_version(file) for fragment in self.fragments for file in fragment.files)

    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        # Ids of fragments and rows continue: older versions still use the previous ones.
        new, next_row_id = new_fragments(current, self.fragments)
        versions = self._storage_versions()
        asked = options.data_storage_version
        if asked is not None and not _STORAGE_VERSION.fullmatch(asked):
            raise InvalidArgumentError(f"unknown storage version {asked!r}", field="data_storage_version")
        version = asked or current.storage_version
        if versions:
            (version,) = versions
            if asked not in (None, version):
                raise InvalidArgumentError(
                    f"the data files have storage version {version}, expected {asked}",
                    field="data_storage_version",
                )
        return current.replace(
            schema=self.schema,
            fragments=new,
            next_row_id=next_row_id,
            indices=(),
            data_format=("lance", version),
            config={**current.config, **self.config_upsert},
        )

    def encode(self, message: transaction_pb2.Transaction.Overwrite) -> None:
        message.fragments.extend(fragment_messages(self.fragments))
        message.schema.extend(self.schema.to_protos())
        message.schema_metadata.update(schema_metadata(self.schema))
        message.config_upsert_values.update(self.config_upsert)
        message.initial_bases.extend(base.to_proto() for base in self.initial_bases)

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction.Overwrite, *, path: str) -> "Overwrite":
        return cls(
            fragments_of(message.fragments),
            schema_of(message.schema, message.schema_metadata),
            dict(message.config_upsert_values),
            tuple(BasePath.from_proto(base) for base in message.initial_bases),
            unknown=rest(
                message, "fragments", "schema", "schema_metadata", "config_upsert_values", "initial_bases"
            ),
        )
