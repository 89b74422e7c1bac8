"""Verdicts on versions: whether a cleanup may remove them, with the reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from numbers import Integral

from lance_ops.errors import InvalidArgumentError, check_type
from lance_ops.maintenance.cleanup.line import Named
from lance_ops.maintenance.text import count_text
from lance_ops.table.manifest.file.summary import ManifestSummary
from lance_ops.table.manifest.listing import ManifestLocation
from lance_ops.table.manifest.naming import is_detached

DEFAULT_AGE = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class CleanupOptions:
    """Retention of versions.

    Attributes:
        older_than: Keep versions younger than this. 14 days if neither this nor `retain_versions` is given.
        retain_versions: Number of newest versions to keep.
        delete_unverified: Also remove files that were never used and are younger than seven days. Only safe
            when there are no other writers.
    """

    older_than: timedelta | None = None
    retain_versions: int | None = None
    delete_unverified: bool = False

    def __post_init__(self) -> None:
        if self.older_than is not None:
            check_type(self.older_than, timedelta, "a timedelta", field="older_than")
        if self.retain_versions is not None:
            check_type(self.retain_versions, Integral, "a number of versions", field="retain_versions")
        if self.older_than is not None and self.older_than < timedelta(0):
            raise InvalidArgumentError("older_than must not be negative", field="older_than")
        if self.retain_versions is not None and self.retain_versions < 1:
            raise InvalidArgumentError("retain_versions must be at least 1", field="retain_versions")

    @property
    def age(self) -> timedelta | None:
        """Minimum age of removed versions; None if only their number counts."""
        return DEFAULT_AGE if self.older_than is None and self.retain_versions is None else self.older_than


@dataclass(frozen=True, slots=True)
class VersionVerdict:
    """Verdict on a version, with the reason. Detached versions are always kept.

    Attributes:
        version: Version number.
        timestamp: Time of its commit, from the manifest.
        location: Location of its manifest.
        expired: True if it is removed.
        reason: Why it is removed or kept.
        given_up: It cannot be read, and an older version was restored over it.
    """

    version: int
    timestamp: datetime
    location: ManifestLocation
    expired: bool
    reason: str
    given_up: bool = False


@dataclass(slots=True)
class VersionJudge:
    """Decides on the versions of a dataset, from the newest to the oldest.

    Attributes:
        options: Retention.
        now: The time by the clock of the store.
        written: When each manifest was written, by the clock of the store.
        named: References to versions.
        newest_before: The newest version before the files were listed; None without concurrent commits.
    """

    options: CleanupOptions
    now: datetime
    written: Mapping[str, datetime]
    named: Named
    newest_before: int | None = None
    _seen: int = field(default=0, init=False)

    def __call__(
        self, location: ManifestLocation, summary: ManifestSummary, *, given_up: bool = False
    ) -> VersionVerdict:
        """Return the verdict on the next version."""
        version, retain, age = summary.version, self.options.retain_versions, self.options.age
        reason = None
        if is_detached(version):
            reason = "detached version"
        else:
            self._seen += 1
            if self._seen == 1:
                reason = "newest version"
            elif self.newest_before is not None and version > self.newest_before:
                # Its files are not in the listing: they would never be removed after it.
                reason = "committed while files were listed"
            elif version in self.named.names:
                reason = f"named by {', '.join(sorted(self.named.names[version]))}"
            elif version in self.named.pinned:
                reason = "a restore, tag, clone or branch of it is in progress"
            elif retain is not None and self._seen <= retain:
                reason = f"one of the newest {retain}"
            elif age and self._age(location, summary) < age:
                reason = f"younger than {age_text(age)}"
        return VersionVerdict(
            version,
            summary.timestamp,
            location,
            reason is None,
            reason or _why_expired(self.options),
            given_up,
        )

    def _age(self, location: ManifestLocation, summary: ManifestSummary) -> timedelta:
        # The writer's clock may have been ahead, even by a year. The store's time of the file is never too
        # early, but too late after files were copied, so the earlier of the two is closest to the truth. A
        # manifest that appeared after the folder was listed is young.
        return self.now - min(summary.timestamp, self.written.get(location.path, self.now))


def _why_expired(options: CleanupOptions) -> str:
    reasons = []
    if options.age is not None:
        reasons.append(f"at least {age_text(options.age)} old")
    if options.retain_versions is not None:
        reasons.append(f"not one of the newest {options.retain_versions}")
    return " and ".join(reasons)


def age_text(age: timedelta) -> str:
    """Format an age: 14 days, 1.5 h, 30 s."""
    if age >= timedelta(days=1) and age % timedelta(days=1) == timedelta(0):
        return count_text(age.days, "day")
    seconds = age.total_seconds()
    return f"{seconds / 3600:g} h" if seconds >= 3600 else f"{seconds:g} s"
