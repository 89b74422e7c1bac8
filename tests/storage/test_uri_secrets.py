"""Secrets in addresses show nowhere: in errors, reprs, reports and what libraries say."""

import pickle
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner

import lance_ops as lo
from lance_ops.cli import main
from lance_ops.errors import InvalidArgumentError, LanceOpsError, PolicyError
from lance_ops.fleet.policy.load import parse_policy
from lance_ops.fleet.policy.secrets import Options
from lance_ops.storage import open_store
from lance_ops.storage.options import is_secret, plain_options, redact
from lance_ops.uri_secrets import hide_credentials

SECRET = "HUNTER+22/x="
QUOTED = quote(SECRET, safe="")
TWICE = quote(QUOTED, safe="")
SPELLINGS = (SECRET, QUOTED, TWICE)

PLACES = {
    "query": "{scheme}://h.invalid/x?sig={secret}",
    "second of a query": "{scheme}://h.invalid/x?versionId=1&sig={secret}",
    "query without a name": "{scheme}://h.invalid/x?{secret}",
    "encoded query": "{scheme}://h.invalid/x%3Fsig%3D{secret}",
    "query encoded twice": "{scheme}://h.invalid/x%253fsig%253d{secret}",
    "encoded sign": "{scheme}://h.invalid/x?sig%3D{secret}",
    "fragment": "{scheme}://h.invalid/x#token={secret}",
    "encoded fragment": "{scheme}://h.invalid/x%23token={secret}",
    "parameter": "{scheme}://h.invalid/x;password={secret}",
    "parameter of a folder": "{scheme}://h.invalid/x;password={secret}/y.lance",
    "encoded parameter": "{scheme}://h.invalid/x%3Bpassword%3D{secret}",
    "user": "{scheme}://me:{secret}@h.invalid/x",
    "encoded user": "{scheme}://me%3A{secret}%40h.invalid/x",
    "user encoded twice": "{scheme}://me%253A{secret}%2540h.invalid/x",
    "chained": "simplecache::{scheme}://h.invalid/x?sig={secret}",
    "address in an address": "{scheme}://proxy.invalid/https%3A%2F%2Fh.invalid%2Fx%3Fsig%3D{secret}",
    "user of an address in an address": "{scheme}://proxy.invalid/get/https%3A%2F%2Fme%3A{secret}%40h.invalid",
}
OBJECT_STORES = {"s3", "memory"}
# Names of objects may have these characters, and an encoded address in them is one.
NAMES_OF_OBJECTS = {"query without a name"}

CASES = [
    pytest.param(place.format(scheme=scheme, secret=secret), id=f"{scheme}-{name}-{number}")
    for scheme, (name, place), (number, secret) in product(
        ("https", "webhdfs", "sftp", "s3"), PLACES.items(), enumerate(SPELLINGS)
    )
    if not (scheme in OBJECT_STORES and name in NAMES_OF_OBJECTS)
]


def shows(text: str) -> bool:
    return "HUNTER" in text or "22/x" in text


@pytest.mark.parametrize("uri", CASES)
def test_no_part_of_an_address_that_may_be_secret_is_shown(uri: str) -> None:
    one_slash = uri.replace("://", ":/")
    for text in (
        f"cannot reach {uri}: timeout",
        f"'{uri}'",
        f"<{uri}>",
        f"{uri} {uri}",
        uri.upper(),
        one_slash,
    ):
        assert not shows(hide_credentials(text)), hide_credentials(text)
        error = LanceOpsError(text, path=uri, hint=f"look at {uri}")
        for told in (str(error), repr(error), error.message, error.path, error.hint):
            assert not shows(told or ""), told
        assert not shows(str(pickle.loads(pickle.dumps(error))))
    options = {"endpoint": uri, "aws_endpoint_url": uri, "profile": "p"}
    for library in (f"GET {uri} failed", f"GET {one_slash} failed", f"token {SECRET} is wrong"):
        assert not shows(redact(library, options)), redact(library, options)
    assert is_secret("endpoint", uri)
    assert not shows(repr(Options(options)))
    assert not shows(str(plain_options(options)))


@pytest.mark.parametrize("uri", [case for case in CASES if case.id.startswith(("https", "webhdfs", "sftp"))])
def test_such_an_address_is_refused_before_anybody_shows_it(uri: str) -> None:
    for call in (lo.dataset, open_store, lambda given: lo.append(given, [])):
        with pytest.raises(InvalidArgumentError) as caught:
            call(uri)
        assert not shows(str(caught.value))
        assert caught.value.__cause__ is None


@pytest.mark.parametrize("uri", CASES[::3])
def test_policies_and_commands_do_not_name_such_an_address(uri: str, tmp_path: Path) -> None:
    """Also of buckets, whose queries are dropped where a table is opened, but not where it is named."""
    policy = f"stores:\n  lake: {{root: '{uri}'}}\ndiscover: [{{store: lake}}]\n"
    with pytest.raises(PolicyError) as caught:
        parse_policy(policy)
    assert not shows(str(caught.value) + repr(caught.value.problems))
    (tmp_path / "fleet.yaml").write_text(policy)
    for arguments in (
        ["fleet", "lint", str(tmp_path / "fleet.yaml")],
        ["fsck", uri.replace("s3://", "https://")],
    ):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code
        assert not shows(done.output)


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/day=2024-05-01/part?.parquet",
        "s3://bucket/a#1/b;c/t.lance",
        "file:///lake/a%3Fb/x.lance",
        "memory://what?/x#y",
        "https://h.invalid:8080/a/b.parquet",
        "cannot reach https://h.invalid/x; try again",
        "abfss://box@account.dfs.core.windows.net/x",
        "hdfs://user@namenode:8020/t.lance",
        "sftp://me@host/x",
        "12:30/x?a=b and C:/x#y",
        "is it 50%? a=b",
    ],
)
def test_addresses_without_secrets_are_shown_whole(text: str) -> None:
    assert hide_credentials(text) == text


@pytest.mark.parametrize("secret", SPELLINGS)
def test_a_secret_option_is_hidden_however_it_is_spelled(secret: str) -> None:
    nested = {"client_kwargs": {"headers": [{"Authorization": f"Bearer {SECRET}"}]}}
    for options in ({"sas_token": SECRET}, {"connection_string": f"Name=a;Key={SECRET}"}, nested):
        assert not shows(redact(f"the server refused {secret} (403)", options))
