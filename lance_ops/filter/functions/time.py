"""Functions of dates and times, and arithmetic with intervals."""

import datetime as dt
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.errors import PredicateError
from lance_ops.filter.expression import Expression, Literal
from lance_ops.filter.functions.signature import Datum, FunctionSpec, Result, always, by_value
from lance_ops.filter.types.casting import cast_values
from lance_ops.filter.types.coercion import FLOAT64, INT64, UTF8
from lance_ops.filter.types.time_casts import wall_clock_in

_NANOS_PER_DAY = 86_400_000_000_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_TRUNC_UNITS = (
    *("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"),
)
# The directives that mean the same in pylance's formatter and in Arrow's.
_FORMAT = re.compile(r"(?:[^%]|%[YmdHMSjyIpaAbBFT%])*")


# --- parts


def _within_minute(per_second: int) -> Callable[[Datum], Datum]:
    """Seconds of the minute with their fraction, as a count of 1/per_second."""

    def part(values: Datum) -> Datum:
        total = pc.multiply(pc.second(values), per_second)
        for unit, kernel in (("ms", pc.millisecond), ("us", pc.microsecond), ("ns", pc.nanosecond)):
            if per_second >= _PER_SECOND[unit]:
                total = pc.add(total, pc.multiply(kernel(values), per_second // _PER_SECOND[unit]))
        return total

    return part


def _epoch(values: Datum) -> Datum:
    """Seconds since 1970, or since midnight, with their fraction."""
    per_second = _PER_SECOND[values.type.unit]
    if pat.is_time32(values.type):
        values = values.cast(pa.int32())
    return pc.divide(values.cast(INT64).cast(FLOAT64, safe=False), float(per_second))


_PARTS: dict[str, Callable[[Datum], Datum]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "week": pc.iso_week,
    "day": pc.day,
    "doy": pc.day_of_year,
    "dow": lambda values: pc.day_of_week(values, count_from_zero=True, week_start=7),
    "isodow": lambda values: pc.day_of_week(values, count_from_zero=False, week_start=1),
    "isoyear": pc.iso_year,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
    "millisecond": _within_minute(1_000),
    "microsecond": _within_minute(1_000_000),
    "nanosecond": _within_minute(1_000_000_000),
    "epoch": _epoch,
}
_CLOCK_PARTS = {"hour", "minute", "second", "millisecond", "microsecond", "nanosecond", "epoch"}


def _word(word: Any, function: str, options: Sequence[str]) -> str:
    """Match one of some words, case-insensitively, singular or plural."""
    known = word.lower() if isinstance(word, str) else ""
    if known not in options:
        known = known.removesuffix("s")
    if known not in options:
        raise PredicateError(f"{function}() does not support {word!r}; use one of {', '.join(options)}")
    return known


def _first_word(arguments: Sequence[Expression], function: str, options: Sequence[str]) -> str:
    first = arguments[0]
    if not isinstance(first, Literal):
        raise PredicateError(f"the first argument of {function}() has to be a constant, such as 'day'")
    return _word(first.value, function, options)


def _part_type(arguments: Sequence[Expression], targets: Sequence[pa.DataType]) -> pa.DataType:
    part = _first_word(arguments, "date_part", tuple(_PARTS))
    if pat.is_time(targets[1]) and part not in _CLOCK_PARTS:
        raise PredicateError(f"a value of type {targets[1]} has no {part}")
    return {"epoch": FLOAT64, "nanosecond": INT64}.get(part, pa.int32())


def _date_part(part: Datum, values: Datum) -> Datum:
    if pat.is_date(values.type):
        values = values.cast(pa.timestamp("s"))
    return _PARTS[_word(part.as_py(), "date_part", tuple(_PARTS))](values)


# --- truncation, conversion


def _trunc_type(arguments: Sequence[Expression], targets: Sequence[pa.DataType]) -> pa.DataType:
    _first_word(arguments, "date_trunc", _TRUNC_UNITS)
    return pa.timestamp("us") if pat.is_date(targets[1]) else targets[1]


def _date_trunc(unit: Datum, values: Datum) -> Datum:
    if pat.is_date(values.type):
        values = values.cast(pa.timestamp("us"))
    return pc.floor_temporal(values, unit=_word(unit.as_py(), "date_trunc", _TRUNC_UNITS))


def _to_timestamp(unit: str, number_unit: str) -> Callable[[Datum], Datum]:
    """to_timestamp and its kin: text in ISO form, or a number of `number_unit` since 1970."""

    def kernel(values: Datum) -> Datum:
        source, target = values.type, pa.timestamp(unit)
        if pat.is_floating(source):
            scaled = pc.multiply(values.cast(FLOAT64), float(_PER_SECOND[unit] // _PER_SECOND[number_unit]))
            return cast_values(scaled, FLOAT64, target)
        if pat.is_integer(source):
            values, source = cast_values(values, source, pa.timestamp(number_unit)), pa.timestamp(number_unit)
        return cast_values(values, source, target)

    return kernel


def _to_date(values: Datum) -> Datum:
    return cast_values(values, values.type, pa.date32())


def _to_unixtime(values: Datum) -> Datum:
    source = values.type
    if not pat.is_timestamp(source):
        values, source = cast_values(values, source, pa.timestamp("us")), pa.timestamp("us")
    return cast_values(values, source, pa.timestamp("s", source.tz)).cast(INT64)


def _make_date(year: int, month: int, day: int) -> dt.date:
    try:
        return dt.date(year, month, day)
    except (ValueError, OverflowError) as error:
        raise PredicateError(f"make_date({year}, {month}, {day}) is not a valid date: {error}") from error


def _to_char(values: Datum, form: Datum) -> Datum:
    if not isinstance(form, pa.Scalar):
        raise PredicateError("to_char() takes only a constant format")
    if not form.is_valid:
        return pa.nulls(len(values), UTF8)
    if not _FORMAT.fullmatch(form.as_py()):
        raise PredicateError(
            f"to_char() supports %Y %m %d %H %M %S %j %y %I %p %a %A %b %B %F %T, got {form}"
        )
    # Arrow prints the fraction with %S; whole seconds have none.
    whole = pc.floor_temporal(
        values.cast(pa.timestamp("us")) if pat.is_date(values.type) else values, unit="second"
    )
    return pc.strftime(cast_values(whole, whole.type, pa.timestamp("s", whole.type.tz)), format=form.as_py())


# --- intervals


def add_interval(values: Datum, interval: Any, sign: int) -> Datum:
    """Add or subtract an interval: months first, then days by the calendar of the zone, then exact time.

    Args:
        values: Dates or timestamps.
        interval: (months, days, nanoseconds).
        sign: 1 or -1.
    """
    months, days, nanos = (sign * count for count in interval)
    kind = values.type
    if pat.is_date(kind):
        moved = _add_days(_add_months(values.cast(pa.date32()).cast(pa.int32()).cast(INT64), months), days)
        moved = _add_days(moved, abs(nanos) // _NANOS_PER_DAY * (1 if nanos > 0 else -1))
        return moved.cast(pa.int32()).cast(pa.date32()).cast(kind)
    if months or days:
        per_day = _PER_SECOND[kind.unit] * 86_400
        local = (pc.local_timestamp(values) if kind.tz else values).cast(INT64)
        day = pc.floor(pc.divide(local.cast(FLOAT64, safe=False), float(per_day))).cast(INT64)
        # The division is inexact far from 1970; the remainder corrects it.
        clock = pc.subtract(local, pc.multiply(day, per_day))
        day = pc.add(
            day, pc.if_else(pc.less(clock, 0), -1, pc.if_else(pc.greater_equal(clock, per_day), 1, 0))
        )
        clock = pc.subtract(local, pc.multiply(day, per_day))
        moved = _add_days(_add_months(day, months), days)
        ticks = pc.add_checked(pc.multiply_checked(moved, per_day), clock)
        moment = ticks.cast(pa.timestamp(kind.unit))
        values = wall_clock_in(moment, kind) if kind.tz else moment
    return pc.add_checked(
        values, pa.scalar(nanos * _PER_SECOND[kind.unit] // 1_000_000_000, pa.duration(kind.unit))
    )


def _add_days(days: pa.Array, count: int) -> pa.Array:
    return pc.add_checked(days, count)


def _add_months(days: pa.Array, months: int) -> pa.Array:
    """Move days since 1970 by months; the 31st becomes the last day of a shorter month."""
    if not months:
        return days
    # Arrow has no month arithmetic; numpy has, on whole arrays, but no nulls.
    valid = pc.is_valid(days)
    dates = pc.fill_null(days, 0).to_numpy(zero_copy_only=False).astype("datetime64[D]")
    month = dates.astype("datetime64[M]")
    day_of_month = dates - month.astype("datetime64[D]")
    target = month + np.timedelta64(months, "M")
    first = target.astype("datetime64[D]")
    last = (target + np.timedelta64(1, "M")).astype("datetime64[D]") - first - np.timedelta64(1, "D")
    moved = (first + np.minimum(day_of_month, last)).astype(np.int64)
    return pc.if_else(valid, pa.array(moved, INT64), pa.scalar(None, INT64))


def _stamp(name: str, unit: str, number_unit: str) -> FunctionSpec:
    result: Result = always(pa.timestamp(unit))
    return FunctionSpec(name, ("stampable",), result, _to_timestamp(unit, number_unit), can_fail=True)


TIME_FUNCTIONS = (
    FunctionSpec("date_part", ("word", "clock"), _part_type, _date_part, subject=1),
    FunctionSpec("date_trunc", ("word", "moment"), _trunc_type, _date_trunc, can_fail=True, subject=1),
    _stamp("to_timestamp", "ns", "s"),
    _stamp("to_timestamp_seconds", "s", "s"),
    _stamp("to_timestamp_millis", "ms", "ms"),
    _stamp("to_timestamp_micros", "us", "us"),
    _stamp("to_timestamp_nanos", "ns", "ns"),
    FunctionSpec(
        "from_unixtime", ("int",), always(pa.timestamp("s")), _to_timestamp("s", "s"), can_fail=True
    ),
    FunctionSpec("to_date", ("stampable",), always(pa.date32()), _to_date, can_fail=True),
    FunctionSpec("to_unixtime", ("stampable",), always(INT64), _to_unixtime, can_fail=True),
    FunctionSpec(
        "make_date", ("int", "int", "int"), always(pa.date32()), by_value(_make_date), can_fail=True
    ),
    FunctionSpec("to_char", ("moment", "text"), always(UTF8), _to_char, can_fail=True),
)
