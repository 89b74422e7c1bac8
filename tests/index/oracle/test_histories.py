"""Whatever either library does to a table, every index answers as a scan does, and as the peer does.

`ORACLE=20` runs twenty times as many histories.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_ops.index.registry import KINDS
from tests.index.oracle.columns import EVERY
from tests.index.oracle.history import STEPS, run

pytestmark = pytest.mark.peer

TIMES = int(os.environ.get("ORACLE", "1"))
OURS = {kind.name for kind in KINDS}
NOT_WITH_STABLE_ROW_IDS = ("JSON",)
"""What the peer does not build on a table with stable row ids."""
BUILT = tuple(item for item in EVERY if item.kind in OURS)


@pytest.mark.parametrize("item", BUILT, ids=lambda item: item.kind)
@settings(max_examples=3 * TIMES, deadline=None, suppress_health_check=list(HealthCheck))
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


@settings(max_examples=3 * TIMES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 1 << 30),
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=6),
    ours=st.sets(st.sampled_from([item.kind for item in BUILT])),
)
def test_all_of_them_on_one_table(tmp_path_factory: pytest.TempPathFactory, seed, steps, ours) -> None:
    path: Path = tmp_path_factory.mktemp("t") / "t.lance"
    run(path, BUILT, seed, steps, ours)
