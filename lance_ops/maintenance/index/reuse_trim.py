"""Trimming the fragment reuse index: what it keeps for segments that have caught up with its compactions."""

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
    """What becomes of the fragment reuse index.

    Attributes:
        entry: The entry that is replaced, or removed when nothing is kept.
        kept: Generations that a segment still needs, oldest first.
        dropped: How many are given up; 0 when the entry goes because it is damaged or empty.
    """

    entry: IndexMetadata
    kept: tuple[Generation, ...]
    dropped: int

    def __str__(self) -> str:
        if not self.dropped:
            return "the fragment reuse index goes: there is nothing in it that can be used"
        left = f"{count_text(len(self.kept), 'compaction')} still to follow" if self.kept else "none is left"
        return f"indices caught up with {count_text(self.dropped, 'compaction')}, {left}"


@dataclass(frozen=True, slots=True)
class SegmentNeeds:
    """The generations of the fragment reuse index that each segment of a version needs, looked up once."""

    dataset: Dataset
    _known: dict[uuid.UUID, frozenset[int]] = field(default_factory=dict)

    def of(self, segment: IndexMetadata) -> frozenset[int]:
        """Positions of the generations that a segment needs, see `needed_generations`."""
        if segment.uuid not in self._known:
            self._known[segment.uuid] = needed_generations(self.dataset, segment)
        return self._known[segment.uuid]

    def trim(self, removed: Iterable[IndexMetadata]) -> ReuseTrim | None:
        """What becomes of the index when some segments go, and new ones of the same version may come.

        None when it stays as it is, or when there is none. One that is damaged goes only when no segment is
        left that may have been written before it.
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
