"""A fleet run: everything that is due, once, whoever else is at work, and no row is lost."""

import multiprocessing
import os
import signal
import threading
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import FleetModeError, InvalidArgumentError, RetryableCommitConflictError
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.plan.model import FleetPlan
from lance_ops.fleet.plan.operation import PlanOptions, plan_fleet
from lance_ops.fleet.run.operation import RunOptions, approved, run_fleet
from lance_ops.fleet.survey.operation import SurveyOptions, survey_fleet
from lance_ops.maintenance.fsck.operation import fsck
from lance_ops.maintenance.maintain.perform import Limits
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.storage import open_store
from lance_ops.storage.lease import FOLDER, LEASE, Lease
from tests.support.fleets import STRICT, ids, policy, write


@pytest.fixture
def fleet(tmp_path):
    """Four datasets: two that are due, one with an index, one that is fine."""
    for name, fragments in (("a", 5), ("b", 6), ("fine", 1)):
        write(tmp_path, f"{name}.lance", fragments)
    write(tmp_path, "indexed.lance", 5, index=True)
    return tmp_path


def test_what_is_due_is_done_in_order_and_then_nothing_is(fleet):
    before = {name: ids(str(fleet / name)) for name in ("a.lance", "b.lance", "indexed.lance")}
    done = run_fleet(policy(fleet))
    assert done.complete
    assert done.after == {"healthy": 4}
    assert {name: ids(str(fleet / name)) for name in before} == before
    assert len(lo.dataset(str(fleet / "a.lance")).fragments) == 1
    assert lo.index_statistics(lo.dataset(str(fleet / "indexed.lance")), "id_idx")
    found = [row.operation for row in done.rows if row.dataset == "a.lance"]
    assert found == ["compact", "cleanup"]
    again = run_fleet(policy(fleet))
    assert again.rows == []
    assert again.row.datasets == 0


def test_the_ledger_has_a_row_for_each_operation_with_its_estimate(fleet):
    rules = policy(fleet)
    done = run_fleet(rules)
    ledger = FleetLedger.of(rules)
    assert sorted(row.key for row in ledger.operations()) == sorted(row.key for row in done.rows)
    row = next(row for row in ledger.operations() if row.operation == "compact" and row.dataset == "a.lance")
    assert (row.fragments_before, row.fragments_after) == (5, 1)
    assert row.bytes_written > 0
    assert row.seconds_error is not None
    assert row.bytes_error is not None
    freed = next(row for row in ledger.operations() if row.operation == "cleanup")
    assert freed.bytes_freed == freed.bytes_planned
    assert [run.done for run in ledger.runs()] == [3]
    assert not list(ledger.journal.entries())
    assert ledger.latest()["a.lance"].verdict == "healthy"


def test_observe_changes_nothing(fleet):
    version = lo.dataset(str(fleet / "a.lance")).version
    done = run_fleet(policy(fleet, mode="observe"))
    assert done.rows == []
    assert {item.reason for item in done.left} == {"its mode is observe"}
    assert lo.dataset(str(fleet / "a.lance")).version == version


def test_a_proposed_plan_is_run_once_it_is_approved(fleet):
    rules = policy(fleet, mode="propose")
    assert run_fleet(rules).rows == []
    looks = FleetLedger.of(rules).latest().values()
    options = PlanOptions(modes=frozenset({"propose"}), only=frozenset({"a.lance"}))
    plan = plan_fleet(rules, looks, (), now=datetime.now(UTC), options=options)
    with pytest.raises(FleetModeError, match="waits"):
        run_fleet(rules, RunOptions(plan=plan))
    done = run_fleet(rules, RunOptions(plan=approved(plan, "ann")))
    assert {row.dataset for row in done.rows} == {"a.lance"}
    assert done.row.plan == plan.id
    assert run_fleet(rules, RunOptions(plan=approved(plan, "ann"))).rows == []


def proposed(rules):
    looks = survey_fleet(rules).known.values()
    options = PlanOptions(modes=frozenset({"propose"}), any_time=True)
    return approved(plan_fleet(rules, looks, (), now=datetime.now(UTC), options=options), "ann")


def test_nothing_is_run_that_the_approved_plan_does_not_name(tmp_path):
    uri = str(tmp_path / "t.lance")
    now = datetime.now(UTC)
    for days in (0, 0, 400, 400):
        table = pa.table({"ts": pa.array([now - timedelta(days=days)], pa.timestamp("us", "UTC"))})
        lo.append(uri, table)
    plan = proposed(policy(tmp_path, mode="propose", default="{max_small_fragments: 2}"))
    assert [item.operations for item in plan.items] == [("compact",)]
    wider = policy(
        tmp_path,
        mode="propose",
        default="{max_small_fragments: 2, max_versions: 1, older_than: 0s, retain_versions: 1, "
        "ttl: ts > now - 90d, ttl_max_fraction: 100%}",
    )
    for fresh in (False, True):
        if fresh:
            for _ in range(4):
                lo.append(uri, table)
            survey_fleet(wider)
        done = run_fleet(wider, RunOptions(plan=plan))
        assert [row.operation for row in done.rows] == ["compact"]
        assert lo.dataset(uri).count_rows() == (8 if fresh else 4)
        assert set(done.outcomes["t.lance"].look.due) == {"ttl", "cleanup"}


TTL = (
    "{{max_small_fragments: 9, ttl: ts > now - {age}, ttl_max_fraction: 100%, max_versions: 2, "
    "retain_versions: 1, {more}}}"
)


@pytest.mark.parametrize(
    ("age", "more", "left"),
    [
        ("30d", "older_than: 0s", {"ttl": "90d", "kept": "cleanup"}),
        ("90d", "older_than: 1d", {"cleanup": "1d", "kept": "ttl"}),
    ],
)
def test_a_rule_that_takes_more_than_was_approved_waits_for_approval(tmp_path, age, more, left):
    uri = str(tmp_path / "t.lance")
    now = datetime.now(UTC)
    for days in (0, 60, 400):
        table = pa.table({"ts": pa.array([now - timedelta(days=days)], pa.timestamp("us", "UTC"))})
        lo.append(uri, table)
    plan = proposed(policy(tmp_path, mode="propose", default=TTL.format(age="90d", more="older_than: 0s")))
    assert [item.operations for item in plan.items] == [("ttl", "cleanup")]
    changed = policy(tmp_path, mode="propose", default=TTL.format(age=age, more=more))
    done = run_fleet(changed, RunOptions(plan=FleetPlan.from_dict(plan.to_dict())))
    assert [row.operation for row in done.rows] == [left.pop("kept")]
    assert lo.dataset(uri).count_rows() == (2 if age == "90d" else 3)
    ((operation, was),) = left.items()
    assert any(operation in item.reason and was in item.reason for item in done.left)


def test_an_approved_plan_keeps_to_the_bounds_of_the_run(fleet):
    rules = policy(fleet, mode="propose")
    plan = proposed(rules)
    assert len(plan.items) == 3
    assert run_fleet(rules, RunOptions(plan=plan, only=frozenset({"fine.lance"}))).rows == []
    poor = run_fleet(rules, RunOptions(plan=plan, bytes=1))
    assert poor.rows == []
    assert poor.row.stopped == "the budget is used up"
    first = run_fleet(rules, RunOptions(plan=plan, datasets=1))
    assert set(first.outcomes) == {plan.items[0].dataset}
    assert first.row.left == 2
    named = run_fleet(rules, RunOptions(plan=plan, only=frozenset({plan.items[2].dataset})))
    assert set(named.outcomes) == {plan.items[2].dataset}


def test_rows_that_are_too_old_go_first(tmp_path):
    now = datetime.now(UTC)
    times = [now - timedelta(days=days) for days in (0, 1, 100, 200)]
    uri = str(tmp_path / "t.lance")
    for moment in times:
        lo.append(uri, pa.table({"id": [1], "ts": pa.array([moment], pa.timestamp("us", "UTC"))}))
    rules = policy(tmp_path, default="{max_small_fragments: 1, ttl: ts > now - 90d}")
    done = run_fleet(rules)
    assert [(row.operation, row.outcome) for row in done.rows] == [("ttl", "done"), ("compact", "done")]
    assert done.rows[0].rows_deleted == 2
    assert lo.dataset(uri).count_rows() == 2
    assert run_fleet(rules).rows == []


def test_a_rule_that_would_empty_a_dataset_is_taken_for_a_mistake(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"ts": pa.array([datetime(2020, 1, 1)] * 4, pa.timestamp("us"))}))  # noqa: DTZ001
    rules = policy(tmp_path, default="{ttl: ts > now - 1d}")
    done = run_fleet(rules)
    assert "ttl_max_fraction" in done.outcomes["t.lance"].why
    assert done.after == {"blocked": 1}
    found = FleetLedger.of(rules).latest()["t.lance"]
    assert (found.verdict, found.due) == ("blocked", ())
    assert "4 of 4 rows match" in found.why
    assert "ttl_max_fraction" in found.why
    assert run_fleet(rules).rows == []
    assert lo.dataset(uri).count_rows() == 4
    # Who allows it has it done at once.
    allowed = policy(tmp_path, default="{ttl: ts > now - 1d, ttl_max_fraction: 1}")
    assert [row.rows_deleted for row in run_fleet(allowed).rows if row.operation == "ttl"] == [4]


def test_a_rule_that_is_refused_stands_in_the_way_of_nothing_else(tmp_path):
    uri = str(tmp_path / "t.lance")
    for _ in range(5):
        lo.append(uri, pa.table({"ts": pa.array([datetime(2020, 1, 1)], pa.timestamp("us"))}))  # noqa: DTZ001
    rules = policy(tmp_path, default=f"{STRICT[:-1]}, ttl: ts > now - 1d}}")
    done = run_fleet(rules)
    assert [(row.operation, row.outcome) for row in done.rows] == [
        ("ttl", "refused"),
        ("compact", "done"),
        ("cleanup", "done"),
    ]
    assert done.after == {"blocked": 1}
    assert run_fleet(rules).rows == []


def test_what_failed_for_a_file_that_is_not_there_is_damaged_and_not_tried_again(tmp_path):
    write(tmp_path, "a.lance", 5)
    sorted((tmp_path / "a.lance" / "data").glob("*.lance"))[2].unlink()
    rules = policy(tmp_path)
    first = run_fleet(rules)
    assert first.row.failed == 1
    assert first.after == {"damaged": 1}
    (damaged,) = first.damaged
    assert damaged.why == fsck(tmp_path / "a.lance").findings[0].message
    assert f"damaged: a.lance: {damaged.why}" in str(first)
    assert f"lance-ops fsck {damaged.uri}" in str(first)
    again = run_fleet(rules)
    assert [look.dataset for look in again.damaged] == ["a.lance"]
    assert again.rows == []
    assert again.after == {"damaged": 1}


def test_a_name_that_is_none_of_the_fleet_is_refused_with_what_is_there(fleet):
    with pytest.raises(InvalidArgumentError, match=r"dataset 'a\.lanc' is not in the fleet") as caught:
        run_fleet(policy(fleet), RunOptions(only=frozenset({"a.lanc"})))
    assert "a.lance" in (caught.value.hint or "")


def test_a_failure_stays_with_its_dataset(fleet):
    next((fleet / "b.lance" / "data").glob("*.lance")).unlink()
    done = run_fleet(policy(fleet))
    assert done.outcomes["b.lance"].state == "failed"
    assert {name for name, item in done.outcomes.items() if item.state == "done"} == {
        "a.lance",
        "indexed.lance",
    }
    rows = FleetLedger.of(policy(fleet)).operations(dataset="b.lance")
    assert rows[0].outcome == "failed"
    assert rows[0].error
    assert not done.complete


def test_the_deadline_and_the_budget_leave_the_rest_and_say_so(fleet):
    late = run_fleet(policy(fleet), RunOptions(until=datetime.now(UTC) - timedelta(seconds=1)))
    assert late.rows == []
    assert late.row.stopped == "the time limit was reached"
    assert late.row.left == 3
    poor = run_fleet(policy(fleet), RunOptions(bytes=1))
    assert poor.row.stopped == "the budget is used up"
    assert all(row.operation == "cleanup" for row in poor.rows)
    assert run_fleet(policy(fleet), RunOptions(datasets=1)).row.done == 1


def test_one_that_somebody_else_maintains_is_left_alone(fleet):
    with Lease(open_store(str(fleet / "a.lance")), "other"):
        done = run_fleet(policy(fleet))
    assert done.outcomes["a.lance"].state == "busy"
    assert "other" in done.outcomes["a.lance"].why
    assert done.row.busy == 1
    assert run_fleet(policy(fleet)).row.done == 1


def test_lost_conflicts_make_smaller_groups_and_are_told(fleet, monkeypatch):
    levels = []
    real = Limits.of

    def noted(limits, options, level):
        found = real(limits, options, level)
        levels.append((level, found.max_source_fragments))
        raise RetryableCommitConflictError("lost", ours="us", theirs="them")

    monkeypatch.setattr(Limits, "of", noted)
    done = run_fleet(policy(fleet), RunOptions(only=frozenset({"a.lance"})))
    assert levels == [(0, None), (1, 64), (2, 16)]
    assert [row.outcome for row in done.rows] == ["conflict"]
    monkeypatch.undo()
    waits = run_fleet(policy(fleet), RunOptions(only=frozenset({"a.lance"})))
    assert "had commit conflicts" in waits.left[0].reason


def test_large_ones_are_done_on_their_own_and_resumed(fleet):
    rules = policy(fleet, default="{max_small_fragments: 2, large_bytes: 1}")
    done = run_fleet(rules)
    assert {item.state for item in done.outcomes.values()} == {"done"}
    assert all(outcome.rows for outcome in done.outcomes.values())


def test_the_number_at_once_is_bounded(fleet, monkeypatch):
    seen = []
    real = LocalRunner.map

    def noted(self, function, tasks, **options):
        seen.append((self.threads, len(tasks)))
        return real(self, function, tasks, **options)

    monkeypatch.setattr(LocalRunner, "map", noted)
    run_fleet(policy(fleet, more="budget: {runs: 1}\n"), runner=LocalRunner(4))
    assert seen[0] == (1, 3)
    seen.clear()
    write(fleet, "z.lance", 5)
    write(fleet, "y.lance", 5)
    run_fleet(policy(fleet, more="budget: {per_store: {s: {runs: 1}}}\n"), runner=LocalRunner(4))
    assert seen[0] == (4, 1)


def maintained(root) -> dict[str, list[str]]:
    """Operations of each dataset by its history: what was really committed."""
    return {
        path.name: [entry.operation for entry in lo.dataset(str(path)).history()]
        for path in sorted(root.glob("*.lance"))
    }


def _run(root: str) -> None:
    from pathlib import Path

    run_fleet(policy(Path(root), default="{max_small_fragments: 2}"), runner=LocalRunner(1))


def test_two_runs_at_once_do_nothing_twice_and_forget_nothing(tmp_path):
    names = [f"{n}.lance" for n in range(8)]
    for name in names:
        write(tmp_path, name, 4)
    rules = policy(tmp_path, default="{max_small_fragments: 2}")
    found = []
    threads = [threading.Thread(target=lambda: found.append(run_fleet(rules))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if any(run.row.busy for run in found):
        run_fleet(rules)
    assert {name: ops.count("Rewrite") for name, ops in maintained(tmp_path).items()} == dict.fromkeys(
        names, 1
    )
    rows = FleetLedger.of(rules).operations()
    assert sorted(row.dataset for row in rows if row.outcome == "done") == names


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.3, 0.8, 1.5])
def test_a_run_that_is_killed_leaves_nothing_twice_and_nothing_forgotten(tmp_path, after):
    names = [f"{n:02d}.lance" for n in range(12)]
    for name in names:
        write(tmp_path, name, 4)
    rules = policy(tmp_path, default="{max_small_fragments: 2}")
    survey_fleet(rules, SurveyOptions())
    worker = multiprocessing.get_context("spawn").Process(target=_run, args=(str(tmp_path),))
    worker.start()
    began = time.monotonic()
    # Killed some time after it began to change things, wherever it is then.
    while worker.is_alive() and time.monotonic() - began < 120:
        if any("Rewrite" in ops for ops in maintained(tmp_path).values()):
            worker.join(after)
            break
        worker.join(0.05)
    if worker.is_alive():
        os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    # The dead one's lease ages.
    for path in tmp_path.glob(f"*.lance/{FOLDER}/*"):
        then = time.time() - LEASE.total_seconds() - 1
        os.utime(path, (then, then))
    done = run_fleet(rules)
    assert done.after == {"healthy": len(names)}
    assert {name: ops.count("Rewrite") for name, ops in maintained(tmp_path).items()} == dict.fromkeys(
        names, 1
    )
    assert all(ids(str(tmp_path / name)) == list(range(40)) for name in names)
    ledger = FleetLedger.of(rules)
    rows = ledger.operations()
    assert len({row.key for row in rows}) == len(rows)
    assert {row.dataset for row in rows} == set(names)
    assert not list(ledger.journal.entries())


def test_a_run_deletes_nothing_behind_links_and_loses_no_row(fleet):
    """Tables below one root that share folders: by a link out of the table, and by a link to the table."""
    victim, mine = fleet / "a.lance", fleet / "b.lance"
    moved = [victim / "data" / file.name for file in (mine / "data").iterdir()]
    for file in moved:
        (mine / "data" / file.name).rename(file)
    (mine / "data").rmdir()
    (mine / "data").symlink_to(victim / "data", target_is_directory=True)
    (fleet / "again.lance").symlink_to(fleet / "indexed.lance", target_is_directory=True)
    names = ("a.lance", "b.lance", "indexed.lance", "fine.lance")
    before = {name: ids(str(fleet / name)) for name in names}
    for _ in range(2):
        done = run_fleet(policy(fleet))
        assert done.complete, [row for row in done.rows if row.error]
    assert {name: ids(str(fleet / name)) for name in names} == before
    assert ids(str(fleet / "again.lance")) == before["indexed.lance"]
    assert len(lo.dataset(str(mine)).fragments) == 1
    # Of the table behind the link, the run removes what it replaced; of the other one nothing.
    assert all(file.is_file() for file in moved)
    removed = {row.dataset: row.bytes_freed for row in done.rows if row.operation == "cleanup"}
    assert not removed.get("b.lance")


def test_each_operation_is_a_row_with_the_state_before_and_after(fleet):
    done = run_fleet(policy(fleet))
    lines = str(done).splitlines()
    for row in done.rows:
        (line,) = [
            line for line in lines if line.startswith(f"{row.dataset} ") and f" {row.operation} " in line
        ]
        assert f"{row.fragments_before:,} -> {row.fragments_after:,} fragment" in line
        assert row.summary in line
    assert done.rows
