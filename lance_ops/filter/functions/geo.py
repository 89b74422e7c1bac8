"""Functions of geometries: columns of points and boxes, and constants of any kind as strings.

A column holds points as structs of `x` and `y`, or boxes of `xmin`, `ymin`, `xmax` and `ymax`, as GeoArrow
has it. The result geometry of a function is WKB, and never a literal, because SQL has no syntax for it.
Predicates are evaluated by GEOS, through shapely, an extra.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import PredicateError
from lance_ops.extras import load_extra
from lance_ops.filter.functions.signature import TRUTH, Datum, FunctionSpec, always, as_array
from lance_ops.filter.types.coercion import FLOAT64

POINT = ("x", "y")
BOX = ("xmin", "ymin", "xmax", "ymax")

RELATIONS = (
    "st_intersects",
    "st_contains",
    "st_within",
    "st_covers",
    "st_coveredby",
    "st_crosses",
    "st_disjoint",
    "st_equals",
    "st_overlaps",
    "st_touches",
)
_GEOS_NAMES = {"st_coveredby": "covered_by"}
_WKB = pa.binary()

Geometries = npt.NDArray[np.object_]


def shapely() -> Any:
    """Return the library.

    Raises:
        MissingExtraError: It is not installed.
    """
    return load_extra("shapely")


def geometry_of_text(text: str) -> Any:
    """Return the geometry of a WKT text.

    Raises:
        PredicateError: It is none.
    """
    library = shapely()
    try:
        return library.from_wkt(text)
    except library.errors.ShapelyError as error:
        raise PredicateError(
            f"{text!r} is not a valid geometry: {error}", hint="write it as WKT: POINT(1 2)"
        ) from error


def _geometries(values: pa.Array) -> Geometries:
    """Return shapely's geometries, None for nulls."""
    library = shapely()
    if pa.types.is_binary(values.type):
        encoded = values.dictionary_encode()
        known = library.from_wkb(np.array(encoded.dictionary.to_pylist(), object))
        found = np.full(len(values), None, object)
        valid = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        found[valid] = known[encoded.indices.drop_null().to_numpy()]
        return found
    names = [field.name for field in values.type]
    columns = [np.asarray(values.field(name).to_numpy(zero_copy_only=False), float) for name in names]
    made: Geometries = library.points(*columns) if tuple(names) == POINT else library.box(*columns)
    if values.null_count:
        made[values.is_null().to_numpy(zero_copy_only=False)] = None
    return made


def _both(one: Datum, other: Datum) -> tuple[Geometries | Any, Geometries | Any, npt.NDArray[np.bool_]]:
    """Two operands for shapely, a constant as one geometry, and where one of them is null."""
    rows = next(len(side) for side in (one, other) if isinstance(side, pa.Array))
    sides = []
    missing = np.zeros(rows, np.bool_)
    for side in (one, other):
        array = side if isinstance(side, pa.Array) else as_array(side, 1)
        constant = len(array) > 1 and pa.types.is_binary(array.type) and len(array.unique()) == 1
        made = _geometries(array.slice(0, 1) if constant else array)
        missing |= shapely().is_missing(made)
        if len(made) == 1 and made[0] is not None:
            shapely().prepare(made)
        sides.append(made)
    return sides[0], sides[1], missing


def _relation(name: str) -> Callable[[Datum, Datum], pa.Array]:
    geos = _GEOS_NAMES.get(name, name.removeprefix("st_"))

    def kernel(one: Datum, other: Datum) -> pa.Array:
        left, right, missing = _both(one, other)
        found = getattr(shapely(), geos)(left, right)
        return pa.array(np.broadcast_to(found, missing.shape), pa.bool_(), mask=missing)

    return kernel


def _distance(one: Datum, other: Datum) -> pa.Array:
    left, right, missing = _both(one, other)
    found = np.broadcast_to(shapely().distance(left, right), missing.shape)
    return pa.array(found, FLOAT64, mask=missing)


def _coordinate(name: str) -> Callable[[Datum], pa.Array]:
    def kernel(values: Datum) -> pa.Array:
        found = _geometries(as_array(values, 1))
        numbers = getattr(shapely(), name)(found)
        return pa.array(numbers, FLOAT64, mask=shapely().is_missing(found) | np.isnan(numbers))

    return kernel


def _area(values: Datum) -> pa.Array:
    found = _geometries(as_array(values, 1))
    return pa.array(shapely().area(found), FLOAT64, mask=shapely().is_missing(found))


def _from_text(texts: Datum) -> pa.Array:
    encoded = as_array(texts, 1).dictionary_encode()
    library = shapely()
    known = [
        None if text is None else library.to_wkb(geometry_of_text(text))
        for text in encoded.dictionary.to_pylist()
    ]
    return pa.array(known, _WKB).take(encoded.indices)


def _point(x: Datum, y: Datum) -> pa.Array:
    rows = next(len(side) for side in (x, y) if isinstance(side, pa.Array))
    sides = [as_array(side, rows) for side in (x, y)]
    missing = np.logical_or(*(side.is_null().to_numpy(zero_copy_only=False) for side in sides))
    numbers = [np.asarray(side.fill_null(0.0).to_numpy(zero_copy_only=False), float) for side in sides]
    library = shapely()
    made = pa.array(library.to_wkb(library.points(*numbers)), _WKB)
    return pa.array(made.to_pylist(), _WKB, mask=missing)


GEO_FUNCTIONS = (
    *(FunctionSpec(name, ("geometry", "geometry"), TRUTH, _relation(name)) for name in RELATIONS),
    FunctionSpec("st_distance", ("geometry", "geometry"), always(FLOAT64), _distance),
    FunctionSpec("st_x", ("geometry",), always(FLOAT64), _coordinate("get_x")),
    FunctionSpec("st_y", ("geometry",), always(FLOAT64), _coordinate("get_y")),
    FunctionSpec("st_area", ("geometry",), always(FLOAT64), _area),
    FunctionSpec("st_geomfromtext", ("text",), always(_WKB), _from_text, can_fail=True, stays=True),
    FunctionSpec("st_point", ("double", "double"), always(_WKB), _point, stays=True),
)
