"""Maintenance in one call: what is due is done, what is not is left, and each outcome has its numbers."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, LeaseHeldError, StorageError
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.health.verdicts import judge_dataset
from lance_ops.maintenance.maintain import perform
from lance_ops.storage import open_store
from lance_ops.storage.lease import Lease
from tests.support.commands import lance_ops, lance_ops_json
from tests.support.interop import our_dataset, peer_dataset, rows, xs

STRICT = MaintenancePolicy(max_small_fragments=2, max_versions=3, older_than=timedelta(0), retain_versions=1)
OPERATIONS = ["compact", "index", "cleanup"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Four small fragments in five versions, of which an index covers the first one."""
    uri = tmp_path / "t.lance"
    our_dataset(uri, [20])
    lo.create_index(uri, "x")
    for number in range(1, 4):
        lo.append(uri, rows(20 * number, 20 * number + 20))
    return uri


def states(result: lo.MaintainResult) -> list[tuple[str, str]]:
    return [(item.operation, item.state) for item in result.outcomes]


def files(path: Path) -> set[str]:
    return {str(item.relative_to(path)) for item in path.rglob("*") if item.is_file()}


def test_what_is_due_is_done_in_order_with_numbers_before_and_after(path: Path) -> None:
    done = lo.maintain(path, STRICT)
    assert states(done) == [(name, "done") for name in OPERATIONS]
    assert (done.changed, done.complete) == (True, True)
    compact, index, cleanup = done.outcomes
    assert (compact.before["fragments"], compact.after["fragments"]) == (4, 2)
    assert compact.bytes_written > 0
    assert compact.reason == "3 small fragments (limit 2)"
    # Measured again after the compaction, which made versions of its own.
    assert (index.before["index_coverage"], index.after["index_coverage"]) == (0.25, 1.0)
    assert (cleanup.before["live_versions"], cleanup.after["live_versions"]) == (done.version, 1)
    assert cleanup.bytes_freed > 0
    assert "4 -> 2 fragments" in str(done)
    assert "25.0% -> 100.0% coverage" in str(done)
    assert xs(path) == list(range(80))
    assert lo.dataset(path).version == done.version


def test_nothing_due_is_told_by_numbers_and_nothing_is_written(path: Path) -> None:
    lo.maintain(path, STRICT)
    before = files(path)
    again = lo.maintain(path, STRICT)
    assert states(again) == [(name, "nothing due") for name in OPERATIONS]
    assert not again.changed
    assert files(path) == before
    reasons = [item.reason for item in again.outcomes]
    assert reasons[0] == "2 small fragments (limit 2), 0.0% of rows deleted (limit 10.0%)"
    assert "100.0% of rows (limit 95.0%)" in reasons[1]
    assert reasons[2] == "1 version (limit 3)"


def test_a_dry_run_has_the_plans_and_changes_nothing(path: Path) -> None:
    before = files(path)
    plan = lo.maintain(path, STRICT, dry_run=True)
    assert plan.due == ("compact", "index", "cleanup")
    assert [item.plan is not None for item in plan.operations] == [True] * 3
    assert files(path) == before
    assert "3 fragments -> 1" in str(plan)
    assert plan.to_dict()["operations"][0]["plan"]["strategy"].startswith("size tiers of 8")
    usual = lo.maintain(path, dry_run=True)
    assert usual.due == ("index",)


def test_a_failure_has_its_reason_and_stops_no_other_operation(path: Path, monkeypatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StorageError("the disk is full", path="data")

    monkeypatch.setattr(perform, "compact", broken)
    done = lo.maintain(path, STRICT)
    assert states(done) == [("compact", "failed"), ("index", "done"), ("cleanup", "done")]
    assert not done.complete
    failed = done.outcome("compact")
    assert failed.reason == "StorageError: the disk is full"
    assert done.error is failed.error
    assert "StorageError: the disk is full" in str(done)


def test_what_would_change_nothing_is_not_due_and_says_why(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    our_dataset(uri, [10])
    for number in range(1, 6):
        lo.append(uri, rows(10 * number, 10 * number + 10))
    done = lo.maintain(uri, MaintenancePolicy(max_small_fragments=2, max_versions=2))
    cleanup = done.outcome("cleanup")
    assert cleanup.state == "nothing due"
    assert "newest versions are kept" in cleanup.blocked or "no removable version" in cleanup.blocked


@pytest.mark.parametrize("budget", [{"budget_bytes": 1}, {"budget_seconds": 1e-9}])
def test_what_exceeds_the_budget_is_left_with_the_numbers(path: Path, budget: dict[str, float]) -> None:
    before = files(path)
    done = lo.maintain(path, MaintenancePolicy(max_small_fragments=2), **budget)
    assert states(done) == [(name, "nothing due") for name in OPERATIONS]
    assert [item.left for item in done.outcomes] == [True, True, False]
    assert "left to the next run" in done.outcomes[0].reason
    assert "of the budget" in done.outcomes[1].reason
    assert files(path) == before


def test_budgets_without_sense_are_refused(path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="budget_bytes must be above 0"):
        lo.maintain(path, budget_bytes=0)
    with pytest.raises(InvalidArgumentError, match="policy"):
        lo.maintain(path, {"max_versions": 3})  # type: ignore[arg-type]


def test_a_dataset_is_maintained_by_one_process_at_a_time(path: Path) -> None:
    with Lease(open_store(str(path)), "other"), pytest.raises(LeaseHeldError, match="other"):
        lo.maintain(path, STRICT)
    assert lo.maintain(path, STRICT).changed


def test_a_job_is_done_once(path: Path) -> None:
    first = lo.maintain(path, STRICT, job_key="night")
    assert lo.maintain(path, STRICT, job_key="night").version == first.version
    for number in range(3):
        lo.append(path, rows(80 + 20 * number, 100 + 20 * number))
    again = lo.maintain(path, MaintenancePolicy(max_small_fragments=2), job_key="night")
    compact = again.outcome("compact")
    assert compact.result is not None
    assert compact.result.already_committed
    assert lo.maintain(path, STRICT, job_key="next").outcome("compact").state == "done"


@pytest.mark.peer
def test_fragments_of_pylance_are_maintained(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    peer_dataset(uri, [30] * 5)
    lo.delete(uri, "x >= 30 and x < 60")
    done = lo.maintain(uri, STRICT)
    assert done.outcome("compact").after["fragments"] == 1
    assert done.outcome("compact").after["deleted_rows"] == 0
    assert xs(uri) == [*range(30), *range(60, 150)]


@pytest.mark.parametrize("row_bytes", [8, 3_000, 60_000])
def test_a_table_that_is_maintained_after_each_append_stays_healthy(tmp_path: Path, row_bytes: int) -> None:
    """Rows of all sizes, deletions and a target in bytes; no operation is due after it was run."""
    uri = tmp_path / "t.lance"
    policy = MaintenancePolicy(
        target_bytes=500_000, max_small_fragments=1, max_versions=8, older_than=timedelta(0)
    )
    for number in range(16):
        values = [bytes([number]) * (row_bytes if number % 3 else 8) for _ in range(5)]
        lo.append(uri, pa.table({"x": range(5 * number, 5 * number + 5), "v": values}))
        if number % 5 == 4:
            lo.delete(uri, f"x >= {5 * number - 7} and x < {5 * number}")
        # A fragment that was rewritten for its deleted rows may be a new neighbour to merge with.
        for _ in range(3):
            done = lo.maintain(uri, policy)
            assert done.complete
            if not done.changed:
                break
        assert not done.changed
        assert not any(item.due for item in judge_dataset(lo.dataset(uri), policy))
    assert len(lo.dataset(uri).fragments) <= 16
    gone = {number for last in (4, 9, 14) for number in range(5 * last - 7, 5 * last)}
    assert sorted(lo.dataset(uri).to_table(["x"])["x"].to_pylist()) == [n for n in range(80) if n not in gone]


def test_the_command_shows_each_outcome_and_its_numbers(path: Path, tmp_path: Path) -> None:
    dry = lance_ops("maintain", path, "--dry-run").stdout
    assert "index      due" in dry
    text = lance_ops("maintain", path).stdout
    assert "25.0% -> 100.0% coverage" in text
    values = lance_ops_json("maintain", path, "--budget-bytes", "1000000")
    assert values["operation"] == "maintain"
    assert [item["state"] for item in values["outcomes"]] == ["nothing due"] * 3
    lance_ops("maintain", tmp_path / "none.lance", code=1)
