"""Nearest query: validate the argument `nearest` against the column of vectors."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrays import number_dtype
from lance_ops.errors import InvalidArgumentError, check_type
from lance_ops.index.scored import NearestQuery
from lance_ops.index.vector.metric import metric_named
from lance_ops.index.vector.vectors import fixed_size_hint, holds_several
from lance_ops.table.snapshot import Snapshot

_KNOWN = (
    "column",
    "q",
    "k",
    "metric",
    "nprobes",
    "minimum_nprobes",
    "maximum_nprobes",
    "refine_factor",
    "ef",
    "distance_range",
    "use_index",
)
_K = 10


def nearest_queries(
    dataset: Snapshot, given: Mapping[str, Any], limit: int | None = None
) -> tuple[tuple[NearestQuery, ...], bool]:
    """Return the queries, and whether an index may answer them.

    Args:
        dataset: The version that is searched.
        given: As of `Dataset.scanner`: `column` and `q`, the others optional.
        limit: Maximum rows to return; also the default of `k`.

    Raises:
        InvalidArgumentError: A parameter is missing, unknown or invalid.
    """
    check_type(given, Mapping, "a mapping with 'column' and 'q'", field="nearest")
    for name in given:
        if name not in _KNOWN:
            raise InvalidArgumentError(
                f"unknown parameter {name!r} of a nearest query",
                field="nearest",
                hint=f"use {', '.join(_KNOWN)}",
            )
    for name in ("column", "q"):
        if given.get(name) is None:
            raise InvalidArgumentError(
                f"a search for the nearest vectors needs {name!r}",
                field="nearest",
                hint='name a column and a vector, as in {"column": "v", "q": [0.5, 1.0], "k": 5}',
            )
    column = given["column"]
    kind = _vector_type(dataset, column)
    metric = None if given.get("metric") is None else metric_named(given["metric"])
    if metric is not None and (metric == "hamming") != (kind.value_type == pa.uint8()):
        raise InvalidArgumentError(
            f"metric {metric!r} is not supported for vectors of {kind.value_type}",
            field="metric",
            hint="hamming is for uint8, all others are for floats",
        )
    least, most = _nprobes(given)
    use_index = given.get("use_index", True)
    check_type(use_index, bool, "true or false", field="use_index")
    vectors = _vectors(given["q"], kind)
    queries = tuple(
        NearestQuery(
            column=column,
            vector=vector,
            k=_count(given, "k") or limit or _K,
            metric=metric,
            minimum_nprobes=least,
            maximum_nprobes=most,
            refine_factor=_count(given, "refine_factor"),
            ef=_count(given, "ef"),
            distance_range=_distance_range(given.get("distance_range")),
        )
        # Of several vectors a row, those that are given are one query.
        for vector in ([vectors] if holds_several(dataset.lance_schema.field(column)) else vectors)
    )
    return queries, use_index


def several_vectors(given: Any) -> bool:
    """Return whether a query is a list of vectors, be it of a single one."""
    return np.ndim(_plain(given)) == 2


def default_metric(vector: npt.NDArray[Any]) -> str:
    """Return the metric of a search that names none, without an index that has one."""
    return "hamming" if vector.dtype == np.uint8 else "l2"


def _vector_type(dataset: Snapshot, column: Any) -> pa.FixedSizeListType:
    check_type(column, str, "the name of a column", field="column")
    field = dataset.lance_schema.field(column)
    kind = field.file_type
    if pa.types.is_list(kind):
        kind = kind.value_type
    if not pa.types.is_fixed_size_list(kind) or not (
        pa.types.is_floating(kind.value_type) or kind.value_type in (pa.uint8(), pa.int8())
    ):
        hint = "a vector is a list of a fixed number of floats or bytes; a row may have a list of vectors"
        if pa.types.is_list(field.file_type) and pa.types.is_floating(kind):
            hint += f"; {fixed_size_hint(column, field.file_type)}"
        raise InvalidArgumentError(
            f"column {column!r} has the type {field.file_type}, expected vectors", field="column", hint=hint
        )
    return kind


def _vectors(given: Any, kind: pa.FixedSizeListType) -> npt.NDArray[Any]:
    """Return one vector a row, with the values of NearestQuery."""
    values = kind.value_type
    wanted = np.float32 if values == pa.float16() else number_dtype(values)
    try:
        found = np.atleast_2d(np.asarray(_plain(given)))
        with np.errstate(invalid="ignore", over="ignore"):
            vectors = found.astype(wanted)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"q must be a vector of numbers: {error}", field="q") from error
    if found.dtype == bool or found.dtype.kind not in "iuf" or vectors.ndim != 2:
        raise InvalidArgumentError("q must be a vector of numbers, or a list of them", field="q")
    if np.dtype(wanted).kind in "ui":
        bounds = np.iinfo(wanted)
        if not ((found >= bounds.min) & (found <= bounds.max)).all():
            raise InvalidArgumentError(
                f"q has a number outside of the range {bounds.min} to {bounds.max} of {values}",
                field="q",
            )
    if vectors.shape[1] != kind.list_size or not len(vectors):
        raise InvalidArgumentError(
            f"q has {vectors.shape[1]} numbers, the vectors of the column have {kind.list_size}",
            field="q",
            hint="use a vector of the same model as those of the column",
        )
    return vectors


def _plain(given: Any) -> Any:
    if isinstance(given, pa.Scalar):
        return given.as_py()
    if isinstance(given, pa.Array | pa.ChunkedArray):
        return given.to_pylist()
    return given


def _nprobes(given: Mapping[str, Any]) -> tuple[int, int | None]:
    both = _count(given, "nprobes")
    least, most = _count(given, "minimum_nprobes"), _count(given, "maximum_nprobes")
    if both is not None:
        least, most = least or both, most or both
    least = least or 1
    if most is not None and least > most:
        raise InvalidArgumentError(
            f"at least {least} and at most {most} partitions", field="minimum_nprobes, maximum_nprobes"
        )
    return least, most


def _count(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    check_type(value, Integral, "a number", field=name)
    if isinstance(value, bool) or value < 1:
        raise InvalidArgumentError(f"it must be at least 1, and is {value}", field=name)
    return int(value)


def _distance_range(given: Any) -> tuple[float | None, float | None]:
    if given is None:
        return None, None
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InvalidArgumentError("it is a pair (least, greatest)", field="distance_range")
    for bound in given:
        if bound is not None:
            check_type(bound, Real, "a number", field="distance_range")
    low, high = (None if bound is None else float(bound) for bound in given)
    return low, high
