"""The complete test suite for stores."""

import pytest

from lance_ops.storage import Store
from lance_ops.testing.store.names import Names
from lance_ops.testing.store.objects import Failing, Objects
from lance_ops.testing.store.writers import Writers


class StoreConformance(Objects, Writers, Names):
    """Contract of `Store`. A subclass named `Test...` overrides the fixtures.

    A test that does not apply is removed by its name: the backend of a store in memory cannot fail, so its
    class sets `test_what_cannot_be_found_out_is_an_error_and_not_absence = None`.
    """

    @pytest.fixture
    def store(self) -> Store:
        """A fresh, empty store for each test."""
        raise pytest.UsageError("override the fixture `store`: it gives a fresh, empty store")

    @pytest.fixture
    def failing(self) -> Failing:
        """Make a context manager in which every request to the backend fails."""
        raise pytest.UsageError("override the fixture `failing`: it makes the backend of the store fail")
