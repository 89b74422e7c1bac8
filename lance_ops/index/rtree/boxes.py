"""Bounding boxes of geometries, and their order along a Hilbert curve."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Boxes = npt.NDArray[np.float64]
"""One row a box: least x, least y, greatest x, greatest y; NaN for empty geometries."""

POINT = ("x", "y")
BOX = ("xmin", "ymin", "xmax", "ymax")

_BITS = 16
_DIGIT_BITS = 4


def is_geometry(arrow_type: pa.DataType) -> bool:
    """Return whether values are points or boxes in the plane, or lists of points, as in GeoArrow."""
    while pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        arrow_type = arrow_type.value_type
        if pa.types.is_struct(arrow_type) and _names(arrow_type) == BOX:
            return False
    return (
        pa.types.is_struct(arrow_type)
        and _names(arrow_type) in (POINT, BOX)
        and all(pa.types.is_float64(field.type) for field in arrow_type)
    )


def geometry_boxes(values: pa.Array) -> Boxes:
    """Bounding boxes of geometries: a null or empty one has none."""
    if pa.types.is_struct(values.type):
        columns = [
            np.asarray(values.field(name).to_numpy(zero_copy_only=False)) for name in _names(values.type)
        ]
        boxes = np.column_stack(columns if len(columns) == 4 else [*columns, *columns]).astype(np.float64)
        boxes[np.isnan(boxes).any(axis=1)] = np.nan
    else:
        offsets = np.asarray(values.offsets.to_numpy(), np.int64)
        inner = geometry_boxes(values.values.slice(offsets[0], offsets[-1] - offsets[0]))
        boxes = np.full((len(values), 4), np.nan)
        filled = np.flatnonzero(np.diff(offsets))
        if len(filled):
            starts = offsets[filled] - offsets[0]
            boxes[filled, :2] = np.fmin.reduceat(inner[:, :2], starts, axis=0)
            boxes[filled, 2:] = np.fmax.reduceat(inner[:, 2:], starts, axis=0)
    if values.null_count:
        boxes[values.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return boxes


def around(boxes: Boxes) -> Boxes:
    """Return the bounding box of some boxes, of the shape (4,); NaN if there is none."""
    known = boxes[~np.isnan(boxes[:, 0])]
    if not len(known):
        return np.full(4, np.nan)
    return np.concatenate([known[:, :2].min(axis=0), known[:, 2:].max(axis=0)])


def overlap(boxes: Boxes, other: Boxes) -> npt.NDArray[np.bool_]:
    """Return which boxes have a point in common with another one, edges included."""
    inside = (boxes[:, :2] <= other[2:]) & (boxes[:, 2:] >= other[:2])
    return np.asarray(inside.all(axis=1), np.bool_)


def hilbert_keys(boxes: Boxes, whole: Boxes) -> npt.NDArray[np.uint64]:
    """Places of the middles of boxes along a curve that fills a box around all of them."""
    cells = (1 << _BITS) - 1
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        middles = boxes[:, :2] / 2 + boxes[:, 2:] / 2
        scaled = (middles - whole[:2]) / (whole[2:] - whole[:2]) * cells
    # Infinite coordinates, or an empty extent, have no position on the curve: any will do.
    places = np.clip(np.nan_to_num(scaled, nan=0.0), 0, cells).astype(np.uint16)
    x, y = places[:, 0], places[:, 1]
    keys = np.zeros(len(boxes), np.uint64)
    states = np.zeros(len(boxes), np.uint16)
    for shift in range(_BITS - _DIGIT_BITS, -1, -_DIGIT_BITS):
        side = np.uint16((1 << _DIGIT_BITS) - 1)
        cell = ((x >> np.uint16(shift)) & side) << np.uint16(_DIGIT_BITS) | ((y >> np.uint16(shift)) & side)
        step = _STEPS[states, cell]
        keys = keys << np.uint64(2 * _DIGIT_BITS) | (step & np.uint16((1 << 2 * _DIGIT_BITS) - 1))
        states = step >> np.uint16(2 * _DIGIT_BITS)
    return keys


def _steps() -> npt.NDArray[np.uint16]:
    """How the curve goes through a square of 16 by 16 cells, by the way it lies and the cell.

    The curve lies in one of four ways, with its coordinates exchanged or not (1) and reversed or not (2). A
    step is the place of the cell along the curve, and above it the way in which the curve lies in the cell.
    """
    found = np.zeros((4, 1 << 2 * _DIGIT_BITS), np.uint16)
    for state in range(4):
        for cell in range(1 << 2 * _DIGIT_BITS):
            lies, place = state, 0
            for bit in reversed(range(_DIGIT_BITS)):
                x, y = (cell >> _DIGIT_BITS + bit) & 1, (cell >> bit) & 1
                if lies & 1:
                    x, y = y, x
                if lies & 2:
                    x, y = 1 - x, 1 - y
                place = place << 2 | (3 * x) ^ y
                if not y:
                    lies ^= 3 if x else 1
            found[state, cell] = lies << 2 * _DIGIT_BITS | place
    return found


def _names(arrow_type: pa.DataType) -> tuple[str, ...]:
    return tuple(field.name for field in arrow_type)


_STEPS = _steps()
