"""Layout debt, and when thresholds are passed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import lance_ops as lo
from lance_ops.maintenance.health.forecast import GrowthRate, foresee, growth_rate
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.table.history.history import HistoryEntry, VersionSize
from tests.support.commands import lance_ops, lance_ops_json
from tests.support.interop import our_dataset

START = datetime(2026, 1, 1, tzinfo=UTC)


def entry(version: int, hours: float, **size: int) -> HistoryEntry:
    time = START + timedelta(hours=hours)
    return HistoryEntry(version, time, "Append", "", version - 1, "", size=VersionSize(**size))


def test_the_rate_counts_what_is_added_and_not_what_maintenance_takes_away():
    history = [
        entry(1, 0, fragments=1, rows=100),
        entry(2, 6, fragments=5, rows=500),
        entry(3, 12, fragments=5, rows=450, deleted_rows=50),
        entry(4, 18, fragments=1, rows=450),
        entry(5, 24, fragments=3, rows=650),
    ]
    rate = growth_rate(history[::-1])
    assert rate == GrowthRate(versions=4, fragments=6, rows=600, deleted_rows=50)
    assert growth_rate(history[:1]) is None
    assert growth_rate([entry(1, 0), entry(2, 0)]) is None


def test_each_threshold_is_passed_when_its_measure_gets_there(tmp_path: Path):
    our_dataset(tmp_path / "t", [10] * 4)
    lo.create_index(tmp_path / "t", "x")
    lo.delete(tmp_path / "t", "x < 2")
    health = lo.measure_health(lo.dataset(tmp_path / "t"))
    policy = MaintenancePolicy(
        max_small_fragments=10, max_deleted_ratio=0.1, max_versions=16, min_index_coverage=0.5
    )
    rate = GrowthRate(versions=5, fragments=2, rows=10, deleted_rows=2)
    days = {item.measure: item.days for item in foresee(health, policy, rate)}
    assert days == {
        "small_fragments": 3.0,
        # 2 + 2 t = 0.1 (40 + 10 t)
        "deleted_ratio": pytest.approx(2.0),
        # 38 = 0.5 (38 + 10 t)
        "index_coverage": pytest.approx(3.8),
        "live_versions": 2.0,
    }
    still = GrowthRate(versions=0, fragments=0, rows=0, deleted_rows=0)
    strict = replace(policy, max_small_fragments=3)
    days = {item.measure: item.days for item in foresee(health, strict, still)}
    assert (days["small_fragments"], days["live_versions"]) == (0.0, None)


def test_the_debt_is_what_a_compaction_saves_and_it_ends_with_it(tmp_path: Path):
    our_dataset(tmp_path / "t", [50] * 6)
    lo.delete(tmp_path / "t", "x < 150")
    before = lo.measure_health(lo.dataset(tmp_path / "t"))
    plan = lo.compact(tmp_path / "t", dry_run=True)
    assert before.debt_seconds == pytest.approx(plan.estimate.scan_seconds_saved)
    assert before.debt_requests == plan.estimate.scan_requests_saved > 0
    assert before.debt_bytes == plan.estimate.bytes_saved
    lo.compact(tmp_path / "t")
    after = lo.measure_health(lo.dataset(tmp_path / "t"))
    assert (after.debt_seconds, after.debt_requests, after.debt_bytes) == (0.0, 0, 0)


def test_the_command_tells_debt_and_forecast(tmp_path: Path):
    our_dataset(tmp_path / "t", [5, 5, 5])
    text = lance_ops("health", tmp_path / "t").stdout
    assert "layout debt" in text
    assert "small_fragments" in text
    values = lance_ops_json("health", tmp_path / "t")
    assert values["debt_requests"] > 0
    assert {item["measure"] for item in values["forecast"]} >= {"small_fragments", "live_versions"}
