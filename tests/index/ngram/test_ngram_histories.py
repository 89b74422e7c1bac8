"""NGRAM through whatever happens to its table: no answer changes, and ours keeps its coverage."""

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

FILTERS = (
    "contains(s, 'lph')",
    "contains(s, '12')",
    "contains(s, 'absent')",
    "s like '%eta 1%'",
    "s like 'al\\_pha%' or s like 'gamma%'",
    "starts_with(s, 'Gam')",
    "s = 'beta 13'",
    "contains(s, 'gam') and id > 8",
    "not contains(s, 'alpha')",
    "s is null",
)
WORDS = ("alpha", "beta", "Gamma", "dé élta", "日本語 alphabet", "")


def values(numbers: Sequence[int]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "s": pa.array([None if n % 11 == 5 else f"{WORDS[n % 6]} {n}" for n in numbers]),
            "other": pa.array([n % 3 for n in numbers], pa.int64()),
        }
    )


@given(steps(), st.booleans(), st.booleans())
@examples(12)
def test_trigrams_answer_like_a_scan_whatever_happens(
    happens: Steps, stable: bool, first_by_peer: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        IndexHistory(
            Path(folder) / "t.lance",
            values,
            "s",
            "NGRAM",
            FILTERS,
            "contains(s, 'lph')",
            stable=stable,
            first_by_peer=first_by_peer,
        ).run(happens)
