"""Parsing and formatting of single values."""

import datetime as dt
import decimal
import re
import zoneinfo

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from lance_ops.filter.types.time_casts import UNITS_PER_SECOND

_DATE = re.compile(r"([+-]?\d{4,})-(\d{1,2})-(\d{1,2})|(\d{4})(\d{2})(\d{2})")
_TIME = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9})\d*)?)?")
_BELOW_NANOS = re.compile(r"\.\d{9}\d*[1-9]")
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})?")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_INTERVAL_UNITS = {
    "year": ("months", 12),
    "quarter": ("months", 3),
    "month": ("months", 1),
    "week": ("days", 7),
    "day": ("days", 1),
    "hour": ("nanos", 3_600_000_000_000),
    "minute": ("nanos", 60_000_000_000),
    "min": ("nanos", 60_000_000_000),
    "second": ("nanos", 1_000_000_000),
    "sec": ("nanos", 1_000_000_000),
    "millisecond": ("nanos", 1_000_000),
    "microsecond": ("nanos", 1_000),
    "nanosecond": ("nanos", 1),
}
_NANOS_PER_SECOND = 1_000_000_000
_SECONDS_PER_DAY = 86_400
_NANOS_PER_DAY = _SECONDS_PER_DAY * _NANOS_PER_SECOND
_EPOCH = dt.date(1970, 1, 1).toordinal()


def read_date(text: str) -> int:
    """Days since 1970 of `YYYY-MM-DD`, with or without a time of day behind it.

    With an offset behind the time it is the day in UTC, as in pylance.

    Raises:
        ValueError: It is no date of the years 1 to 9999.
    """
    days, rest = _split_date(text)
    return read_timestamp(text, None) // _NANOS_PER_DAY if rest else days


def _split_date(text: str) -> tuple[int, str]:
    match = _DATE.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a date of the form YYYY-MM-DD")
    parts = match.groups()[:3] if match.group(1) is not None else match.groups()[3:]
    year, month, day = (int(part) for part in parts)
    return dt.date(year, month, day).toordinal() - _EPOCH, text[match.end() :]


def read_time(text: str) -> int:
    """Nanoseconds since midnight of `HH:MM[:SS[.fraction]]`.

    Raises:
        ValueError: It is no time of day.
    """
    nanos, rest = _split_time(text)
    if rest:
        raise ValueError(f"{text!r} is not a time of the form HH:MM:SS")
    return nanos


def _split_time(text: str) -> tuple[int, str]:
    match = _TIME.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time of the form HH:MM:SS")
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[:3])
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(f"{text!r} is not a time of day")
    fraction = int((match.group(4) or "").ljust(9, "0"))
    return ((hours * 60 + minutes) * 60 + seconds) * _NANOS_PER_SECOND + fraction, text[match.end() :]


def loses_digits(text: str, target: pa.DataType) -> bool:
    """Return whether the time in a text has more digits than a type can hold.

    Args:
        text: A text that reads as a value of the type.
        target: Any type; False for one without date and time.
    """
    if pat.is_date(target):
        nanos, least = read_timestamp(text, None), _NANOS_PER_DAY
    elif pat.is_timestamp(target):
        nanos, least = read_timestamp(text, target.tz), _NANOS_PER_SECOND // UNITS_PER_SECOND[target.unit]
    elif pat.is_time(target):
        nanos, least = read_time(text), _NANOS_PER_SECOND // UNITS_PER_SECOND[target.unit]
    else:
        return False
    return nanos % least != 0 or _BELOW_NANOS.search(text) is not None


def read_timestamp(text: str, zone: str | None) -> int:
    """Nanoseconds since 1970 of an ISO date and time.

    Args:
        text: `YYYY-MM-DD[T HH:MM:SS[.fraction]][Z|+HH:MM|zone name]`.
        zone: The zone of a text that names none; None means UTC.

    Raises:
        ValueError: It is no timestamp.
    """
    days, rest = _split_date(text)
    nanos = 0
    if rest[:1] in ("T", "t", " ") and rest[1:2].isdigit():
        nanos, rest = _split_time(rest[1:])
    wall = days * _SECONDS_PER_DAY * _NANOS_PER_SECOND + nanos
    return wall - _offset_nanos(rest.strip(), wall, zone)


def _offset_nanos(suffix: str, wall: int, zone: str | None) -> int:
    """Return the offset of the wall clock from UTC."""
    if suffix in ("Z", "z"):
        return 0
    match = _OFFSET.fullmatch(suffix) or (None if suffix else _OFFSET.fullmatch(zone or ""))
    if match is not None:
        minutes = int(match.group(2)) * 60 + int(match.group(3) or 0)
        return (-minutes if match.group(1) == "-" else minutes) * 60 * _NANOS_PER_SECOND
    name = suffix or zone
    if not name:
        return 0
    try:
        region = zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is not a time zone") from error
    clock = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=wall // 1000)  # noqa: DTZ001 - wall clock
    offset = region.utcoffset(clock)
    return 0 if offset is None else int(offset.total_seconds()) * _NANOS_PER_SECOND


def read_interval(text: str) -> tuple[int, int, int]:
    """Months, days and nanoseconds of a text such as "1 month 2 days" or "90 minutes".

    Raises:
        ValueError: It is no sequence of numbers and units, or a fraction of a month.
    """
    months, days, nanos = 0, 0, 0
    words = text.lower().split()
    if not words or len(words) % 2:
        raise ValueError(f"{text!r} is not an interval; use a number and a unit, such as '2 days'")
    for count_text, unit in zip(words[::2], words[1::2], strict=True):
        name = unit if unit in _INTERVAL_UNITS else unit.removesuffix("s")
        if not _NUMBER.fullmatch(count_text) or name not in _INTERVAL_UNITS:
            raise ValueError(f"{count_text} {unit} is not a valid part of an interval, such as 2 days")
        field, size = _INTERVAL_UNITS[name]
        amount = decimal.Decimal(count_text) * size
        if field == "days" and amount != int(amount):
            amount, field = amount * _SECONDS_PER_DAY * _NANOS_PER_SECOND, "nanos"
        if amount != int(amount) or abs(amount) >= 2**63:
            raise ValueError(f"{count_text} {unit} is not a whole number of {field}")
        months += int(amount) if field == "months" else 0
        days += int(amount) if field == "days" else 0
        nanos += int(amount) if field == "nanos" else 0
    return months, days, nanos


def read_decimal(text: str, scale: int) -> decimal.Decimal:
    """Return a decimal rounded half away from zero to `scale` digits.

    Raises:
        ValueError: It is no number.
    """
    text = text.strip() or "0"
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is not a decimal number")
    with decimal.localcontext(prec=100, Emax=10_000, Emin=-10_000):
        try:
            return decimal.Decimal(text).quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP)
        except decimal.InvalidOperation as error:
            raise ValueError(f"{text!r} has too many digits") from error


def format_decimal(value: decimal.Decimal) -> str:
    """Return all digits, never an exponent."""
    return format(value, "f")


def format_float(value: float, bits: int) -> str:
    """Return the shortest text that reads back as the same float of `bits` bits, in pylance's notation."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    single = bits < 64
    number = np.float32(value) if single else np.float64(value)
    if bits == 16:
        # Pylance prints the single float of the same value, without an exponent.
        return str(np.format_float_positional(number, unique=True, trim="-"))
    mantissa, _, exponent = str(np.format_float_scientific(number, unique=True, trim="-")).partition("e")
    digits = mantissa.lstrip("-").replace(".", "")
    point = int(exponent) + 1
    sign = "-" if mantissa.startswith("-") else ""
    highest, lowest = (13, -6) if single else (16, -5)
    if len(digits) <= point <= highest:
        return f"{sign}{digits.ljust(point, '0')}.0"
    if 0 < point <= highest:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if lowest < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1}"
