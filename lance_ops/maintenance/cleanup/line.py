"""Line: the main line of a dataset or one of its branches, and who names its versions.

A branch starts with the files of the version that it forked off, and no version of it uses others of that
line. So whoever keeps these versions, and looks at the files below the root of one line only, takes nothing
away from another. Source: format, branches.
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
        """The line whose root a store is.

        Raises:
            InvalidArgumentError: The newest version belongs to a branch that lies elsewhere.
        """
        if f"/{BRANCH_TREES}/" not in store.uri:
            return cls(store, store, storage_options=storage_options)
        branch = persistently(lambda: read_summary(store, latest(store)).branch)
        return cls(store, root_of_branch(store, branch, storage_options), branch, storage_options)

    def named(self, now: datetime) -> "Named":
        """Who names versions, or is about to.

        Args:
            now: The time by the clock of the store.
        """
        # Pins come first: whoever takes one away has written the tag before (see `table.history.pins`).
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
        """Roots of the other lines of the dataset, whose managed blobs may name objects of this one."""
        # One listing may leave out a name.
        folders = sorted(self.trees() | self.trees())
        every = [self.root, *(self.root.child(folder) for folder in folders)]
        return [store for store in every if store.uri != self.store.uri]

    def trees(self) -> frozenset[str]:
        """Folders of the dataset that have versions of branches, described or not."""
        between = f"/{VERSIONS_DIRECTORY}/"
        paths = persistently(lambda: [info.path for info in self.root.list(BRANCH_TREES)])
        return frozenset(path.partition(between)[0] for path in paths if between in path)


@dataclass(frozen=True, slots=True)
class Named:
    """Who names versions of a line, or is about to.

    Attributes:
        line: The line.
        pinned: Versions that somebody is about to name.
        names: What is at each version that is named: its tags, and the branches that start at it.
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
        """See that every branch of the dataset can be told.

        Args:
            trees: See `Line.trees`.

        Raises:
            CleanupRefusedError: There are versions that no branch is described for: what they started from is
                not known.
        """
        described = {branch.directory for branch in self.branches}
        unknown = sorted(folder.removeprefix(f"{BRANCH_TREES}/") for folder in set(trees) - described)
        if unknown:
            raise CleanupRefusedError(
                f"there are versions of branches that are not described: {', '.join(unknown)}",
                path=self.line.root.uri,
                hint="somebody is making them, or that or their removal was broken off: then remove each by "
                "delete_branch",
            )

    def check_listed(self, versions: Collection[int]) -> None:
        """See that the listing of the manifests left out no version that a tag, a branch or a pin names.

        Args:
            versions: Those of the line that the listing named.

        Raises:
            InconsistentStoreError: It left one out.
        """
        for version in sorted({*self.names, *self.pinned}.difference(versions)):
            with contextlib.suppress(VersionNotFoundError):
                path = locate(self.line.store, version).path
                raise InconsistentStoreError(
                    "the listing of the manifests left this one out, and it is there",
                    path=f"{self.line.store.uri}/{path}",
                    hint="nothing was deleted; try again, and check the store or gateway if it happens again",
                )

    def check_forks(self, versions: Collection[int]) -> None:
        """See that the versions are there that branches started at.

        Args:
            versions: Those of the line that are there.

        Raises:
            CleanupRefusedError: One is not, so that what its branch uses is not known.
        """
        for branch in self.branches:
            if branch.parent_branch == self.line.branch and branch.parent_version not in versions:
                raise CleanupRefusedError(
                    f"branch {branch.name!r} started at version {branch.parent_version}, which is gone: what "
                    "it uses is not known",
                    path=self.line.store.uri,
                    hint="remove the branch, or clean up with the official library",
                )
