"""Fold: the rows of generations and the progress of their shards, in one commit."""

import json
from dataclasses import dataclass, replace

import numpy as np

from lance_ops.maintenance.compact_wal.plan import Fold
from lance_ops.maintenance.engine import Attempt
from lance_ops.maintenance.merge_insert.clauses import Clauses
from lance_ops.maintenance.merge_insert.commit import MergedRows, commit_merged
from lance_ops.maintenance.merge_insert.operation import merged_rows
from lance_ops.maintenance.merge_insert.plan import MergePlan, SourceKeys, plan_merge
from lance_ops.maintenance.merge_insert.result import MergeResult
from lance_ops.maintenance.merge_insert.source import SourceRows, read_source
from lance_ops.maintenance.tasks import reading, said_by_rows
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from lance_ops.table.mem_wal.rows import MemWalRows, key_of, read_generation, resolve
from lance_ops.table.scan.accelerators import default_pruners

FOLD_KEY = "lance_ops.compact_wal"
"""Property of the transaction: the folded generations of each shard, as JSON."""

_CLAUSES = Clauses(when_matched="update_all", when_not_matched="insert_all")


@dataclass(frozen=True, slots=True)
class Folded:
    """One commit of a compaction.

    Attributes:
        merged: Its result as a merge.
        generations: Generations folded.
        rows_read: Their rows, superseded ones of older generations and deletions included.
    """

    merged: MergeResult
    generations: int
    rows_read: int


def fold(attempt: Attempt, chosen: Fold, *, is_job: bool) -> Folded:
    """Commit the rows of generations with the progress of their shards.

    Rows of older generations with the same key are superseded before the merge, so that the result is that of
    merges in the order of the generations.

    Args:
        attempt: The attempt, on the newest version.
        chosen: The generations.
        is_job: This commit completes the job of the call.

    Raises:
        RetryableCommitConflictError: Another compactor folded some of them, or rows changed.
    """
    dataset = attempt.dataset
    with reading(dataset, "a compaction of MemWAL"):
        rows, read = _read(dataset, chosen)
        source = read_source(
            rows.live, dataset.lance_schema, rows.key, inserts=True, uri=dataset.uri, leaving=rows.deleted
        )
    try:
        merged = replace(_merged(attempt, source, rows.key), generations=chosen.merged)
        result = commit_merged(
            attempt,
            rows.key,
            _CLAUSES,
            merged,
            properties={FOLD_KEY: json.dumps(chosen.numbers())},
            is_job=is_job,
        )
        return Folded(result, len(chosen.generations), read)
    finally:
        source.close()


def _read(dataset: Dataset, chosen: Fold) -> tuple[MemWalRows, int]:
    schema, key = dataset.lance_schema, key_of(dataset.lance_schema)

    def open_generation(store: Store) -> Dataset:
        return Dataset.open(store, storage_options=dataset.storage_options)

    parts = [read_generation(dataset.store, item, schema, open_generation) for _, item in chosen.generations]
    return resolve(parts, schema, key), sum(part.num_rows for part in parts)


def _merged(attempt: Attempt, source: SourceRows, key: tuple[str, ...]) -> MergedRows:
    dataset, run = attempt.dataset, attempt.run
    if not key:
        total = sum(fragment.num_rows for fragment in dataset.fragments)
        places = np.arange(source.num_rows, dtype=np.int64)
        plan = MergePlan(dataset.uri, dataset.version, (), _CLAUSES, source.num_rows, total, (), places)
        return merged_rows(attempt, source, None, plan)
    keys = SourceKeys.of(source, key)
    with reading(dataset, "a join"), said_by_rows():
        plan = plan_merge(
            dataset,
            source,
            keys,
            key,
            _CLAUSES,
            runner=run.runner,
            report=run.report,
            pruners=default_pruners(),
        )
    return merged_rows(attempt, source, keys, plan)
