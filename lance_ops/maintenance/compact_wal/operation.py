"""MemWAL compaction: fold flushed generations into the table, exactly once, and remove them afterwards.

The progress of a shard changes in the commit that brings its rows. So an interrupted run goes on where it
ended, and of two runs at once one plans again and skips what the other folded. Writers go on meanwhile: their
epoch and their log are not touched. Source: MemWAL specification, "Background Job Expectations".
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Literal, Unpack, overload

from lance_ops.errors import InvalidArgumentError, public
from lance_ops.maintenance.compact_wal.fold import Folded, fold
from lance_ops.maintenance.compact_wal.plan import CompactWalPlan, next_fold
from lance_ops.maintenance.compact_wal.remove import removable_generations, remove_generations
from lance_ops.maintenance.compact_wal.result import CompactWalResult
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.merge_insert.result import MergeResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.target import Target
from lance_ops.table.mem_wal.state import read_state

MAX_BYTES = 256 << 20
REPLANS = 20


@dataclass(slots=True)
class _Done:
    """Numbers of the commits of a call."""

    last: MergeResult | None = None
    commits: int = 0
    generations: int = 0
    rows_read: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    bytes_written: int = 0

    def add(self, folded: Folded) -> None:
        self.last = merged = folded.merged
        self.commits += 1
        self.generations += folded.generations
        self.rows_read += folded.rows_read
        self.rows_inserted += merged.rows_inserted
        self.rows_updated += merged.rows_updated
        self.rows_deleted += merged.rows_deleted
        self.bytes_written += merged.bytes_written


@overload
def compact_wal(
    uri_or_dataset: Target,
    *,
    max_bytes: int = MAX_BYTES,
    remove: bool = True,
    remove_after: timedelta | None = None,
    dry_run: Literal[False] = False,
    **run: Unpack[RunOptions],
) -> CompactWalResult: ...
@overload
def compact_wal(
    uri_or_dataset: Target,
    *,
    max_bytes: int = MAX_BYTES,
    remove: bool = True,
    remove_after: timedelta | None = None,
    dry_run: bool,
    **run: Unpack[RunOptions],
) -> CompactWalResult | CompactWalPlan: ...
@public(target="uri_or_dataset", conflict_retries="max_replans")
def compact_wal(
    uri_or_dataset: Target,
    *,
    max_bytes: int = MAX_BYTES,
    remove: bool = True,
    remove_after: timedelta | None = None,
    dry_run: bool = False,
    **run: Unpack[RunOptions],
) -> CompactWalResult | CompactWalPlan:
    """Fold the flushed generations of a MemWAL table into the table, and remove those that no reader needs.

    Generations that writers flush during the call are left to the next one. Log entries that are not flushed
    yet stay where they are. A table without MemWAL is not changed.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        max_bytes: Bytes of the generations of one commit, as their writers recorded them; they are read into
            memory. At least one generation is folded at a time.
        remove: Remove generations from the store when every version that still exists has their rows.
        remove_after: Remove them also if versions that were superseded longer ago than this lack them. Such a
            version can be read without MemWAL only; one with a tag keeps its generations.
        dry_run: Return the plan.
        **run: See `RunOptions`; the default of `max_replans` is 20. The job key is recorded with the
            last commit.

    Raises:
        CorruptFileError: A manifest of a shard is damaged. Nothing was changed.
        FileMissingError: A generation is missing. Generations before it may be folded; none is lost.
        SchemaMismatchError: The rows of a generation do not fit the table.
        CommitConflictError: Another commit stands in the way.

    Examples:
        >>> lo.compact_wal("events.lance").generations_merged
        0
    """
    if max_bytes < 1:
        raise InvalidArgumentError(f"max_bytes must be at least 1, got {max_bytes}", field="max_bytes")
    if remove_after is not None and remove_after < timedelta(0):
        raise InvalidArgumentError(
            f"remove_after must not be negative, got {remove_after}", field="remove_after"
        )
    call = Run.start("compact_wal", uri_or_dataset, run, max_replans=REPLANS)
    if dry_run:
        return _plan(call, remove_after if remove else None, remove=remove)
    found = call.find_job()
    if found is not None:
        return CompactWalResult(**found)
    call, done = _fold_all(call, max_bytes)
    return _finish(call, done, remove=remove, remove_after=remove_after)


def _plan(call: Run, remove_after: timedelta | None, *, remove: bool) -> CompactWalPlan:
    dataset = call.dataset
    state = read_state(dataset)
    removable = 0
    if state is not None and remove:
        floor = removable_generations(dataset, state, remove_after)
        removable = sum(
            item.number <= floor[pending.shard.id]
            for pending in state.shards
            for item in pending.shard.generations
        )
    return CompactWalPlan(dataset.uri, dataset.version, state, removable)


def _fold_all(call: Run, max_bytes: int) -> tuple[Run, _Done]:
    """Fold what is listed now, a commit after the other; return the call on the newest version."""
    state = read_state(call.dataset)
    done = _Done()
    if state is None:
        return call, done
    upto = {item.shard.id: item.shard.next_generation - 1 for item in state.shards}
    step = partial(_fold_next, upto=upto, max_bytes=max_bytes)
    while (folded := call.replanned(step)) is not None:
        done.add(folded)
        call = replace(call, head=call.dataset.latest())
        call.report(f"folded {done.generations:,} generations")
    return call, done


def _fold_next(attempt: Attempt, *, upto: Mapping[uuid.UUID, int], max_bytes: int) -> Folded | None:
    """Fold the next generations; None when the newest version has them all."""
    # Read for each attempt: another compactor may have folded some of them.
    state = read_state(attempt.dataset)
    chosen = None if state is None else next_fold(state, upto, max_bytes)
    if state is None or chosen is None:
        return None
    reached = {item.shard.id: item.merged for item in state.shards}
    reached.update({item.shard: item.generation for item in chosen.merged})
    return fold(attempt, chosen, is_job=all(reached[shard] >= last for shard, last in upto.items()))


def _finish(call: Run, done: _Done, *, remove: bool, remove_after: timedelta | None) -> CompactWalResult:
    dataset = call.dataset.latest()
    state = read_state(dataset)
    shards = () if state is None else state.shards
    generations = files = kept = 0
    if state is not None:
        if remove:
            for shard, last in removable_generations(dataset, state, remove_after).items():
                if last:
                    removed = remove_generations(dataset.store, shard, last)
                    generations += removed.generations
                    files += removed.files
        listed = sum(len(item.shard.generations) - len(item.generations) for item in shards)
        kept = listed - generations
    last_commit = done.last
    common = (
        call.common(dataset.version)
        if last_commit is None
        else call.common(
            last_commit.version,
            read_version=last_commit.read_version,
            attempts=last_commit.attempts,
            conflicts=last_commit.conflicts,
            rebased_over=last_commit.rebased_over,
        )
    )
    return CompactWalResult(
        **common,
        shards=len(shards),
        generations_merged=done.generations,
        rows_read=done.rows_read,
        rows_inserted=done.rows_inserted,
        rows_updated=done.rows_updated,
        rows_deleted=done.rows_deleted,
        bytes_written=done.bytes_written,
        commits=done.commits,
        generations_removed=generations,
        generations_kept=kept,
        files_removed=files,
    )
