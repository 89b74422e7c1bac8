"""Row maps of fragment reuse indices, and the files of a version, marked as used."""

from dataclasses import dataclass

from lance_ops.errors import LanceOpsError
from lance_ops.maintenance.cleanup.line import Line, VersionVerdict
from lance_ops.maintenance.cleanup.marks import Marks
from lance_ops.maintenance.cleanup.places import is_own_root
from lance_ops.storage import Store
from lance_ops.storage.retry import persistently
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.feature_flags import Feature
from lance_ops.table.manifest.file.summary import ManifestSummary
from lance_ops.table.manifest.fragment_reuse.read import named_row_maps


@dataclass(slots=True)
class RowMaps:
    """Row maps of the fragment reuse indices of versions.

    Attributes:
        line: The dataset, or one of its branches.
        any_found: True if a version may have some.
        unknown: Why those of a kept version are unknown, so that all are kept; None otherwise.
    """

    line: Line
    any_found: bool = False
    unknown: str | None = None

    def add(self, summary: ManifestSummary, marks: Marks, *, is_kept: bool) -> None:
        """Mark the row maps that a version names."""
        if not summary.reader_flags & Feature.TAGGED_REUSE:
            return
        self.any_found = True
        root = self.line.store.uri
        own = {None, *(base.id for base in summary.base_paths if is_own_root(base, root))}
        bases = Bases(self.line.store, summary.base_paths, storage_options=self.line.storage_options)
        try:
            named = persistently(lambda: named_row_maps(bases, summary.indices(path=root)))
            marks.mark((path for base_id, path in named if base_id in own), summary.version)
        except LanceOpsError as error:
            if is_kept:
                self.unknown = f"the row maps of version {summary.version} are unknown: {error.message}"


def mark_files(
    store: Store,
    verdict: VersionVerdict,
    summary: ManifestSummary,
    kept: Marks,
    expired: Marks,
    row_maps: RowMaps,
) -> None:
    """Mark the files of a version as used by a version that stays, or by one that goes."""
    marks = kept if verdict.keeps_files else expired
    marks.add(summary, root=store.uri, path=f"{store.uri}/{verdict.location.path}")
    row_maps.add(summary, marks, is_kept=marks is kept)
