import contextlib
import json
import logging
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lance_ops.alerts.notifier import LogNotifier, WebhookNotifier
from lance_ops.alerts.values import CheckAlert, ConflictAlert
from lance_ops.errors import AlertNotDeliveredError, InvalidArgumentError
from lance_ops.testing import NotifierConformance

CONFLICT = ConflictAlert(
    dataset="flights",
    uri="/data/flights.lance",
    job="lance_compact",
    step="compact",
    run_id="r1",
    conflict="incompatible",
    ours="Rewrite of fragments 1, 2",
    theirs="Overwrite",
    version=12,
    message="another writer stands in the way",
)
CHECK = CheckAlert(
    dataset="flights",
    uri="u",
    check="fragmentation",
    passed=False,
    severity="WARN",
    message="too many",
    version=3,
)


class Server:
    """A webhook on loopback that answers with the given statuses, the last one for ever."""

    def __init__(self):
        self.statuses, self.bodies, self.headers, self.delay = [200], [], [], threading.Event()
        self.location, self.requests = None, []
        self.delay.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append(self.path)
                self.send_response(200)
                self.end_headers()

            def do_POST(self):
                outer.requests.append(self.path)
                outer.delay.wait(10)
                outer.headers.append(dict(self.headers))
                outer.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                status = outer.statuses.pop(0) if len(outer.statuses) > 1 else outer.statuses[0]
                self.send_response(status)
                if outer.location is not None:
                    self.send_header("Location", outer.location)
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/hooks/secret"

    def close(self):
        self.delay.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


class TestWebhook(NotifierConformance):
    @pytest.fixture
    def notifier(self, server):
        return WebhookNotifier(server.url, sleep=lambda _: None)

    @pytest.fixture
    def received(self, server):
        return lambda: [body["text"] for body in server.bodies]

    @pytest.fixture
    def failing(self, server):
        @contextlib.contextmanager
        def failing():
            server.statuses = [500]
            yield
            server.statuses = [200]

        return failing


class TestLog(NotifierConformance):
    @pytest.fixture
    def notifier(self, caplog):
        caplog.set_level(logging.INFO, "lance_ops.alerts")
        return LogNotifier()

    @pytest.fixture
    def received(self, caplog):
        return lambda: [record.getMessage() for record in caplog.records if record.name == "lance_ops.alerts"]

    # Whoever keeps a log can always be told.
    test_an_alert_that_nobody_took_is_an_error = None
    test_an_alert_that_nobody_took_arrives_with_a_later_tick = None


def test_a_webhook_gets_the_alert_as_json(server):
    WebhookNotifier(server.url, headers={"Authorization": "Bearer t"}).notify(CONFLICT)
    (body,) = server.bodies
    assert body["kind"] == "conflict"
    assert body["ours"] == "Rewrite of fragments 1, 2"
    assert body["theirs"] == "Overwrite"
    assert body["version"] == 12
    assert "flights" in body["text"]
    assert server.headers[0]["Authorization"] == "Bearer t"
    assert server.headers[0]["Content-Type"] == "application/json"


def test_a_server_in_trouble_is_asked_again(server):
    server.statuses = [503, 429, 200]
    pauses = []
    WebhookNotifier(server.url, pause=0.5, sleep=pauses.append).notify(CHECK)
    assert len(server.bodies) == 3
    assert pauses == [0.5, 1.0]


def test_a_server_that_refuses_is_not_asked_again(server):
    server.statuses = [403]
    with pytest.raises(AlertNotDeliveredError, match="status 403"):
        WebhookNotifier(server.url, sleep=lambda _: None).notify(CHECK)
    assert len(server.bodies) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_redirect_is_refused_and_takes_no_header_and_no_alert_anywhere(server, status, elsewhere):
    other = Server()
    try:
        server.statuses = [status]
        server.location = f"{other.url}/deeper" if elsewhere else "/hooks/secret/"
        notifier = WebhookNotifier(server.url, headers={"Authorization": "Bearer t"}, sleep=lambda _: None)
        with pytest.raises(
            AlertNotDeliveredError, match=f"redirects .status {status}.*at 127.0.0.1"
        ) as caught:
            notifier.notify(CHECK)
        assert "secret" not in str(caught.value)
        assert server.requests == ["/hooks/secret"]
        assert other.requests == []
    finally:
        other.close()


@pytest.mark.parametrize(
    ("status", "location"),
    [(302, "file:///etc/passwd"), (302, "http://[secret"), (308, None), (304, None)],
)
def test_a_redirect_that_leads_nowhere_is_refused_as_well(server, status, location):
    server.statuses, server.location = [status], location
    with pytest.raises(AlertNotDeliveredError, match=f"did not accept the alert.*{status}") as caught:
        WebhookNotifier(server.url, sleep=lambda _: None).notify(CHECK)
    assert "secret" not in str(caught.value)


def test_a_server_that_stays_in_trouble_is_given_up(server):
    server.statuses = [500]
    with pytest.raises(AlertNotDeliveredError, match="status 500"):
        WebhookNotifier(server.url, sleep=lambda _: None).notify(CHECK)
    assert len(server.bodies) == 3


def test_a_server_that_does_not_answer_is_not_waited_for(server):
    server.delay.clear()
    with pytest.raises(AlertNotDeliveredError, match=r"no answer within 0\.05 s"):
        WebhookNotifier(server.url, timeout=0.05, sleep=lambda _: None).notify(CHECK)


def test_a_server_that_drips_is_not_waited_for_without_end():
    done = threading.Event()

    class Dripping(socketserver.StreamRequestHandler):
        def handle(self):
            self.wfile.write(b"HTTP/1.0 2")
            while not done.wait(0.02):
                try:
                    self.wfile.write(b"0")
                except OSError:
                    return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Dripping) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        try:
            with pytest.raises(AlertNotDeliveredError, match=r"no answer within 0\.3 s"):
                WebhookNotifier(url, timeout=0.3, sleep=lambda _: None).notify(CHECK)
        finally:
            done.set()
            server.shutdown()


def test_no_server_at_all_is_an_error_that_hides_the_secret_path():
    with pytest.raises(AlertNotDeliveredError) as caught:
        WebhookNotifier("http://127.0.0.1:9/hooks/secret", sleep=lambda _: None).notify(CHECK)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "http://", "nonsense"])
def test_other_urls_are_refused(url):
    with pytest.raises(InvalidArgumentError):
        WebhookNotifier(url)


def test_a_printed_notifier_hides_the_secret_path():
    assert "secret" not in repr(WebhookNotifier("https://hooks.example.com/secret"))


def test_the_log_gets_text_and_fields(caplog):
    with caplog.at_level(logging.INFO, "lance_ops.alerts"):
        LogNotifier().notify(CONFLICT)
        LogNotifier().notify(CheckAlert("t", "u", "fragmentation", True, "WARN", "well"))
    first, second = caplog.records
    assert first.levelno == logging.WARNING
    assert "Overwrite" in first.getMessage()
    assert first.alert["ours"] == "Rewrite of fragments 1, 2"
    assert second.levelno == logging.INFO
    assert "passes again" in second.getMessage()


def test_the_url_may_be_in_the_environment_and_is_read_when_it_is_needed(server, monkeypatch):
    import dagster as dg

    monkeypatch.delenv("HOOK", raising=False)
    notifier = WebhookNotifier(dg.EnvVar("HOOK"), headers={"Authorization": dg.EnvVar("TOKEN")})
    with pytest.raises(AlertNotDeliveredError, match="HOOK"):
        notifier.notify(CHECK)
    monkeypatch.setenv("HOOK", server.url)
    monkeypatch.setenv("TOKEN", "Bearer t")
    notifier.notify(CHECK)
    assert len(server.bodies) == 1
    assert server.headers[0]["Authorization"] == "Bearer t"
    assert "secret" not in repr(notifier)
    assert "HOOK" in repr(notifier)


@pytest.mark.parametrize("url", ["ftp://host/secret", "nonsense-secret", "http://[secret"])
def test_a_url_of_another_kind_in_the_environment_is_not_shown(url, monkeypatch):
    import dagster as dg

    monkeypatch.setenv("HOOK", url)
    with pytest.raises(AlertNotDeliveredError) as caught:
        WebhookNotifier(dg.EnvVar("HOOK")).notify(CHECK)
    assert "secret" not in str(caught.value)
    assert "HOOK" in str(caught.value)
