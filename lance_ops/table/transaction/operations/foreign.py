"""Foreign operations: lance_ops reads and preserves them, but never commits them."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lance_ops.pb import transaction_pb2
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.transaction.operations.base import Operation, Scope, fragment_list

UNKNOWN_KIND = "Unknown"
"""Kind of an operation with an unknown number."""

DRAFT_KINDS: Mapping[int, str] = {116: "CompositeOperation or AppendFragmentReuseTransitions"}
"""Kinds of operations without a message here, by field number; drafts of the format use one number twice."""

WIRE_NAMES: Mapping[str, str] = {
    "DataOverlay": "data_overlay",
    "UpdateMemWalState": "update_mem_wal_state",
    "Clone": "clone",
    "UpdateBases": "update_bases",
}
"""Kind to field of the transaction message."""

KEEP_DATA = frozenset({"UpdateMemWalState", "UpdateBases"})
"""Kinds that do not change rows or columns."""


@dataclass(frozen=True, slots=True)
class ForeignOperation(Operation):
    """Operation that lance_ops reads but never commits.

    Attributes:
        message_name: Name of the wire message: a key of `WIRE_NAMES`, one of `DRAFT_KINDS`, or Unknown for a
            number that this version does not know.
        wire: The serialised message; empty if there is no message for it here.
        fragment_ids: Fragments whose values a DataOverlay changes.
    """

    name: ClassVar[str] = "Foreign"
    wire_name: ClassVar[str] = ""
    keeps_data: ClassVar[bool] = False
    scope: ClassVar[Scope] = Scope.OPEN
    message_name: str
    wire: bytes = field(default=b"", repr=False)
    fragment_ids: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        return self.message_name

    @property
    def is_understood(self) -> bool:
        """Return whether its message is known: without one, a commit may have changed anything."""
        return self.message_name in WIRE_NAMES

    def files(self) -> frozenset[str]:
        return frozenset()

    def describe(self) -> str:
        if self.fragment_ids:
            return f"{self.kind} in {fragment_list(self.fragment_ids)}"
        return "an operation of unknown kind" if self.kind == UNKNOWN_KIND else self.kind

    def changed_fragments(self) -> frozenset[int]:
        return frozenset(self.fragment_ids)

    def numbered_fragments(self) -> tuple[Fragment, ...]:
        return ()

    def removed_segments(self) -> frozenset[uuid.UUID]:
        return frozenset()

    def encode(self, message: Any) -> None:
        message.MergeFromString(self.wire)

    @classmethod
    def decode(cls, message: Any, *, path: str) -> "ForeignOperation":
        descriptor = message.DESCRIPTOR.name
        fragment_ids: tuple[int, ...] = ()
        if isinstance(message, transaction_pb2.Transaction.DataOverlay):
            fragment_ids = tuple(group.fragment_id for group in message.groups)
        return cls(descriptor, message.SerializeToString(deterministic=True), fragment_ids)
