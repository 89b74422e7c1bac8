"""Details of the report: newest versions with who made them, and indices; what cannot be read says so."""

import re

import pytest

import lance_ops as lo
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.report.operation import with_details, write_report
from lance_ops.fleet.report.tables import history_lines, index_lines
from lance_ops.fleet.run.operation import run_fleet
from lance_ops.fleet.stores.opened import FleetStores
from tests.support.fleets import policy, rows, write


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    root = tmp_path_factory.mktemp("fleet")
    uri = write(root, "a.lance", 5, index=True)
    rules = policy(root, default="{max_small_fragments: 2, cleanup: off}")
    done = run_fleet(rules)
    lo.append(uri, rows(90, 95), properties={"dagster.run_id": "r-1", "dagster.job": "load"})
    return root, rules, done, uri


def test_a_version_tells_who_made_it_and_in_which_run(fleet):
    _, rules, done, uri = fleet
    lines = history_lines(lo.dataset(uri), 10, FleetLedger.of(rules).operations())
    assert (lines[0].writer, lines[0].run, lines[0].rows) == ("Dagster, load", "r-1", 55)
    compacted = next(line for line in lines if line.operation == "Rewrite")
    assert (compacted.writer, compacted.run) == ("lance-ops fleet", done.row.key)
    assert compacted.seconds is not None
    assert [line.version for line in lines] == sorted((line.version for line in lines), reverse=True)


def test_an_index_tells_kind_columns_and_coverage(fleet):
    (line,) = index_lines(lo.dataset(fleet[3]))
    assert (line.name, line.kind, line.columns) == ("id_idx", "BTree", "id")
    assert 0.9 < line.coverage < 1
    assert line.bytes
    assert line.at is not None


def test_the_page_of_a_dataset_has_both_and_only_where_they_were_asked_for(fleet):
    root, rules, _, _ = fleet
    text = {}
    for details in (0, 5):
        report = write_report(rules, root / "r.html", details=details)
        text[details] = (root / "r.html").read_text()
        assert bool(report.pages[0].versions) is bool(details)
    assert '<table class="versions">' not in text[0]
    for pattern in ("Dagster, load", "<code>r-1</code>", "<td>id_idx</td><td>BTree</td><td>id</td>"):
        assert re.search(pattern, text[5])


def test_what_cannot_be_read_says_why_and_keeps_nothing_else_back(tmp_path):
    write(tmp_path, "a.lance", 2)
    write(tmp_path, "bad.lance", 2)
    rules = policy(tmp_path)
    run_fleet(rules)
    for manifest in (tmp_path / "bad.lance" / "_versions").glob("*.manifest"):
        manifest.write_bytes(b"x" * 100)
    report = write_report(rules, tmp_path / "r.html", details=5)
    pages = {page.look.dataset: page for page in report.pages}
    assert pages["bad.lance"].unread
    assert pages["a.lance"].versions
    assert "Not read:" in (tmp_path / "r.html").read_text()
    late = with_details(report, FleetStores(rules), 5, seconds=0.0)
    assert {page.unread for page in late.pages} == {"the time limit was reached"}
