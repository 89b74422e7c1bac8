"""Links: folders of a dataset that are symbolic links out of it, where cleanup deletes nothing.

The files there belong to another dataset, which may use them although no version of this one does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lance_ops.maintenance.cleanup.files import FileVerdict
from lance_ops.maintenance.cleanup.line import Line
from lance_ops.maintenance.cleanup.marks import DATA, DELETIONS, INDICES, OBJECTS, ROW_MAPS, TRANSACTIONS
from lance_ops.maintenance.cleanup.versions import VersionVerdict
from lance_ops.maintenance.jobs.folder import JOBS_DIRECTORY
from lance_ops.storage import ObjectInfo, Store, leads_out
from lance_ops.table.history.branches import BRANCH_TREES, BRANCHES_DIRECTORY, branch_directory
from lance_ops.table.history.pins import PINS_DIRECTORY, REMOVALS_DIRECTORY
from lance_ops.table.history.tags import TAGS_DIRECTORY
from lance_ops.table.manifest.naming import VERSIONS_DIRECTORY

_FILES = (DATA, DELETIONS, INDICES, TRANSACTIONS, OBJECTS, ROW_MAPS)
_CONTROL = (VERSIONS_DIRECTORY, PINS_DIRECTORY, REMOVALS_DIRECTORY, JOBS_DIRECTORY)
"""Folders that a cleanup writes to, and whose state it relies on."""
_NAMES = (TAGS_DIRECTORY, BRANCHES_DIRECTORY, BRANCH_TREES)

_LEADS_OUT = "is a symbolic link that leads out of the dataset"
_REASON = f"its folder, or one required for its removal, {_LEADS_OUT}"


@dataclass(frozen=True, slots=True)
class LinkedFolders:
    """Folders of a line that link out of its root.

    Attributes:
        folders: Relative to the root of the line.
        holds_all: One of them is required for any removal, so that nothing is removed.
    """

    folders: tuple[str, ...] = ()
    holds_all: bool = False

    @classmethod
    def of(cls, line: Line) -> "LinkedFolders":
        """Find the linked folders of a line."""
        directory = branch_directory(line.branch)
        if directory and leads_out(line.root, directory):
            return cls((*_FILES, *_CONTROL), holds_all=True)
        found = tuple(folder for folder in (*_FILES, *_CONTROL, *_NAMES) if leads_out(line.store, folder))
        return cls(found, holds_all=not set(found).isdisjoint(_CONTROL))

    def judge_version(self, verdict: VersionVerdict) -> VersionVerdict:
        """Keep an expired version if nothing can be removed."""
        if self.holds_all and verdict.expired:
            return replace(verdict, expired=False, reason=f"{self.folders[0]} {_LEADS_OUT}")
        return verdict

    def judge_files(self, verdicts: Iterable[FileVerdict]) -> list[FileVerdict]:
        """Keep the files behind a link."""
        return [self._judge(verdict) for verdict in verdicts]

    def _judge(self, verdict: FileVerdict) -> FileVerdict:
        is_behind = self.holds_all or verdict.path.partition("/")[0] in self.folders
        if is_behind and verdict.victim:
            return replace(verdict, victim=False, reason=_REASON, last_user=None, left_over=False)
        return verdict

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a note for each folder, for the result."""
        what = "nothing was removed" if self.holds_all else "no file behind it was removed"
        return tuple(f"{folder} {_LEADS_OUT}: {what}" for folder in self.folders)


def keep_targets(
    store: Store, infos: Sequence[ObjectInfo], verdicts: Sequence[FileVerdict]
) -> list[FileVerdict]:
    """Keep files that are link targets of kept files, within the root of a local store.

    Args:
        store: The dataset.
        infos: The listing: a link has the mark of its target.
        verdicts: Verdict on each of them.
    """
    if not hasattr(store, "leads_out"):
        # The mark of an object depends on its bytes, which two may share.
        return list(verdicts)
    stay = {info.mark: info.path for info, verdict in zip(infos, verdicts, strict=True) if not verdict.victim}
    return [
        replace(verdict, victim=False, reason=f"{stay[info.mark]} is a link to it", last_user=None)
        if verdict.victim and info.mark in stay
        else verdict
        for info, verdict in zip(infos, verdicts, strict=True)
    ]
