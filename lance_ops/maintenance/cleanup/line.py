"""Line: the main line of a dataset or one of its branches, and references to its versions.

A branch starts with the files of its fork version, and uses no other versions of that line. So keeping these
versions, and cleaning up files below the root of one line only, is safe for the others. Source: format,
branches.

Verdicts on versions: whether a cleanup may remove them, with the reason.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from numbers import Integral
from typing import Any

from lance_ops.errors import (
    CleanupRefusedError,
    InconsistentStoreError,
    InvalidArgumentError,
    VersionNotFoundError,
    check_type,
)
from lance_ops.maintenance.cleanup.trash import TrashedVersion
from lance_ops.maintenance.text import count_text
from lance_ops.storage import Store
from lance_ops.storage.prefetch import side_by_side
from lance_ops.storage.retry import persistently
from lance_ops.table.history.pins import list_pins
from lance_ops.table.history.refs import (
    BRANCH_TREES,
    Branch,
    branch_directory,
    folders_below,
    list_branches,
    list_tags,
)
from lance_ops.table.history.resolve_version import root_of_branch
from lance_ops.table.manifest.file.summary import ManifestSummary, read_summary
from lance_ops.table.manifest.listing import VERSIONS_DIRECTORY, ManifestLocation, is_detached, latest, locate


@dataclass(frozen=True, slots=True)
class Line:
    """A line of versions.

    Attributes:
        store: Its root.
        root: Main root of the dataset.
        branch: Its name; None for main.
        storage_options: For opening other bases.
    """

    store: Store
    root: Store
    branch: str | None = None
    storage_options: Mapping[str, str] | None = None

    @classmethod
    def of(cls, store: Store, storage_options: Mapping[str, str] | None = None) -> "Line":
        """Return the line with a store as its root.

        Raises:
            InvalidArgumentError: The newest version belongs to a branch with another root.
        """
        if f"/{BRANCH_TREES}/" not in store.uri:
            return cls(store, store, storage_options=storage_options)
        branch = persistently(lambda: read_summary(store, latest(store)).branch)
        return cls(store, root_of_branch(store, branch, storage_options), branch, storage_options)

    def named(self, now: datetime) -> "Named":
        """Read all references to versions, including those in progress.

        Args:
            now: The time by the clock of the store.
        """
        # Pins come first: a pin is removed after the tag is written (see `table.history.pins`).
        pins = persistently(lambda: list_pins(self.store))
        looks: list[Callable[[], Any]] = [
            lambda: persistently(lambda: list_tags(self.root)),
            lambda: persistently(lambda: list_branches(self.root)),
        ]
        tags, described = side_by_side(self.root, *looks)
        names: dict[int, list[str]] = {}
        for tag in tags.values():
            if tag.branch == self.branch:
                names.setdefault(tag.version, []).append(f"tag {tag.name}")
        branches = tuple(described.values())
        for branch in branches:
            if branch.parent_branch == self.branch:
                names.setdefault(branch.parent_version, []).append(f"branch {branch.name}")
        pinned = frozenset(pin.version for pin in pins if pin.is_alive(now))
        return Named(self, pinned, names, branches)

    def others(self) -> list[Store]:
        """Return the roots of the other lines of the dataset, whose blobs may name objects of this one."""
        # A single listing may be incomplete.
        folders = sorted(self.trees() | self.trees())
        every = [self.root, *(self.root.child(folder) for folder in folders)]
        return [store for store in every if store.uri != self.store.uri]

    def trees(self) -> frozenset[str]:
        """Return the folders of the dataset with versions of branches, described or not."""
        between = f"/{VERSIONS_DIRECTORY}/"
        paths = persistently(lambda: [info.path for info in self.root.list(BRANCH_TREES)])
        return frozenset(path.partition(between)[0] for path in paths if between in path)


@dataclass(frozen=True, slots=True)
class Named:
    """References to versions of a line.

    Attributes:
        line: The line.
        pinned: Versions pinned for a new reference.
        names: References to each version: its tags, and the branches that start at it.
        branches: All branches of the dataset.
    """

    line: Line
    pinned: frozenset[int]
    names: Mapping[int, list[str]]
    branches: Sequence[Branch]

    @property
    def folders_below(self) -> tuple[str, ...]:
        """Folders of branches that lie in the folder of this one, with "/" at the end."""
        own = branch_directory(self.line.branch)
        return tuple(f"{folder}/" for folder in folders_below(own, self.branches))

    def check_trees(self, trees: Collection[str]) -> None:
        """Check that every branch of the dataset is described.

        Args:
            trees: See `Line.trees`.

        Raises:
            CleanupRefusedError: There are versions of an undescribed branch: their start version is unknown.
        """
        described = {branch.directory for branch in self.branches}
        unknown = sorted(folder.removeprefix(f"{BRANCH_TREES}/") for folder in set(trees) - described)
        if unknown:
            raise CleanupRefusedError(
                f"there are versions of undescribed branches: {', '.join(unknown)}",
                path=self.line.root.uri,
                hint="their creation or removal is in progress or was interrupted: then remove each by "
                "delete_branch",
            )

    def check_listed(self, versions: Collection[int]) -> None:
        """Check that the listing of manifests contains every referenced version.

        Args:
            versions: Listed versions of the line.

        Raises:
            InconsistentStoreError: One is missing.
        """
        for version in sorted({*self.names, *self.pinned}.difference(versions)):
            with contextlib.suppress(VersionNotFoundError):
                path = locate(self.line.store, version).path
                raise InconsistentStoreError(
                    "the manifest exists, but was missing in the listing",
                    path=f"{self.line.store.uri}/{path}",
                    hint="nothing was deleted; try again, and check the store or gateway if it happens again",
                )

    def check_forks(self, versions: Collection[int]) -> None:
        """Check that the versions exist at which branches start.

        Args:
            versions: Existing versions of the line.

        Raises:
            CleanupRefusedError: One does not, so the files of its branch are unknown.
        """
        for branch in self.branches:
            if branch.parent_branch == self.line.branch and branch.parent_version not in versions:
                raise CleanupRefusedError(
                    f"branch {branch.name!r} started at version {branch.parent_version}, which was removed: "
                    "its files are unknown",
                    path=self.line.store.uri,
                    hint="remove the branch, or clean up with the official library",
                )


DEFAULT_AGE = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class CleanupOptions:
    """Retention of versions.

    Attributes:
        older_than: Keep versions younger than this. 14 days if neither this nor `retain_versions` is given.
        retain_versions: Number of newest versions to keep.
        delete_unverified: Also remove files that were never used and are younger than seven days. Only safe
            when there are no other writers.
        grace: Time for which removed versions stay in the trash with their files, so that `undo_cleanup`
            brings them back. Zero removes both at once.
        empty_trash: Also remove versions from the trash whose time is not over.
    """

    older_than: timedelta | None = None
    retain_versions: int | None = None
    delete_unverified: bool = False
    grace: timedelta = timedelta(0)
    empty_trash: bool = False

    def __post_init__(self) -> None:
        if self.older_than is not None:
            check_type(self.older_than, timedelta, "a timedelta", field="older_than")
        if self.retain_versions is not None:
            check_type(self.retain_versions, Integral, "a number of versions", field="retain_versions")
        if self.older_than is not None and self.older_than < timedelta(0):
            raise InvalidArgumentError("older_than must not be negative", field="older_than")
        check_type(self.grace, timedelta, "a timedelta", field="grace")
        if self.grace < timedelta(0):
            raise InvalidArgumentError("grace must not be negative", field="grace")
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
        until: It goes to the trash, where its files stay until this time; None if they go with it.
    """

    version: int
    timestamp: datetime
    location: ManifestLocation
    expired: bool
    reason: str
    given_up: bool = False
    until: datetime | None = None

    @property
    def keeps_files(self) -> bool:
        """Whether its files stay, with it or without."""
        return not self.expired or self.until is not None


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
                reason = "a restore, tag, clone or branch of it is in progress, or a job holds it"
            elif retain is not None and self._seen <= retain:
                reason = f"one of the newest {retain}"
            elif age and self._age(location, summary) < age:
                reason = f"younger than {age_text(age)}"
        # A version that cannot be read is not brought back.
        until = self.now + self.options.grace if self.options.grace and not given_up else None
        why = _why_expired(self.options)
        return VersionVerdict(
            version,
            summary.timestamp,
            location,
            reason is None,
            reason or (why if until is None else f"{why}; to the trash for {age_text(self.options.grace)}"),
            given_up,
            until if reason is None else None,
        )

    def trashed(self, version: TrashedVersion, summary: ManifestSummary) -> VersionVerdict:
        """Return the verdict on a version in the trash."""
        is_over = self.options.empty_trash or version.until <= self.now
        reason = (
            "its time in the trash is over" if is_over else f"in the trash until {version.until:%F %T} UTC"
        )
        return VersionVerdict(version.version, summary.timestamp, version.location, is_over, reason)

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
