"""Operations on columns, and merges by hash partitions; see `actions`."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

import lance_ops as lo
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.maintenance.delete.plan import FragmentMatch
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.merge_insert.clauses import clauses_of
from lance_ops.maintenance.merge_insert.commit import MergedRows, commit_merged
from lance_ops.maintenance.merge_insert.partition import (
    PartitionResult,
    PartitionTask,
    Window,
    carried_keys,
    hash_keys,
    merge_partition,
)
from lance_ops.maintenance.merge_insert.source import SourceRows, source_schema
from lance_ops.maintenance.tasks import remove_files
from lance_ops.maintenance.update.rewrite import data_paths
from lance_ops.storage import Store
from lance_ops.table.join_keys import plain_keys
from tests.safety.actions import Action, Rows, Upsert
from tests.safety.rows import EVERYTHING, Predicate, literal, make_rows, to_arrow
from tests.safety.states import IN_ORDER

COMPUTED = "w"
"""A column that is added: twice the id."""


@dataclass(frozen=True)
class AddColumn(Action):
    """Adds a column by SQL."""

    def run(self, store: Store, **options: Any) -> Any:
        return lo.add_columns(store, {COMPUTED: "id * 2"}, runner=IN_ORDER, **options)

    def check(self, dataset: lo.Dataset) -> None:
        if COMPUTED in dataset.schema.names:
            found = dataset.to_table(["id", COMPUTED])
            assert found[COMPUTED].to_pylist() == [2 * number for number in found["id"].to_pylist()]


@dataclass(frozen=True)
class MergeColumn(AddColumn):
    """Adds the same column from another table."""

    def run(self, store: Store, **options: Any) -> Any:
        other = pa.table({"id": range(200), COMPUTED: range(0, 400, 2)})
        return lo.merge(store, other, "id", runner=IN_ORDER, **options)


@dataclass(frozen=True)
class ReplaceColumn(Action):
    """Gives a column other values in place."""

    changes_rows: ClassVar[bool] = True
    text: str = "zz"

    def run(self, store: Store, **options: Any) -> Any:
        return lo.replace_columns(store, {"s": literal(self.text)}, runner=IN_ORDER, **options)

    def after(self, rows: Rows, versions: dict[int, Rows]) -> Rows:
        return [row._replace(s=self.text) for row in rows]


@dataclass(frozen=True)
class CompactColumns(Action):
    """Joins the data files of each fragment."""

    def run(self, store: Store, **options: Any) -> Any:
        return lo.compact_columns(store, min_dead_ratio=0, runner=IN_ORDER, **options)


@dataclass(frozen=True)
class UpdateInPlace(Action):
    """Gives some rows another text where they are."""

    changes_rows: ClassVar[bool] = True
    predicate: Predicate = EVERYTHING
    text: str = "in place"

    def run(self, store: Store, **options: Any) -> Any:
        values = {"s": literal(self.text)}
        return lo.update(store, values, self.predicate.sql, rewrite="columns", runner=IN_ORDER, **options)

    def after(self, rows: Rows, versions: dict[int, Rows]) -> Rows:
        changed = self.predicate.select(rows)
        return [row._replace(s=self.text) if row in changed else row for row in rows]


@dataclass(frozen=True)
class Cast(Action):
    """Gives a column another type."""

    kind: str = "int64"

    def run(self, store: Store, **options: Any) -> Any:
        changes = {"path": "k", "data_type": pa.type_for_alias(self.kind)}
        return lo.alter_columns(store, changes, runner=IN_ORDER, **options)


@dataclass(frozen=True)
class Truncate(Action):
    """Removes all rows."""

    changes_rows: ClassVar[bool] = True

    def run(self, store: Store, **options: Any) -> Any:
        return lo.truncate(store, **options)

    def after(self, rows: Rows, versions: dict[int, Rows]) -> Rows:
        return []


@dataclass(frozen=True)
class PartitionedUpsert(Upsert):
    """An upsert as Spark does it: by hash partitions, each joined and written by itself, committed once."""

    partitions: int = 3

    def run(self, store: Store, **options: Any) -> Any:
        run = Run.start("merge_insert", store, options, max_replans=5)
        found = run.find_job()
        return found if found is not None else run.replanned(self._merge)

    def _merge(self, attempt: Attempt) -> Any:
        dataset, on = attempt.dataset, ("id",)
        clauses = clauses_of(
            when_matched="update_all",
            condition=None,
            when_not_matched="insert_all",
            when_not_matched_by_source=None,
            on_duplicates="fail",
        )
        rows = to_arrow(make_rows(self.first, self.count, self.pattern))
        schema = source_schema(rows.schema, dataset.lance_schema, on, inserts=True, uri=dataset.uri)
        wanted = prepare_schema(schema).arrow
        rows = rows.cast(wanted)
        source = SourceRows(schema, wanted.empty_table())
        key = attempt.run.commits.job_key
        task = PartitionTask(dataset.narrowed(dataset.fragments), source, on, clauses, None, key)
        total = PartitionResult()
        try:
            for window in self._windows(dataset, rows):
                total.add(merge_partition(task, [window]))
        except Exception:
            remove_files(dataset.store, data_paths(total.new))
            raise
        attempt.written += data_paths(total.new)
        parts = dataset.fragments_by_id
        matches = tuple(
            FragmentMatch(parts[number], gone, dataset.deletion_vector(parts[number]))
            for number, gone in sorted(total.matched.items())
        )
        merged = MergedRows(
            matches,
            tuple(total.new),
            total.rows_inserted,
            total.rows_updated,
            total.rows_deleted,
            total.told,
            lambda columns: bool(np.isin(hash_keys(carried_keys(columns)), total.hashes).any()),
        )
        return commit_merged(attempt, on, clauses, merged)

    def _windows(self, dataset: lo.Dataset, rows: pa.Table) -> list[Window]:
        table = dataset.to_table(["id"], with_row_address=True)
        addresses = table["_rowaddr"].to_numpy()
        mine, theirs = (_keys(side["id"]) for side in (rows, table))
        windows = []
        for number in range(self.partitions):
            here, there = (_places(keys, number, self.partitions) for keys in (mine, theirs))
            windows.append(
                Window(
                    rows.filter(pa.array(here)).combine_chunks(),
                    [mine.filter(pa.array(here))],
                    [theirs.filter(pa.array(there))],
                    addresses[there],
                    np.zeros(int(there.sum()), bool),
                )
            )
        return windows


def _keys(column: pa.ChunkedArray) -> pa.Array:
    return carried_keys([plain_keys(column.combine_chunks())])[0]


def _places(keys: pa.Array, number: int, partitions: int) -> np.ndarray:
    return hash_keys([keys]) % np.uint64(partitions) == number
