"""MemWAL state: what the shards of a table hold that one of its versions does not have."""

from dataclasses import dataclass

from lance_ops.errors import FileMissingError
from lance_ops.pb import mem_wal_pb2
from lance_ops.storage import Store
from lance_ops.table.mem_wal.log import LogEntry, entries_to_replay, read_entries
from lance_ops.table.mem_wal.shards import Generation, Shard, list_shards
from lance_ops.table.snapshot import Snapshot
from lance_ops.table.transaction.apply_mem_wal import mem_wal_details, merged_generations


@dataclass(frozen=True, slots=True)
class PendingShard:
    """What one shard holds beyond a version.

    Attributes:
        shard: Its newest manifest.
        merged: The last generation that the version has; 0 for none.
        generations: Generations that the version lacks, in ascending order.
        entries: Log entries that no generation covers.
    """

    shard: Shard
    merged: int
    generations: tuple[Generation, ...]
    entries: tuple[LogEntry, ...]


@dataclass(frozen=True, slots=True)
class MemWalCounts:
    """Size of what the shards hold beyond a version.

    Attributes:
        shards: Shards of the table.
        generations: Flushed generations that the version lacks.
        generation_rows: Their rows, with superseded rows and deletions.
        generation_bytes: Their bytes in memory, as recorded.
        log_entries: Log entries with rows that no generation covers.
        log_rows: Their rows, with superseded rows and deletions.
    """

    shards: int
    generations: int
    generation_rows: int
    generation_bytes: int
    log_entries: int
    log_rows: int

    @property
    def rows(self) -> int:
        """Rows that a plain scan of the version leaves out, with superseded rows and deletions."""
        return self.generation_rows + self.log_rows

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows of MemWAL: {self.generation_rows:,} in {self.generations:,} flushed "
            f"generations and {self.log_rows:,} in {self.log_entries:,} log entries of {self.shards:,} shards"
        )


@dataclass(frozen=True, slots=True)
class MemWalState:
    """What the shards hold beyond a version.

    Attributes:
        store: Root of the table.
        details: Configuration and progress, as the version records them.
        shards: The shards, ordered by id.
    """

    store: Store
    details: mem_wal_pb2.MemWalIndexDetails
    shards: tuple[PendingShard, ...]

    def count(self) -> MemWalCounts:
        """Count the rows; reads the log entries, and generations without a recorded number of rows not."""
        logs = [
            table.num_rows
            for item in self.shards
            for table in read_entries(self.store, item.shard, item.entries)
        ]
        generations = [each for item in self.shards for each in item.generations]
        return MemWalCounts(
            len(self.shards),
            len(generations),
            sum(item.rows or 0 for item in generations),
            sum(item.size or 0 for item in generations),
            sum(1 for rows in logs if rows),
            sum(logs),
        )


def read_state(snapshot: Snapshot) -> MemWalState | None:
    """Read what the shards of a table hold beyond a version; None for a table without MemWAL.

    The manifests of the shards are read now, after the version: a generation that was folded into a later
    version is still listed, as long as versions without it exist.

    Raises:
        CorruptFileError: A manifest of a shard is damaged.
        FileMissingError: A generation that the version lacks is not listed, or a log entry is missing.
    """
    details = mem_wal_details(snapshot.manifest.indices)
    if details is None:
        return None
    merged = merged_generations(snapshot.manifest.indices)
    store = snapshot.store
    shards = tuple(_pending(snapshot, shard, merged.get(shard.id, 0)) for shard in list_shards(store))
    return MemWalState(store, details, shards)


def count_left_out(snapshot: Snapshot) -> MemWalCounts | None:
    """Count the rows of MemWAL that a plain scan of a version leaves out; None without MemWAL."""
    state = read_state(snapshot)
    return None if state is None else state.count()


def left_out_text(snapshot: Snapshot) -> str:
    """Return a line on the rows of MemWAL that a plain scan leaves out; empty if there are none."""
    counts = count_left_out(snapshot)
    return "" if counts is None or not counts.rows else f"\n  left out: {counts}; mem_wal=True reads them"


def _pending(snapshot: Snapshot, shard: Shard, merged: int) -> PendingShard:
    store = snapshot.store
    pending = tuple(item for item in shard.generations if item.number > merged)
    listed = {item.number for item in pending}
    missing = [n for n in range(merged + 1, shard.next_generation) if n not in listed]
    if missing:
        raise FileMissingError(
            f"generation {missing[0]} of shard {shard.id} is neither in version {snapshot.version} of the "
            "table nor listed in the manifest of the shard: it was folded into a later version, or lost",
            path=f"{store.uri}/{shard.path}",
            field="flushed_generations",
            hint="read the newest version; if it is the newest, restore the manifests of the shard",
        )
    return PendingShard(shard, merged, pending, entries_to_replay(store, shard))
