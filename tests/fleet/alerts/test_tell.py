"""Alerts reach people: over HTTP and SMTP, once, grouped, and whatever dies on the way."""

import json
import socketserver
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lance_ops.alerts import channels, post
from lance_ops.alerts.mail import MailServer, hand_in
from lance_ops.alerts.message import Message
from lance_ops.alerts.row import AlertRow
from lance_ops.alerts.rule import AlertRule
from lance_ops.errors import AlertNotDeliveredError
from lance_ops.fleet.alerts import operation as telling
from lance_ops.fleet.alerts.operation import tell_alerts
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import Look, OperationRow
from lance_ops.fleet.policy.load import parse_policy
from lance_ops.storage.lease import Lease

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Hook(ThreadingHTTPServer):
    """A receiver of webhooks; `status` is what it answers."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got, self.status = [], 200
        self.url = f"http://127.0.0.1:{self.server_port}/secret-path"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.status == 200:
            self.server.got.append((dict(self.headers), body))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_):
        pass


class Mail(socketserver.ThreadingTCPServer):
    """A mail server that takes everything."""

    allow_reuse_address = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Smtp)
        self.got = []
        self.heard = threading.Event()
        # What it says to some words, and whether it drips a byte now and then in place of an answer to data.
        self.answers, self.drips = {}, threading.Event()
        self.url = f"smtp://127.0.0.1:{self.server_address[1]}"


class _Smtp(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"220 hi\r\n")
        for line in self.rfile:
            word = line.split()[0].upper() if line.split() else b""
            if word == b"DATA":
                self.wfile.write(b"354 go\r\n")
                text = b""
                while not text.endswith(b"\r\n.\r\n"):
                    text += self.rfile.readline()
                self.server.got.append(text.decode())
                while self.server.drips.is_set():
                    try:
                        self.wfile.write(b"2")
                    except OSError:
                        return
                    self.server.heard.wait(0.02)
            answer = next((said for part, said in self.server.answers.items() if part in line), b"250 ok")
            if answer is None:
                return
            if word == b"QUIT" and answer == b"250 ok":
                self.wfile.write(b"221 bye\r\n")
                return
            self.wfile.write(answer + b"\r\n")


def _served(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def hook():
    yield from _served(Hook())


@pytest.fixture
def mail():
    yield from _served(Mail())


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(post.post_json, "__kwdefaults__", {**post.post_json.__kwdefaults__, "pause": 0.0})


def rules(root, *alerts, default="{}"):
    lines = "\n".join(f"  - {alert}" for alert in alerts)
    return parse_policy(
        f"version: 1\nstores: {{s: {root}}}\nclasses: {{default: {default}}}\n"
        f"assign: [{{match: 'ml*', owner: ml}}, {{match: '*', owner: ops@example.org}}]\nalerts:\n{lines}\n"
    )


def look(name, verdict="healthy", at=NOW, **values):
    base = {"key": f"{at}/{name}", "survey": str(at), "store": "s", "uri": f"/lake/{name}", "schema": "x"}
    owner = "ml" if name.startswith("ml") else "ops@example.org"
    return Look(
        at=at, dataset=name, class_name="default", owner=owner, verdict=verdict, version=7, **base, **values
    )


def failed(name="a", run="r1", at=NOW, outcome="failed", operation="compact", **values):
    base = {"key": f"{run}/{name}/{operation}", "run": run, "store": "s", "uri": f"/lake/{name}"}
    return OperationRow(at=at, dataset=name, operation=operation, outcome=outcome, **base, **values)


def kinds(hook):
    return [
        (alert["kind"], alert["dataset"], alert["state"]) for _, body in hook.got for alert in body["alerts"]
    ]


def test_a_condition_is_told_once_and_so_is_that_it_is_well_again(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}', kinds: [blocked, damaged, recovered]}}")
    bad = [look("a", "blocked", why="12 things are in the way"), look("b", "overdue")]
    assert tell_alerts(policy, looks=bad, now=NOW).alerts == 1
    later = [look("a", "blocked", NOW + MINUTE, why="13 things are in the way"), look("b", "overdue")]
    assert tell_alerts(policy, looks=later, now=NOW + MINUTE).alerts == 0
    well = [look("a", at=NOW + 2 * MINUTE)]
    for _ in range(2):
        tell_alerts(policy, looks=well, now=NOW + 2 * MINUTE)
    assert kinds(hook) == [("blocked", "a", "raised"), ("blocked", "a", "recovered")]
    headers, body = hook.got[0]
    assert headers["Idempotency-Key"] == body["id"]
    assert "12 things" in body["text"]
    assert "advice: " in body["text"]


def test_another_reason_is_told_anew_and_is_no_recovery(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}'}}")
    for minute, why in enumerate(("this", "that")):
        at = NOW + minute * MINUTE
        tell_alerts(policy, looks=[look("a", "blocked", at, why=why)], now=at)
    assert kinds(hook) == [("blocked", "a", "raised")] * 2


def test_messages_are_by_owner_and_cause(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}', link: 'https://d.example/{{dataset}}'}}")
    looks = [look(name, "blocked", why="no way") for name in ("a", "b", "ml1", "ml2")]
    looks += [look("ml3", "damaged", why="gone")]
    assert tell_alerts(policy, looks=looks, now=NOW).messages == 3
    said = {(body["owner"], tuple(a["dataset"] for a in body["alerts"])) for _, body in hook.got}
    assert said == {("ops@example.org", ("a", "b")), ("ml", ("ml1", "ml2")), ("ml", ("ml3",))}
    assert any("https://d.example/ml3" in body["text"] for _, body in hook.got)


def test_a_rule_tells_its_owners_and_kinds_only(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}', owners: [ml], kinds: [damaged]}}")
    looks = [look("a", "damaged"), look("ml1", "damaged"), look("ml2", "blocked")]
    tell_alerts(policy, looks=looks, now=NOW)
    assert kinds(hook) == [("damaged", "ml1", "raised")]


def test_what_was_not_delivered_is_tried_again_with_the_same_id(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}'}}", "{to: log}")
    hook.status = 503
    looks = [look("a", "damaged", why="gone")]
    told = tell_alerts(policy, looks=looks, now=NOW)
    assert (told.messages, told.waiting) == (1, 1)
    assert "503" in told.errors[0]
    assert "secret-path" not in told.errors[0]
    waiting = [row for row in FleetLedger.of(policy).alerts(since=NOW) if row.message]
    assert waiting[0].tries == 1
    hook.status = 200
    # It is well again by now; that it was not is told all the same.
    tell_alerts(policy, looks=[look("a", at=NOW + MINUTE)], now=NOW + MINUTE)
    ((_, body),) = hook.got
    assert body["id"] == waiting[0].message
    assert "and recovered" in body["title"]


class Died(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_dies_at_delivery_loses_nothing(tmp_path, hook, monkeypatch, when):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}'}}")
    looks = [look("a", "damaged", why="gone"), look("ml", "blocked", why="no")]
    real = telling.send

    def dies(*args):
        if when == "after":
            real(*args)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(telling, "send", dies)
        with pytest.raises(Died):
            tell_alerts(policy, looks=looks, now=NOW)
    tell_alerts(policy, looks=looks, now=NOW + MINUTE)
    tell_alerts(policy, looks=looks, now=NOW + 2 * MINUTE)
    told = [body["id"] for _, body in hook.got]
    # What was sent and not noted comes again, under the same id.
    assert len(set(told)) == 2
    assert len(told) == (3 if when == "after" else 2)


def test_two_processes_do_not_deliver_at_once(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}'}}")
    with Lease(FleetLedger.of(policy).store.child("alerts"), "other"):
        assert tell_alerts(policy, looks=[look("a", "damaged")], now=NOW).busy
    assert tell_alerts(policy, looks=[look("a", "damaged")], now=NOW).alerts == 1


def test_failures_and_lost_conflicts_are_told_until_the_operation_succeeds(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}'}}")
    ledger = FleetLedger.of(policy)
    ledger.add_operations([failed(error="OSError: disk"), failed("ml", outcome="conflict")])
    for minute in range(2):
        tell_alerts(policy, looks=[], now=NOW + minute * MINUTE)
    # The same again is no news; another error is.
    ledger.add_operations([failed(run="r2", at=NOW + 2 * MINUTE, error="OSError: disk again")])
    ledger.add_operations([failed(run="r3", at=NOW + 3 * MINUTE, error="ValueError: x")])
    tell_alerts(policy, looks=[], now=NOW + 3 * MINUTE)
    ledger.add_operations([failed(run="r4", at=NOW + 4 * MINUTE, outcome="done")])
    for minute in range(4, 6):
        tell_alerts(policy, looks=[], now=NOW + minute * MINUTE)
    assert sorted(kinds(hook)) == [
        ("conflict", "ml", "raised"),
        *[("failure", "a", "raised")] * 2,
        *[("failure", "a", "recovered")] * 2,
    ]


def test_a_failure_that_the_next_run_mended_before_anybody_was_told_is_told(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}'}}")
    tell_alerts(policy, looks=[], now=NOW)
    ledger = FleetLedger.of(policy)
    ledger.add_operations([failed(outcome="broken off"), failed(run="r2", at=NOW + MINUTE, outcome="done")])
    for minute in range(2, 4):
        tell_alerts(policy, looks=[], now=NOW + minute * MINUTE)
    ((_, body),) = hook.got
    assert "result is unknown" in body["text"]
    assert "and recovered" in body["title"]


def test_what_failed_long_before_the_rule_is_no_news(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}'}}")
    FleetLedger.of(policy).add_operations([failed(at=NOW - timedelta(days=2))])
    tell_alerts(policy, looks=[], now=NOW)
    assert hook.got == []


def test_columns_that_changed_are_told_once_for_each_change(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}', kinds: [schema]}}")
    for minute, columns in enumerate(("x", "x", "y", "y", "x")):
        at = NOW + minute * timedelta(hours=1)
        tell_alerts(policy, looks=[replace(look("a", at=at), schema=columns)], now=at)
    assert kinds(hook) == [("schema", "a", "raised")] * 2


def test_silence_is_told_and_ends_with_a_new_version(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}'}}", default="{silent_after: 1d}")
    old = NOW - timedelta(days=2)
    tell_alerts(policy, looks=[look("a", version_at=old), look("b", version_at=NOW)], now=NOW)
    at = NOW + MINUTE
    tell_alerts(policy, looks=[look("a", at=at, version_at=at)], now=at)
    assert kinds(hook) == [("silent", "a", "raised"), ("silent", "a", "recovered")]


def test_what_comes_and_goes_is_told_no_more_often_than_the_rule_wants(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}', quiet: 1h, kinds: [blocked]}}")
    for minute in range(0, 30, 2):
        for verdict, step in (("blocked", 0), ("healthy", 1)):
            at = NOW + (minute + step) * MINUTE
            tell_alerts(policy, looks=[look("a", verdict, at, why="no")], now=at)
    assert len(hook.got) == 1


def test_a_digest_is_one_message_an_owner_and_day(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}', digest: 1d}}")
    tell_alerts(policy, looks=[look("a", "damaged"), look("b", "blocked", why="no")], now=NOW)
    assert len(hook.got) == 1
    for hours in (1, 5):
        at = NOW + timedelta(hours=hours)
        tell_alerts(policy, looks=[look(f"c{hours}", "damaged", at)], now=at)
    assert len(hook.got) == 1
    tell_alerts(policy, looks=[], now=NOW + timedelta(days=1, minutes=1))
    assert [alert["dataset"] for alert in hook.got[1][1]["alerts"]] == ["c1", "c5"]


def test_a_mail_has_the_owner_the_cause_and_what_to_do(tmp_path, mail):
    policy = rules(tmp_path, f"{{to: email, url: '{mail.url}', sender: lance@example.org}}")
    told = tell_alerts(policy, looks=[look("a", "damaged", why="a file is gone")], now=NOW)
    assert told.errors == ()
    (text,) = mail.got
    assert "To: ops@example.org" in text
    assert "Subject: Lance: a damaged" in text
    assert "a file is gone" in text
    assert "fsck" in text


def test_a_mail_that_some_recipients_may_not_have_goes_to_the_others_once(tmp_path, mail):
    mail.answers = {b"TO:<b@": b"550 unknown"}
    to = "[a@example.org, b@example.org, c@example.org]"
    policy = rules(tmp_path, f"{{to: email, url: '{mail.url}', recipients: {to}}}")
    looks = [look("x", "damaged")]
    told = tell_alerts(policy, looks=looks, now=NOW)
    (refused,) = told.refused
    assert refused.endswith("refused b@example.org (550 unknown); the other recipients were accepted")
    assert told.errors == ()
    assert (told.messages, told.waiting) == (1, 0)
    assert tell_alerts(policy, looks=looks, now=NOW).messages == 0
    assert len(mail.got) == 1


def test_a_mail_that_no_recipient_may_have_waits_and_says_why(tmp_path, mail):
    mail.answers = {b"TO:<": b"550 unknown"}
    policy = rules(tmp_path, f"{{to: email, url: '{mail.url}'}}")
    told = tell_alerts(policy, looks=[look("x", "damaged")], now=NOW)
    assert "refused ops@example.org (550 unknown)" in told.errors[0]
    assert told.waiting == 1


def test_a_mail_that_the_server_has_is_sent_however_the_two_part(tmp_path, mail):
    mail.answers = {b"quit": None}
    policy = rules(tmp_path, f"{{to: email, url: '{mail.url}'}}")
    assert tell_alerts(policy, looks=[look("x", "damaged")], now=NOW).errors == ()
    mail.answers = {b"quit": b"421 not now"}
    assert tell_alerts(policy, looks=[look("y", "damaged")], now=NOW).errors == ()
    assert len(mail.got) == 2


def test_a_mail_server_that_drips_is_waited_for_no_longer_than_all_of_it_may_take(mail):
    mail.drips.set()
    letter = EmailMessage()
    letter["From"] = letter["To"] = "a@example.org"
    place = MailServer.parse(mail.url)
    with pytest.raises(AlertNotDeliveredError, match=r"no answer within 0\.3 s"):
        hand_in(letter, place, seconds=0.3)
    mail.drips.clear()
    assert mail.got


def test_a_mail_without_an_address_waits_and_says_why(tmp_path, mail):
    policy = rules(tmp_path, f"{{to: email, url: '{mail.url}'}}")
    told = tell_alerts(policy, looks=[look("ml", "damaged")], now=NOW)
    assert "recipients" in told.errors[0]
    assert told.waiting == 1


def test_a_password_is_not_sent_in_the_clear(tmp_path, monkeypatch):
    from lance_ops.alerts import mail

    class Server:
        def __init__(self, *_, **__):
            pass

        def close(self):
            pass

        def ehlo(self):
            pass

        def has_extn(self, _):
            return False

        def login(self, *_):
            raise AssertionError("sent")

    monkeypatch.setattr(mail, "_connected", Server)
    policy = rules(tmp_path, "{to: email, url: 'smtp://me:pw@mail.example.org'}")
    assert "no encryption" in tell_alerts(policy, looks=[look("a", "damaged")], now=NOW).errors[0]


def test_slack_is_given_a_text_and_its_marks_are_escaped(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: slack, url: '{hook.url}'}}")
    tell_alerts(policy, looks=[look("a", "damaged", why="<!channel> & more")], now=NOW)
    ((_, body),) = hook.got
    assert (body["unfurl_links"], body["unfurl_media"]) == (False, False)
    assert "&lt;!channel&gt; &amp; more" in body["text"]


def test_pagerduty_gets_an_event_a_dataset_and_it_is_resolved(tmp_path, hook, monkeypatch):
    monkeypatch.setenv("PD", "routing")
    policy = rules(tmp_path, f"{{to: pagerduty, key: '${{PD}}', url: '{hook.url}'}}")
    tell_alerts(policy, looks=[look("a", "damaged"), look("b", "damaged")], now=NOW)
    tell_alerts(policy, looks=[look("b", at=NOW + MINUTE)], now=NOW + MINUTE)
    events = [body for _, body in hook.got]
    assert [event["event_action"] for event in events] == ["trigger", "trigger", "resolve"]
    assert events[2]["dedup_key"] == events[1]["dedup_key"] != events[0]["dedup_key"]
    assert {event["routing_key"] for event in events} == {"routing"}
    assert events[0]["payload"]["severity"] == "critical"


def test_a_name_of_the_scheduler_comes_before_those_that_are_built_in(tmp_path):
    got = []

    class Mine:
        def notify(self, alert):
            got.append(alert.title)

    class Broken:
        def notify(self, alert):
            raise RuntimeError(alert.title)

    policy = rules(tmp_path, "{to: mine}", "{to: log}", "{to: unknown}")
    looks = [look("a", "damaged")]
    told = tell_alerts(policy, looks=looks, now=NOW, notifiers={"mine": Mine(), "log": Broken()})
    assert got == ["Lance: a damaged"]
    assert "RuntimeError" in told.errors[0]
    assert "unknown alert target 'unknown'" in told.errors[1]


def test_a_secret_that_is_not_set_keeps_the_alert_waiting(tmp_path):
    policy = rules(tmp_path, "{to: webhook, url: '${NO_SUCH_HOOK}'}")
    told = tell_alerts(policy, looks=[look("a", "damaged")], now=NOW)
    assert "NO_SUCH_HOOK" in told.errors[0]
    assert told.waiting == 1


def test_a_dead_receiver_ends_its_own_messages_only(tmp_path, hook, monkeypatch):
    policy = rules(
        tmp_path, "{to: webhook, url: 'http://127.0.0.1:1/'}", f"{{to: webhook, url: '{hook.url}'}}"
    )
    tried = []
    real = telling.send

    def counting(rule, *rest):
        tried.append(rule.url)
        real(rule, *rest)

    monkeypatch.setattr(telling, "send", counting)
    looks = [look(f"d{number}", "blocked", why="why " + "x" * number) for number in range(6)]
    told = tell_alerts(policy, looks=looks, now=NOW)
    assert (told.alerts, told.waiting) == (6, 6)
    assert len([url for url in tried if url.endswith(":1/")]) == 3


def test_what_is_open_is_kept_in_the_ledger_and_what_is_over_goes(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: webhook, url: '{hook.url}', kinds: [damaged, schema]}}")
    ledger = FleetLedger.of(policy)
    tell_alerts(policy, looks=[look("a", "damaged"), look("b", "damaged")], now=NOW)
    for minute in range(1, 30):
        at = NOW + minute * MINUTE
        columns = replace(look("b", at=at), schema=str(minute))
        tell_alerts(policy, looks=[columns], now=at)
    late = NOW + timedelta(days=400)
    ledger.maintain(late)
    kept = {(row.dataset, row.kind, row.state) for row in ledger.alerts(since=NOW - MINUTE)}
    assert ("a", "damaged", "open") in kept
    before = len(hook.got)
    tell_alerts(policy, looks=[look("a", "damaged", late)], now=late)
    assert len(hook.got) == before


def test_an_error_of_delivery_is_typed():
    with pytest.raises(AlertNotDeliveredError):
        post.post_json("ftp://x", {})


@pytest.mark.parametrize(
    ("to", "url"),
    [
        ("email", "smtp://me:s3cret/pw@mail.example.org:587"),
        ("email", "smtp://me:s3cret[pw@mail.example.org:587"),
        ("webhook", "https://me:s3cret/pw@example.org/x"),
        ("webhook", "http://127.0.0.1:1/services/s3cret key"),
        ("slack", "http://127.0.0.1:1/services/s3cret\tkey\x01"),
        ("slack", "http://127.0.0.1:s3cret/x"),
    ],
)
def test_a_malformed_url_waits_and_shows_nothing_of_its_secret(tmp_path, monkeypatch, to, url):
    monkeypatch.setenv("ALERT_URL", url)
    policy = rules(tmp_path, f"{{to: {to}, url: '${{ALERT_URL}}'}}")
    told = tell_alerts(policy, looks=[look("a", "damaged")], now=NOW)
    (error,) = told.errors
    (row,) = [row for row in FleetLedger.of(policy).alerts(since=NOW) if row.kind == "damaged"]
    assert (told.waiting, row.tries) == (1, 1)
    for said in (error, row.error):
        assert "url" in said.lower()
        assert "s3cret" not in said


def test_pagerduty_keeps_no_incident_open_of_what_passed_before_it_was_told(tmp_path, hook):
    policy = rules(tmp_path, f"{{to: pagerduty, key: k, url: '{hook.url}'}}")
    hook.status = 500
    tell_alerts(policy, looks=[look("a", "damaged")], now=NOW)
    hook.status = 200
    for minute in range(1, 4):
        tell_alerts(policy, looks=[look("a", at=NOW + minute * MINUTE)], now=NOW + minute * MINUTE)
    events = [body for _, body in hook.got]
    assert [event["event_action"] for event in events] == ["trigger", "resolve"]
    assert len({event["dedup_key"] for event in events}) == 1


@pytest.mark.parametrize("was_told", [True, False])
def test_a_rule_that_comes_back_tells_of_failures_that_it_has_not_told(tmp_path, hook, was_told):
    mine = f"{{to: webhook, url: '{hook.url}'}}"
    with_it, without = rules(tmp_path, mine), rules(tmp_path, "{to: log}")
    tell_alerts(with_it, looks=[], now=NOW)
    ledger = FleetLedger.of(with_it)
    ledger.add_operations([failed(at=NOW + MINUTE, error="E: first")])
    hook.status = 200 if was_told else 500
    tell_alerts(with_it, looks=[], now=NOW + 2 * MINUTE)
    # Another code location has an older policy for a while.
    tell_alerts(without, looks=[], now=NOW + 3 * MINUTE)
    hook.status = 200
    tell_alerts(with_it, looks=[], now=NOW + 4 * MINUTE)
    assert len(hook.got) == 1
    ledger.add_operations([failed(run="r2", at=NOW + 50 * MINUTE, error="E: second")])
    tell_alerts(with_it, looks=[], now=NOW + 51 * MINUTE)
    assert len(hook.got) == (2 if was_told else 1)


def test_a_name_in_the_title_calls_nobody_in_slack(monkeypatch):
    sent = []
    monkeypatch.setattr(channels, "post_json", lambda url, content, **_: sent.append(content["text"]))
    row = AlertRow(key="k", rule="r", at=datetime.now(UTC), dataset="<!channel>.lance", kind="damaged")
    channels.send(AlertRule("slack", url="http://localhost/"), Message("id", (row,)), {})
    assert "<!channel>" not in sent[0]
    assert sent[0].startswith(":warning: *Lance: &lt;!channel&gt;.lance damaged*")
