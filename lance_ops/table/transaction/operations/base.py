"""Operation: the change of a transaction, with all properties that the rest of the package needs.

A new operation defines all of them in one class; rules about pairs of operations are in the conflict matrix,
its rules and `rebase`. Source: transaction.proto.
"""

import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar, Self

from lance_ops.file.schema.model import Schema
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.model import Manifest


class Scope(Enum):
    """Extent of the changes of an operation.

    NAMED: It names its changes; everything else in the next version is unchanged. ALL: It replaces
    everything. OPEN: It may change parts that it does not name.
    """

    NAMED = "named"
    ALL = "all"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    """Values of a manifest that come from the caller rather than from the transaction.

    Attributes:
        timestamp: Commit time, UTC; increased if the head is not older.
        follow_until: A head with a timestamp after this is ignored; never ignored when None.
        base_schema: Schema of the read version, by which new rows were written; the head's when None.
        data_storage_version: Version of future data files, for an Overwrite without any; the dataset's own,
            or the default, when None.
        stable_row_ids: Enable stable row ids; only when a dataset is created.
        restored: The manifest that a Restore restores.
        highest_field_id: Highest field id ever allocated; None where it need not be recorded.
    """

    timestamp: datetime
    follow_until: datetime | None = None
    base_schema: Schema | None = None
    data_storage_version: str | None = None
    stable_row_ids: bool = False
    restored: Manifest | None = None
    highest_field_id: int | None = None


@dataclass(frozen=True, slots=True)
class Operation(ABC):
    """Base of all operations.

    Attributes:
        name: Used in history, conflict messages and Dagster metadata.
        wire_name: Field of the transaction message that holds it.
        keeps_data: Rows and columns are unchanged.
        scope: Extent of its changes.
        unknown: Serialised fields of the message without an attribute.
    """

    name: ClassVar[str]
    wire_name: ClassVar[str]
    keeps_data: ClassVar[bool]
    scope: ClassVar[Scope]
    unknown: bytes = field(default=b"", kw_only=True, repr=False)

    @property
    def kind(self) -> str:
        """Name of the wire message, used in history and in the conflict matrix."""
        return self.name

    @abstractmethod
    def files(self) -> frozenset[str]:
        """Return files that it adds to the dataset, by path relative to the root; none of other bases.

        Index segments are listed by their directory, with "/" at the end. If the operation lists all
        fragments, data files of the previous version are included; see `brought_files`.
        """

    @abstractmethod
    def describe(self) -> str:
        """Describe it in one short line: `Delete in fragments 1, 4 where year < 2013`."""

    @abstractmethod
    def changed_fragments(self) -> frozenset[int]:
        """Return ids of the existing fragments whose rows it deletes, moves or updates."""

    @abstractmethod
    def numbered_fragments(self) -> tuple[Fragment, ...]:
        """Return the new fragments that get their ids when it is committed."""

    @abstractmethod
    def removed_segments(self) -> frozenset[uuid.UUID]:
        """Return index segments that it removes or replaces."""

    @abstractmethod
    def encode(self, message: Any) -> None:
        """Set the fields of its wire message, except the unknown ones."""

    @classmethod
    @abstractmethod
    def decode(cls, message: Any, *, path: str) -> Self:
        """Read it from its wire message.

        Raises:
            CorruptManifestError: A part of it cannot be read.
        """


class CommittedOperation(Operation):
    """Operation that lance_ops commits: a row of the conflict matrix. Other operations are only read."""

    __slots__ = ()

    @abstractmethod
    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        """Validate it before the commit, to protect the dataset. Pure.

        A wrong Rewrite or Delete loses rows permanently, so everything in the metadata is verified.

        Args:
            manifest: The version to commit on.
            schema: Schema by which new rows were written, if it is not that of the manifest: columns may have
                been dropped concurrently.

        Raises:
            InvalidArgumentError: Fragments, fields, row counts or ids are inconsistent.
        """

    @abstractmethod
    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        """Return the parts of the next version that replace those of the current one. Pure.

        Raises:
            InvalidArgumentError: It is not valid for the current version.
        """


class ManifestOperation(CommittedOperation):
    """Committed operation that adds no files and changes no fragment and no index segment."""

    __slots__ = ()

    def files(self) -> frozenset[str]:
        return frozenset()

    def changed_fragments(self) -> frozenset[int]:
        return frozenset()

    def numbered_fragments(self) -> tuple[Fragment, ...]:
        return ()

    def removed_segments(self) -> frozenset[uuid.UUID]:
        return frozenset()
