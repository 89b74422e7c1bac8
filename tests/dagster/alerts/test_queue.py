from lance_ops.dagster import CheckAlert, ConflictAlert, FailureAlert
from lance_ops.dagster.alerts.queue import AlertCursor, Waiting, parse_alert_cursor


def failure(number, message="m"):
    return FailureAlert("t", "u", "j", "s", f"r{number}", "E", message, hint="h")


def test_a_cursor_survives_its_text():
    alerts = [
        failure(1),
        ConflictAlert("t", "u", "j", "s", "r", "retryable", "ours", "theirs", None, "m"),
        CheckAlert("t", "u", "c", False, "WARN", "m", 3, {"lance/limit": 2.5}),
    ]
    cursor = AlertCursor(7, tuple(Waiting(1.5, alert) for alert in alerts), "r", 2.5)
    assert parse_alert_cursor(cursor.serialize()) == cursor


def test_the_oldest_are_given_up_when_there_are_too_many_and_handed_back():
    waiting = [Waiting(float(number), failure(number)) for number in range(250)]
    cursor, dropped = AlertCursor().with_waiting(waiting[100:] + waiting[:100], 250.0)
    assert [alert.run_id for alert in dropped] == [f"r{number}" for number in range(50)]
    # The order for the next time is kept: what was refused comes last.
    assert cursor.waiting == tuple(waiting[100:] + waiting[50:100])


def test_what_nobody_took_for_days_is_given_up():
    cursor, dropped = AlertCursor().with_waiting([Waiting(0.0, failure(1)), Waiting(9e5, failure(2))], 9e5)
    assert [alert.run_id for alert in dropped] == ["r1"]
    assert [item.alert.run_id for item in cursor.waiting] == ["r2"]


def test_a_long_message_does_not_make_a_long_cursor():
    text = AlertCursor(1, (Waiting(0.0, failure(1, "x" * 100_000)),)).serialize()
    assert len(text) < 10_000
