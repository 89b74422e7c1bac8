"""Automatic cleanup after commits, configured by a table: `lance.auto_cleanup.*`.

As in the official library: when an operation made a version whose number is divisible by `interval` (0: any),
versions beyond `older_than` and `retain_versions` are removed, but never the last two. Errors are logged and
do not affect the commit. Differences: tagged versions are kept and do not stop it, a damaged newest version
stops it, and so do branches, in spite of `referenced_branch`; `delete_rate_limit` is ignored.

It runs once when an operation has ended: the commits of one operation need the versions in between. Source:
measured behaviour of pylance.
"""

import functools
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from lance_ops.errors import InvalidArgumentError, LanceOpsError
from lance_ops.maintenance.versions_made import versions_made
from lance_ops.table.dataset import Dataset

if TYPE_CHECKING:
    from lance_ops.maintenance.cleanup.operation import CleanupResult

P = ParamSpec("P")
R = TypeVar("R")

PREFIX = "lance.auto_cleanup."
_KEPT_AT_LEAST = 2
_log = logging.getLogger("lance_ops.auto_cleanup")

_SECONDS = {
    **dict.fromkeys(("nanos", "nsec", "ns"), 1e-9),
    **dict.fromkeys(("usec", "us"), 1e-6),
    **dict.fromkeys(("millis", "msec", "ms"), 1e-3),
    **dict.fromkeys(("seconds", "second", "secs", "sec", "s"), 1.0),
    **dict.fromkeys(("minutes", "minute", "mins", "min", "m"), 60.0),
    **dict.fromkeys(("hours", "hour", "hrs", "hr", "h"), 3600.0),
    **dict.fromkeys(("days", "day", "d"), 86_400.0),
    **dict.fromkeys(("weeks", "week", "wks", "wk", "w"), 604_800.0),
    **dict.fromkeys(("months", "month", "M"), 2_630_016.0),
    **dict.fromkeys(("years", "year", "yrs", "yr", "y"), 31_557_600.0),
}
_PART = re.compile(r"\s*([0-9]+)\s*([A-Za-z]+)")


@dataclass(frozen=True, slots=True)
class AutoCleanup:
    """Automatic cleanup in the config of a table.

    Attributes:
        interval: Version numbers divisible by this start a cleanup; 0 for all.
        older_than: See `cleanup`.
        retain_versions: See `cleanup`.
    """

    interval: int
    older_than: timedelta | None
    retain_versions: int

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "AutoCleanup | None":
        """Read the config; None without automatic cleanup.

        Raises:
            InvalidArgumentError: A value is invalid.
        """
        if f"{PREFIX}interval" not in config:
            return None
        interval = _number(config, "interval")
        retain = _number(config, "retain_versions") if f"{PREFIX}retain_versions" in config else None
        if retain == 0:
            raise InvalidArgumentError("must be at least 1", field=f"{PREFIX}retain_versions")
        age = config.get(f"{PREFIX}older_than")
        return cls(
            interval,
            None if age is None else parse_duration(age),
            max(_KEPT_AT_LEAST, retain or 0),
        )

    def is_due(self, versions: Sequence[int]) -> bool:
        """Return whether one of these new versions starts a cleanup."""
        return any(self.interval == 0 or version % self.interval == 0 for version in versions)


def parse_duration(text: str) -> timedelta:
    """Parse a duration of Rust's `humantime`: 14d, 2weeks, 1h 30m.

    Raises:
        InvalidArgumentError: It is not a duration.
    """
    position, seconds = 0, 0.0
    stripped = text.strip()
    while position < len(stripped):
        part = _PART.match(stripped, position)
        if part is None or part[2] not in _SECONDS:
            break
        seconds += int(part[1]) * _SECONDS[part[2]]
        position = part.end()
    if not stripped or position < len(stripped):
        raise InvalidArgumentError(f"{text!r} is not a duration", field=f"{PREFIX}older_than")
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        return timedelta.max


def cleans_up(operation: Callable[P, R]) -> Callable[P, R]:
    """Run the cleanup that the table's config requires after an operation."""

    @functools.wraps(operation)
    def run(*args: P.args, **options: P.kwargs) -> R:
        with versions_made() as made:
            result = operation(*args, **options)
        if made:
            clean_up_after(made)
        return result

    return run


def clean_up_after(made: Sequence[Dataset]) -> "CleanupResult | None":
    """Clean up if the newest of these versions of one dataset requires it; store errors are not raised."""
    newest = made[-1]
    try:
        wanted = AutoCleanup.of(newest.config)
        if wanted is None or not wanted.is_due([dataset.version for dataset in made]):
            return None
        # Few tables have this: other operations do without these modules.
        from lance_ops.maintenance.cleanup.operation import cleanup

        # An age alone removes versions regardless of their number, and a number alone regardless of their
        # age.
        result = cleanup(newest, older_than=wanted.older_than, retain_versions=wanted.retain_versions)
    except LanceOpsError as error:
        _log.warning("the cleanup after version %d of %s failed: %s", newest.version, newest.uri, error)
        return None
    _log.info("after version %d of %s: %s", newest.version, newest.uri, result.summary())
    for line in result.errors:
        _log.warning("the cleanup after version %d of %s: %s", newest.version, newest.uri, line)
    return result


def _number(config: Mapping[str, str], name: str) -> int:
    text = config[f"{PREFIX}{name}"]
    if not (text.isascii() and text.isdigit()):
        raise InvalidArgumentError(f"{text!r} is not a number", field=f"{PREFIX}{name}")
    return int(text)
