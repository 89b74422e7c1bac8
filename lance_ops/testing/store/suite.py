"""The suite of stores, put together."""

import pytest

from lance_ops.storage import Store
from lance_ops.testing.store.names import Names
from lance_ops.testing.store.objects import Failing, Objects
from lance_ops.testing.store.writers import Writers


class StoreConformance(Objects, Writers, Names):
    """What every `Store` promises. A subclass named `Test...` overrides the fixtures.

    A promise that does not apply is taken back by its name: nothing behind a store in memory can fail, so
    its class says `test_what_cannot_be_found_out_is_an_error_and_not_absence = None`.
    """

    @pytest.fixture
    def store(self) -> Store:
        """A fresh, empty store for each test."""
        raise pytest.UsageError("override the fixture `store`: it gives a fresh, empty store")

    @pytest.fixture
    def failing(self) -> Failing:
        """Makes a context manager in which whatever is behind the store answers nothing but errors."""
        raise pytest.UsageError("override the fixture `failing`: it makes what is behind the store fail")
