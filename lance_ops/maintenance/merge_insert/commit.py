"""Commit of a merge: deleted rows, new rows, and new keys, as one Update."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_ops.maintenance.delete.operation import write_deletion_files
from lance_ops.maintenance.delete.plan import FragmentMatch
from lance_ops.maintenance.engine import Attempt
from lance_ops.maintenance.merge_insert.added_keys import AddedKeys
from lance_ops.maintenance.merge_insert.clauses import Clauses
from lance_ops.maintenance.merge_insert.inserted_keys import key_filter
from lance_ops.maintenance.merge_insert.result import MergeResult
from lance_ops.table.commit.request import CommitHooks, CommitRequest
from lance_ops.table.join_keys import primary_key
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.snapshot import Snapshot
from lance_ops.table.transaction.apply_mem_wal import MergedGeneration
from lance_ops.table.transaction.key_filter import KeyFilter
from lance_ops.table.transaction.operations import Update

MERGE_KEY = "lance_ops.merge_insert"
"""Property of the transaction: the key and the clauses, as JSON."""


@dataclass(frozen=True, slots=True)
class MergedRows:
    """Results of the join and of the writing tasks.

    Attributes:
        matches: Rows to mark deleted.
        new: Fragments with updated and inserted rows.
        rows_inserted: Inserted rows.
        rows_updated: Updated rows.
        rows_deleted: Deleted rows.
        told: Key filter of inserted keys; None without one.
        adds: See `AddedKeys`.
        generations: Last generation of each MemWAL shard whose rows these are.
    """

    matches: tuple[FragmentMatch, ...]
    new: tuple[Fragment, ...]
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    told: KeyFilter | None
    adds: Callable[[Sequence[pa.Array]], bool]
    generations: tuple[MergedGeneration, ...] = ()


def told_keys(dataset: Snapshot, on: tuple[str, ...], keys: Callable[[], pa.Table]) -> KeyFilter | None:
    """Return the filter of inserted keys for other writers; None if the key is not the primary key.

    Args:
        dataset: The target.
        on: Key columns.
        keys: Returns the keys.
    """
    declared = primary_key(dataset.lance_schema)
    if not declared or tuple(item.name for item in declared) != on:
        return None
    return key_filter(declared, keys())


def commit_merged(
    attempt: Attempt,
    on: tuple[str, ...],
    clauses: Clauses,
    merged: MergedRows,
    *,
    properties: Mapping[str, str] | None = None,
    is_job: bool = True,
) -> MergeResult:
    """Write the deletion files, and commit.

    Args:
        attempt: The attempt.
        on: Key columns; empty if all rows are new.
        clauses: Clauses of the merge.
        merged: Results of the join and of the writing tasks.
        properties: Stored in the transaction in addition.
        is_job: This is the work that the job key stands for.

    Raises:
        RetryableCommitConflictError: Other writers changed the same rows, or inserted some of the same keys.
    """
    dataset, matches, new = attempt.dataset, merged.matches, merged.new
    updated = write_deletion_files(attempt, matches)
    emptied = tuple(match.fragment.id for match in matches if match.empties)
    fields = tuple(sorted(node.id for node in dataset.lance_schema.walk()))
    added = AddedKeys(dataset, on, merged.adds, merged.told) if merged.rows_inserted and on else None
    done = attempt.commit(
        CommitRequest(
            Update(
                emptied,
                tuple(item.fragment for item in updated),
                new,
                preserving_fields=fields if new else (),
                inserted_keys=merged.told,
                merged_generations=merged.generations,
                # Rows that others add may as well have come later, but for those of the same keys.
                sees_new_rows=False,
            ),
            properties={
                MERGE_KEY: json.dumps({"on": on, "clauses": str(clauses)}),
                **(properties or {}),
            },
            affected_rows={match.fragment.id: match.matched for match in matches},
            hooks=CommitHooks(judge=added),
        ),
        is_job=is_job,
    )
    if done.already_committed:
        return MergeResult(**attempt.common(done), on=on, transaction_uuid=done.transaction.uuid)
    return MergeResult(
        **attempt.common(done),
        on=on,
        rows_inserted=merged.rows_inserted,
        rows_updated=merged.rows_updated,
        rows_deleted=merged.rows_deleted,
        fragments_added=len(new),
        fragments_updated=len(updated),
        fragments_removed=len(emptied),
        bytes_written=sum(part.data_bytes for part in new) + sum(item.size for item in updated),
        transaction_uuid=done.transaction.uuid,
    )
