"""Boxes around geometries, and their order along a curve."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.index.rtree.boxes import around, geometry_boxes, hilbert_keys, is_geometry, overlap

POINT = pa.struct([pa.field("x", pa.float64(), False), pa.field("y", pa.float64(), False)])
LINE = pa.list_(pa.field("vertices", POINT, False))
POLYGON = pa.list_(pa.field("rings", LINE, False))
BOX = pa.struct([pa.field(name, pa.float64(), False) for name in ("xmin", "ymin", "xmax", "ymax")])


def point(x: float, y: float) -> dict[str, float]:
    return {"x": x, "y": y}


def test_lines_and_polygons_lie_in_the_boxes_of_their_points() -> None:
    lines = [[point(1, 5), point(3, 2)], None, [], [point(0, 0)]]
    found = geometry_boxes(pa.array([[point(9, 9)], *lines], LINE).slice(1))
    assert str(found.tolist()) == str([[1.0, 2.0, 3.0, 5.0], [np.nan] * 4, [np.nan] * 4, [0.0] * 4])
    polygons = pa.array([[lines[0], [point(-1, 3)]], [[]], None], POLYGON)
    assert str(geometry_boxes(polygons).tolist()) == str([[-1.0, 2.0, 3.0, 5.0], [np.nan] * 4, [np.nan] * 4])


def test_a_point_without_a_place_has_no_box() -> None:
    found = geometry_boxes(pa.array([point(np.nan, np.nan), point(1, np.nan), point(1, 2), None], POINT))
    assert np.isnan(found[[0, 1, 3]]).all()
    assert found[2].tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("arrow_type", "expected"),
    [
        (POINT, True),
        (BOX, True),
        (LINE, True),
        (POLYGON, True),
        (pa.list_(BOX), False),
        (pa.list_(pa.float64()), False),
        (pa.struct([("x", pa.float32()), ("y", pa.float32())]), False),
        (pa.struct([("x", pa.float64()), ("y", pa.float64()), ("z", pa.float64())]), False),
    ],
)
def test_geometries_have_two_coordinates(arrow_type: pa.DataType, expected: bool) -> None:
    assert is_geometry(arrow_type) == expected


def test_neighbours_along_the_curve_are_neighbours_in_the_plane() -> None:
    x, y = (side.ravel().astype(float) for side in np.meshgrid(np.arange(16), np.arange(16)))
    keys = hilbert_keys(np.column_stack([x, y, x, y]), np.array([0.0, 0.0, 15.0, 15.0]))
    assert len(np.unique(keys)) == len(keys)
    order = np.argsort(keys)
    steps = np.abs(np.diff(x[order])) + np.abs(np.diff(y[order]))
    assert steps.max() == 1


NUMBER = st.sampled_from([-np.inf, -1e308, -1.0, 0.0, 1.0, 1e308, np.inf])


@given(st.lists(st.tuples(NUMBER, NUMBER), min_size=1))
def test_every_geometry_has_a_place_on_the_curve(points: list[tuple[float, float]]) -> None:
    boxes = np.array([[x, y, x, y] for x, y in points])
    assert len(hilbert_keys(boxes, around(boxes))) == len(points)


def test_boxes_that_share_an_edge_overlap() -> None:
    boxes = np.array([[0.0, 0, 1, 1], [1, 1, 2, 2], [1.1, 0, 2, 1], [0.2, 0.2, 0.3, 0.3]])
    assert overlap(boxes, np.array([0.0, 0, 1, 1])).tolist() == [True, True, False, True]
