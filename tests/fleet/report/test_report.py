"""The report: one file without any network, which a browser shows, with a page for each dataset."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import VERDICTS
from lance_ops.fleet.report.charts import bars, sparkline
from lance_ops.fleet.report.model import make_report
from lance_ops.fleet.report.operation import shortened_middle, write_report
from lance_ops.fleet.survey.operation import survey_fleet
from tests.fleet.ledger.test_ledger import look
from tests.support.fleets import policy, write, written_report
from tests.support.sample_fleet import NOW, TROUBLE, sample_policy, write_sample

_COLORS = re.compile(r"--([a-z]+): #([0-9a-f]{6}|[0-9a-f]{3});")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """Five hundred datasets in a ledger, their report and its text."""
    folder = tmp_path_factory.mktemp("sample")
    rules = sample_policy(folder)
    write_sample(rules, 500, days=3)
    report = write_report(rules, folder / "fleet.html", now=NOW)
    return rules, report, (folder / "fleet.html").read_text()


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
    assert {verdict: count for verdict, count in report.counts.items() if count} == {
        "damaged": 1,
        "due": 1,
        "healthy": 2,
    }
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


def test_the_worst_come_first_and_five_hundred_datasets_are_a_small_file(sample):
    _, report, text = sample
    assert [page.verdict for page in report.pages[: len(TROUBLE)]] == [verdict for _, verdict in TROUBLE]
    assert text.count("<tr class=") == len(report.pages) == 500
    assert len(text) < 2_000_000


def test_trends_tell_debt_and_what_was_spent_and_saved_by_day(sample):
    _, report, text = sample
    assert len(report.debt_by_day) == len(report.spent_by_day) == len(report.days)
    assert report.debt_by_day[-1] == pytest.approx(sum(look.debt_seconds for look in report.looks))
    assert report.debt_by_day[0] == 0
    assert report.spent_by_day[-1] > report.saved_by_day[-1] > 0
    for said in ("lost if each dataset is scanned once", "of work", "saved per scan", "freed"):
        assert said in text
    assert not re.search(r"[$€]\d", text)


def test_a_verdict_that_is_old_or_by_another_policy_is_not_healthy(tmp_path):
    rules = sample_policy(tmp_path)
    ledger = write_sample(rules, 12, days=1)
    later = NOW + timedelta(days=2)
    report = make_report(rules, ledger, now=NOW)
    old = write_report(rules, tmp_path / "r.html", now=later)
    assert (report.counts["healthy"], old.counts["healthy"], old.counts["stale"]) == (3, 0, 3)
    assert old.counts["overdue"] == report.counts["overdue"]
    assert "last surveyed 2.0 days ago" in (tmp_path / "r.html").read_text()
    assert make_report(rules, ledger, now=later, stale_after=timedelta(days=3)).counts == report.counts
    other = make_report(policy(tmp_path, default="{max_small_fragments: 1}"), ledger, now=NOW)
    assert (other.counts["healthy"], other.pages[-1].stale) == (0, "assessed by an earlier policy")


def test_colors_have_enough_contrast_in_both_schemes(sample):
    light, dark = (dict(_COLORS.findall(part)) for part in sample[2].split("prefers-color-scheme", 1))
    for colors in (light, light | dark):
        surfaces = [_luminance(colors[name]) for name in ("bg", "card", "hover")]
        for name in ("ink", "soft", "accent", *VERDICTS, "stale"):
            color = _luminance(colors[name])
            for surface in surfaces:
                low, high = sorted((color, surface))
                assert (high + 0.05) / (low + 0.05) >= 4.5, name


def test_heads_of_columns_are_marked_and_charts_have_a_text(sample):
    text = sample[2]
    assert not re.search(r"<th(?! scope=)[ >]", text)
    assert text.count("<svg") == text.count("</title>") - 1


def test_a_long_name_is_shortened_in_its_middle():
    assert shortened_middle("a" * 20, 20) == "a" * 20
    short = shortened_middle("warehouse/clicks/2024/events.lance", 20)
    assert len(short) == 20
    assert short.startswith("wareho…")
    assert short.endswith("events.lance")


def test_bars_have_a_path_for_each_value_above_zero():
    drawn = str(bars([0, 2, 4], [1, 0, 0], "<i>"))
    first, second = re.findall(r'class="[ab]" d="([^"]*)"', drawn)
    assert (first.count("M"), second.count("M")) == (2, 1)
    assert "<i>" not in drawn


@pytest.mark.parametrize(("values", "points"), [([], 0), ([3], 6), ([1, 2, 3], 7), ([0, 0], 6)])
def test_a_sparkline_has_a_point_for_each_value_and_four_for_its_area(values, points):
    drawn = str(sparkline(values, "a < b"))
    found = re.search(r'<polyline points="([^"]*)"', drawn)
    assert (len(found[1].split()) if found else 0) == points
    assert "a < b" not in drawn


@pytest.mark.parametrize(
    ("values", "limit", "last", "line"),
    [([10, 20], 30, 16, 3), ([30, 40], 10, 3, 29), ([5, 5], 5, 16, 16), ([5, 5], 0, 3, 29)],
)
def test_a_limit_is_a_line_in_the_scale_of_the_series(values, limit, last, line):
    drawn = str(sparkline(values, "small", limit=limit))
    assert f'<path d="M137 {last}h0"/><path d="M0 {line}h140"/>' in drawn
    assert str(sparkline(values, "small")).count("<path ") == 1


def test_the_page_of_a_dataset_has_each_measure_beside_its_limit(sample):
    _, report, text = sample
    pages = {page.look.dataset: page for page in report.pages}

    def limits_shown(name):
        _, _, rest = text.partition(f'class="page" id="d-{pages[name].number}"')
        shown = rest.partition("<section ")[0]
        lines = len(re.findall(r'<path d="M0 \d+h140"/>', shown))
        return lines, re.findall(r"· limit ([^<]*)</span>", shown)

    assert limits_shown("events/clicks.lance") == (3, ["50", "10.0%", "100"])
    assert limits_shown("search/product_embeddings.lance") == (4, ["20", "10.0%", "40", "95.0%"])
    # Nothing is compacted there, so that no limit of a compaction counts.
    assert limits_shown("archive/invoices.lance") == (1, ["100"])


def _luminance(color: str) -> float:
    """Relative luminance of a color as the contrast rules of the web define it."""
    digits = color if len(color) == 6 else "".join(digit * 2 for digit in color)
    parts = [int(digits[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
