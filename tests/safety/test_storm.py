"""Compactions while other processes delete, update and upsert: none is lost, and nobody loses to them."""

import pytest

from tests.safety.profile import FACTOR, SIMULATING
from tests.safety.storm import storm
from tests.safety.upsert_storm import upsert_storm

pytestmark = pytest.mark.peer

CASES = [(True, True), (True, False), (False, True), (False, False)] if SIMULATING else [(False, True)]


@pytest.mark.parametrize(("stable", "btree"), CASES)
def test_no_compaction_is_lost_and_no_row_is_read_twice(tmp_path, stable, btree):
    found = storm(
        str(tmp_path / "table"),
        compactions=4 * max(1, FACTOR),
        seed=7,
        stable=stable,
        btree=btree,
        rows=1000,
        writers=4 if SIMULATING else 2,
    )
    assert (found.lost, found.replanned, found.rows_twice) == (0, 0, 0), "\n".join(found.lines)
    assert found.compactions > 0
    assert found.writes > 0
    assert not found.writes_lost["our delete"]
    assert not found.writes_lost["our update"]


@pytest.mark.parametrize("stable", [False, True] if SIMULATING else [True])
def test_upserts_deletes_updates_and_compactions_of_the_same_rows_are_as_one_after_the_other(
    tmp_path, stable
):
    found = upsert_storm(
        str(tmp_path / "table"),
        seed=11,
        operations=8 * max(1, FACTOR),
        seconds=120,
        stable=stable,
        keys=400,
    )
    assert not found.lost
    assert found.done
