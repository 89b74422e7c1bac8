"""Damaged indices of every kind: no crash, no hang, no memory for mere claims, no row that is not there."""

import pytest

from lance_ops.index.registry import all_kinds
from tests.fuzz.campaign import run_campaign
from tests.fuzz.index_check import IndexExaminer, count_kinds
from tests.fuzz.index_corpus import IndexSample, build_index_corpus

pytestmark = pytest.mark.peer

CASES = 2_000
"""What takes a quarter of a minute of two processes; `.ci/run` goes on from there with `make fuzz`."""
_OF_NO_INDEX = {"VECTOR"}
"""Kinds that only choose another one."""


@pytest.fixture(scope="module")
def samples() -> list[IndexSample]:
    return build_index_corpus()


def test_the_undamaged_indices_are_read(samples: list[IndexSample]) -> None:
    IndexExaminer(samples)
    assert set(count_kinds(samples)) == {kind.name for kind in all_kinds()} - _OF_NO_INDEX


@pytest.mark.slow
def test_seeded_damage_ends_in_a_typed_error_a_scan_or_rows_that_are_there() -> None:
    result = run_campaign(0, CASES, subject="indices", workers=2)
    assert not result.bugs, str(result)
    assert result.answers + result.errors == CASES
    # Both have to be reached, or the damage is too coarse or too fine to prove anything.
    assert min(result.answers, result.errors) > CASES // 8
