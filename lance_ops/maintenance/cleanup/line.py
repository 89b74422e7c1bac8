"""Line: the main line of a dataset or one of its branches, and references to its versions.

A branch starts with the files of its fork version, and uses no other versions of that line. So keeping these
versions, and cleaning up files below the root of one line only, is safe for the others. Source: format,
branches.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lance_ops.errors import CleanupRefusedError, InconsistentStoreError, VersionNotFoundError
from lance_ops.storage import Store
from lance_ops.storage.prefetch import side_by_side
from lance_ops.storage.retry import persistently
from lance_ops.table.history.branches import (
    BRANCH_TREES,
    Branch,
    branch_directory,
    folders_below,
    list_branches,
)
from lance_ops.table.history.pins import PIN_LIFETIME, list_pins
from lance_ops.table.history.resolve_version import root_of_branch
from lance_ops.table.history.tags import list_tags
from lance_ops.table.manifest.file.summary import read_summary
from lance_ops.table.manifest.listing import latest, locate
from lance_ops.table.manifest.naming import VERSIONS_DIRECTORY


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
        pinned = frozenset(pin.version for pin in pins if now - pin.modified < PIN_LIFETIME)
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
