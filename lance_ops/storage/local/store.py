"""Files of this machine: memory-mapped reads, and writes that survive a crash.

Ranged reads of a file of this machine: mapped or copied, and whole or an error.
"""

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa

from lance_ops.errors import CorruptFileError, FileMissingError, PathEscapeError, PermissionDeniedError
from lance_ops.storage.failures import missing, translate_os_error
from lance_ops.storage.local.atomic_file import AtomicFile, PendingFlushes
from lance_ops.storage.local.mapping import map_joined, map_ranges, map_whole, page_places
from lance_ops.storage.options import boolean_option, text_options
from lance_ops.storage.paths import join_uri, validate_folder, validate_relative_path
from lance_ops.storage.ranges import LARGEST_OFFSET, check_not_negative, plan_merged_reads, resolve_range
from lance_ops.storage.store import BytesLike, Durability, ObjectInfo, Store, StoreWriter

# ruff: noqa: PTH116 - pathlib costs several times the system call


# Larger ones would be fresh memory from the system each time.
_BYTES_UP_TO = 128 << 10
_GAP = 16 << 10
_MAX_MERGED = 8 << 20
_READ_AT_ONCE = 1 << 30
# A named pipe does not hang then, and cannot be read at an offset; to regular files it means nothing.
_SMALL = os.O_RDONLY | os.O_NONBLOCK


def stat_file(full: str) -> os.stat_result:
    """Return the status of a regular file.

    Raises:
        FileMissingError: There is no such regular file.
    """
    # Checked before every open: opening a named pipe would block, and a folder opens without error.
    try:
        status = os.stat(full)
    except OSError as error:
        raise translate_os_error(error, full, reading=True) from error
    if not stat.S_ISREG(status.st_mode):
        raise missing(full)
    return status


def read_at_once(full: str, offset: int, length: int) -> pa.Buffer | None:
    """Read one small range with few system calls; None if the file needs further checks.

    Args:
        full: The file.
        offset: First byte.
        length: Number of bytes.
    """
    if not 0 <= offset <= LARGEST_OFFSET - length or not 0 < length <= _BYTES_UP_TO:
        return None
    try:
        descriptor = os.open(full, _SMALL)
        try:
            data = os.pread(descriptor, length, offset)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return pa.py_buffer(data) if len(data) == length else None


def read_mapped(full: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
    """Return ranges (offset, length) of a file as views of what is mapped of it."""
    buffers = map_ranges(full, ranges)
    return [
        _whole(buffer, full, offset, length) for buffer, (offset, length) in zip(buffers, ranges, strict=True)
    ]


def read_copied(full: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
    """Read ranges (offset, length) of a file into new memory; adjacent ones are read together."""
    results = [pa.py_buffer(b"")] * len(ranges)
    descriptor = os.open(full, os.O_RDONLY)
    try:
        for read in plan_merged_reads(ranges, gap=_GAP, max_length=_MAX_MERGED):
            buffer = read_copy(descriptor, full, read.offset, read.length)
            for index in read.parts:
                offset, length = ranges[index]
                results[index] = buffer.slice(offset - read.offset, length)
    finally:
        os.close(descriptor)
    return results


def read_copy(descriptor: int, full: str, offset: int, length: int) -> pa.Buffer:
    """Read one range of an open file into new memory; `full` names the file in errors."""
    if length <= _BYTES_UP_TO:
        data = os.pread(descriptor, length, offset)
        if len(data) == length:
            return pa.py_buffer(data)
    buffer = pa.allocate_buffer(length)
    view = memoryview(buffer).cast("B")
    done = 0
    while done < length:
        count = os.preadv(descriptor, [view[done : done + _READ_AT_ONCE]], offset + done)
        if count == 0:
            return _whole(buffer.slice(0, done), full, offset, length)
        done += count
    return buffer


def _whole(buffer: pa.Buffer, full: str, offset: int, length: int) -> pa.Buffer:
    if buffer.size != length:
        raise CorruptFileError(
            f"the file shrank while it was read: {buffer.size} of {length} bytes at {offset}", path=full
        )
    return buffer


# ruff: noqa: PTH106, PTH108, PTH116, PTH123 - pathlib costs several times the system call


_MAP_FROM = 1 << 20
"""Reads of this many bytes or more are mapped.

Measured: below, the copy, into memory that Arrow's pool has used before, costs less than the page faults of a
map. Somewhat above, it depends on how the system keeps the file; maps gain with the size.
"""

_COPY_BUFFER = 1 << 20


class LocalStore:
    """A folder of this machine.

    Args:
        root: Absolute path; it need not exist yet.
        options: `fsync` ("true"): whether writes are flushed to the disk as `Durability` says; without it a
            power failure may lose or tear them. `memory_map` ("true"): whether large reads are mapped; turn
            it off on network mounts, where a file deleted elsewhere would kill the reading process.
    """

    def __init__(self, root: str, options: Mapping[str, str] | None = None) -> None:
        self._root = root
        self._options = text_options(options)
        self._fsync = boolean_option(self._options, "fsync", default=True)
        self._memory_map = boolean_option(self._options, "memory_map", default=True)
        self._pending = PendingFlushes() if self._fsync else None

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (LocalStore, (self._root, self._options))

    @property
    def uri(self) -> str:
        """The absolute path of the root."""
        return self._root

    @property
    def supports_put_if_absent(self) -> bool:
        """True: `link` and exclusive creation are atomic."""
        return True

    def child(self, relative: str) -> Store:
        """See `Store.child`."""
        return LocalStore(self._full(relative), self._options)

    def _full(self, path: str) -> str:
        return join_uri(self._root, validate_relative_path(path))

    def local_path(self, path: str) -> str:
        """Absolute path of an object's file, for copies by the kernel.

        Raises:
            FileMissingError: There is no such file.
        """
        full = self._full(path)
        stat_file(full)
        return full

    # Reading

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """See `Store.read`."""
        full = self._full(path)
        if length is not None and (found := read_at_once(full, offset, length)) is not None:
            return found
        check_not_negative(full, offset, length)
        size = stat_file(full).st_size
        return self._fetch_one(full, offset, resolve_range(full, offset, length, size))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """See `Store.read_ranges`."""
        full = self._full(path)
        size = stat_file(full).st_size
        for offset, length in ranges:
            resolve_range(full, offset, length, size)
        return self._fetch(full, ranges)

    def read_tail(self, path: str, length: int) -> tuple[pa.Buffer, int]:
        """See `Store.read_tail`."""
        full = self._full(path)
        check_not_negative(full, 0, length)
        size = stat_file(full).st_size
        length = min(length, size)
        return self._fetch_one(full, size - length, length), size

    def map_file(self, path: str) -> pa.Buffer | None:
        """See `MapsFiles.map_file`."""
        if not self._memory_map:
            return None
        full = self._full(path)
        if not stat_file(full).st_size:
            return pa.py_buffer(b"")
        try:
            return map_whole(full)
        except OSError as error:
            raise translate_os_error(error, full, reading=True) from error

    def map_files(self, files: Sequence[tuple[str, int]]) -> tuple[pa.Buffer, Sequence[int]] | None:
        """See `MapsFiles.map_files`."""
        if not self._memory_map:
            return None
        paths, sizes = [self._full(path) for path, _ in files], [size for _, size in files]
        try:
            mapped = map_joined(paths, sizes)
        except OSError as error:
            raise translate_os_error(error, error.filename or self._root, reading=True) from error
        return None if mapped is None else (mapped, page_places(sizes))

    def _fetch(self, full: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        total = sum(length for _, length in ranges)
        try:
            if self._memory_map and total >= _MAP_FROM:
                return read_mapped(full, ranges)
            return read_copied(full, ranges)
        except OSError as error:
            raise translate_os_error(error, full, reading=True) from error

    def _fetch_one(self, full: str, offset: int, length: int) -> pa.Buffer:
        if not length or length >= _MAP_FROM:
            return self._fetch(full, [(offset, length)])[0]
        try:
            descriptor = os.open(full, os.O_RDONLY)
            try:
                return read_copy(descriptor, full, offset, length)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise translate_os_error(error, full, reading=True) from error

    def size(self, path: str) -> int:
        """See `Store.size`."""
        return stat_file(self._full(path)).st_size

    def exists(self, path: str) -> bool:
        """See `Store.exists`."""
        try:
            stat_file(self._full(path))
        except FileMissingError:
            return False
        return True

    # Writing

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, durable: Durability = "now"
    ) -> None:
        """See `Store.put`."""
        full = self._full(path)
        if durable == "never" and not if_absent and _overwrite(full, data):
            return
        with AtomicFile(full, self._pending, if_absent=if_absent, durable=durable) as file:
            file.write(data)

    def open_writer(self, path: str, *, if_absent: bool = False, durable: Durability = "now") -> StoreWriter:
        """See `Store.open_writer`."""
        return AtomicFile(self._full(path), self._pending, if_absent=if_absent, durable=durable)

    def copy(self, src: str, dst: str, *, if_absent: bool = False) -> None:
        """See `Store.copy`."""
        source, target = self._full(src), self._full(dst)
        stat_file(source)
        with AtomicFile(target, self._pending, if_absent=if_absent) as file:
            try:
                with open(source, "rb") as original:
                    shutil.copyfileobj(original, file, _COPY_BUFFER)
            except OSError as error:
                raise translate_os_error(error, source, reading=True) from error

    # Listing and deleting

    def list_dirs(self, prefix: str) -> list[str]:
        """See `Store.list_dirs`."""
        prefix = validate_folder(prefix)
        lead = prefix + "/" if prefix else ""
        entries = _sorted_entries(join_uri(self._root, prefix))
        folders = [key[:-1] for key, _ in entries if key[-1] == "/"]
        return sorted(name for name in folders if self._has_files(lead + name))

    def _has_files(self, folder: str) -> bool:
        """Return whether a folder has any content; unreadable ones count, and raise when they are read."""
        try:
            return next(self._walk(folder, ""), None) is not None
        except PermissionDeniedError:
            return True

    def list_names(self, folder: str) -> list[str]:
        """See `ListsNames.list_names`."""
        full = join_uri(self._root, validate_folder(folder))
        try:
            return os.listdir(full)  # noqa: PTH208 - names alone, several times faster than paths
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise translate_os_error(error, full, reading=True) from error

    def info(self, path: str) -> ObjectInfo | None:
        """See `ListsNames.info`."""
        full = self._full(path)
        try:
            status = os.stat(full)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise translate_os_error(error, full, reading=True) from error
        return ObjectInfo(path, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC), _mark(status))

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """See `Store.list`.

        Symbolic links to folders are not entered, and links to files are listed if they stay below the root.
        The folder that is listed may itself be a link.
        """
        prefix = validate_folder(prefix)
        return self._walk(prefix, start_after or "")

    def _walk(self, folder: str, start_after: str) -> Iterator[ObjectInfo]:
        lead = folder + "/" if folder else ""
        # What remains of `start_after` in this folder; names up to it need not even be sorted.
        after = start_after.removeprefix(lead) if start_after.startswith(lead) else ""
        for key, entry in _sorted_entries(join_uri(self._root, folder), after):
            path = lead + key
            if key[-1] == "/":
                # Everything below starts with `path`, which ends in "/".
                if path > start_after or start_after.startswith(path):
                    yield from self._walk(path[:-1], start_after)
            elif path > start_after and (status := self._status(entry)) is not None:
                modified = datetime.fromtimestamp(status.st_mtime, UTC)
                yield ObjectInfo(path, status.st_size, modified, _mark(status))

    def _status(self, entry: "os.DirEntry[str]") -> os.stat_result | None:
        """Return the status of an entry that is a file, or a link to a file below the root."""
        try:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode) and self._stays_inside(entry.path):
                status = entry.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise translate_os_error(error, entry.path, reading=True) from error
        return status if stat.S_ISREG(status.st_mode) else None

    def _stays_inside(self, link: str) -> bool:
        root = os.path.realpath(self._root)
        return os.path.realpath(link).startswith(root.rstrip("/") + "/")

    def leads_out(self, folder: str) -> bool:
        """Return whether a folder is behind a symbolic link that leads out of the root."""
        return not self._stays_inside(join_uri(self._root, validate_folder(folder)))

    def delete(self, path: str) -> None:
        """Delete an object, and folders that became empty, except those directly below the root.

        Raises:
            PathEscapeError: The object is behind a symbolic link that leads out of the root.
        """
        self.delete_many([path])

    def delete_many(self, paths: Iterable[str]) -> None:
        """See `Store.delete_many` and `delete`."""
        folders: set[str] = set()
        inside: set[str] = {""}
        for path in paths:
            full = self._full(path)
            folder = path.rpartition("/")[0]
            if folder not in inside:
                if self.leads_out(folder):
                    raise PathEscapeError(
                        "the folder of this file is a symbolic link that leads out of the dataset, and "
                        "nothing behind such a link is deleted",
                        path=full,
                        hint="replace the link by a folder, or delete the file by hand",
                    )
                inside.add(folder)
            try:
                os.unlink(full)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except IsADirectoryError:
                continue
            except OSError as error:
                raise translate_os_error(error, full, reading=False) from error
            if self._pending is not None:
                self._pending.forget(full)
            folders.add(folder)
        for folder in folders:
            self._prune(folder)

    def _prune(self, folder: str) -> None:
        # Folders directly below the root are shared by all writers, and another may just have made sure that
        # the one it needs exists; deeper ones (one per index) belong to one writer.
        while "/" in folder:
            try:
                os.rmdir(join_uri(self._root, folder))
            except OSError:
                return
            folder = folder.rpartition("/")[0]


def _overwrite(full: str, data: BytesLike) -> bool:
    """Overwrite a file that may be torn; False if there is none, or if it has another name.

    Renaming over it would cost more than the rest of the write, because file systems flush the new bytes
    first to protect against a power failure.
    """
    try:
        descriptor = os.open(full, os.O_WRONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            return False
        view = memoryview(data).cast("B")
        if os.pwrite(descriptor, view, 0) != view.nbytes:
            return False
        if status.st_size > view.nbytes:
            os.ftruncate(descriptor, view.nbytes)
    except OSError as error:
        raise translate_os_error(error, full, reading=False) from error
    finally:
        os.close(descriptor)
    return True


def _mark(status: os.stat_result) -> str:
    # The clock of a file system may be coarse (milliseconds); a file may be replaced within a tick.
    return f"{status.st_size}.{status.st_mtime_ns}.{status.st_ino}"


def _sorted_entries(folder: str, after: str = "") -> list[tuple[str, "os.DirEntry[str]"]]:
    """Entries ordered as their full paths are: the name of a folder ends in "/" here.

    Args:
        folder: Absolute path.
        after: Files up to this name may be left out.
    """
    # Compared with the slash of a folder: "a/b" comes after "a-b", although "a" comes before it.
    least = after.partition("/")[0]
    try:
        with os.scandir(folder) as scan:
            entries = [
                (entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name, entry)
                for entry in scan
                if entry.name + "/" >= least
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise translate_os_error(error, folder, reading=True) from error
    # Names are unique, so the entries themselves, which have no order, are never compared.
    entries.sort()
    return entries
