"""Flushes to the disk as tests see them."""

import os
from collections.abc import Callable

import pytest

from lance_ops.storage.local import atomic_file


class FlushSeam:
    """Stands between local stores and the disk.

    Args:
        patch: Undoes it.
        before: Called with the path of a file or folder before it is flushed; may raise `OSError`, which is
            then the disk's answer.
        after: Called with that path afterwards.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        *,
        before: Callable[[str], object] = lambda path: None,
        after: Callable[[str], object] = lambda path: None,
    ) -> None:
        self._before, self._after = before, after
        for owner, name in [(atomic_file, "flush_data"), (atomic_file, "flush_names")]:
            patch.setattr(owner, name, self._seen(getattr(owner, name)))

    def _seen(self, flush_it: Callable[[int], None]) -> Callable[[int], None]:
        def run(descriptor: int) -> None:
            path = path_of(descriptor)
            self._before(path)
            flush_it(descriptor)
            self._after(path)

        return run


def path_of(descriptor: int) -> str:
    """The path that an open file or folder has now."""
    return os.readlink(f"/proc/self/fd/{descriptor}")
