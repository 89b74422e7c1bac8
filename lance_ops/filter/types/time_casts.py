"""Casts between dates, times, spans and numbers of ticks; wall-clock times of a zone."""

import datetime as dt
import zoneinfo
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.filter.types.coercion import (
    INT64,
    INTERVAL,
)
from lance_ops.filter.types.number_casts import Cast, float_to_int

UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
UTC = ("UTC", "Etc/UTC", "Z", "+00:00")


def _int_to_date(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    return values.cast(pa.int32()).cast(pa.date32()).cast(target)


def _date_to_int(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    return values.cast(pa.int32() if pat.is_date32(source) else INT64).cast(target)


def _date_to_date(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    # Arrow refuses a date64 that is not at midnight; pylance takes the day that it falls on.
    return values.cast(target, safe=not pat.is_date64(source))


def _number_to_ticks(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    whole = float_to_int(values, source, INT64) if pat.is_floating(source) else values.cast(INT64)
    return whole.cast(target)


def _ticks_to_int(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    return values.cast(INT64).cast(target)


def _timestamp_to_timestamp(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    finer = UNITS_PER_SECOND[target.unit] >= UNITS_PER_SECOND[source.unit]
    rescaled = values.cast(pa.timestamp(target.unit, source.tz), safe=finer)
    if bool(source.tz) == bool(target.tz) or source.tz:
        return rescaled.cast(INT64).cast(target)
    return wall_clock_in(rescaled, target)


def wall_clock_in(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Read timestamps as wall-clock times of the target's zone; of two candidates the earlier."""
    if target.tz in UTC:
        return values.cast(INT64).cast(target)
    if target.tz[0] in "+-":
        offset = zone_of(target.tz).utcoffset(None)
        assert offset is not None
        ticks = int(offset.total_seconds()) * UNITS_PER_SECOND[target.unit]
        return pc.subtract_checked(values.cast(INT64), ticks).cast(target)
    zoned = pc.assume_timezone(values, target.tz, ambiguous="earliest", nonexistent="earliest")
    return zoned.cast(target)


def zone_of(name: str) -> dt.tzinfo:
    """Return the zone of an Arrow timestamp type: a zone database name, or an offset such as "+02:00"."""
    if name[0] in "+-":
        digits = name[1:].replace(":", "")
        offset = dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:4] or 0))
        return dt.timezone(-offset if name[0] == "-" else offset)
    return zoneinfo.ZoneInfo("UTC" if name in UTC else name)


def _date_to_timestamp(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    midnight = values.cast(pa.timestamp(target.unit))
    return wall_clock_in(midnight, target) if target.tz else midnight


def _timestamp_to_date(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    local = pc.local_timestamp(values) if source.tz else values
    return local.cast(pa.date32(), safe=False).cast(target)


def _same_unit_family(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    finer = UNITS_PER_SECOND[target.unit] >= UNITS_PER_SECOND[source.unit]
    return values.cast(target, safe=finer)


def _interval_to_duration(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    per_second = UNITS_PER_SECOND[target.unit]

    def ticks(interval: Any) -> int:
        if interval.months:
            raise ValueError("months and years have no fixed length")
        nanos: int = interval.days * 86_400_000_000_000 + interval.nanoseconds
        return nanos * per_second // 1_000_000_000

    converted = [None if value is None else ticks(value) for value in values.to_pylist()]
    return pa.array(converted, INT64).cast(target)


TIME_CASTS: Mapping[tuple[str, str], Cast] = {
    ("int", "date"): _int_to_date,
    ("int", "timestamp"): _number_to_ticks,
    ("int", "duration"): _number_to_ticks,
    ("float", "timestamp"): _number_to_ticks,
    ("date", "int"): _date_to_int,
    ("date", "date"): _date_to_date,
    ("date", "timestamp"): _date_to_timestamp,
    ("timestamp", "int"): _ticks_to_int,
    ("timestamp", "date"): _timestamp_to_date,
    ("timestamp", "timestamp"): _timestamp_to_timestamp,
    ("time", "time"): _same_unit_family,
    ("duration", "int"): _ticks_to_int,
    ("duration", "duration"): _same_unit_family,
    (str(INTERVAL), "duration"): _interval_to_duration,
}
"""Casts of dates and times, by the kinds of source and target that `casting` distinguishes."""
