"""Trimming of the fragment reuse index: row maps that segments no longer need."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from lance_ops.errors import FileMissingError, FormatError
from lance_ops.index.upkeep.reuse_needs import needed_generations
from lance_ops.maintenance.text import count_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment_reuse.decode import Generation
from lance_ops.table.manifest.index_metadata import IndexMetadata


@dataclass(frozen=True, slots=True)
class ReuseTrim:
    """Change of the fragment reuse index.

    Attributes:
        entry: The entry to replace, or to remove if nothing is kept.
        kept: Generations that a segment still needs, oldest first.
        dropped: Number of dropped ones; 0 if the entry is removed because it is damaged or empty.
    """

    entry: IndexMetadata
    kept: tuple[Generation, ...]
    dropped: int

    def __str__(self) -> str:
        if not self.dropped:
            return "the fragment reuse index is removed: it has no usable entry"
        left = f"{count_text(len(self.kept), 'compaction')} remaining" if self.kept else "none remaining"
        return (
            f"deferred remaps of {count_text(self.dropped, 'compaction')} are applied to all indices, {left}"
        )


@dataclass(frozen=True, slots=True)
class SegmentNeeds:
    """Generations of the fragment reuse index that each segment of a version needs, computed once."""

    dataset: Dataset
    _known: dict[uuid.UUID, frozenset[int]] = field(default_factory=dict)

    def of(self, segment: IndexMetadata) -> frozenset[int]:
        """Return the positions of the generations that a segment needs, see `needed_generations`."""
        if segment.uuid not in self._known:
            self._known[segment.uuid] = needed_generations(self.dataset, segment)
        return self._known[segment.uuid]

    def trim(self, removed: Iterable[IndexMetadata]) -> ReuseTrim | None:
        """Return the change of the index when some segments are replaced by new ones of the same version.

        None without a change, or without an index. A damaged one is removed only if no segment remains that
        may be older than it.
        """
        reuse = self.dataset.fragment_reuse
        if reuse is None:
            return None
        gone = {segment.uuid for segment in removed}
        rest = [item for item in self.dataset.indices if item.uuid not in gone and not item.is_system]
        if reuse.problem is not None:
            can_go = not rest and isinstance(reuse.problem, FormatError | FileMissingError)
            return ReuseTrim(reuse.entry, (), 0) if can_go else None
        wanted = frozenset[int]().union(*(self.of(segment) for segment in rest))
        kept = tuple(item for number, item in enumerate(reuse.generations) if number in wanted)
        if len(kept) == len(reuse.generations) and kept:
            return None
        return ReuseTrim(reuse.entry, kept, len(reuse.generations) - len(kept))
