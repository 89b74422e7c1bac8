"""The report as a person meets it in a browser: from a file, in both colour schemes, at two widths."""

from datetime import UTC, datetime, timedelta

import pytest
from selenium.webdriver.support.ui import Select

from lance_ops.fleet.report.operation import write_report
from tests.support.browser import chromium
from tests.support.sample_fleet import NOW, TROUBLE, sample_policy, write_sample

_PICTURES = {(1280, "light"): "report", (1500, "dark"): "report_dark"}


@pytest.mark.ui
@pytest.mark.slow
def test_a_person_finds_the_worst_and_its_page(tmp_path):
    policy = sample_policy(tmp_path)
    write_sample(policy, 40)
    write_report(policy, tmp_path / "fleet.html", now=NOW)
    with chromium(tmp_path / "profile", width=1280, height=800) as page:
        text = page.open((tmp_path / "fleet.html").as_uri(), "Lance fleet", "events/clicks.lance")
        for said in ("40 datasets", "412 small fragments (limit 50)", "40 of 40 shown"):
            assert said in text
        rows = page.browser.find_elements("css selector", "#datasets tbody tr")
        for width, height in ((1280, 800), (1500, 940)):
            page.resize(width, height)
            for scheme in ("light", "dark"):
                page.prefer(scheme)
                assert page.faults("#datasets") == []
                last = rows[len(TROUBLE) - 1].rect
                assert last["y"] + last["height"] < height
                if (width, scheme) in _PICTURES:
                    page.picture(_PICTURES[width, scheme])

        def shown() -> list[str]:
            script = "return arguments[0].filter(row => !row.hidden).map(row => row.cells[0].title)"
            return page.browser.execute_script(script, rows)

        page.find("//button[@data-verdict='overdue']").click()
        assert [name.split("/")[0] for name in shown()] == ["events", "sales"]
        page.find("//button[@data-verdict='overdue']").click()
        owner = Select(page.find("//select[@data-column='owner']"))
        owner.select_by_visible_text("team-search")
        assert {name.split("/")[0] for name in shown()} == {"search"}
        Select(page.find("//select[@data-column='class']")).select_by_visible_text("events")
        assert shown() == []
        owner.select_by_index(0)
        search = page.find("//input[@type='search']")
        search.send_keys("CLICKS")
        assert all("clicks" in name for name in shown())
        page.click("size")
        assert page.find("//th[@aria-sort='descending']").text.startswith("size")
        page.click("events/clicks.lance")
        text = page.wait_for("3,780,292 rows", "88 → 6 fragments", "then due", "· limit 50")
        assert "Filter by name" not in text
        assert page.browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        page.picture("report_page")
        page.click("← all datasets")
        page.wait_for("Time spent and saved")
        write_report(policy, tmp_path / "old.html", now=datetime.now(UTC) - timedelta(days=3))
        page.open((tmp_path / "old.html").as_uri(), "(3 days ago)", "This report is 3 days old")
        assert [entry for entry in page.browser.get_log("browser") if entry["level"] == "SEVERE"] == []
