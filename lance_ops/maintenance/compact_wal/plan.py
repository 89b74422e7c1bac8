"""Plan of a MemWAL compaction: which generations the next commits fold, in which order."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from lance_ops.maintenance.text import bytes_text, count_text, table_text
from lance_ops.table.mem_wal.shards import Generation
from lance_ops.table.mem_wal.state import MemWalState
from lance_ops.table.transaction.apply_mem_wal import MergedGeneration


@dataclass(frozen=True, slots=True)
class Fold:
    """Generations that one commit folds.

    Attributes:
        generations: (shard, generation), older ones first.
    """

    generations: tuple[tuple[uuid.UUID, Generation], ...]

    @property
    def merged(self) -> tuple[MergedGeneration, ...]:
        """Progress to record: the last generation of each shard."""
        last = {shard: item.number for shard, item in self.generations}
        return tuple(MergedGeneration(shard, last[shard]) for shard in sorted(last))

    def numbers(self) -> dict[str, list[int]]:
        """Numbers of the generations by shard, as JSON values."""
        found: dict[str, list[int]] = {}
        for shard, item in self.generations:
            found.setdefault(str(shard), []).append(item.number)
        return found


def next_fold(state: MemWalState, upto: Mapping[uuid.UUID, int], max_bytes: int) -> Fold | None:
    """Choose the generations of the next commit; None when there are none.

    The generations of a shard are folded without a gap, so that the recorded progress is right. Low
    generation numbers come first, those of all shards together.

    Args:
        state: What the shards hold beyond the newest version.
        upto: Last generation of each shard to fold.
        max_bytes: Bytes in memory of the generations of a commit; at least one is folded.
    """
    waiting = sorted(
        (item.number, pending.shard.id, item)
        for pending in state.shards
        for item in pending.generations
        if item.number <= upto.get(pending.shard.id, 0)
    )
    chosen: list[tuple[uuid.UUID, Generation]] = []
    size = 0
    for _, shard, item in waiting:
        size += item.size or 0
        if chosen and size > max_bytes:
            break
        chosen.append((shard, item))
    return Fold(tuple(chosen)) if chosen else None


@dataclass(frozen=True, slots=True)
class CompactWalPlan:
    """Plan of `compact_wal`; prints as a table.

    Attributes:
        uri: The dataset.
        version: Version that it was planned from.
        state: What the shards hold beyond it; None for a table without MemWAL.
        removable: Generations that the table has and that no reader needs.
    """

    uri: str
    version: int
    state: MemWalState | None
    removable: int

    @property
    def generations(self) -> int:
        """Number of generations to fold."""
        return 0 if self.state is None else sum(len(item.generations) for item in self.state.shards)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to fold and nothing to remove."""
        return not self.generations and not self.removable

    def to_dict(self) -> dict[str, object]:
        """Numbers and ids as JSON values."""
        shards = () if self.state is None else self.state.shards
        return {
            "operation": "compact_wal",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.version,
            "generations": self.generations,
            "removable": self.removable,
            "shards": [
                {
                    "shard": str(item.shard.id),
                    "merged": item.merged,
                    "generations": [generation.number for generation in item.generations],
                    "rows": sum(generation.rows or 0 for generation in item.generations),
                    "bytes": sum(generation.size or 0 for generation in item.generations),
                    "log_entries": len(item.entries),
                    "writer_epoch": item.shard.writer_epoch,
                    "sealed": item.shard.is_sealed,
                }
                for item in shards
            ],
        }

    def __str__(self) -> str:
        head = f"compaction of MemWAL into version {self.version} of {self.uri}"
        if self.state is None:
            return f"{head}: the table has no MemWAL"
        head = (
            f"{head}: {count_text(self.generations, 'generation')} to fold, "
            f"{count_text(self.removable, 'generation')} to remove"
        )
        rows = [
            (
                str(item.shard.id),
                f"{item.merged:,}",
                f"{len(item.generations):,}",
                f"{sum(generation.rows or 0 for generation in item.generations):,}",
                bytes_text(sum(generation.size or 0 for generation in item.generations)),
                f"{len(item.entries):,}",
            )
            for item in self.state.shards
        ]
        if not rows:
            return head
        titles = ("shard", "merged", "to fold", "rows", "size", "log entries")
        return f"{head}\n{table_text(titles, rows)}"
