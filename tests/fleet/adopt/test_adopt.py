"""Adoption: a policy that is valid, changes nothing and holds no secret, and the worst first."""

import pytest

from lance_ops.errors import DatasetExistsError, InvalidArgumentError, PermissionDeniedError
from lance_ops.fleet.adopt.operation import adopt_fleet
from lance_ops.fleet.policy.load import load_policy
from lance_ops.fleet.run.operation import run_fleet
from lance_ops.fleet.survey.operation import survey_fleet
from lance_ops.storage.local.store import LocalStore
from tests.support.fleets import write


def test_it_writes_a_policy_that_loads_and_changes_nothing(tmp_path):
    write(tmp_path, "lake/few.lance", 1)
    write(tmp_path, "lake/many.lance", 25)
    file = tmp_path / "policies" / "fleet.yaml"
    found = adopt_fleet(str(tmp_path / "lake"), file)
    assert [look.dataset for look in found.worst(1)] == ["many.lance"]
    assert found.worst(1)[0].cost_seconds > 0
    policy = load_policy(file)
    assert policy.mode == "observe"
    assert policy.stores == found.policy.stores
    done = run_fleet(policy)
    assert done.rows == []
    assert {item.reason for item in done.left} == {"its mode is observe"}


def test_it_overwrites_no_file_unless_told(tmp_path):
    write(tmp_path, "a.lance")
    adopt_fleet(str(tmp_path), tmp_path / "fleet.yaml")
    with pytest.raises(DatasetExistsError, match="already exists"):
        adopt_fleet(str(tmp_path), tmp_path / "fleet.yaml")
    adopt_fleet(str(tmp_path), tmp_path / "fleet.yaml", replace=True)


def test_where_nothing_is_it_says_so_and_writes_nothing(tmp_path):
    with pytest.raises(InvalidArgumentError, match="no dataset"):
        adopt_fleet(str(tmp_path), tmp_path / "fleet.yaml")
    assert not (tmp_path / "fleet.yaml").exists()


def test_the_kind_of_patterns_goes_with_a_pattern_and_says_so_without(tmp_path):
    write(tmp_path, "a.lance")
    with pytest.raises(InvalidArgumentError, match="requires a pattern") as refused:
        adopt_fleet(str(tmp_path), tmp_path / "fleet.yaml", kind="glob")
    assert "--glob" in refused.value.hint
    found = adopt_fleet(str(tmp_path), tmp_path / "fleet.yaml", kind="glob", glob="*.lance")
    assert [look.dataset for look in found.survey.looks] == ["a.lance"]


def test_secrets_stay_out_of_the_file(tmp_path, monkeypatch):
    write(tmp_path, "a.lance")
    options = {"fsync": "false", "memory_map": "true"}
    found = adopt_fleet(str(tmp_path), tmp_path / "fleet.yaml", options=options)
    assert "fsync: 'false'" in found.text
    from lance_ops.fleet.adopt.operation import _options

    text, variables = _options("lake", {"secret_access_key": "s3cr3t", "region": "eu"})
    assert "s3cr3t" not in text
    assert variables == ("LAKE_SECRET_ACCESS_KEY",)
    assert "region: eu" in text


def test_a_root_that_cannot_be_written_gets_its_ledger_beside_the_policy(tmp_path, monkeypatch):
    write(tmp_path, "lake/few.lance", 1)
    before = {str(path) for path in (tmp_path / "lake").rglob("*")}
    real = LocalStore.put

    def put(store, path, *args, **kwargs):
        if store.uri.startswith(str(tmp_path / "lake")):
            raise PermissionDeniedError("the file system is read-only", path=path)
        return real(store, path, *args, **kwargs)

    monkeypatch.setattr(LocalStore, "put", put)
    file = tmp_path / "policies" / "fleet.yaml"
    found = adopt_fleet(str(tmp_path / "lake"), file)
    assert {str(path) for path in (tmp_path / "lake").rglob("*")} == before
    assert "the file system is read-only" in found.note
    assert load_policy(file).ledger_uri == str(tmp_path / "policies" / "fleet-ledger")
    assert list(survey_fleet(load_policy(file)).known) == ["few.lance"]


def test_a_root_that_is_not_there_is_not_created(tmp_path):
    with pytest.raises(InvalidArgumentError, match="no dataset"):
        adopt_fleet(str(tmp_path / "none"), tmp_path / "fleet.yaml")
    assert not (tmp_path / "none" / "_lance_ops_fleet").exists()
