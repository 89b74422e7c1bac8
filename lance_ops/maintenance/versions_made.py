"""Versions that an operation made, noted for what follows when it has ended, such as a cleanup."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec

from lance_ops.table.commit.loop import commit as commit_operation
from lance_ops.table.commit.request import CommitResult
from lance_ops.table.dataset import Dataset

P = ParamSpec("P")

_made: ContextVar[list[Dataset] | None] = ContextVar("made", default=None)


@contextmanager
def versions_made() -> Iterator[list[Dataset]]:
    """The versions that `commit` makes meanwhile, in order; of an operation inside another one, its own."""
    made: list[Dataset] = []
    token = _made.set(made)
    try:
        yield made
    finally:
        _made.reset(token)


def _noting(commit_it: Callable[P, CommitResult]) -> Callable[P, CommitResult]:
    @functools.wraps(commit_it)
    def run(*args: P.args, **options: P.kwargs) -> CommitResult:
        result = commit_it(*args, **options)
        made = _made.get()
        if made is not None and not result.already_committed:
            made.append(result.dataset)
        return result

    return run


commit = _noting(commit_operation)
"""As in `lance_ops.table.commit.loop`; notes the version that it makes."""
