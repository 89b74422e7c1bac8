"""Store interface: operations on the bytes at a URI.

Paths are relative to the root that the store is bound to and "/"-separated on every platform. Files of a
Lance dataset are immutable once they are visible, which makes memory maps and lock-free readers safe.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias, TypeGuard, runtime_checkable

import pyarrow as pa

BytesLike: TypeAlias = bytes | bytearray | memoryview | pa.Buffer


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One stored object.

    Args:
        path: Relative to the root of the store, "/"-separated.
        size: In bytes.
        modified: When the object became visible, an aware UTC time.
        mark: Changes with the content of the object, if the store has such a mark; "" otherwise.
    """

    path: str
    size: int
    modified: datetime
    mark: str = field(default="", compare=False)


Durability = Literal["now", "later", "never"]
"""Durability of an object: when visible, before the next durable object is visible, or never."""


@runtime_checkable
class StoreWriter(Protocol):
    """Bytes on their way to one object, which appears whole on `close` and not at all after `abort`.

    As a context manager it closes on success and aborts on any exception.
    """

    def write(self, data: BytesLike) -> None:
        """Append bytes."""

    def copy_from(self, source: "Store", path: str, ranges: Sequence[tuple[int, int]]) -> None:
        """Append ranges of an object of any store, without a copy in this process where that is possible.

        Args:
            source: Where the object is.
            path: The object.
            ranges: `(offset, length)` of each, in the order in which they are appended.

        Raises:
            FileMissingError: There is no such object.
            CorruptFileError: A range ends beyond the object. Some of the bytes may have been appended: abort.
        """

    def tell(self) -> int:
        """Return the number of bytes written."""

    def close(self) -> None:
        """Make the object visible, and durable as requested; further calls do nothing."""

    def abort(self) -> None:
        """Leave nothing behind; does nothing after `close`."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


@runtime_checkable
class Store(Protocol):
    """Bytes below one root URI: picklable, so that a Spark task can carry it, and thread-safe.

    Every method raises `PathEscapeError` for a path that leaves the root, `PermissionDeniedError` when the
    store refuses, `StorageFullError` when it is full, and `StorageError` for any other failure.
    """

    @property
    def uri(self) -> str:
        """The normalised root URI; an absolute path without scheme for local files."""

    @property
    def supports_put_if_absent(self) -> bool:
        """Return whether `if_absent=True` decides a race of several writers for exactly one of them."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """Read one range of an object.

        Args:
            path: The object.
            offset: First byte.
            length: Number of bytes; everything from `offset` on when None.

        Raises:
            FileMissingError: There is no such object.
            CorruptFileError: The range ends beyond the object: the caller has a wrong size.
        """

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Read several ranges of one object, merging neighbours and overlapping the requests.

        Args:
            path: The object.
            ranges: `(offset, length)` of each, in any order; they may overlap. Empty ones cost nothing, and
                not every store checks them.

        Returns:
            One buffer per range, in the order of `ranges`.

        Raises:
            FileMissingError: There is no such object.
            CorruptFileError: A range ends beyond the object.
        """

    def read_tail(self, path: str, length: int) -> tuple[pa.Buffer, int]:
        """Read the last `length` bytes (all of them if the object is shorter), and return the total size."""

    def size(self, path: str) -> int:
        """Return the size of an object in bytes; raises `FileMissingError`."""

    def exists(self, path: str) -> bool:
        """Return whether there is an object (not merely a folder) at the path."""

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, durable: Durability = "now"
    ) -> None:
        """Write an object atomically: a reader sees the previous content or all of `data`.

        Args:
            path: The object.
            data: Its bytes.
            if_absent: Fail rather than replace; among racing writers exactly one succeeds.
            durable: When it must survive a power failure, for stores that flush.

        Raises:
            AlreadyExistsError: `if_absent` and the object exists. Over a network it may be ours: a client
                that lost the response to its first attempt finds its own object at the second.
            UnsupportedError: `if_absent` and the store cannot promise it (see `supports_put_if_absent`).
        """

    def open_writer(self, path: str, *, if_absent: bool = False, durable: Durability = "now") -> StoreWriter:
        """Start to write an object whose size is not known yet.

        Args:
            path: The object.
            if_absent: Fail on `close` rather than replace, as `put` does; an object store decides no race for
                an object of more than 5 GiB, which it only looks for before the upload.
            durable: See `put`; what it says holds from `close` on.

        Raises:
            UnsupportedError: `if_absent` and the store cannot promise it (see `supports_put_if_absent`).
        """

    def list_dirs(self, prefix: str) -> list[str]:
        """List names of folders directly below a folder that have objects at any depth, sorted."""

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """List all objects below a folder, recursively, ordered by path (code points).

        Args:
            prefix: The folder, "" for the root; a folder that does not exist is empty.
            start_after: Only paths (relative to the root) greater than this one.
        """

    def delete(self, path: str) -> None:
        """Delete an object; a missing one is not an error."""

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete objects; missing ones are not an error. After an error some may be deleted already."""

    def copy(self, src: str, dst: str, *, if_absent: bool = False) -> None:
        """Copy an object within the store, with the promises of `put` for the destination."""

    def child(self, relative: str) -> "Store":
        """Return a store that is bound to a folder below this one."""


class MapsFiles(Store, Protocol):
    """A store that can show a whole file without reading it first."""

    def map_file(self, path: str) -> pa.Buffer | None:
        """Map a file into memory as one buffer; None if the store does not support it.

        Raises:
            FileMissingError: There is no such file.
        """

    def map_files(self, files: Sequence[tuple[str, int]]) -> tuple[pa.Buffer, Sequence[int]] | None:
        """Map files into memory one after the other.

        Args:
            files: Path and size in bytes of each, none empty.

        Returns:
            One buffer, and the position of each file in it; None if the store does not support it, or if the
            size of a file is another one.

        Raises:
            FileMissingError: There is no such file.
        """


class ListsNames(Store, Protocol):
    """Store that lists the names in one folder much faster than `list`."""

    def list_names(self, folder: str) -> list[str]:
        """List names of files and folders directly below a folder, in any order; empty without a folder."""

    def info(self, path: str) -> ObjectInfo | None:
        """Return the listing entry of one file; None if it does not exist."""


# Called for each dataset and file that is opened, where `isinstance` with a protocol takes too long.

_store_types: set[type] = set()


def is_store(value: object) -> TypeGuard[Store]:
    """Return whether something is a `Store`; cached by class."""
    kind = type(value)
    if kind in _store_types:
        return True
    if isinstance(value, str) or not isinstance(value, Store):
        return False
    _store_types.add(kind)
    return True


def maps_files(store: Store) -> TypeGuard[MapsFiles]:
    """Return whether a store is a `MapsFiles`."""
    return hasattr(store, "map_file") and hasattr(store, "map_files")


def leads_out(store: Store, folder: str) -> bool:
    """Return whether a folder is behind a symbolic link that leads out of the root of a local store.

    Args:
        store: The store.
        folder: Relative to its root.
    """
    ask = getattr(store, "leads_out", None)
    return ask is not None and bool(ask(folder))


def lists_names(store: Store) -> TypeGuard[ListsNames]:
    """Return whether a store is a `ListsNames`."""
    return hasattr(store, "list_names")
