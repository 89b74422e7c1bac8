"""Versions that a cleanup may remove, and why the others stay."""

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
    """What may go.

    Attributes:
        older_than: Versions younger than this stay. 14 days when neither this nor `retain_versions` is given.
        retain_versions: That many newest versions stay.
        delete_unverified: Also remove files that no version ever used and that are younger than seven days.
            Only safe when nobody else writes.
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
            raise InvalidArgumentError("an age cannot be negative", field="older_than")
        if self.retain_versions is not None and self.retain_versions < 1:
            raise InvalidArgumentError("at least one version has to stay", field="retain_versions")

    @property
    def age(self) -> timedelta | None:
        """Age below which versions stay; None when only their number counts."""
        return DEFAULT_AGE if self.older_than is None and self.retain_versions is None else self.older_than


@dataclass(frozen=True, slots=True)
class VersionVerdict:
    """Whether a version stays, and why. Detached versions have no place in the history and always stay.

    Attributes:
        version: Version number.
        timestamp: When it was made, as the manifest says.
        location: Where its manifest lies.
        expired: Whether it goes.
        reason: Why it goes or stays.
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
    """Judges the versions of a dataset, which it must be given from the newest to the oldest.

    Attributes:
        options: What may go.
        now: The time by the clock of the store.
        written: When each manifest was written, by the clock of the store.
        named: Who names versions, or is about to.
        newest_before: The newest version before the files were listed; None when nobody commits meanwhile.
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
        """The verdict on the next version."""
        version, retain, age = summary.version, self.options.retain_versions, self.options.age
        reason = None
        if is_detached(version):
            reason = "it is a detached version"
        else:
            self._seen += 1
            if self._seen == 1:
                reason = "it is the newest version"
            elif self.newest_before is not None and version > self.newest_before:
                # Its files are not in the list: nobody would remove them once it is gone.
                reason = "it was made while files were listed"
            elif version in self.named.names:
                reason = f"it is named by {', '.join(sorted(self.named.names[version]))}"
            elif version in self.named.pinned:
                reason = "somebody is about to restore, tag, clone or fork it"
            elif retain is not None and self._seen <= retain:
                reason = f"it is one of the newest {retain}"
            elif age and self._age(location, summary) < age:
                reason = f"it is younger than {age_text(age)}"
        return VersionVerdict(
            version,
            summary.timestamp,
            location,
            reason is None,
            reason or _why_expired(self.options),
            given_up,
        )

    def _age(self, location: ManifestLocation, summary: ManifestSummary) -> timedelta:
        # The writer's clock may have been ahead, by a year as well. The store's time of the file is never too
        # early, and too late where files were copied, so the earlier of the two is nearest to the truth. A
        # manifest that appeared after the folder was listed is young.
        return self.now - min(summary.timestamp, self.written.get(location.path, self.now))


def _why_expired(options: CleanupOptions) -> str:
    reasons = []
    if options.age is not None:
        reasons.append(f"it is at least {age_text(options.age)} old")
    if options.retain_versions is not None:
        reasons.append(f"it is not one of the newest {options.retain_versions}")
    return " and ".join(reasons)


def age_text(age: timedelta) -> str:
    """An age as people write it: 14 days, 1.5 h, 30 s."""
    if age >= timedelta(days=1) and age % timedelta(days=1) == timedelta(0):
        return count_text(age.days, "day")
    seconds = age.total_seconds()
    return f"{seconds / 3600:g} h" if seconds >= 3600 else f"{seconds:g} s"
