"""A folder that cannot be looked into is named and left out, all others are maintained; so is no ledger."""

import os
from dataclasses import dataclass

import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError, PermissionDeniedError, PolicyError
from lance_ops.fleet.discover.operation import discover_datasets
from lance_ops.fleet.ledger.rows import to_json, to_table
from lance_ops.fleet.policy.load import parse_policy
from lance_ops.fleet.report.operation import write_report
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
        assert "is skipped" in done.errors[0]
        assert repr(name.partition("/")[0]) in done.errors[0]
        assert done.errors[0] in str(done)
        assert done.to_dict()["errors"] == list(done.errors)


NOT_UTF8 = os.fsdecode(b"caf\xe9.lance")


@pytest.mark.parametrize("name", [NOT_UTF8, os.fsdecode(b"\xff/deep.lance")])
@pytest.mark.parametrize("kind", ["folder", "lancedb", "glob"])
def test_a_name_that_is_not_utf8_is_left_out_and_the_others_are_maintained(tmp_path, name, kind):
    write(tmp_path, "a.lance", 5)
    write(tmp_path, "b.lance", 1)
    os.rename(tmp_path / "b.lance", tmp_path / "c")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    os.rename(tmp_path / "c", tmp_path / name)
    rules = policy(tmp_path, more=f"discover: [{{store: s, kind: {kind}}}]")
    done = run_fleet(rules)
    assert (done.row.done, done.row.failed) == (1, 0)
    write_report(rules, tmp_path / "report.html")
    if kind != "lancedb" or "/" not in name:
        assert "not UTF-8" in done.errors[0]
    str(done).encode()


@dataclass(frozen=True)
class Incident:
    """A row of a ledger."""

    text: str
    texts: tuple[str, ...]


def test_a_text_of_a_row_may_name_a_path_that_is_not_utf8():
    row = Incident(f"lost: {NOT_UTF8}", (NOT_UTF8, "é.lance"))
    shown = {"text": "lost: caf\\udce9.lance", "texts": ["caf\\udce9.lance", "é.lance"]}
    assert to_table(Incident, [row]).to_pylist() == [shown]
    assert to_json(row) == shown
    error = LanceOpsError(f"no {NOT_UTF8}", path=f"/lake/{NOT_UTF8}", field=NOT_UTF8, hint=NOT_UTF8)
    assert str(error).encode().count(rb"caf\udce9") == 4


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
    assert found.discovery.errors == ("store s: folder 'closed' is skipped: permission denied",)


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


@pytest.mark.parametrize("details", [0, 5])
def test_the_report_names_what_nobody_could_look_into(tmp_path, details):
    write(tmp_path, "a.lance", 2)
    lo.append(str(tmp_path / "back\\slash.lance"), rows(0, 3))
    rules = policy(tmp_path)
    survey_fleet(rules)
    report = write_report(rules, tmp_path / "report.html", details=details)
    text = (tmp_path / "report.html").read_text()
    assert len(report.unseen) == (details > 0)
    assert ("is skipped" in text) is (details > 0)
    assert ("Not readable" in text) is (details > 0)


@pytest.mark.parametrize(
    "ledger", ["file://{0}/lake/known", "{0}/lake/team/../known/", "{0}/link/known", "{0}/lake//known"]
)
@pytest.mark.parametrize("root", ["{0}/lake", "file://{0}/lake/", "{0}/other/../lake"])
def test_a_ledger_below_the_root_is_left_out_however_both_are_written(tmp_path, root, ledger):
    write(tmp_path / "lake", "team/a.lance")
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    rules = parse_policy(
        f"version: 1\nstores: {{s: {{root: '{root.format(tmp_path)}'}}}}\n"
        f"ledger: {{path: '{ledger.format(tmp_path)}'}}\n"
    )
    for _ in range(2):
        assert set(survey_fleet(rules).known) == {"team/a.lance"}
    assert (tmp_path / "lake" / "known" / "looks.lance").is_dir()
