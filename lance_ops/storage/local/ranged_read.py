"""Ranged reads of a file of this machine: mapped or copied, and whole or an error."""
# ruff: noqa: PTH116 - pathlib costs several times the system call

import os
import stat
from collections.abc import Sequence

import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.storage.failures import missing, translate_os_error
from lance_ops.storage.local.mapping import map_ranges
from lance_ops.storage.ranges import LARGEST_OFFSET, plan_merged_reads

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
