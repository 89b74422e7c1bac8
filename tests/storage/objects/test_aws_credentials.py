"""Credentials are found where AWS tools look for them, when they are needed, and looked for again."""

import http.server
import json
import pickle
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, PermissionDeniedError
from lance_ops.storage import open_store
from lance_ops.storage.objects import aws_credentials
from lance_ops.storage.objects.aws_credentials import BotocoreCredentials, find_credentials, names_region
from tests.support.fake_s3 import FakeS3


@pytest.fixture
def s3():
    with FakeS3() as server:
        yield server


@pytest.fixture
def options(s3):
    """Storage options without keys and region."""
    return {name: value for name, value in s3.options.items() if "_key" not in name and "region" not in name}


@pytest.fixture(autouse=True)
def aws(tmp_path, monkeypatch):
    """An empty `~/.aws`, and nothing in the environment."""
    for name in [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_DEFAULT_PROFILE",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
    ]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


def keys(name):
    return f"aws_access_key_id = {name}\naws_secret_access_key = secret-of-{name}\n"


def signers(s3, options, uri="s3://bucket/x"):
    s3.signed_by.clear()
    open_store(uri, options).put("a", b"1")
    return set(s3.signed_by)


def test_the_default_profile_of_the_shared_file(aws, s3, options):
    (aws / "credentials").write_text(f"[default]\n{keys('shared')}")
    assert signers(s3, options) == {"shared"}


def test_a_profile_named_by_the_environment_or_by_an_option(aws, s3, options, monkeypatch):
    (aws / "credentials").write_text(f"[default]\n{keys('first')}[other]\n{keys('second')}")
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert signers(s3, options) == {"second"}
    assert signers(s3, {**options, "aws_profile": "default"}) == {"first"}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert signers(s3, {**options, "AWS_PROFILE": "other"}) == {"second"}


def test_the_environment_comes_before_the_files_and_options_before_both(aws, s3, options, monkeypatch):
    (aws / "credentials").write_text(f"[default]\n{keys('shared')}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert signers(s3, options) == {"environment"}
    assert signers(s3, s3.options) == {"test"}


def test_nobody_signs_for_a_public_bucket(aws, s3, options):
    (aws / "credentials").write_text(f"[default]\n{keys('shared')}")
    assert signers(s3, {**options, "aws_skip_signature": "true"}) == {None}


def test_a_process_that_prints_credentials_is_asked_again_before_they_expire(aws, s3, options, monkeypatch):
    calls = aws / "calls"
    script = aws / "process.py"
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    script.write_text(
        "import json, pathlib\n"
        f"calls = pathlib.Path({str(calls)!r})\n"
        "number = len(calls.read_text()) if calls.exists() else 0\n"
        "calls.write_text('x' * (number + 1))\n"
        "print(json.dumps({'Version': 1, 'AccessKeyId': f'process{number}', 'SecretAccessKey': 's',\n"
        f"    'SessionToken': 't', 'Expiration': {soon!r}}}))\n"
    )
    (aws / "config").write_text(f"[default]\ncredential_process = {sys.executable} {script}\n")
    # Asked of the provider before every request, while the process is asked only when time is short.
    monkeypatch.setattr(aws_credentials, "_ASK_AGAIN", timedelta(0))
    store = open_store("s3://bucket/x", options)
    for _ in range(3):
        store.put("a", b"1")
    assert set(s3.signed_by) == {"process0"}
    monkeypatch.setattr("botocore.credentials.RefreshableCredentials._advisory_refresh_timeout", 7200)
    monkeypatch.setattr("botocore.credentials.RefreshableCredentials._mandatory_refresh_timeout", 7200)
    store.put("a", b"1")
    assert s3.signed_by[-1] == "process1"


def test_a_shared_file_that_was_rotated_is_read_again(aws, s3, options, monkeypatch):
    monkeypatch.setattr(aws_credentials, "_ASK_AGAIN", timedelta(0))
    store = open_store("s3://bucket/x", options)
    for name in ["monday", "tuesday"]:
        (aws / "credentials").write_text(f"[default]\n{keys(name)}")
        store.put("a", b"1")
        assert s3.signed_by[-1] == name


def test_a_container_asks_its_metadata(s3, options, monkeypatch):
    later = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = json.dumps(
        {"AccessKeyId": "container", "SecretAccessKey": "s", "Token": "t", "Expiration": later}
    ).encode()

    class Metadata(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        monkeypatch.setenv(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{server.server_port}/credentials"
        )
        assert signers(s3, options) == {"container"}
        server.shutdown()
        thread.join()


def test_without_any_the_error_says_where_was_looked(s3, options):
    with pytest.raises(PermissionDeniedError) as caught:
        lo.dataset("s3://bucket/x", storage_options=options)
    for place in ["storage options", "environment", "'default'", "SSO", "instance", "aws_skip_signature"]:
        assert place in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert s3.requests == []


def test_a_profile_that_does_not_exist_is_named(s3, options):
    with pytest.raises(InvalidArgumentError, match="nobody"):
        open_store("s3://bucket/x", {**options, "aws_profile": "nobody"})
    with pytest.raises(PermissionDeniedError, match="nobody"):
        open_store("s3://bucket/x", {**options, "aws_profile": "nobody", "aws_region": "r"}).exists("a")


def test_without_botocore_a_profile_cannot_be_used_and_the_rest_goes_on(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert find_credentials({}) is None
    with pytest.raises(InvalidArgumentError, match="botocore"):
        find_credentials({"aws_profile": "p"})


def test_the_region_of_the_profile_is_used_unless_one_is_named(aws, options, monkeypatch):
    (aws / "config").write_text("[default]\nregion = eu-central-7\n")
    (aws / "credentials").write_text(f"[default]\n{keys('shared')}")
    assert open_store("s3://regional/x", options)._store.config["region"] == "eu-central-7"
    named = {**options, "aws_region": "us-west-9"}
    assert open_store("s3://regional/x", named)._store.config["region"] == "us-west-9"
    assert not names_region(options)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "x")
    assert names_region(options)


def test_a_pickle_holds_no_keys_and_looks_again_where_it_is_opened(aws, s3, options):
    (aws / "credentials").write_text(f"[default]\n{keys('driver')}")
    store = open_store("s3://pickled/x", options)
    store.put("a", b"1")
    data = pickle.dumps(store)
    assert b"secret-of-driver" not in data
    (aws / "credentials").write_text(f"[default]\n{keys('executor')}")
    provider = pickle.loads(pickle.dumps(BotocoreCredentials()))
    assert provider()["access_key_id"] == "executor"
    assert pickle.loads(data).read("a").to_pybytes() == b"1"


@pytest.mark.peer
@pytest.mark.parametrize("profile", [None, "other"])
def test_the_peer_signs_with_the_same_credentials(aws, s3, options, monkeypatch, profile):
    import lance
    import pyarrow as pa

    (aws / "credentials").write_text(f"[default]\n{keys('first')}[other]\n{keys('second')}")
    if profile:
        monkeypatch.setenv("AWS_PROFILE", profile)
    options = {**options, "aws_region": "us-east-1"}
    uri = f"s3://peer-{profile or 'default'}/x"
    lance.write_dataset(pa.table({"x": [1]}), uri, storage_options=options)
    theirs = set(s3.signed_by)
    s3.signed_by.clear()
    assert lo.dataset(uri, storage_options=options).count_rows() == 1
    assert set(s3.signed_by) == theirs == {"second" if profile else "first"}
