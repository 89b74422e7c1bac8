"""What users write, as a type checker sees it: `make lint` checks it, nothing runs it."""

from datetime import timedelta
from typing import assert_type

import pyarrow as pa

import lance_ops as lo
from lance_ops.errors import CommitConflictError


def ingest(uri: str, paths: list[str]) -> int:
    """Writes, exactly once under a job key."""
    done = lo.append(uri, paths, job_key="2026-01-01", fill_missing=True, max_replans=3)
    assert_type(done, lo.AppendResult)
    lo.append(uri, paths, jobkey="x")  # type: ignore[call-overload]
    lo.append(uri, paths, max_rows_per_file="many")  # type: ignore[call-overload]
    assert_type(lo.replace_where(uri, paths, "day = 1", allow_empty=True), lo.AppendResult)
    assert_type(lo.replace_where(uri, paths, "day = 1", dry_run=True), lo.ReplacePlan)
    return done.rows_added


def maintain(uri: str, *, dry_run: bool) -> list[lo.OperationResult]:
    """A result unless a plan is asked for."""
    assert_type(lo.delete(uri, "id = 1", dry_run=True), lo.DeletePlan)
    assert_type(lo.compact(uri, dry_run=True), lo.CompactionPlan)
    assert_type(lo.create_index(uri, "id", dry_run=True), lo.IndexPlan)
    assert_type(lo.create_index(uri, "v", "IVF_PQ", num_partitions=64, metric="cosine"), lo.IndexResult)
    lo.create_index(uri, "v", "IVF_PQ", num_partitions="many")  # type: ignore[call-overload]
    assert_type(lo.optimize_indices(uri, dry_run=True), lo.IndexPlan)
    assert_type(lo.cleanup(uri, dry_run=True), lo.CleanupPlan)
    assert_type(lo.delete(uri, "id = 1", dry_run=dry_run), lo.DeleteResult | lo.DeletePlan)
    print(lo.delete(uri, "id = 1", max_fraction=0.1).rows_deleted)
    return [
        lo.delete(uri, "id = 1", properties={"run": "7"}),
        lo.compact(uri, target_rows_per_fragment=1 << 20, runner=lo.LocalRunner(2)),
        lo.create_index(uri, "id", replace=True),
        lo.optimize_indices(uri, ["id_idx"]),
        lo.drop_index(uri, "id_idx", job_key="drop"),
        lo.cleanup(uri, older_than=timedelta(days=14)),
    ]


def change_rows(uri: str, data: pa.Table, *, dry_run: bool) -> int:
    """Updates and merges, and the rows that these changed."""
    updated = lo.update(uri, {"x": "x + 1"}, where="s = 'a'", job_key="day", max_replans=3)
    assert_type(updated, lo.UpdateResult)
    assert_type(lo.update(uri, {"x": "1"}, dry_run=True), lo.UpdatePlan)
    assert_type(lo.update(uri, {"x": "1"}, dry_run=dry_run), lo.UpdateResult | lo.UpdatePlan)
    lo.update(uri, {"x": 1})  # type: ignore[dict-item]
    merged = lo.merge_insert(uri, data, "id", when_matched="update_all", when_not_matched="insert_all")
    assert_type(merged, lo.MergeResult)
    planned = lo.merge_insert(
        lo.dataset(uri),
        [data],
        on=["id", "day"],
        when_matched="update_if",
        condition="source.x > target.x",
        when_not_matched_by_source="delete",
        on_duplicates="first",
        dry_run=True,
    )
    assert_type(planned, lo.MergePlan)
    print(planned.found_by, planned.rows_inserted, planned.uses_index)
    lo.merge_insert(uri, data, when_matched="upsert")  # type: ignore[call-overload]
    lo.merge_insert(uri, data, matched="update_all")  # type: ignore[call-overload]
    for batch in lo.dataset(uri).changes(since=3, until="nightly", columns=["x"], with_row_id=True):
        print(batch.num_rows)
    lo.dataset(uri).changes(since=1.5)  # type: ignore[arg-type]
    return updated.rows_updated + merged.rows_inserted + merged.rows_updated + merged.rows_deleted


def change_columns(uri: str, *, dry_run: bool) -> list[lo.OperationResult]:
    """Columns by SQL, by a function or without values; other names and types."""
    assert_type(lo.add_columns(uri, {"y": "x * 2"}, dry_run=True), lo.AddColumnsPlan)
    assert_type(lo.add_columns(uri, {"y": "x"}, dry_run=dry_run), lo.AddColumnsResult | lo.AddColumnsPlan)
    assert_type(lo.alter_columns(uri, {"path": "x", "name": "z"}, dry_run=True), lo.AlterColumnsPlan)
    lo.alter_columns(uri, {"name": "z"})  # type: ignore[call-overload]
    lo.add_columns(uri, columns={"y": "x"}, job="day")  # type: ignore[call-overload]
    return [
        lo.add_columns(uri, {"y": "x * 2"}, job_key="y"),
        lo.add_columns(uri, pa.schema({"n": pa.int32()})),
        lo.add_columns(uri, lambda batch: batch.select(["x"]), read_columns=["x"]),
        lo.alter_columns(uri, {"path": "x", "data_type": pa.int64()}, {"path": "y", "nullable": True}),
        lo.drop_columns(uri, ["y"], job_key="drop"),
    ]


def listen(event: lo.ProgressEvent) -> None:
    """Receives progress."""
    print(event.operation, event.done, event.total, event.message)


def configure(dataset: lo.Dataset, run: lo.RunOptions) -> lo.MetadataResult:
    """Options may be kept and passed on."""
    run["progress"] = listen
    try:
        assert_type(lo.delete(dataset, "id = 2", **run), lo.DeleteResult)
    except CommitConflictError as conflict:
        print(conflict.theirs)
    lo.drop_columns(dataset, ["old"])
    print(lo.measure_health(lo.dataset(dataset.uri)).index_coverage)
    return lo.update_config(dataset, {"key": "value"})
