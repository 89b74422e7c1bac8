"""BLOOMFILTER through whatever happens to its table: no answer changes, and ours keeps its coverage."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.safety.profile import examples
from tests.support.index_histories import IndexHistory, Steps, steps
from tests.support.zones import values

pytestmark = pytest.mark.peer

FILTERS = (
    "s = 'a3'",
    "s in ('a2', 'c0', 'zz')",
    "s is null",
    "s = 'b1' or s = 'a1'",
    "s = 'a4' and id > 4",
    "s > 'b'",
)


@given(steps(), st.booleans(), st.booleans(), st.sampled_from([3, 5, 8192]))
@examples(12)
def test_bloom_filters_answer_like_a_scan_whatever_happens(
    happens: Steps, stable: bool, first_by_peer: bool, items: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        IndexHistory(
            Path(folder) / "t.lance",
            values,
            "s",
            "BLOOMFILTER",
            FILTERS,
            "s is null",
            {"number_of_items": items, "probability": 0.01},
            stable=stable,
            first_by_peer=first_by_peer,
        ).run(happens)
