"""The policy file: values, where each came from, and every mistake with its line."""

from datetime import date, timedelta

import pytest

from lance_ops.errors import InvalidArgumentError, NotFoundError, PolicyError
from lance_ops.fleet.policy.load import load_policy, parse_policy
from lance_ops.fleet.policy.model import FleetPolicy, PolicyClass, StoreSpec
from lance_ops.fleet.policy.secrets import Options
from lance_ops.fleet.policy.settings import SETTINGS
from lance_ops.fleet.policy.windows import Blackout, Window

TEXT = """\
version: 1
mode: propose
stores:
  eu:
    root: s3://eu-lake/lance
    options: {region: eu-central-1, secret_access_key: "${FLEET_TEST_KEY}"}
  local: data
discover:
  - {store: eu, glob: "*/*.lance", exclude: [tmp/*]}
classes:
  default: {max_small_fragments: 30, older_than: 3d}
  hot:
    max_small_fragments: 50
    ttl: keep where ts > now - 90d
    cleanup: off
  hotter: {extends: hot, target_bytes: 64MiB, max_deleted_ratio: 5%}
assign:
  - {match: "ml/*", class: hotter, owner: team-ml}
  - {match: "*", class: default}
windows:
  - {days: mon-fri, hours: 22-06, timezone: Europe/Berlin}
blackouts:
  - {from: 2026-12-24, to: 2026-12-26}
budget: {bytes_per_hour: 500GB, runs: 4, per_store: {eu: {requests_per_second: 200}}}
ledger: {path: s3://eu-lake/ledger, keep: 30d}
alerts:
  - {to: webhook, url: "${FLEET_TEST_HOOK}", kinds: [conflict, damaged], quiet: 1h}
"""


def test_a_class_takes_from_those_it_extends_and_says_so():
    found = parse_policy(TEXT).of_dataset("ml/a")
    assert found.class_name == "hotter"
    assert found.maintenance.max_small_fragments == 50
    assert found.maintenance.older_than == timedelta(days=3)
    assert found.maintenance.target_bytes == 64 << 20
    assert found.maintenance.max_deleted_ratio == pytest.approx(0.05)
    assert found.operations == ("ttl", "compact", "index")
    assert found.owner == "team-ml"
    assert found.mode == "propose"
    assert found.origins["max_small_fragments"] == "class hot, line 13"
    assert found.origins["older_than"] == "class default, line 11"
    assert found.origins["target_bytes"] == "class hotter, line 16"
    assert found.origins["owner"] == "assignment of ml/*, line 18"
    assert found.origins["mode"] == "fleet, line 2"
    assert found.origins["max_versions"] == "default"


def test_the_fingerprint_in_ledgers_of_earlier_releases_is_the_same():
    found = [parse_policy(TEXT).of_dataset(name).fingerprint() for name in ("ml/a", "x")]
    assert found == ["ff7dc099ebd9f5e5", "aa99d338459dab99"]


def test_every_setting_has_a_value_and_an_origin():
    found = parse_policy(TEXT).of_dataset("other")
    assert [name for name, _, _ in found.rows()] == list(SETTINGS)
    assert all(origin for _, _, origin in found.rows())


def test_the_first_assignment_that_matches_decides():
    assert parse_policy(TEXT).of_dataset("x").class_name == "default"


def test_values_of_the_whole_fleet():
    policy = parse_policy(TEXT)
    assert policy.windows == (Window("mon-fri", "22-06", "Europe/Berlin"),)
    assert policy.blackouts == (Blackout(date(2026, 12, 24), date(2026, 12, 26)),)
    assert policy.budget.bytes_per_hour == 500 * 10**9
    assert policy.budget_of("eu").requests_per_second == 200
    assert policy.budget_of("local").requests_per_second is None
    assert policy.keep == timedelta(days=30)
    assert policy.ledger_uri == "s3://eu-lake/ledger"
    assert policy.alerts[0].quiet == timedelta(hours=1)


def test_dataclasses_say_the_same_as_the_file():
    written = FleetPolicy(
        stores=(StoreSpec("s", "/data"),),
        classes=(PolicyClass("default", {"max_versions": 7}),),
    )
    read = parse_policy("version: 1\nstores: {s: /data}\nclasses: {default: {max_versions: 7}}\n")
    assert (read.stores, read.classes) == (written.stores, written.classes)
    assert read.of_dataset("x").maintenance == written.of_dataset("x").maintenance
    assert written.of_dataset("x").origins["max_versions"] == "class default"


MISTAKES = {
    "a wrong mode": ("mode: propose", "mode: fast", 2, "must be .observe."),
    "a misspelt key": ("max_small_fragments: 50", "max_smal_fragments: 50", 13, "max_small_fragments meant"),
    "an unknown class": ("class: hotter", "class: cold", 18, "unknown class 'cold'"),
    "an unknown store": ("store: eu", "store: us", 9, "unknown store 'us'"),
    "no hours": ("22-06", "25-99", 21, "not a span of hours"),
    "is not a day": ("mon-fri", "mon-fry", 21, "is not a day"),
    "no zone": ("Europe/Berlin", "Europe/Bern", 21, "unknown time zone"),
    "no rule for rows": ("keep where ts > now - 90d", "drop everything", 14, "not a ttl rule"),
    "no ratio": ("5%", "500%", 16, "between 0 and 1"),
    "is not a size": ("64MiB", "64 parsecs", 16, "is not a size"),
    "is not a duration": ("older_than: 3d", "older_than: soon", 11, "is not a duration"),
    "a circle": ("default: {max", "default: {extends: default, max", 11, "extends itself"),
    "an unknown alert": ("damaged]", "damage]", 27, "unknown kind of alert"),
    "an unknown budget": ("{eu: {req", "{us: {req", 24, "unknown store 'us'"),
    "a key twice": ("    cleanup: off", "    cleanup: off\n    cleanup: on", 16, "duplicate key"),
    "an older version": ("version: 1", "version: 9", 1, "must be 1, got 9"),
    "a blackout backwards": ("to: 2026-12-26", "to: 2026-12-01", 23, "before it starts"),
    "a list instead of a table": (
        "  default: {max_small_fragments: 30, older_than: 3d}",
        "  default: [1]",
        11,
        "table",
    ),
    "no yaml": ("version: 1", "version: [1", 2, "not valid YAML"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_line(name):
    old, new, line, said = MISTAKES[name]
    assert old in TEXT
    with pytest.raises(PolicyError, match=said) as caught:
        parse_policy(TEXT.replace(old, new, 1), source="fleet.yaml")
    assert line in [problem.line for problem in caught.value.problems]
    assert caught.value.path == "fleet.yaml"


@pytest.mark.parametrize(
    ("one", "other", "is_refused"),
    [
        ("/lake", "/lake/sub", True),
        ("/lake/sub", "file:///lake/", True),
        ("/lake", "/lake", True),
        ("/lake", "/lake2", False),
        ("s3://b", "s3://b/x", True),
        ("s3://b/x", "s3://b/xy", False),
        ("s3://b/x", "{root: 's3://b/x', options: {aws_endpoint: 'http://other'}}", False),
    ],
)
def test_stores_that_lie_in_one_another_are_refused(one, other, is_refused):
    text = f"version: 1\nstores:\n  a: {one}\n  b: {other}\n"
    if not is_refused:
        assert len(parse_policy(text).stores) == 2
        return
    with pytest.raises(PolicyError, match="store 'b' overlaps with store 'a'") as caught:
        parse_policy(text)
    assert [problem.line for problem in caught.value.problems] == [4]


def test_all_mistakes_are_told_at_once():
    text = TEXT.replace("mode: propose", "mode: x").replace("22-06", "x").replace("class: hotter", "class: y")
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    assert [problem.line for problem in caught.value.problems] == [2, 18, 21]


def test_a_missing_file_says_how_to_make_one(tmp_path):
    with pytest.raises(NotFoundError, match="adopt"):
        load_policy(tmp_path / "none.yaml")


def test_relative_roots_start_at_the_file(tmp_path):
    (tmp_path / "fleet.yaml").write_text(TEXT)
    assert load_policy(tmp_path / "fleet.yaml").store("local").root == str(tmp_path / "data")


def test_a_root_with_a_misspelt_scheme_is_no_folder_beside_the_file(tmp_path):
    (tmp_path / "fleet.yaml").write_text(TEXT.replace("local: data", "local: s3:/bucket/data"))
    with pytest.raises(PolicyError, match="starts with s3: and not with s3://"):
        load_policy(tmp_path / "fleet.yaml")


def test_secrets_come_from_the_environment_and_are_never_shown(monkeypatch):
    monkeypatch.setenv("FLEET_TEST_KEY", "s3cr3t")
    policy = parse_policy(TEXT)
    assert policy.store("eu").storage_options() == {"region": "eu-central-1", "secret_access_key": "s3cr3t"}
    assert "s3cr3t" not in repr(policy)
    assert "FLEET_TEST_HOOK" not in repr(policy)


def test_secrets_written_out_are_hidden_all_the_same():
    options = Options({"secret_access_key": "s3cr3t", "region": "eu"})
    assert "s3cr3t" not in repr(options)
    assert options.shown() == {"secret_access_key": "***", "region": "eu"}


def test_options_that_are_not_known_to_be_harmless_are_hidden():
    options = Options(
        {
            "my_store_pwd": "s3cr3t",
            "connection_string": "${CONN:-s3cr3t}",
            "endpoint": "https://me:s3cr3t@host",
            "azure_endpoint": "https://acc.blob.core.windows.net/?sv=2024&sig=s3cr3t",
            "headers": "Bearer ${TOKEN}s3cr3t",
            "aws_endpoint": "https://host",
            "azure_storage_account_name": "acc",
            "pin": "${PIN}",
        }
    )
    assert "s3cr3t" not in repr(options)
    assert options.shown() == {
        "my_store_pwd": "***",
        "connection_string": "${CONN:-***}",
        "endpoint": "***",
        "azure_endpoint": "***",
        "headers": "***",
        "aws_endpoint": "https://host",
        "azure_storage_account_name": "acc",
        "pin": "${PIN}",
    }


def test_a_variable_that_is_not_set_is_named(monkeypatch):
    monkeypatch.delenv("FLEET_TEST_KEY", raising=False)
    with pytest.raises(InvalidArgumentError, match="FLEET_TEST_KEY"):
        parse_policy(TEXT).store("eu").storage_options()


def test_a_variable_may_have_a_default(monkeypatch):
    monkeypatch.delenv("FLEET_TEST_KEY", raising=False)
    assert Options({"region": "${FLEET_TEST_KEY:-eu}"}).expanded() == {"region": "eu"}
