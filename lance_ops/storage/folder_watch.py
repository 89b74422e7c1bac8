"""Which names came and went in a folder, told by the kernel (inotify) instead of by listing it again.

The kernel tells of a change under the lock of the folder, before the call that made it returns: whoever asks
afterwards hears of it, whoever made it. That holds for file systems whose every change passes this kernel,
so only those are watched; for all others, and for other systems than Linux, folders are listed.
"""
# ruff: noqa: PTH116 - pathlib costs several times the system call

import contextlib
import ctypes
import os
import struct
import threading
from typing import Any, Final, NamedTuple

_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _ONLY_FOLDERS = 0x400, 0x800, 0x0100_0000
_APPEARED = _CREATE | _MOVED_TO
_VANISHED = _DELETE | _MOVED_FROM
_ASKED = _APPEARED | _VANISHED | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDERS
_EVERY_WATCH = -1

_EVENT = struct.Struct("iIII")
_BUFFER = 64 << 10
_STATFS = 512
# Nobody asks for these any more.
_MOST_PENDING = 10_000

# Magic numbers of file systems of one machine: ext2 to ext4, XFS, Btrfs, tmpfs.
_OF_ONE_MACHINE = frozenset({0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994})


class Change(NamedTuple):
    """A name that came (was made, linked or renamed to) or went, in the order of the changes."""

    name: str
    appeared: bool


class FolderWatch:
    """The changes of one folder since the watch began; see `watch_folder`. Not thread-safe by itself."""

    def __init__(self, inotify: "_Inotify", number: int, folder: str, identity: tuple[int, int]) -> None:
        self._inotify = inotify
        self._number = number
        self._folder = folder
        self._identity = identity
        self.pending: list[Change] = []
        self.over = False

    def changes(self) -> list[Change] | None:
        """All changes since the last call that were complete when this one began.

        Returns:
            None when that cannot be told any more: there were too many, the folder was removed or replaced,
            or this process is a fork. The watch is over then.
        """
        if self.over or self._inotify.process != os.getpid():
            return None
        # Looked at first: a folder that goes after this look tells so itself.
        if _identity(self._folder) != self._identity or not self._inotify.hear():
            self.over = True
        if self.over:
            self.close()
            return None
        with self._inotify.lock:
            found, self.pending = self.pending, []
        return found

    def close(self) -> None:
        """End the watch."""
        self.over = True
        self._inotify.forget(self._number, self)


class _Inotify:
    """The one queue of this process: the system has few of them for each user."""

    def __init__(self, descriptor: int, libc: Any) -> None:
        self.lock = threading.RLock()
        self.process: Final = os.getpid()
        self._descriptor = descriptor
        self._libc = libc
        self._watches: dict[int, list[FolderWatch]] = {}

    def watch(self, folder: str) -> FolderWatch | None:
        opened = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            if not self._passes_this_kernel(opened):
                return None
            # By the descriptor: the path may be that of another folder by now.
            name, status = f"/proc/self/fd/{opened}", os.fstat(opened)
            with self.lock:
                number = self._libc.inotify_add_watch(self._descriptor, name.encode(), _ASKED)
                if number < 0:
                    return None
                found = FolderWatch(self, number, folder, (status.st_dev, status.st_ino))
                # The same folder under two paths has one number.
                self._watches.setdefault(number, []).append(found)
                return found
        finally:
            os.close(opened)

    def _passes_this_kernel(self, opened: int) -> bool:
        found = ctypes.create_string_buffer(_STATFS)
        if self._libc.fstatfs(opened, found) != 0:
            return False
        return ctypes.c_long.from_buffer(found).value in _OF_ONE_MACHINE

    def forget(self, number: int, watch: FolderWatch) -> None:
        if self.process != os.getpid():
            return
        with self.lock:
            watches = self._watches.get(number, [])
            if watch in watches:
                watches.remove(watch)
                if not watches:
                    del self._watches[number]
                    self._libc.inotify_rm_watch(self._descriptor, number)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def hear(self) -> bool:
        """Hand what has happened to the watches; False when it cannot be read."""
        with self.lock:
            while True:
                try:
                    data = os.read(self._descriptor, _BUFFER)
                except BlockingIOError:
                    return True
                except OSError:
                    return False
                self._tell(data)

    def _tell(self, data: bytes) -> None:
        position = 0
        while position < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, position)
            position += _EVENT.size
            name = data[position : position + length].rstrip(b"\0")
            position += length
            if number == _EVERY_WATCH:
                # Some were lost, and nobody knows whose.
                heirs = [watch for watches in self._watches.values() for watch in watches]
            else:
                heirs = list(self._watches.get(number, ()))
            appeared = bool(mask & _APPEARED)
            change = Change(os.fsdecode(name), appeared) if appeared or mask & _VANISHED else None
            for watch in heirs:
                if change is not None and len(watch.pending) < _MOST_PENDING:
                    watch.pending.append(change)
                else:
                    # The folder was moved, removed or unmounted, events were lost, or nobody asks for them.
                    watch.over = True


def watch_folder(folder: str) -> FolderWatch | None:
    """Watch a folder from now on.

    Args:
        folder: Absolute path.

    Returns:
        None where changes would go unnoticed, or the system refuses.
    """
    try:
        inotify = _of_this_process()
        return None if inotify is None else inotify.watch(folder)
    except OSError:
        return None


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_begin = threading.Lock()
_current: _Inotify | None = None


def _of_this_process() -> _Inotify | None:
    global _current
    with _begin:
        if _current is None:
            libc = ctypes.CDLL(None)
            if not hasattr(libc, "inotify_init1") or ctypes.sizeof(ctypes.c_long) != 8:
                return None
            descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if descriptor < 0:
                return None
            _current = _Inotify(descriptor, libc)
        return _current


def _after_fork() -> None:
    # The queue is shared with the parent, which would miss what the child reads.
    global _begin, _current
    _begin = threading.Lock()
    if _current is not None:
        _current.close()
    _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
