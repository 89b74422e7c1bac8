"""`lance-ops alerts test`: each recipient gets a message, and which did not is said."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner

from lance_ops.cli.main import main


@pytest.fixture
def hook():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(403 if "refuse" in self.path else 200)
            self.end_headers()

        def log_message(self, *_):
            pass

    got = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    server.server_close()


def test_each_rule_of_a_policy_gets_a_test_and_pagerduty_resolves_it(hook, tmp_path):
    url, got = hook
    policy = tmp_path / "lance_fleet.yaml"
    policy.write_text(
        f"version: 1\nstores: {{s: {tmp_path}}}\nalerts:\n"
        f"  - {{to: webhook, url: '{url}/a', kinds: [damaged], severity: error}}\n"
        f"  - {{to: pagerduty, key: k, url: '{url}/b', owners: [ml]}}\n"
        f"  - {{to: slack, url: '{url}/refuse'}}\n"
    )
    done = CliRunner().invoke(main, ["alerts", "test", str(policy), "--json"])
    assert done.exit_code == 1
    said = {item["to"]: item["error"] for item in json.loads(done.output)["recipients"]}
    assert (said["webhook"], said["pagerduty"]) == ("", "")
    assert "status 403" in said["slack"]
    assert "nothing is wrong" in got[0]["text"]
    assert [event.get("event_action") for event in got[1:3]] == ["trigger", "resolve"]
    assert CliRunner().invoke(main, ["alerts", "test", str(policy), "--to", "webhook"]).exit_code == 0
    wrong = CliRunner().invoke(main, ["alerts", "test", str(policy), "--to", "nobody"])
    assert wrong.exit_code == 1
    assert "it has webhook, pagerduty, slack" in wrong.output


def test_notifiers_of_a_file_and_a_url_get_a_test(hook, tmp_path):
    url, got = hook
    code = tmp_path / "my_alerts_of_test.py"
    code.write_text(
        "from lance_ops.alerts.notifier import WebhookNotifier\n"
        f"hook = WebhookNotifier('{url}/secret')\n"
        "class Broken:\n    def notify(self, alert):\n        raise KeyError('s3cret')\n"
        "several = {'a': hook, 'b': Broken()}\nwrong = print\n"
    )
    assert CliRunner().invoke(main, ["alerts", "test", f"{code}:hook"]).exit_code == 0
    several = CliRunner().invoke(main, ["alerts", "test", f"{code}:several"])
    assert (several.exit_code, len(got)) == (1, 2)
    assert "b: not delivered: Broken: KeyError" in several.output
    assert "s3cret" not in several.output
    assert CliRunner().invoke(main, ["alerts", "test", f"{url}/x"]).exit_code == 0
    for target in (f"{code}:wrong", f"{code}:nothing", "no_such_module:x", "nonsense"):
        failed = CliRunner().invoke(main, ["alerts", "test", target])
        assert failed.exit_code == 1, target
