"""What users write, as a type checker sees it: `make lint` checks it, nothing runs it."""

from datetime import timedelta
from typing import assert_type

import lance_ops as lo
from lance_ops.errors import CommitConflictError


def ingest(uri: str, paths: list[str]) -> int:
    """Writes, exactly once under a job key."""
    done = lo.append(uri, paths, job_key="2026-01-01", fill_missing=True, max_replans=3)
    assert_type(done, lo.AppendResult)
    lo.append(uri, paths, jobkey="x")  # type: ignore[call-arg]
    lo.append(uri, paths, max_rows_per_file="many")  # type: ignore[arg-type]
    assert_type(lo.replace_where(uri, paths, "day = 1", allow_empty=True), lo.AppendResult)
    assert_type(lo.replace_where(uri, paths, "day = 1", dry_run=True), lo.ReplacePlan)
    return done.rows_added


def maintain(uri: str, *, dry_run: bool) -> list[lo.OperationResult]:
    """A result unless a plan is asked for."""
    assert_type(lo.delete(uri, "id = 1", dry_run=True), lo.DeletePlan)
    assert_type(lo.compact(uri, dry_run=True), lo.CompactionPlan)
    assert_type(lo.create_index(uri, "id", dry_run=True), lo.IndexPlan)
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
