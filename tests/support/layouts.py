"""Layouts of tables as values: fragments of given sizes, planned without a store."""

from collections.abc import Sequence

from lance_ops.maintenance.compact.groups import CompactionGroup
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.plan import CompactionPlan, plan_compaction
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata
from tests.support.table_values import fragment, manifest

BYTES_PER_ROW = 8


class Layout:
    """The part of a dataset that planning looks at: metadata only, so no store."""

    def __init__(self, fragments: Sequence[Fragment], indices: Sequence[IndexMetadata] = ()) -> None:
        self.manifest = manifest(*fragments, indices=tuple(indices))
        self.uri, self.version = "memory://t", self.manifest.version
        self.fragments, self.indices = self.manifest.fragments, self.manifest.indices
        self.lance_schema = self.manifest.schema
        self.fragment_reuse = None
        self.data_storage_version = self.manifest.storage_version

    def with_side_sizes(self) -> "Layout":
        """There are no side files."""
        return self


def sized(number: int, rows: int, *, deleted: int = 0, size: int | None = None) -> Fragment:
    """A fragment whose file has eight bytes a row, or as many as are said."""
    stored = BYTES_PER_ROW * rows if size is None else size
    file = DataFile(f"f{number}.lance", (0, 1), (0, 1), 2, 0, size_bytes=stored)
    return fragment(number, rows, deleted=deleted, files=(file,))


def planned(
    fragments: Sequence[Fragment], indices: Sequence[IndexMetadata] = (), **options: object
) -> CompactionPlan:
    """The plan of a layout."""
    return plan_compaction(Layout(fragments, indices), CompactionOptions(**options))


def merged(groups: Sequence[CompactionGroup], fragments: Sequence[Fragment]) -> list[Fragment]:
    """The layout after groups were rewritten: what came out lies behind what was left, by its new ids."""
    gone = {number for group in groups for number in group.fragment_ids}
    left = [item for item in fragments if item.id not in gone]
    number = max((item.id for item in fragments), default=-1) + 1
    for group in groups:
        share, more = divmod(group.live_rows, max(1, group.files))
        for position in range(group.files):
            left.append(sized(number, share + (position < more)))
            number += 1
    return left
