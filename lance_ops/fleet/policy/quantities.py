"""Quantities with units: `14d`, `500GB`, `10 %`."""

import re
from datetime import datetime, timedelta

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_BYTES = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "PB": 10**15,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - compared with durations alone
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def parse_duration(value: object) -> timedelta:
    """Parse a duration: `30s`, `15m`, `12h`, `14d`, `2w`.

    Raises:
        ValueError: It is not a duration, is too long, or is `1M`, which may mean a minute or a month.
    """
    if isinstance(value, timedelta):
        return value
    text = str(value).strip()
    match = _DURATION.fullmatch(text.lower())
    if match is not None and text.endswith("M"):
        # Some read months, others minutes: a rule that deletes rows must not guess.
        raise ValueError(
            f"{value!r} may mean minutes or months; write for example {match[1]}min, or a month as 30d"
        )
    if match is None:
        raise ValueError(f"{value!r} is not a duration; write for example 30m, 12h, 14d or 2w")
    try:
        found = timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
        # The date that long ago must exist.
        _ = _EPOCH - found
    except OverflowError as error:
        raise ValueError(f"{value!r} is too long: before the first date of the calendar") from error
    return found


def duration_text(value: timedelta) -> str:
    """Format a duration for `parse_duration`."""
    seconds = value.total_seconds()
    for unit in ("w", "d", "h", "m"):
        if seconds and not seconds % _SECONDS[unit]:
            return f"{seconds / _SECONDS[unit]:.0f}{unit}"
    return f"{seconds:g}s"


def parse_bytes(value: object) -> int:
    """Parse a size: `500GB`, `64MiB`, or a number of bytes.

    Raises:
        ValueError: It is not a size.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise ValueError(f"{value} is not a size")
        return value
    match = _SIZE.fullmatch(str(value).strip())
    if match is None or match[2].upper() not in _BYTES:
        raise ValueError(f"{value!r} is not a size; write for example 500GB, 64MiB or a number of bytes")
    try:
        return int(float(match[1]) * _BYTES[match[2].upper()])
    except OverflowError as error:
        raise ValueError(f"{value!r} is too large") from error


def parse_ratio(value: object) -> object:
    """Parse `10%` as 0.1; other values are returned unchanged.

    Raises:
        ValueError: There is no number before the percent sign.
    """
    if not (isinstance(value, str) and value.strip().endswith("%")):
        return value
    try:
        return float(value.strip().removesuffix("%")) / 100
    except ValueError as error:
        raise ValueError(f"{value!r} is not a share; write for example 10% or 0.1") from error
