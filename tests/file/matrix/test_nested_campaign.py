"""Random nested types to depth 5: the first cases of the campaign of `make nested`."""

import pytest

from tests.file.matrix.nested_campaign import run_cases

pytestmark = pytest.mark.peer


def test_both_read_what_either_writes() -> None:
    outcomes, wrong = run_cases(range(100))
    assert not wrong
    assert outcomes["equal"] >= 90
