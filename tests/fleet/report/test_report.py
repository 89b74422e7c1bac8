"""The report: one file without any network, which a browser shows, with a page for each dataset."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.report.operation import write_report
from lance_ops.fleet.report.sparkline import sparkline
from lance_ops.fleet.survey.operation import survey_fleet
from tests.fleet.ledger.test_ledger import look
from tests.support.fleets import policy, write, written_report


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return written_report(tmp_path_factory.mktemp("fleet"))


def test_it_asks_no_network_for_anything(written):
    text = written[0].read_text()
    assert not re.search(r"(src|href)\s*=\s*[\"'](?!#)", text)
    assert not re.search(r"https?://|@import|url\(", text)


def test_names_are_text_and_no_markup(written):
    text = written[0].read_text()
    assert "&lt;b&gt;&amp;.lance" in text
    assert "<b>&.lance" not in text


def test_it_counts_what_is_there_and_what_was_done(written):
    report = written[1]
    assert dict(report.counts) == {"damaged": 1, "overdue": 0, "due": 1, "blocked": 0, "healthy": 2}
    assert [page.look.dataset for page in report.pages][:2] == ["bad.lance", "late.lance"]
    assert report.due_by_day[-1] == 1
    assert report.freed_by_day[-1] > 0
    assert report.moved_by_day[-1] > 0


def test_secrets_are_not_in_it(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEET_TEST_KEY", "s3cr3t")
    write(tmp_path, "a.lance")
    rules = policy(tmp_path)
    survey_fleet(rules)
    write_report(rules, tmp_path / "r.html")
    assert "s3cr3t" not in (tmp_path / "r.html").read_text()


def test_more_datasets_than_pages_are_in_the_table_only(tmp_path):
    rules = policy(tmp_path)
    ledger = FleetLedger.of(rules)
    now = datetime.now(UTC)
    ledger.add_looks([look(f"{n:03d}", now - timedelta(hours=1)) for n in range(50)], key="x")
    write_report(rules, tmp_path / "r.html", bound=10)
    text = (tmp_path / "r.html").read_text()
    assert text.count('class="page" id="d-') == 10
    assert "049" in text


@pytest.mark.parametrize(("values", "points"), [([], 0), ([3], 2), ([1, 2, 3], 3), ([0, 0], 2)])
def test_a_sparkline_has_a_point_for_each_value(values, points):
    drawn = str(sparkline(values, "a < b"))
    found = re.search(r'<polyline points="([^"]*)"', drawn)
    assert (len(found[1].split()) if found else 0) == points
    assert "a < b" not in drawn
