"""Copies ranges of one object to the end of another that is being written.

Between two local files the kernel moves the bytes (`copy_file_range`), which neither maps nor buffers them
and shares the blocks on file systems that can. Everything else is ranged reads, a bounded number of bytes at
a time.
"""


import errno
import os
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from lance_ops.errors import CorruptFileError
from lance_ops.storage.failures import translate_os_error
from lance_ops.storage.ranges import resolve_range
from lance_ops.storage.store import Store, StoreWriter

# What waits in memory between a read and its write: enough for a dozen concurrent requests.
_BATCH = 64 << 20
_PIECE = 16 << 20
_BUFFER = 1 << 20
_KERNEL_COPY = 1 << 30

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


@runtime_checkable
class HasLocalFiles(Protocol):
    """A store whose objects are files of this machine."""

    def local_path(self, path: str) -> str:
        """Absolute path of an object's file."""


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


def copy_between_files(source: str, target: int, where: str, ranges: Sequence[tuple[int, int]]) -> int:
    """Append ranges of a file to another one.

    Args:
        source: Absolute path.
        target: Descriptor of the other file, at the position where the bytes go.
        where: Path of the other file, for errors.
        ranges: Offset and length of each.

    Returns:
        Number of bytes.

    Raises:
        FileMissingError: There is no source.
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
        for offset, length in ranges:
            _copy(descriptor, target, source, offset, length)
    except OSError as error:
        raise translate_os_error(error, where, reading=False) from error
    finally:
        os.close(descriptor)
    return sum(length for _, length in ranges)


def _copy(descriptor: int, target: int, source: str, offset: int, length: int) -> None:
    end = offset + length
    by_kernel = hasattr(os, "copy_file_range")
    while offset < end:
        if by_kernel:
            try:
                count = os.copy_file_range(descriptor, target, min(end - offset, _KERNEL_COPY), offset)
            except OSError as error:
                if error.errno not in _NOT_THIS_WAY:
                    raise
                by_kernel = False
                continue
        else:
            count = _write_all(target, os.pread(descriptor, min(end - offset, _BUFFER), offset))
        if count == 0:
            raise CorruptFileError(
                f"the file shrank while it was copied: bytes {offset} to {end} are missing", path=source
            )
        offset += count


def _write_all(target: int, data: bytes) -> int:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]
    return len(data)
