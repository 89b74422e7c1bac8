"""Operation: what a transaction does, and everything that the rest of the table asks about it.

A new operation answers all of it in one class; what concerns two operations at a time is in the conflict
matrix, its rules and `rebase`. Source: transaction.proto.
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
    """How much of a version an operation may change.

    NAMED: What it changes it names; everything else in the next version is as it was before.
    ALL: It replaces everything.
    OPEN: It may change what it does not name.
    """

    NAMED = "named"
    ALL = "all"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    """What a manifest takes from the caller rather than from the transaction.

    Attributes:
        timestamp: When the commit is made, UTC; moved on if the head is not older.
        follow_until: A head that claims to be younger than this is not followed; always followed when None.
        base_schema: Schema of the read version, by which new rows were written; the head's when None.
        data_storage_version: Version of data files to come, for an Overwrite without any; the dataset's own,
            or the default, when None.
        stable_row_ids: Give rows stable ids; when a dataset is created only.
        restored: The manifest that a Restore goes back to.
        highest_field_id: Highest field id that was ever given out; None where it need not be recorded.
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
        keeps_data: Rows and columns are afterwards what they were before.
        scope: How much it may change.
        unknown: Serialised fields of the message that the value has no place for.
    """

    name: ClassVar[str]
    wire_name: ClassVar[str]
    keeps_data: ClassVar[bool]
    scope: ClassVar[Scope]
    unknown: bytes = field(default=b"", kw_only=True, repr=False)

    @property
    def kind(self) -> str:
        """Name of the wire message, by which history and the conflict matrix know it."""
        return self.name

    @abstractmethod
    def files(self) -> frozenset[str]:
        """Files that it puts into the dataset, by path relative to the root; none of other bases.

        Index segments are given by their directory, with "/" at the end. Data files of which the version
        below has some already are among them where the operation lists all fragments; see `brought_files`.
        """

    @abstractmethod
    def describe(self) -> str:
        """What it does, in one short line: `Delete in fragments 1, 4 where year < 2013`."""

    @abstractmethod
    def changed_fragments(self) -> frozenset[int]:
        """Ids of the existing fragments whose rows it deletes, moves or gives other values."""

    @abstractmethod
    def numbered_fragments(self) -> tuple[Fragment, ...]:
        """The new fragments that get their ids when it is committed."""

    @abstractmethod
    def removed_segments(self) -> frozenset[uuid.UUID]:
        """Index segments that it takes away by name, or puts others in the place of."""

    @abstractmethod
    def encode(self, message: Any) -> None:
        """Set the fields of its wire message, but for the unknown ones."""

    @classmethod
    @abstractmethod
    def decode(cls, message: Any, *, path: str) -> Self:
        """Read it from its wire message.

        Raises:
            CorruptManifestError: A part of it cannot be read.
        """


class CommittedOperation(Operation):
    """An operation that lance_ops commits: a row of the conflict matrix. The others it reads in history."""

    __slots__ = ()

    @abstractmethod
    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        """Refuse to damage the dataset: the last look before the commit. Pure.

        A wrong Rewrite or Delete loses rows for good, so nothing that the metadata show is taken on trust.

        Args:
            manifest: The version that the operation goes on top of.
            schema: Schema by which new rows were written, if it is not that of the manifest: columns may have
                been dropped meanwhile.

        Raises:
            InvalidArgumentError: Fragments, fields, row counts or ids do not fit together.
        """

    @abstractmethod
    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        """What the next version has instead of the current one. Pure.

        Raises:
            InvalidArgumentError: It does not fit the current version.
        """


class ManifestOperation(CommittedOperation):
    """A committed operation that brings no files and leaves every fragment and index segment as it is."""

    __slots__ = ()

    def files(self) -> frozenset[str]:
        return frozenset()

    def changed_fragments(self) -> frozenset[int]:
        return frozenset()

    def numbered_fragments(self) -> tuple[Fragment, ...]:
        return ()

    def removed_segments(self) -> frozenset[uuid.UUID]:
        return frozenset()
