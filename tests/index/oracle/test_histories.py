"""Whatever either library does to a table, every index answers as a scan does, and as the peer does.

`ORACLE=20` runs twenty times as many histories.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_ops.index.registry import all_kinds
from tests.index.oracle.columns import APPROXIMATE, EVERY
from tests.index.oracle.history import ALL_STEPS, STEPS, run
from tests.index.oracle.values import VALUES, indexed

pytestmark = pytest.mark.peer

TIMES = int(os.environ.get("ORACLE", "1"))
OURS = {kind.name for kind in all_kinds()}
NOT_WITH_STABLE_ROW_IDS = ("JSON",)
"""What the peer does not build on a table with stable row ids."""
BUILT = tuple(item for item in EVERY if item.kind in OURS)
FEWER_RECALLED = 0.01


def histories(examples: int):
    """Settings of a test of so many histories."""
    return settings(max_examples=examples * TIMES, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("item", BUILT, ids=lambda item: item.kind)
@histories(3)
@given(
    seed=st.integers(0, 1 << 30),
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=7),
    ours=st.booleans(),
    stable=st.booleans(),
)
def test_one_index(tmp_path_factory: pytest.TempPathFactory, item, seed, steps, ours, stable) -> None:
    stable = stable and item.kind not in NOT_WITH_STABLE_ROW_IDS
    run(
        tmp_path_factory.mktemp("t") / "t.lance",
        [item],
        seed,
        steps,
        {item.kind} if ours else set(),
        stable_row_ids=stable,
    )


@pytest.mark.parametrize("name", VALUES)
@histories(3)
@given(
    seed=st.integers(0, 1 << 30),
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=7),
    ours=st.booleans(),
    stable=st.booleans(),
    choice=st.integers(0, 3),
)
def test_values_of_every_type(
    tmp_path_factory: pytest.TempPathFactory, name, seed, steps, ours, stable, choice
) -> None:
    kinds = VALUES[name].kinds
    item = indexed(name, kinds[choice % len(kinds)])
    run(
        tmp_path_factory.mktemp("t") / "t.lance",
        [item],
        seed,
        steps,
        {item.kind} if ours else set(),
        stable_row_ids=stable,
    )


@pytest.mark.parametrize("item", APPROXIMATE, ids=lambda item: item.kind)
@histories(3)
@given(
    seed=st.integers(0, 1 << 30),
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=7),
    ours=st.booleans(),
    stable=st.booleans(),
)
def test_nearest_vectors(tmp_path_factory: pytest.TempPathFactory, item, seed, steps, ours, stable) -> None:
    answers = run(
        tmp_path_factory.mktemp("t") / "t.lance",
        [item],
        seed,
        steps,
        {item.kind} if ours else set(),
        stable_row_ids=stable,
        first_rows=300,
    )
    mine, peers = answers.recall()
    assert mine >= peers - FEWER_RECALLED, answers.log


@histories(3)
@given(
    seed=st.integers(0, 1 << 30),
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=6),
    ours=st.sets(st.sampled_from([item.kind for item in BUILT])),
)
def test_all_of_them_on_one_table(tmp_path_factory: pytest.TempPathFactory, seed, steps, ours) -> None:
    path: Path = tmp_path_factory.mktemp("t") / "t.lance"
    run(path, BUILT, seed, steps, ours)


@histories(3)
@given(
    seed=st.integers(0, 1 << 30),
    steps=st.lists(st.sampled_from(sorted(ALL_STEPS)), min_size=3, max_size=8),
    ours=st.sets(st.sampled_from([item.kind for item in BUILT])),
    some=st.sets(st.sampled_from([item.column for item in BUILT]), min_size=1, max_size=3),
)
def test_columns_and_indices_that_come_and_go(
    tmp_path_factory: pytest.TempPathFactory, seed, steps, ours, some
) -> None:
    path: Path = tmp_path_factory.mktemp("t") / "t.lance"
    run(path, [item for item in BUILT if item.column in some], seed, steps, ours)
