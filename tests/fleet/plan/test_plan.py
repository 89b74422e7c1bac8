"""A plan: what is taken on, in which order, within which budget, and why the rest is left."""

from datetime import UTC, datetime, timedelta

import pytest

from lance_ops.errors import FleetModeError, InvalidArgumentError
from lance_ops.fleet.judge.estimate import order
from lance_ops.fleet.plan.model import FleetPlan
from lance_ops.fleet.plan.operation import PlanOptions, plan_fleet
from lance_ops.fleet.policy.load import parse_policy
from tests.fleet.ledger.test_ledger import look, operation

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
AUTO = "version: 1\nmode: auto\nstores: {s: /x}\n"


def due(name: str, rank: float = 1.0, *, cost: int = 100, verdict: str = "due", waits: float = 0.0, **values):
    since = NOW - timedelta(days=waits)
    base = {"verdict": verdict, "due": ("compact",), "rank": rank, "cost_bytes": cost, "due_since": since}
    return look(name, **{**base, **values})


def plan(looks, operations=(), text: str = AUTO, **options) -> FleetPlan:
    return plan_fleet(parse_policy(text), looks, operations, now=NOW, options=PlanOptions(**options))


def taken(found: FleetPlan) -> list[str]:
    return [item.dataset for item in found.items]


def why(found: FleetPlan) -> dict[str, str]:
    return {item.dataset: item.reason for item in found.left}


def test_the_best_come_first_and_the_overdue_before_them():
    looks = [due("a", 1), due("b", 9), due("c", 0.1, verdict="overdue", waits=8), due("d", 5)]
    assert taken(plan(looks)) == ["c", "b", "d", "a"]


def test_what_waits_gains_weight_until_it_is_first():
    looks = [due("new", 5.0), due("old", 1.0, waits=5)]
    assert [item.dataset for item in order(looks, NOW)] == ["old", "new"]


def test_nobody_starves_under_any_budget():
    """Each day there is room for one, and the best one is always due again."""
    waiting = {f"{n}": (float(n), NOW) for n in range(6)}
    done = []
    for day in range(40):
        now = NOW + timedelta(days=day)
        looks = [
            due(name, rank, due_since=since, verdict="overdue" if (now - since).days > 7 else "due")
            for name, (rank, since) in waiting.items()
        ]
        found = plan_fleet(parse_policy(AUTO), looks, (), now=now, options=PlanOptions(bytes=100))
        assert len(found.items) == 1
        name = found.items[0].dataset
        done.append(name)
        waiting[name] = (waiting[name][0], now)
    assert set(done) == set(waiting)


def test_a_budget_takes_what_fits_and_says_what_it_left():
    looks = [due("a", 3, cost=60), due("b", 2, cost=60), due("c", 1, cost=30)]
    found = plan(looks, bytes=100)
    assert taken(found) == ["a", "c"]
    assert "budget" in why(found)["b"]


def test_the_hour_has_a_budget_of_its_own_and_so_has_a_store():
    text = AUTO + "budget: {bytes_per_hour: 1000, per_store: {s: {bytes_per_hour: 500}}}\n"
    spent = [operation("x", at=NOW - timedelta(minutes=30), bytes_read=200, bytes_written=200)]
    past = [operation("x", at=NOW - timedelta(minutes=90), bytes_read=900)]
    assert taken(plan([due("a", cost=101)], spent, text)) == []
    assert "store s" in why(plan([due("a", cost=101)], spent, text))["a"]
    assert taken(plan([due("a", cost=99)], spent, text)) == ["a"]
    assert taken(plan([due("a", cost=499)], past, text)) == ["a"]


def test_what_is_larger_than_the_budget_is_done_bit_by_bit():
    found = plan([due("huge", cost=10**9)], bytes=10**7)
    assert found.items[0].most_bytes == 10**7


def test_modes_decide_who_is_taken_on():
    looks = [due("a")]
    assert "observe" in why(plan(looks, text=AUTO.replace("auto", "observe")))["a"]
    proposed = AUTO.replace("auto", "propose")
    assert "approved" in why(plan(looks, text=proposed))["a"]
    assert taken(plan(looks, text=proposed, modes=frozenset({"auto", "propose"}))) == ["a"]


def test_windows_keep_it_waiting_and_say_until_when():
    text = AUTO + "windows: [{hours: 22-06}]\n"
    assert "2026-11-23 22:00" in why(plan([due("a")], text=text))["a"]
    assert taken(plan([due("a")], text=text, any_time=True)) == ["a"]


def test_who_lost_waits_longer_each_time_and_then_takes_smaller_bites():
    lost = [
        operation("a", f"r{n}", at=NOW - timedelta(minutes=100 - 40 * n), outcome="conflict")
        for n in range(3)
    ]
    assert "3 runs in a row" in why(plan([due("a")], lost))["a"]
    earlier = [operation("a", f"r{n}", at=NOW - timedelta(hours=5 - n), outcome="conflict") for n in range(2)]
    assert plan([due("a")], earlier).items[0].level == 2
    won = [*earlier, operation("a", "r9", at=NOW - timedelta(hours=2))]
    assert plan([due("a")], won).items[0].level == 0


def test_the_damaged_and_the_blocked_are_told():
    found = plan([look("a", verdict="damaged", why="gone"), look("b", verdict="blocked", why="held")])
    assert why(found) == {"a": "gone", "b": "held"}


def test_large_ones_are_known_by_their_class():
    text = AUTO + "classes: {default: {large_bytes: 1MB}}\n"
    found = plan([due("a", data_bytes=10), due("b", data_bytes=10**7)], text=text)
    assert {item.dataset: item.large for item in found.items} == {"a": False, "b": True}


def test_a_plan_survives_json_and_only_what_was_approved_is_run():
    found = plan([due("a"), due("b")])
    with pytest.raises(FleetModeError, match="waits for approval"):
        found.check_approved()
    ours = FleetPlan.from_dict(found.approve("ann", NOW).to_dict())
    ours.check_approved()
    assert ours.items == found.items
    values = ours.to_dict()
    values["items"][0]["dataset"] = "other"
    with pytest.raises(FleetModeError, match="changed after its approval by ann"):
        FleetPlan.from_dict(values).check_approved()


@pytest.mark.parametrize("values", [{}, {"form": 9}, {"form": 1, "id": "x", "at": "never"}, []])
def test_other_files_are_no_plans(values):
    with pytest.raises(InvalidArgumentError):
        FleetPlan.from_dict(values)
