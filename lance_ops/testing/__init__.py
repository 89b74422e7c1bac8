"""Test suites for custom stores, committers, external manifest stores, runners and notifiers; with pytest.

Each is a class of tests. Derive a class named `Test...` from it in your tests, and override its fixtures:

    class TestOurStore(StoreConformance):
        @pytest.fixture
        def store(self): ...

No other package of lance_ops imports this one. Public names are loaded when they are first used: workers that
import the tasks of the suite for runners need no pytest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lance_ops.extras import load_extra

if TYPE_CHECKING:
    from lance_ops.testing.committer import CommitterConformance
    from lance_ops.testing.manifest_store import ManifestStoreConformance
    from lance_ops.testing.notifier import NotifierConformance
    from lance_ops.testing.runner import RunnerConformance
    from lance_ops.testing.store.suite import StoreConformance

_HOMES = {
    "CommitterConformance": "lance_ops.testing.committer",
    "ManifestStoreConformance": "lance_ops.testing.manifest_store",
    "NotifierConformance": "lance_ops.testing.notifier",
    "RunnerConformance": "lance_ops.testing.runner",
    "StoreConformance": "lance_ops.testing.store.suite",
}

__all__ = [
    "CommitterConformance",
    "ManifestStoreConformance",
    "NotifierConformance",
    "RunnerConformance",
    "StoreConformance",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lance_ops.testing' has no attribute {name!r}")
    # Makes failed assertions show both sides, as in a test file.
    load_extra("pytest").register_assert_rewrite(home.removesuffix(".suite"))
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
