"""Accelerators: default pruner and search of datasets.

Indices provide both, but their package is above this one. So the root package registers them here at import;
none of their modules is loaded before a scan needs it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_ops.errors import UnsupportedError

if TYPE_CHECKING:
    from lance_ops.table.scan.pruner import Pruner
    from lance_ops.table.scan.search import Search


@dataclass(frozen=True, slots=True)
class Accelerators:
    """Factories of the default accelerators.

    Attributes:
        pruner: Returns the pruner of filtered scans.
        search: Returns the search for rows by score.
    """

    pruner: "Callable[[], Pruner]"
    search: "Callable[[], Search]"


_named: list[Accelerators] = []


def name_accelerators(accelerators: Accelerators) -> None:
    """Register the accelerators of all datasets."""
    _named[:] = [accelerators]


def default_pruners() -> "tuple[Pruner, ...]":
    """Return the default pruners of a dataset: its indices; none if none are registered."""
    return tuple(accelerators.pruner() for accelerators in _named)


def default_search() -> "Search":
    """Return the default search for rows by score: indices, and rows that no index covers.

    Raises:
        UnsupportedError: None is registered.
    """
    for accelerators in _named:
        return accelerators.search()
    raise UnsupportedError("no search for rows by score is registered")
