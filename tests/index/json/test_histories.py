"""A table under an index of documents, whatever happens to it: answers are those of a scan and the peer."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.safety.profile import examples
from tests.support.index_histories import ACTIONS, IndexHistory, Steps, steps

pytestmark = pytest.mark.peer

DOCUMENTS = (
    {"number": 1, "text": "x"},
    {"number": None, "part": 1.5},
    {},
    {"number": 7, "text": "yes", "part": 0.5, "truth": True},
    {"part": -2.0, "text": "x", "truth": False},
)
FILTERS = {
    "number": (
        "json_get_int(j, 'number') = 7",
        "json_get_int(j, 'number') IS NULL",
        "json_get_int(j, 'number') IN (1, 2)",
        "json_get_int(j, 'number') < 5 AND json_get_int(j, 'number') > 0",
        "json_extract(j, '$.number') = '7'",
    ),
    "part": (
        "json_get_float(j, 'part') <= 0.5",
        "json_get_float(j, 'part') = 1.5",
        "json_get_float(j, 'part') IS NULL",
    ),
    "text": (
        "json_get_string(j, 'text') = 'x'",
        "json_get_string(j, 'text') > 'x'",
        "NOT (json_get_string(j, 'text') = 'x')",
        "json_extract(j, 'text') = '\"yes\"'",
    ),
    "truth": ("json_get_bool(j, 'truth')", "json_get_bool(j, 'truth') IS NULL"),
}


def values(numbers: Sequence[int]) -> pa.Table:
    documents = [None if n % 9 == 4 else json.dumps(DOCUMENTS[n % 5]) for n in numbers]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "other": pa.array([0 for _ in numbers], pa.int64()),
            "j": pa.array(documents, pa.json_()),
        }
    )


def history(folder: str, member: str, target: str, **options: object) -> IndexHistory:
    return IndexHistory(
        Path(folder) / "t.lance",
        values,
        "j",
        "JSON",
        FILTERS[member],
        # The peer does not ask an index whether a member is true.
        FILTERS[member][0] if member != "truth" else FILTERS[member][1],
        parameters={"path": member, "target_index_type": target},
        **options,
    )


@given(happens=steps(), member=st.sampled_from(["number", "text"]), by_peer=st.booleans())
@examples(8)
def test_answers_under_a_btree_of_values_are_those_of_a_scan(
    happens: Steps, member: str, by_peer: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history(folder, member, "btree", first_by_peer=by_peer).run(happens)


@given(
    # Release 14.0.2 cannot refresh it.
    happens=steps(actions=[action for action in ACTIONS if action != "optimize"]),
    member=st.sampled_from(sorted(FILTERS)),
    by_peer=st.booleans(),
)
@examples(6)
def test_answers_under_a_bitmap_of_values_are_those_of_a_scan(
    happens: Steps, member: str, by_peer: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = history(folder, member, "bitmap", first_by_peer=by_peer)
        table.run([*happens, ("append", True, 0), ("optimize", False, 1)])


@given(
    # Nor make an index of a BTREE where rows keep ids of their own.
    happens=steps(actions=["append", "delete", "update", "merge", "compact", "restore"]),
    target=st.sampled_from(["btree", "bitmap"]),
)
@examples(6)
def test_answers_by_stable_row_ids_are_those_of_a_scan(happens: Steps, target: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history(folder, "number", target, stable=True).run([*happens, ("optimize", False, 1)])
