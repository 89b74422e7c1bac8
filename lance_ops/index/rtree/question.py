"""What a condition on a column of geometries asks of a tree: the box that a geometry has to touch."""

import numpy as np

from lance_ops.filter.evaluate.evaluate import constant
from lance_ops.filter.expression import Column, Expression, Function
from lance_ops.filter.functions.geo import RELATIONS, shapely
from lance_ops.index.rtree.boxes import Boxes

# These hold between geometries far from each other, and the last one between empty ones.
_SERVED = frozenset(RELATIONS) - {"st_disjoint", "st_equals"}


def asked_box(condition: Expression) -> Boxes | None:
    """The box, of the shape (4,); None when the condition does not ask for geometries that touch one."""
    match condition:
        case Function(name, (Column(), shape) | (shape, Column())) if name in _SERVED:
            if any(isinstance(node, Column) for node in shape.walk()):
                return None
            value = constant(shape).value
            if value is None:
                return None
            box = np.asarray(shapely().from_wkb(value).bounds, np.float64)
            return None if np.isnan(box).any() else box
    return None
