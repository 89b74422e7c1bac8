"""A folder that cannot be looked into is named and left out, all others are maintained; so is no ledger."""

import os

import pytest

import lance_ops as lo
from lance_ops.errors import PermissionDeniedError, PolicyError
from lance_ops.fleet.discover.operation import discover_datasets
from lance_ops.fleet.policy.load import parse_policy
from lance_ops.fleet.run.operation import run_fleet
from lance_ops.fleet.stores.opened import FleetStores
from lance_ops.fleet.survey.operation import survey_fleet
from lance_ops.storage.local.store import LocalStore
from tests.support.fleets import policy, rows, write


@pytest.mark.parametrize("name", ["x\ny.lance", "back\\slash.lance", "x\ny/deep.lance"])
@pytest.mark.parametrize("kind", ["folder", "lancedb", "glob"])
def test_a_name_that_no_store_takes_is_left_out_and_the_others_are_maintained(tmp_path, name, kind):
    write(tmp_path, "a.lance", 5)
    lo.append(str(tmp_path / name), rows(0, 3))
    done = run_fleet(policy(tmp_path, more=f"discover: [{{store: s, kind: {kind}}}]"))
    assert done.row.done == 1
    assert done.row.failed == 0
    if kind == "folder" or "/" not in name:
        assert "left out" in done.errors[0]
        assert repr(name.partition("/")[0]) in done.errors[0]
        assert done.errors[0] in str(done)
        assert done.to_dict()["errors"] == list(done.errors)


def test_a_folder_that_may_not_be_read_is_left_out_and_what_was_known_in_it_is_kept(tmp_path, monkeypatch):
    write(tmp_path, "a.lance", 2)
    write(tmp_path, "closed/b.lance")
    rules = policy(tmp_path)
    assert set(survey_fleet(rules).known) == {"a.lance", "closed/b.lance"}
    walked = LocalStore._walk

    def walk(self, folder, start_after):
        if os.path.join(self.uri, folder).startswith(str(tmp_path / "closed")):
            raise PermissionDeniedError("permission denied")
        return walked(self, folder, start_after)

    listed = LocalStore.list_dirs

    def list_dirs(self, prefix):
        if prefix == "closed":
            raise PermissionDeniedError("permission denied")
        return listed(self, prefix)

    monkeypatch.setattr(LocalStore, "_walk", walk)
    monkeypatch.setattr(LocalStore, "list_dirs", list_dirs)
    found = survey_fleet(rules)
    assert {look.dataset for look in found.looks} == {"a.lance"}
    assert set(found.known) == {"a.lance", "closed/b.lance"}
    assert found.discovery.errors == ("store s: folder 'closed' is left out: permission denied",)


def test_a_ledger_in_a_store_is_no_dataset_of_it(tmp_path):
    write(tmp_path, "a.lance")
    text = f"version: 1\nstores: {{s: {tmp_path}}}\nledger: {{path: {tmp_path}/sub/led}}\n"
    for _ in range(2):
        assert set(survey_fleet(parse_policy(text)).known) == {"a.lance"}
    globs = parse_policy(text + "discover: [{store: s, glob: 'sub/led/*.lance'}]\n")
    assert discover_datasets(FleetStores(globs)).datasets == ()


@pytest.mark.parametrize("place", ["", "/.."])
def test_a_ledger_that_is_or_holds_a_root_is_refused_with_its_line(tmp_path, place):
    with pytest.raises(PolicyError) as caught:
        parse_policy(f"version: 1\nstores: {{s: {tmp_path}}}\nledger:\n  path: {tmp_path}{place}\n")
    assert [problem.line for problem in caught.value.problems] == [4]
