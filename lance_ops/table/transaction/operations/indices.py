"""CreateIndex: the operation that adds, replaces and drops index segments."""

import uuid
from dataclasses import dataclass
from typing import ClassVar

from lance_ops.file.schema.model import Schema
from lance_ops.pb import transaction_pb2
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import ids_of
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.apply_indices import create_indices
from lance_ops.table.transaction.operations.base import (
    CommittedOperation,
    ManifestOptions,
    Scope,
    listed,
    rest,
)


@dataclass(frozen=True, slots=True)
class CreateIndex(CommittedOperation):
    """Add, replace or drop index segments. Segments are removed by UUID, never by name."""

    name: ClassVar[str] = "CreateIndex"
    wire_name: ClassVar[str] = "create_index"
    keeps_data: ClassVar[bool] = True
    scope: ClassVar[Scope] = Scope.NAMED
    new_indices: tuple[IndexMetadata, ...]
    removed_indices: tuple[IndexMetadata, ...] = ()

    @property
    def index_names(self) -> frozenset[str]:
        """Return names of the indices whose segments it builds, replaces or drops."""
        return frozenset(index.name for index in (*self.new_indices, *self.removed_indices))

    def files(self) -> frozenset[str]:
        return frozenset(f"{index.directory}/" for index in self.new_indices if index.base_id is None)

    def describe(self) -> str:
        added = sorted({index.name for index in self.new_indices})
        if added:
            return f"CreateIndex of {listed(added)}"
        return f"CreateIndex that drops {listed(sorted({index.name for index in self.removed_indices}))}"

    def changed_fragments(self) -> frozenset[int]:
        return frozenset()

    def numbered_fragments(self) -> tuple[Fragment, ...]:
        return ()

    def removed_segments(self) -> frozenset[uuid.UUID]:
        return frozenset(index.uuid for index in self.removed_indices)

    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        """Return without checks: `apply` checks against the head."""

    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        ids = frozenset(ids_of(current.fragments))
        return current.replace(
            indices=create_indices(
                current.indices,
                self.new_indices,
                removed=self.removed_segments(),
                schema=current.schema,
                fragment_ids=ids,
            )
        )

    def encode(self, message: transaction_pb2.Transaction.CreateIndex) -> None:
        message.new_indices.extend(index.to_proto() for index in self.new_indices)
        message.removed_indices.extend(index.to_proto() for index in self.removed_indices)

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction.CreateIndex, *, path: str) -> "CreateIndex":
        return cls(
            tuple(IndexMetadata.from_proto(index, path=path) for index in message.new_indices),
            tuple(IndexMetadata.from_proto(index, path=path) for index in message.removed_indices),
            unknown=rest(message, "new_indices", "removed_indices"),
        )
