"""The page of a fleet in the Dagster UI: verdicts at once, a readable table and the report one click away."""

import urllib.request

import pytest

from tests.ui.fleet_location import PREFIX

pytestmark = pytest.mark.ui


def test_verdicts_are_on_the_first_screen_and_the_table_has_no_cut_cell(ui):
    wanted = ("1 damaged, 2 overdue, 5 due", "Open the report", "At 10 minutes past the hour", "Passing")
    text = ui.open(f"/assets/{PREFIX}_lance_fleet/report?view=overview", *wanted)
    assert "No automations found" not in text
    for width, height in ((1280, 800), (1500, 940)):
        ui.page.resize(width, height)
        row = ui.page.find("//td//table//tr[contains(., 'overdue')]")
        assert row.rect["y"] + row.rect["height"] < height
        assert ui.page.faults("td table") == []
        if width == 1280:
            ui.picture("fleet")
        ui.page.click("[Show Markdown]")
        ui.page.wait_for("compact, cleanup", "9.1 days", "31 healthy")
        assert ui.page.faults("div[class*=-dialog] table") == []
        if width == 1280:
            ui.picture("fleet_table")
        ui.page.click("Close")
    link = ui.page.find("//a[.='Open the report']").get_attribute("href")
    with urllib.request.urlopen(link, timeout=30) as response:
        assert "Lance fleet" in response.read().decode()
    ui.page.click("events/clicks")
    ui.page.wait_for("Definition", "warehouse/events/clicks.lance")
    ui.page.resize(1400, 900)
