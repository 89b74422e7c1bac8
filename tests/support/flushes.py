"""Flushes to the disk as tests see them, whether asked for alone or side by side by the kernel."""

import errno
import os
from collections.abc import Callable, Sequence

import pytest

from lance_ops.storage.local import atomic_file, unflushed
from lance_ops.storage.local.kernel_flush import Request


class FlushSeam:
    """Stands between local stores and the disk.

    Args:
        patch: Undoes it.
        before: Called with the path of a file or folder before it is flushed; may raise `OSError`, which is
            then the disk's answer.
        after: Called with that path afterwards.
        asked: Called with the number of flushes that are waited for together.
        together: The kernel flushes side by side; else one is flushed after the other.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        *,
        before: Callable[[str], object] = lambda path: None,
        after: Callable[[str], object] = lambda path: None,
        asked: Callable[[int], object] = lambda count: None,
        together: bool = True,
    ) -> None:
        self._before, self._after, self._asked = before, after, asked
        self._by_kernel = unflushed.flush_by_kernel if together else None
        patch.setattr(unflushed, "flush_by_kernel", self._together)
        for owner, name in [
            (unflushed, "flush_data"),
            (unflushed, "flush_names"),
            (atomic_file, "flush_data"),
        ]:
            patch.setattr(owner, name, self._alone(getattr(owner, name)))

    def _alone(self, flush: Callable[[int], None]) -> Callable[[int], None]:
        def run(descriptor: int) -> None:
            self._asked(1)
            path = path_of(descriptor)
            self._before(path)
            flush(descriptor)
            self._after(path)

        return run

    def _together(self, requests: Sequence[Request]) -> list[int | None]:
        if self._by_kernel is None:
            return [None] * len(requests)
        self._asked(len(requests))
        refused = [self._refusal(path_of(request.descriptor)) for request in requests]
        answers = []
        for request, refusal, answer in zip(requests, refused, self._by_kernel(requests), strict=True):
            if answer is None:
                # Not every system has a kernel that does: what the store makes of its answers is the same.
                os.fsync(request.descriptor)
            if not refusal:
                self._after(path_of(request.descriptor))
            answers.append(refusal or answer or 0)
        return answers

    def _refusal(self, path: str) -> int:
        try:
            self._before(path)
        except OSError as error:
            return error.errno or errno.EIO
        return 0


def path_of(descriptor: int) -> str:
    """The path that an open file or folder has now."""
    return os.readlink(f"/proc/self/fd/{descriptor}")
