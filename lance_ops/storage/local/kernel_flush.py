"""Asynchronous flushes: the kernel brings files and folders to the disk side by side, asked by one call.

One after the other, each waits until the disk has emptied its cache; together they wait for that about once.
Threads would do the same, and cost more than they save where the disk is fast.
Source: Linux, io_submit(2), commands IOCB_CMD_FSYNC and IOCB_CMD_FDSYNC.
"""

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

# io_setup, io_destroy, io_getevents and io_submit; the C library has no names for them.
_NUMBERS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
_FSYNC, _FDSYNC = 2, 3
# A request as the kernel reads it (`struct iocb`), and what it answers (`struct io_event`).
_REQUEST = struct.Struct("<QIiHhIQQqQII")
_EVENT = struct.Struct("<QQqq")
_MOST = 32
# Queues of a process. All processes of the machine share 65,536 requests as a rule, and databases need them,
# too: where hundreds of threads flush at once, most do so one file after the other.
_MOST_QUEUES = 16


class Request(NamedTuple):
    """What to flush.

    Attributes:
        descriptor: Of an open file or folder.
        is_folder: Names are flushed; else bytes.
    """

    descriptor: int
    is_folder: bool


class _Kernel(NamedTuple):
    call: Any
    setup: int
    destroy: int
    events: int
    submit: int


def _find_kernel() -> _Kernel | None:
    numbers = _NUMBERS.get(os.uname().machine) if sys.platform == "linux" else None
    if numbers is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    # Every argument is as wide as a register.
    call.argtypes = (ctypes.c_long,) * 6
    return _Kernel(call, *numbers)


_kernel = _find_kernel()


class _Queue:
    """A queue of the kernel's, for one thread at a time."""

    def __init__(self, kernel: _Kernel, context: int) -> None:
        self._kernel = kernel
        self._context = context
        self._requests = ctypes.create_string_buffer(_MOST * _REQUEST.size)
        self._events = ctypes.create_string_buffer(_MOST * _EVENT.size)
        first = ctypes.addressof(self._requests)
        self._pointers = (ctypes.c_void_p * _MOST)(*range(first, first + len(self._requests), _REQUEST.size))

    def flush(self, requests: Sequence[Request]) -> list[int | None]:
        """Flush at most `_MOST`; see `flush_by_kernel`."""
        for place, (descriptor, is_folder) in enumerate(requests):
            _REQUEST.pack_into(
                self._requests,
                place * _REQUEST.size,
                *(place, 0, 0, _FSYNC if is_folder else _FDSYNC, 0, descriptor, 0, 0, 0, 0, 0, 0),
            )
        kernel = self._kernel
        answers: list[int | None] = [None] * len(requests)
        # What it does not take, for whatever reason, is flushed otherwise.
        pointers = ctypes.addressof(self._pointers)
        waiting = max(0, kernel.call(kernel.submit, self._context, len(requests), pointers, 0, 0))
        while waiting:
            found = kernel.call(
                kernel.events, self._context, waiting, waiting, ctypes.addressof(self._events), 0
            )
            if found < 0 and ctypes.get_errno() != errno.EINTR:
                raise OSError(ctypes.get_errno(), "the answers to flushes could not be had")
            for number in range(max(0, found)):
                place, _, result, _ = _EVENT.unpack_from(self._events, number * _EVENT.size)
                answers[place] = -result
            waiting -= max(0, found)
        return answers

    def close(self) -> None:
        """Wait for what is under way, and forget the answers."""
        self._kernel.call(self._kernel.destroy, self._context, 0, 0, 0, 0)
        _room.append(None)


# Those that nobody uses just now, and room for more. Taking one of either and putting it back are atomic.
_idle: list[_Queue] = []
_room = [None] * _MOST_QUEUES


def _after_fork() -> None:
    # They are those of the parent.
    _idle.clear()
    _room[:] = [None] * _MOST_QUEUES


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def flush_by_kernel(requests: Sequence[Request]) -> list[int | None]:
    """Flush all, and wait for them.

    Args:
        requests: What to flush; the descriptors stay the caller's.

    Returns:
        For each 0, or the number of the error that the system tells, once; None where the kernel did not take
        the request, so that it has to be flushed otherwise.

    Raises:
        OSError: Nobody knows what was flushed.
    """
    answers: list[int | None] = []
    while len(answers) < len(requests):
        queue = _take()
        if queue is None:
            return answers + [None] * (len(requests) - len(answers))
        try:
            answers += queue.flush(requests[len(answers) : len(answers) + _MOST])
        except BaseException:
            # Answers may come yet, which are not those of whoever is next.
            queue.close()
            raise
        _idle.append(queue)
    return answers


def _take() -> _Queue | None:
    try:
        return _idle.pop()
    except IndexError:
        pass
    if _kernel is None:
        return None
    try:
        _room.pop()
    except IndexError:
        return None
    context = ctypes.c_ulong(0)
    if _kernel.call(_kernel.setup, _MOST, ctypes.addressof(context), 0, 0, 0) != 0:
        _room.append(None)
        return None
    return _Queue(_kernel, context.value)
