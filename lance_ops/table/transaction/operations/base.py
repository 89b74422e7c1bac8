"""Operation: the change of a transaction, with all properties that the rest of the package needs.

A new operation defines all of them in one class; rules about pairs of operations are in the conflict matrix,
its rules and `rebase`. Source: transaction.proto.

Wire parts shared by several operations.

Text parts of one-line descriptions of operations.

Files of operations: they are left over if the commit fails.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from textwrap import shorten
from typing import Any, ClassVar, Self

from google.protobuf.message import Message

from lance_ops.file.schema.model import Schema
from lance_ops.pb import file_pb2, table_pb2
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY
from lance_ops.table.manifest.fragment import DELETIONS_DIRECTORY, Fragment
from lance_ops.table.manifest.fragments.fragment_list import FragmentList, FragmentTuple
from lance_ops.table.manifest.fragments.totals import find_fragment
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.wire import unknown_bytes, unmodelled_fields


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


def rest(message: Message, *modelled: str) -> bytes:
    """Return the fields of a message without an attribute of its value."""
    return unknown_bytes(message, unmodelled_fields(message, frozenset(modelled)))


def fragments_of(messages: Iterable[table_pb2.DataFragment]) -> tuple[Fragment, ...]:
    """Return fragments from their messages."""
    return tuple(Fragment.from_proto(message) for message in messages)


def fragment_messages(fragments: Iterable[Fragment]) -> list[table_pb2.DataFragment]:
    """Messages of fragments."""
    return [fragment.to_proto() for fragment in fragments]


def schema_of(fields: Iterable[file_pb2.Field], metadata: Mapping[str, bytes] | None = None) -> Schema:
    """Convert field messages to a schema."""
    return Schema.from_protos(fields, metadata or {})


def schema_metadata(schema: Schema) -> dict[str, bytes]:
    """Return metadata of a schema in a deterministic order."""
    return {key: schema.metadata[key] for key in sorted(schema.metadata)}


_MANY = 8
_LONG = 200


def count(number: int, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(values: Iterable[object]) -> str:
    """Format the first values, and the number of the others."""
    texts = [str(value) for value in values]
    shown = ", ".join(texts[:_MANY])
    return shown if len(texts) <= _MANY else f"{shown} and {len(texts) - _MANY:,} more"


def fragment_list(ids: Iterable[int]) -> str:
    """`fragments 1, 4`, in order."""
    ordered = sorted(set(ids))
    return f"fragment{'' if len(ordered) == 1 else 's'} {listed(ordered) or 'none'}"


def rows_in(fragments: tuple[Fragment, ...], noun: str = "row") -> str:
    """`2,000 rows in 2 fragments`."""
    rows = sum(fragment.physical_rows for fragment in fragments)
    return f"{count(rows, noun)} in {count(len(fragments), 'fragment')}"


def condition(predicate: str) -> str:
    """Format a predicate after `where`; empty for none."""
    return f" where {shorten(predicate, _LONG, placeholder=' …')}" if predicate else ""


_FEW = 64
# Of an id with 32 bits.
_DIGITS = 10


def data_files(fragments: Iterable[Fragment]) -> frozenset[str]:
    """Return paths of the data files of fragments, relative to the root; none of other bases."""
    return frozenset(
        f"{DATA_DIRECTORY}/{file.path}"
        for fragment in fragments
        for file in fragment.all_files
        if file.base_id is None
    )


def deletion_files(fragments: Iterable[Fragment]) -> frozenset[str]:
    """Paths of the deletion files of fragments, relative to the root of the dataset; none of other bases."""
    return frozenset(
        fragment.deletion_file.path(fragment.id)
        for fragment in fragments
        if fragment.deletion_file is not None and fragment.deletion_file.base_id is None
    )


def present_files(manifest: Manifest) -> frozenset[str]:
    """Return files that a version uses, as `Operation.files` names them, in any base."""
    files = {f"{index.directory}/" for index in manifest.indices}
    files.update(
        [f"{DATA_DIRECTORY}/{file.path}" for fragment in manifest.fragments for file in fragment.all_files]
    )
    files.update(
        [
            fragment.deletion_file.path(fragment.id)
            for fragment in manifest.fragments
            if fragment.deletion_file is not None
        ]
    )
    return frozenset(files)


def used_among(files: Collection[str], manifest: Manifest) -> frozenset[str]:
    """Return which of some files a version uses, named as in `present_files`."""
    fragments = manifest.fragments
    if not files:
        return frozenset()
    if not isinstance(fragments, FragmentList | FragmentTuple) or len(files) > _FEW:
        return present_files(manifest).intersection(files)
    # Only fragments that may use them are checked.
    used = {f"{index.directory}/" for index in manifest.indices}.intersection(files)
    for file in files:
        folder, _, name = file.partition("/")
        if folder == DATA_DIRECTORY and fragments.may_name(name):
            return present_files(manifest).intersection(files)
        number = name.partition("-")[0]
        if folder == DELETIONS_DIRECTORY and number.isdecimal():
            fragment = find_fragment(fragments, int(number)) if len(number) <= _DIGITS else None
            if fragment is not None and file in files_of(fragment):
                used.add(file)
    return frozenset(used)


def files_of(fragment: Fragment) -> set[str]:
    """Return files of a fragment, as `Operation.files` names them, in any base."""
    files = {f"{DATA_DIRECTORY}/{file.path}" for file in fragment.all_files}
    if fragment.deletion_file is not None:
        files.add(fragment.deletion_file.path(fragment.id))
    return files


def brought_files(operation: Operation, base: Manifest | None) -> frozenset[str]:
    """Return files of an operation that its read version does not use.

    Args:
        operation: The operation to commit.
        base: Its read version; None when it creates the dataset, or the version is unknown. Then an operation
            that also lists files of others adds none for certain.
    """
    files = operation.files()
    if base is not None:
        return files - used_among(files, base)
    return frozenset() if operation.scope is Scope.OPEN else files
