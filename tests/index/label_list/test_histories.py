"""A table under a LABEL_LIST, whatever happens to it: answers are those of a scan and of the peer."""

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

TEXTS = (["a"], [], ["b", None], ["a", "b", "a"], [None], ["c"], ["d", "a"], None)
NUMBERS = ([1], [], [2, None], [1, 2, 1], [None], [-3], [4, 1], None)
FILTERS = {
    "text": (
        "array_has(text, 'a')",
        "NOT array_has(text, 'a')",
        "array_has_any(text, ['b', 'c'])",
        "array_has_any(text, ['c', NULL])",
        "array_has_all(text, ['a', 'b'])",
        "NOT array_has_all(text, ['a', 'b'])",
        "array_contains(text, 'zz')",
        "text IS NULL",
    ),
    "number": (
        "array_has_any(number, [2, -3])",
        "array_has(number, 1)",
        "NOT array_has_any(number, [1, 4])",
        "array_has_all(number, [1, 2])",
        "number IS NOT NULL",
    ),
}


def values(numbers: Sequence[int]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "other": pa.array([0 for _ in numbers], pa.int64()),
            "text": pa.array([TEXTS[n * 5 % 8] for n in numbers], pa.list_(pa.string())),
            "number": pa.array([NUMBERS[n * 3 % 8] for n in numbers], pa.large_list(pa.int64())),
        }
    )


@given(happens=steps(), column=st.sampled_from(sorted(FILTERS)), stable=st.booleans(), by_peer=st.booleans())
@examples(14)
def test_answers_are_those_of_a_scan_after_any_history(
    happens: Steps, column: str, stable: bool, by_peer: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        IndexHistory(
            Path(folder) / "t.lance",
            values,
            column,
            "LABEL_LIST",
            FILTERS[column],
            FILTERS[column][0],
            stable=stable,
            first_by_peer=by_peer,
            deltas=not stable,
        ).run(happens)
