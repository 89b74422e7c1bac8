"""ZONEMAP through whatever happens to its table: no answer changes, and ours keeps its coverage."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.safety.profile import examples
from tests.support.index_histories import IndexHistory, Steps, steps
from tests.support.zones import values

pytestmark = pytest.mark.peer

NUMBERS = (
    "x = 5",
    "x >= 8 and x < 11",
    "x in (1, 7, 30)",
    "x is null",
    "x is not null",
    "x > 11 or x is null",
    "x <> 3",
    "x < 2 and id > 4",
)
TEXTS = (
    "s = 'a3'",
    "s >= 'b'",
    "s is null",
    "s like 'c%'",
    "starts_with(s, 'a1')",
    "s in ('a2', 'c0', 'zz')",
)


@given(steps(), st.booleans(), st.booleans(), st.sampled_from([3, 5, 8192]))
@examples(12)
def test_a_zone_map_of_numbers_answers_like_a_scan_whatever_happens(
    happens: Steps, stable: bool, first_by_peer: bool, rows: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        IndexHistory(
            Path(folder) / "t.lance",
            values,
            "x",
            "ZONEMAP",
            NUMBERS,
            "x is null",
            {"rows_per_zone": rows},
            stable=stable,
            first_by_peer=first_by_peer,
        ).run(happens)


@given(steps(), st.booleans())
@examples(5)
def test_a_zone_map_of_texts_answers_like_a_scan_whatever_happens(
    happens: Steps, first_by_peer: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        IndexHistory(
            Path(folder) / "t.lance",
            values,
            "s",
            "ZONEMAP",
            TEXTS,
            "s is null",
            {"rows_per_zone": 4},
            first_by_peer=first_by_peer,
        ).run(happens)
