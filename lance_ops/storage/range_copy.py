"""Copies ranges of one object to the end of another that is being written.

Between two local files the kernel copies (`copy_file_range`) where the file system can share blocks, or lets
its server move the bytes. Where it cannot, the kernel would hand them from page to page, for which it takes
twice as long as reading and writing through a buffer that stays in the processor's cache (measured on ext4:
1.7 to 2.8 GB/s against 4.3). Everything else is ranged reads, a bounded number of bytes at a time.
"""

import errno
import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lance_ops.errors import CorruptFileError
from lance_ops.storage.failures import translate_os_error
from lance_ops.storage.ranges import resolve_range
from lance_ops.storage.store import Store, StoreWriter

# What waits in memory between a read and its write: enough for a dozen concurrent requests.
_BATCH = 64 << 20
_PIECE = 16 << 20
COPY_BUFFER = 256 << 10
"""Size of a buffer that fits into the CPU cache."""

_KERNEL_COPY = 1 << 30

# File systems that share blocks between files, or whose server copies.
_COPYING_SYSTEMS = frozenset(
    {"btrfs", "xfs", "bcachefs", "zfs", "nfs", "nfs4", "cifs", "smb3", "ceph", "ocfs2"}
)
_MOUNTS = "/proc/self/mountinfo"

# What the kernel answers when it cannot copy between these two files; reading and writing still can.
_NOT_THIS_WAY = frozenset(
    {
        errno.ENOSYS,
        errno.EXDEV,
        errno.EINVAL,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.EBADF,
        errno.ETXTBSY,
        errno.ENOTTY,
    }
)


class HasLocalFiles(ABC):
    """A store whose objects are files of this machine, which need not be derived from this."""

    @abstractmethod
    def local_path(self, path: str) -> str:
        """Absolute path of an object's file."""

    # A runtime-checkable protocol would take longer than a small copy.
    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return hasattr(other, "local_path")


def copy_by_reading(writer: StoreWriter, source: Store, path: str, ranges: Sequence[tuple[int, int]]) -> None:
    """Read ranges and append them; see `StoreWriter.copy_from`."""
    for batch in _batches(ranges):
        for data in source.read_ranges(path, batch):
            writer.write(data)


def _batches(ranges: Sequence[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    batch: list[tuple[int, int]] = []
    total = 0
    for offset, length in ranges:
        for start in range(0, length, _PIECE) or (0,):
            size = min(_PIECE, length - start)
            if batch and total + size > _BATCH:
                yield batch
                batch, total = [], 0
            batch.append((offset + start, size))
            total += size
    if batch:
        yield batch


def copy_between_files(
    source: str,
    target: int,
    where: str,
    ranges: Sequence[tuple[int, int]],
    *,
    make_room: Callable[[int], None],
    buffer: memoryview,
) -> int:
    """Append ranges of a file to another one.

    Args:
        source: Absolute path.
        target: Descriptor of the other file, at the position to write to.
        where: Path of the other file, for errors.
        ranges: Offset and length of each.
        make_room: Called with the number of bytes, if they are written and not shared.
        buffer: Buffer of `COPY_BUFFER` bytes.

    Returns:
        Number of bytes.

    Raises:
        FileMissingError: The source does not exist.
        CorruptFileError: A range ends beyond it.
        StorageFullError: The target's disk is full.
    """
    try:
        descriptor = os.open(source, os.O_RDONLY)
    except OSError as error:
        raise translate_os_error(error, source, reading=True) from error
    try:
        size = os.fstat(descriptor).st_size
        for offset, length in ranges:
            resolve_range(source, offset, length, size)
        by_kernel = hasattr(os, "copy_file_range") and _system_copies(os.fstat(target).st_dev)
        if not by_kernel:
            make_room(sum(length for _, length in ranges))
        for offset, length in ranges:
            copied = _copy_by_kernel(descriptor, target, offset, length) if by_kernel else 0
            by_kernel = copied == length
            _copy_by_buffer(descriptor, target, source, offset + copied, length - copied, buffer)
    except OSError as error:
        raise translate_os_error(error, where, reading=False) from error
    finally:
        os.close(descriptor)
    return sum(length for _, length in ranges)


def _copy_by_kernel(descriptor: int, target: int, offset: int, length: int) -> int:
    """Copy until the end or until the kernel cannot; return the number of bytes copied."""
    done = 0
    while done < length:
        try:
            count = os.copy_file_range(descriptor, target, min(length - done, _KERNEL_COPY), offset + done)
        except OSError as error:
            if error.errno not in _NOT_THIS_WAY:
                raise
            return done
        if count == 0:
            return done
        done += count
    return done


def _copy_by_buffer(
    descriptor: int, target: int, source: str, offset: int, length: int, buffer: memoryview
) -> None:
    end = offset + length
    while offset < end:
        part = buffer[: min(end - offset, len(buffer))]
        count = os.preadv(descriptor, [part], offset)
        if count == 0:
            raise CorruptFileError(
                f"the file shrank while it was copied: bytes {offset} to {end} are missing", path=source
            )
        offset += count
        rest = part[:count]
        while rest:
            rest = rest[os.write(target, rest) :]


@functools.lru_cache(maxsize=64)
def _system_copies(device: int) -> bool:
    """Return whether the file system of a device gains by copying itself."""
    name = f"{os.major(device)}:{os.minor(device)}"
    try:
        with Path(_MOUNTS).open(encoding="utf-8", errors="replace") as mounts:
            lines = [line.split() for line in mounts]
    except OSError:
        return False
    # The third word is the device, and the word behind a single dash is the type.
    for words in lines:
        if len(words) > 2 and words[2] == name and "-" in words[:-1]:
            return words[words.index("-") + 1] in _COPYING_SYSTEMS
    return False
