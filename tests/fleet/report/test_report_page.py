"""The report as a person meets it in a browser."""

import pytest

from tests.support.browser import chromium
from tests.support.fleets import written_report


@pytest.mark.ui
@pytest.mark.slow
def test_a_person_finds_the_worst_and_its_page(tmp_path):
    written = written_report(tmp_path / "fleet")
    with chromium(tmp_path / "profile") as page:
        text = page.open(written[0].as_uri(), "Lance fleet", "late.lance")
        assert "4 datasets" in text
        assert "4 small fragments (limit 2)" in text
        rows = page.browser.find_elements("css selector", "#datasets tbody tr")
        assert len(rows) == 4
        page.find("//button[@data-verdict='due']").click()
        assert [row.is_displayed() for row in rows].count(True) == 1
        page.find("//button[@data-verdict='due']").click()
        page.find("//input[@type='search']").send_keys("bad")
        assert [row.is_displayed() for row in rows].count(True) == 1
        page.find("//input[@type='search']").clear()
        page.find("//input[@type='search']").send_keys("a.lance")
        page.click("a.lance")
        text = page.wait_for("compact", "5 → 1 fragments", "freed")
        assert "Filter by name" not in text
        assert page.browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        page.click("← all datasets")
        page.wait_for("What it brought")
        logs = [entry for entry in page.browser.get_log("browser") if entry["level"] == "SEVERE"]
        assert not logs
