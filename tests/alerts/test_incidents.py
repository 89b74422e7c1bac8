"""Incidents over random schedules: each recipient gets each alert and its end once, whatever is down."""

import json
import random
from datetime import UTC, datetime, timedelta

import pytest

from lance_ops.alerts.delivery import Sent, addressed, deliver
from lance_ops.alerts.incidents import Incidents
from lance_ops.alerts.rule import AlertRule
from lance_ops.alerts.values import CheckAlert, ConflictAlert, FailureAlert, incident_of, is_end
from lance_ops.errors import AlertNotDeliveredError

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
RULES = [
    AlertRule(name, quiet=timedelta(0), digest=timedelta(hours=1) if name == "daily" else None)
    for name in ("a", "b", "daily")
]


def alerts_at(at):
    common = {"at": at.isoformat(), "owners": ("team:x",)}
    return [
        CheckAlert("t", "u", "files_present", False, "ERROR", "lost", 3, {"lance/limit": 2.5}, **common),
        CheckAlert("s", "u", "fragmentation", False, "WARN", "many", None, blocked="no way", **common),
        FailureAlert("t", "u", "j", "s", "r", "OSError", "disk " * 900, **common),
        FailureAlert("t", "u", "j", "s", "r", "OSError", "disk", partition="x", **common),
        ConflictAlert("t", "u", "j", "s", "r", "retryable", "ours", "", None, "m", **common),
    ]


@pytest.mark.parametrize("seed", range(12))
def test_each_recipient_gets_each_alert_and_its_end_once(seed):
    made = random.Random(seed)
    incidents, failing, raised = Incidents(RULES), set(), []
    got = {rule.to: [] for rule in RULES}

    def tick(now, down):
        for rule in RULES:
            rows = incidents.rows[rule.digest_key]
            rows.update({row.key: row for row in addressed(rows.values(), rule, now)})

            def hand_over(_, found, rule=rule):
                if rule.to in down:
                    raise AlertNotDeliveredError("down")
                for row in found:
                    alert = incidents.alert_of(row)
                    got[rule.to].append((incident_of(alert), alert.at, is_end(alert), bool(alert.until)))
                return ""

            deliver(rule, rows, hand_over, lambda _: None, Sent(), now=now, end=float("inf"))
        incidents.prune(now)
        return Incidents.from_dict(json.loads(json.dumps(incidents.to_dict())), RULES)

    now = NOW
    for _ in range(60):
        now += timedelta(minutes=10)
        for number, alert in enumerate(alerts_at(now)):
            if made.random() > 0.25:
                continue
            if number in failing:
                failing.discard(number)
                key = incident_of(alert)
                assert incidents.resolve(lambda a, key=key: incident_of(a) == key, now) == 1
            else:
                failing.add(number)
                assert incidents.raise_alert(alert)
                assert not incidents.raise_alert(alert)
                raised.append((incident_of(alert), alert.at))
        incidents = tick(now, {name for name in got if made.random() < 0.5})
    for _ in range(20):
        now += timedelta(hours=2)
        incidents = tick(now, set())
    still = {incident_of(alert) for number, alert in enumerate(alerts_at(now)) if number in failing}
    assert {incident_of(alert) for alert in incidents.open_of(bool).values()} == still
    for found in got.values():
        begun = [(key, at) for key, at, end, _ in found if not end]
        ended = {(key, at) for key, at, end, over in found if end or over}
        assert sorted(begun) == sorted(raised)
        assert len([item for item in found if item[2]]) == len({item[:2] for item in found if item[2]})
        last = dict(raised)
        assert set(raised) - ended == {(key, last[key]) for key in still}


def test_a_rule_that_is_new_gets_what_is_open():
    incidents = Incidents(RULES[:1])
    for alert in alerts_at(NOW):
        incidents.raise_alert(alert)
    key = incident_of(alerts_at(NOW)[0])
    incidents.resolve(lambda alert: incident_of(alert) == key, NOW)
    stored = json.loads(json.dumps(incidents.to_dict()))
    again = Incidents.from_dict(stored, RULES[:2])
    assert len(again.rows[RULES[1].digest_key]) == 4


def test_what_was_not_accepted_for_days_is_given_up_and_its_end_is_sent():
    (rule,) = rules = RULES[:1]
    incidents = Incidents(rules)
    incidents.raise_alert(alerts_at(NOW)[0])

    def tick(now, down):
        rows = incidents.rows[rule.digest_key]
        rows.update({row.key: row for row in addressed(rows.values(), rule, now)})

        def hand_over(_, found):
            if down:
                raise AlertNotDeliveredError("down")
            sent.extend(is_end(incidents.alert_of(row)) for row in found)
            return ""

        deliver(rule, rows, hand_over, lambda _: None, Sent(), now=now, end=float("inf"))
        return incidents.prune(now)

    sent = []
    assert tick(NOW, down=True) == []
    (given_up,) = tick(NOW + timedelta(days=4), down=True)
    assert given_up.check == "files_present"
    incidents.resolve(bool, NOW + timedelta(days=5))
    tick(NOW + timedelta(days=5), down=False)
    assert sent == [True]
