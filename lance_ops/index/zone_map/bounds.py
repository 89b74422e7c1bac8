"""Zone bounds: least and greatest values of runs of rows."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.arrays import number_dtype


def zone_bounds(values: pa.Array, starts: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return the columns `min`, `max`, `null_count` and `nan_count` of runs that begin at `starts`.

    Nulls and NaN bound nothing: a run of nothing else has no least value. As pylance has it, the greatest of
    a run with a NaN is NaN.
    """
    lengths = np.diff(np.append(starts, len(values)))
    none = pa.array(np.zeros(len(starts), np.uint32))
    counted = {"null_count": none, "nan_count": none}
    if values.null_count:
        is_null = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
        counted["null_count"] = _sums(is_null, starts)
    plain = values
    if pa.types.is_floating(values.type):
        is_nan = np.asarray(pc.is_nan(values).fill_null(False).to_numpy(zero_copy_only=False))
        counted["nan_count"] = _sums(is_nan, starts)
        plain = pc.if_else(pa.array(is_nan), pa.scalar(None, values.type), values)
    if _is_plain(values.type):
        least, greatest = _extremes_of_numbers(plain, starts)
    else:
        least, greatest = _extremes(plain, np.repeat(np.arange(len(starts)), lengths), len(starts))
    if pa.types.is_floating(values.type):
        # Zeros of both signs are equal in bounds.
        least = _with_zero(least, -0.0)
        greatest = _with_zero(greatest, 0.0)
        has_nan = pc.greater(counted["nan_count"], 0)
        greatest = pc.if_else(has_nan, pa.scalar(np.nan, pa.float64()).cast(values.type), greatest)
    return {"min": least, "max": greatest, **counted}


def _sums(flags: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(np.add.reduceat(flags, starts, dtype=np.uint32), pa.uint32())


def _is_plain(kind: pa.DataType) -> bool:
    return (
        pa.types.is_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))
    )


def _extremes_of_numbers(values: pa.Array, starts: npt.NDArray[np.int64]) -> tuple[pa.Array, pa.Array]:
    kind, width = values.type, values.type.bit_width
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if width == 32 else pa.int64())
    number = number_dtype(values.type)
    lowest, highest = (
        (-np.inf, np.inf) if number.kind == "f" else (np.iinfo(number).min, np.iinfo(number).max)
    )
    missing = None
    if values.null_count:
        known = np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
        missing = np.add.reduceat(known, starts, dtype=np.int64) == 0
    found = []
    for reduce, neutral in ((np.minimum, highest), (np.maximum, lowest)):
        filled = values if missing is None else values.fill_null(pa.scalar(neutral, values.type))
        found.append(
            pa.array(reduce.reduceat(np.asarray(filled), starts), values.type, mask=missing).view(kind)
        )
    return found[0], found[1]


def _extremes(values: pa.Array, zones: npt.NDArray[np.int64], count: int) -> tuple[pa.Array, pa.Array]:
    # Arrow has no aggregates for two types: single floats hold all half ones, and durations are numbers.
    working = {pa.types.is_float16: pa.float32(), pa.types.is_duration: pa.int64()}
    other = next((plain for is_kind, plain in working.items() if is_kind(values.type)), values.type)
    working_values = values.cast(other)
    rows = pa.table({"zone": zones, "value": working_values})
    found = rows.group_by("zone", use_threads=False).aggregate([("value", "min"), ("value", "max")])
    assert found.num_rows == count
    return tuple(found[name].combine_chunks().cast(values.type) for name in ("value_min", "value_max"))


def _with_zero(bounds: pa.Array, zero: float) -> pa.Array:
    number = pa.scalar(zero, pa.float64()).cast(bounds.type)
    is_zero = np.asarray(bounds.to_numpy(zero_copy_only=False)) == 0
    return pc.if_else(pa.array(is_zero), number, bounds)
