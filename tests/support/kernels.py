"""Runs every test of a module with the compiled loops and without them."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from lance_ops.encoding import kernels


@pytest.fixture(autouse=True, params=["kernels", "numpy"])
def either_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """To be imported by the modules that want it."""
    with nullcontext() if request.param == "kernels" else kernels.disabled():
        yield
