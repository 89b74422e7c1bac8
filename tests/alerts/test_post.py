"""Posting through the proxy that the environment names, and what is no URL to post to."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from lance_ops.alerts.post import post_json
from lance_ops.errors import AlertNotDeliveredError


@pytest.fixture
def proxy():
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, self.headers.get("Proxy-Authorization"), json.loads(body)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"127.0.0.1:{server.server_port}", got
    server.shutdown()
    server.server_close()


def test_a_proxy_of_the_environment_gets_the_alert_unless_the_host_is_left_out(proxy, monkeypatch):
    place, got = proxy
    monkeypatch.setenv("http_proxy", f"http://me:pw%2F@{place}")
    monkeypatch.delenv("no_proxy", raising=False)
    post_json("http://hooks.invalid/a", {"text": "ü"})
    ((path, credentials, body),) = got
    assert (path, body) == ("http://hooks.invalid/a", {"text": "ü"})
    assert credentials == "Basic bWU6cHcv"
    monkeypatch.setenv("no_proxy", "hooks.invalid")
    with pytest.raises(AlertNotDeliveredError, match=r"hooks\.invalid did not accept the alert"):
        post_json("http://hooks.invalid/a", {}, sleep=lambda _: None)
    assert len(got) == 1


@pytest.mark.parametrize(
    "url",
    ["https://me:s3cret@example.org/x", "https://example.org/s3cret x", "https://example.org:s3cret/",
     "https://example.org/s3cretü", "https://exa\tmple.org/s3cret"],
)  # fmt: skip
def test_a_malformed_url_is_refused_before_anything_is_sent(url):
    with pytest.raises(AlertNotDeliveredError, match="malformed") as caught:
        post_json(url, {})
    assert "s3cret" not in str(caught.value)
