"""A table under a BITMAP, whatever happens to it: answers are those of a scan and of the peer."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.safety.profile import examples
from tests.support.index_histories import IndexHistory, Steps, steps

pytestmark = pytest.mark.peer

FLOATS = (float("nan"), 0.0, -0.0, 1.5, -2.5, float("inf"))
FILTERS = {
    "i": ("i = 3", "i != 3", "i IN (1, 4)", "i NOT IN (1, 4)", "i IS NULL", "i < 2 OR i IS NULL"),
    "f": ("f = 0.0", "f != 0.0", "f > 0", "f BETWEEN -3.0 AND 1.0", "f IS NULL"),
    "s": ("s = 'k1'", "s >= 'k2'", "NOT (s BETWEEN 'k1' AND 'k2')", "s LIKE 'k1%'", "s IS NOT NULL"),
}


def values(numbers: Sequence[int]) -> pa.Table:
    def some(n: int, value: object) -> object:
        return None if n % 9 == 4 else value

    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "other": pa.array([0 for _ in numbers], pa.int64()),
            "i": pa.array([some(n, n % 5) for n in numbers], pa.int32()),
            "f": pa.array([some(n, FLOATS[n % 6]) for n in numbers], pa.float64()),
            "s": pa.array([some(n, f"k{n % 4}") for n in numbers]),
        }
    )


@given(happens=steps(), column=st.sampled_from("ifs"), stable=st.booleans(), by_peer=st.booleans())
@examples(14)
def test_answers_are_those_of_a_scan_after_any_history(
    happens: Steps, column: str, stable: bool, by_peer: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        IndexHistory(
            Path(folder) / "t.lance",
            values,
            column,
            "BITMAP",
            FILTERS[column],
            FILTERS[column][0],
            stable=stable,
            first_by_peer=by_peer,
            deltas=not stable,
        ).run(happens)
