"""Accelerators: what narrows and searches the datasets for which nobody said anything else.

Indices do, but their floor stands on this one. So the package, which puts the floors together, names them
here when it is imported; nothing of them is loaded before a scan wants it.
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
    """Where they come from.

    Attributes:
        pruner: Makes what narrows filtered scans.
        search: Makes what finds rows by score.
    """

    pruner: "Callable[[], Pruner]"
    search: "Callable[[], Search]"


_named: list[Accelerators] = []


def name_accelerators(accelerators: Accelerators) -> None:
    """Say what datasets use from now on."""
    _named[:] = [accelerators]


def default_pruners() -> "tuple[Pruner, ...]":
    """What narrows the scans of a dataset: its indices; nothing where none were named."""
    return tuple(accelerators.pruner() for accelerators in _named)


def default_search() -> "Search":
    """What finds rows by score: the indices of a dataset, and its rows where there are none.

    Raises:
        UnsupportedError: Nothing was named.
    """
    for accelerators in _named:
        return accelerators.search()
    raise UnsupportedError("nothing was named that finds rows by score")
