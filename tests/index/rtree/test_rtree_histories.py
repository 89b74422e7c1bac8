"""RTREE through whatever happens to its table: no answer changes, and ours keeps its coverage."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.safety.profile import examples
from tests.support.geometries import values
from tests.support.index_histories import IndexHistory, Steps, steps

pytestmark = pytest.mark.peer

SHAPE = "st_geomfromtext('POLYGON((10 10, 60 12, 50 70, 5 40, 10 10))')"


def filters(column: str) -> list[str]:
    return [
        f"st_intersects({column}, {SHAPE})",
        f"st_within({column}, {SHAPE}) AND id > 5",
        f"NOT st_intersects({column}, {SHAPE})",
        f"st_contains({column}, st_point(37, 53))",
        f"st_intersects({column}, st_geomfromtext('LINESTRING(0 0, 50 50, 90 20)'))",
        f"st_intersects({column}, st_point(-5, -5))",
        f"{column} IS NULL",
        f"st_within({column}, {SHAPE}) OR {column} IS NULL",
        f"st_disjoint({column}, {SHAPE})",
    ]


@given(steps(), st.booleans(), st.booleans(), st.sampled_from(["p", "b"]), st.sampled_from([2, 3, 4096]))
@examples(12)
def test_boxes_answer_like_a_scan_whatever_happens(
    happens: Steps, stable: bool, first_by_peer: bool, column: str, page: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        IndexHistory(
            Path(folder) / "t.lance",
            values,
            column,
            "RTREE",
            filters(column),
            f"st_intersects({column}, st_point(37, 53))",
            {"page_size": page},
            stable=stable,
            first_by_peer=first_by_peer,
        ).run(happens)
