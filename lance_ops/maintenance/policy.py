"""Forwards to `lance_ops.maintenance.health.policy`, for programs that import from where it lay before."""

import warnings
from importlib import import_module
from typing import Any

_HOME = "lance_ops.maintenance.health.policy"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME), name)
    warnings.warn(f"import {name} from {_HOME} instead", DeprecationWarning, stacklevel=2)
    return value
