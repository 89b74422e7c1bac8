"""What a person sees in the Dagster UI of a dataset with a past."""

import time

import pytest
from selenium.webdriver.common.by import By

pytestmark = pytest.mark.ui

ROWS = "163,275"
"""Flights of half a year that were not cancelled, and 2,000 that somebody appended twice."""
LOCATION = "/locations/flights_location.py"
WIDTHS = [1280, 1500]
HEIGHT = 900


# First: the page lists the newest ticks only.
def test_a_lost_conflict_is_in_the_log_of_the_sensor_s_tick(ui):
    deadline = time.monotonic() + 180.0
    ui.open(f"{LOCATION}/sensors/lance_failure_alert_sensor", "View logs")
    position = 0
    while "conflict on flights" not in _log_of_tick(ui.page, position):
        # Ticks are listed newest first, and new ones come in while we look.
        position = (position + 1) % 25
        assert time.monotonic() < deadline, "no tick has told of the conflict"


@pytest.mark.parametrize("width", WIDTHS)
def test_the_asset_s_page_has_the_verdict_first_and_nothing_cut_or_wrapped(ui, width):
    ui.page.resize(width, HEIGHT)
    about = "Flights that left New York in 2013."
    ui.open(
        "/assets/flights?view=overview", about, "Row count", ROWS, "Storage", "schedules lance_*_when_due"
    )
    verdict = ui.page.find("//*[text()='healthy' or starts-with(text(), 'blocked: cleanup')]")
    assert ui.page.is_on_first_screen(verdict)
    assert ui.page.is_on_first_screen(ui.page.find("//*[starts-with(text(), 'last: compaction ')]"))
    if width == WIDTHS[0]:
        ui.picture("asset")
    ui.page.scroll_to("Metadata")
    ui.page.wait_for("lance/verdict", "lance/state", "lance/raw", "[Show JSON]")
    assert ui.page.faults(ui.page.find(f"{_of('lance/state')}//table"), others=True) == []
    if width == WIDTHS[0]:
        ui.picture("state")
    ui.page.find(f"{_of('lance/history')}//a").click()
    dialog = ui.page.find("//*[contains(concat(@class, ' '), '-dialog ')]")
    history = dialog.find_element(By.XPATH, ".//table")
    assert "Dagster, lance_compact" in history.text.replace("\N{NO-BREAK SPACE}", " ")
    assert ui.page.faults(history, others=True) == []
    if width == WIDTHS[0]:
        ui.picture("history", dialog, dialog)
    ui.page.click("Close")


def test_numbers_are_plotted_beside_their_limits(ui):
    ui.open("/assets/flights?view=overview", "Plots")
    ui.page.click("Plots")
    ui.page.wait_for("lance/fragments", "lance/small_fragments", "lance/small_limit")
    assert ui.page.find("//canvas").size["height"] > 50
    ui.page.scroll_to("lance/small_fragments")
    ui.picture("plots")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_version_made_outside_of_dagster_is_an_event_like_the_others(ui, width):
    ui.page.resize(width, HEIGHT)
    ui.open("/assets/flights?view=events", "Reported", "lance/state")
    # The newest one is of whoever appended, or of the other writer that the compaction lost against.
    newest = "Append of 2,000 rows in 1 fragment", "Restore of version 11"
    ui.page.wait_until(lambda text: any(what in text for what in newest), f"one of {newest}")
    assert ui.page.is_on_first_screen(ui.page.find("//*[text()='lance/verdict']"))
    assert ui.page.faults(ui.page.find(f"{_of('lance/state')}//table"), others=True) == []


def test_checks_are_in_two_groups_and_each_has_something_to_check(ui):
    ui.open("/assets/flights?view=checks", "damage_files_present", "upkeep_version_backlog")

    def shown(text):
        lines = text.splitlines()
        found = [number for number, line in enumerate(lines) if line.startswith(("damage_", "upkeep_"))]
        return {lines[number]: lines[number + 1] for number in reversed(found)}

    text = ui.page.wait_until(lambda text: "Not Evaluated" not in shown(text).values(), "results of checks")
    groups = sorted(name.partition("_")[0] for name in shown(text))
    # Without those of indices of vectors: there are none.
    assert groups == ["damage"] * 3 + ["upkeep"] * 6
    assert "upkeep_vector_recall" not in text
    ui.picture("checks")


def test_the_sensor_starts_what_is_computed_from_the_data(ui):
    ui.open("/runs", "delay_job", "lance_manifest_sensor", "lance_ops/trigger: flights@11")


def test_the_run_of_a_compaction_tells_what_it_did(ui):
    told = "6 fragments -> 2, 161,275 rows", "4,883 deleted rows purged, 1 index segment remapped"
    ui.open(f"/runs/{ui.compaction}", "RUN_SUCCESS", *told)


def test_a_lost_conflict_names_both_transactions(ui):
    ui.open(f"/runs/{ui.collision}", "RUN_FAILURE", "conflict with another writer of flights")
    ui.page.click("View full message")
    ui.page.wait_for("lance/conflict_ours", "lance/conflict_theirs", "lance/conflict_version")
    ui.page.wait_for("Rewrite of fragments 6-7", "Restore of version")
    dialog = ui.page.find("//*[contains(concat(@class, ' '), '-dialog ')]")
    ui.picture("conflict", dialog, dialog.find_element(By.XPATH, ".//table"))


def test_a_lost_conflict_is_told_once(ui):
    (alert,) = (alert for alert in ui.alerts if alert["kind"] == "conflict")
    assert alert["run_id"] == ui.collision
    assert alert["ours"].startswith("Rewrite of fragments 6-7")
    assert "Restore of version" in alert["theirs"]


def test_the_lineage_leads_from_the_ingest_over_the_dataset_to_what_is_computed_from_it(ui):
    lineage = f"{LOCATION}/asset-groups/default/lineage"
    ui.open(lineage, "flights_ingest", "100% filled", "delay_per_carrier_and_month", "9 / 10 Passed")
    # The other writer's deletes make it compute once more, and make more versions than the policy allows.
    ui.page.wait_until(lambda text: text.count("Materialized") == 2, "two materialized assets")
    ui.page.wait_for("schedules lance_*_when_due")
    ui.picture("lineage")


def _of(key):
    """Return the path of the cells of some metadata."""
    return f"//tr[td[1][normalize-space(.)='{key}']]/td"


def _log_of_tick(page, position):
    page.find("//*[text()='View logs']")
    buttons = page.browser.find_elements(By.XPATH, "//*[text()='View logs']")
    buttons[min(position, len(buttons) - 1)].click()
    title, wanted = "Logs for lance_failure_alert_sensor", ("No logs to display", "conflict on flights")
    text = page.wait_until(lambda text: any(part in text for part in wanted), f"one of {wanted}")
    page.click("Done")
    page.wait_until(lambda text: title not in text, "the page without the log")
    return text
