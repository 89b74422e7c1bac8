"""The forecast: when thresholds are passed at the present rate, whether the budget suffices, past errors."""

from datetime import UTC, datetime, timedelta

import pytest

from lance_ops.fleet.forecast.operation import budget_per_day, estimate_errors, forecast_fleet
from lance_ops.fleet.policy.load import parse_policy
from tests.fleet.ledger.test_ledger import look, operation

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
LIMITS = "{max_small_fragments: 20, max_versions: 100}"
POLICY = f"version: 1\nmode: auto\nstores: {{s: /x}}\nclasses: {{default: {LIMITS}}}\n"


def growing(name: str, days: int, per_day: int) -> list:
    return [
        look(
            name,
            NOW - timedelta(days=days - day),
            fragments=day * per_day,
            small_fragments=day * per_day,
            versions=day * per_day,
            version=1 + day * per_day,
            rows=1000,
            data_bytes=day * per_day * 1000,
        )
        for day in range(days + 1)
    ]


def foreseen(history, *, text: str = POLICY, operations=(), days: int = 14):
    latest = {item.dataset: item for item in history}
    return forecast_fleet(parse_policy(text), latest, history, operations, now=NOW, days=days)


def test_a_threshold_is_passed_when_the_rate_says_so():
    found = foreseen(growing("a", days=5, per_day=2))
    assert [item.dataset for item in found.datasets] == ["a"]
    # 10 of 20 small fragments, 2 more each day.
    assert found.datasets[0].days == pytest.approx(5.0)
    assert found.datasets[0].first == "compact"
    versions = next(item for item in found.datasets[0].thresholds if item.measure == "live_versions")
    assert versions.days == pytest.approx(45.0)


def test_what_maintenance_took_away_is_no_negative_growth():
    history = growing("a", days=4, per_day=3)
    cut = [*history[:-1], look("a", NOW, fragments=1, small_fragments=1, versions=13, version=14, rows=1000)]
    found = foreseen(cut)
    # 9 fragments in 4 days; 19 more to go.
    assert found.datasets[0].days == pytest.approx(19 / (9 / 4))


def test_without_history_the_newest_versions_tell():
    one = look(
        "a",
        version=9,
        rows=10,
        small_fragments=5,
        fragments=5,
        versions=9,
        versions_per_day=1.0,
        fragments_per_day=5.0,
    )
    assert foreseen([one]).datasets[0].days == pytest.approx(3.0)
    silent = look("b", version=9, rows=10, versions=9)
    assert foreseen([silent]).datasets == ()


def test_it_comes_true():
    """What is said for a rate is what looks see when it goes on."""
    history = growing("a", days=4, per_day=3)
    says = foreseen(history).datasets[0].days
    later = growing("a", days=40, per_day=3)
    passed = next(day for day, item in enumerate(later) if item.small_fragments > 20)
    assert abs((4 + says) - passed) <= 1


def test_a_budget_suffices_or_is_short_by_a_share():
    backlog = look("a", verdict="due", due=("compact",), version=3, cost_bytes=280, cost_seconds=2.0)
    enough = foreseen([backlog], text=POLICY + "budget: {bytes_per_hour: 1}\n")
    assert enough.budget_per_day == pytest.approx(24.0)
    assert enough.suffices
    short = foreseen([backlog], text=POLICY + "budget: {bytes_per_hour: 1}\n", days=1)
    assert not short.suffices
    assert short.short_by == pytest.approx(1 - 24 / 280)
    assert "short by 91.4%" in str(short)
    assert foreseen([backlog]).suffices is None


def test_windows_cut_the_budget():
    text = POLICY + "budget: {bytes_per_hour: 70}\nwindows: [{days: sat, hours: 0-24}]\n"
    assert budget_per_day(parse_policy(text), NOW) == pytest.approx(240.0, rel=0.01)


def test_errors_are_medians_of_what_was_done_over_what_was_planned():
    rows = [
        operation(str(n), seconds=s, seconds_planned=1.0, bytes_read=b, bytes_planned=100)
        for n, (s, b) in enumerate(((1.1, 90), (0.5, 100), (2.0, 150)))
    ]
    found = estimate_errors([*rows, operation("x", outcome="failed", seconds=99.0, seconds_planned=1.0)])
    assert [(item.operation, item.count) for item in found] == [("compact", 3)]
    assert found[0].seconds == pytest.approx(0.5)
    assert found[0].bytes == pytest.approx(0.1)
    assert found[0].seconds_bias == pytest.approx(0.1)
