"""Kernels: the inner loops of encodings, compiled from Python ahead of time.

A module for each technique: typed functions that others call, with keyword arguments, stated shapes and
dtypes, and below them the loops that these run (`loops`). A technique is known by its package and its module:
`bits.rle`. Arrays are contiguous, in the byte order of the machine, and aligned unless a function says
otherwise. Nothing here checks a bound: the caller of a function answers for what its docstring asks for.
"""

import importlib
import pkgutil
from types import ModuleType

from lance_ops.encoding.kernels import loops

_HELPERS = {"loops", "words", "fsst.places"}
"""Modules without loops of their own."""


def names() -> list[str]:
    """Return the techniques."""
    inside = f"{__name__}."
    found = (module for module in pkgutil.walk_packages(__path__, inside) if not module.ispkg)
    return sorted({module.name.removeprefix(inside) for module in found} - _HELPERS)


def load(name: str) -> ModuleType:
    """Import a technique, so that its loops are loaded or compiled.

    Args:
        name: As `names` returns it.

    Raises:
        MissingExtraError: There are no compiled loops, and numba cannot compile them.
    """
    return importlib.import_module(f"{__name__}.{name}")


def has_library() -> bool:
    """Return whether the loops come from the loop library, so that numba is not needed."""
    return loops.find_library() is not None


def available() -> bool:
    """Return whether there are compiled loops, or numba to compile them."""
    return has_library() or loops.is_compilable()
