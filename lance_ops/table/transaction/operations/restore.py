"""Restore: the operation that makes an old version the newest one."""

from dataclasses import dataclass
from typing import ClassVar

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.pb import transaction_pb2
from lance_ops.table.manifest.feature_flags import Feature
from lance_ops.table.manifest.listing import is_detached
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.apply_fragments import next_fragment_id
from lance_ops.table.transaction.operations.base import ManifestOperation, ManifestOptions, Scope, rest

_FOR_LIFE = Feature.MIXED_FILE_VERSIONS | Feature.MANAGED_BLOBS | Feature.TAGGED_REUSE


@dataclass(frozen=True, slots=True)
class Restore(ManifestOperation):
    """Make an old version the newest one."""

    name: ClassVar[str] = "Restore"
    wire_name: ClassVar[str] = "restore"
    keeps_data: ClassVar[bool] = False
    scope: ClassVar[Scope] = Scope.ALL
    version: int

    def describe(self) -> str:
        return f"Restore of version {self.version}"

    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        if is_detached(self.version):
            raise InvalidArgumentError(
                f"version {self.version} is detached: the history may use its fragment ids for other rows",
                field="version",
                hint="check it out and write its rows as an overwrite",
            )

    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        restored = options.restored
        if restored is None or restored.version != self.version:
            raise InvalidArgumentError(f"the manifest of version {self.version} is missing", field="restored")
        # Allocated ids stay allocated: the versions in between may still be read. The flag of mixed file
        # versions is kept too, as in pylance.
        kept = int(current.reader_flags & _FOR_LIFE)
        return restored.replace(
            reader_flags=restored.reader_flags | kept,
            max_fragment_id=max(next_fragment_id(current), next_fragment_id(restored)) - 1,
            next_row_id=max(current.next_row_id, restored.next_row_id),
            branch=current.branch,
        )

    def encode(self, message: transaction_pb2.Transaction.Restore) -> None:
        message.version = self.version

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction.Restore, *, path: str) -> "Restore":
        return cls(message.version, unknown=rest(message, "version"))
