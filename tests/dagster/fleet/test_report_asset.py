"""The report of a fleet as an asset: a table that fits its page, the file, its age and its schedule."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from lance_ops.dagster.fleet.definitions import build_fleet_definitions
from lance_ops.dagster.fleet.report_asset import fleet_table, report_metadata, worst_datasets
from lance_ops.fleet.report.model import make_report
from tests.support.dagster import STORE
from tests.support.sample_fleet import NOW, TROUBLE, sample_policy, write_sample


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    policy = sample_policy(folder, str(folder / "warehouse"))
    return policy, write_sample(policy, 40, days=1)


@pytest.fixture
def report(fleet):
    return make_report(*fleet, now=NOW)


def test_the_table_has_what_is_not_healthy_worst_first_and_says_how_many_are(report):
    text = fleet_table(report, {})
    head, _, *rows = [line for line in text.splitlines() if line.startswith("|")]
    assert head == "| dataset | verdict | due | cost | since |"
    assert [row.split(" | ")[1] for row in rows] == [verdict for _, verdict in TROUBLE]
    assert "| overdue | compact, cleanup | 17 s, 1.2 GB | 9.1 days |" in rows[1]
    assert text.rstrip().endswith("31 healthy")


def test_names_are_text_and_link_to_their_assets(report):
    key = dg.AssetKey(["events", "clicks"])
    for made in (fleet_table, worst_datasets):
        text = made(report, {"events/clicks.lance": key})
        assert r"[events/clicks](/assets/events/clicks)" in text
        assert "<b>" not in text
        assert r"\*eu\*" in text
        assert r"\[uk\]\(x\)" in text


def test_the_worst_are_shown_without_a_click_and_the_table_in_a_dialog(report):
    names = {page.look.dataset: dg.AssetKey(["a" * 120, page.look.dataset]) for page in report.pages}
    for links in ({}, names):
        short = worst_datasets(report, links)
        assert short.startswith("**1 damaged, 2 overdue, 5 due**\n\n1 blocked, 31 healthy\n\n| dataset")
        # Dagster shows shorter ones in their place, longer ones on a click.
        assert len(short) < 1000 <= len(fleet_table(report, links))


def test_what_was_not_looked_at_for_long_is_not_healthy(fleet):
    late = make_report(*fleet, now=NOW + timedelta(hours=4), stale_after=timedelta(hours=3))
    assert "31 stale" in worst_datasets(late, {})
    assert "healthy" not in fleet_table(late, {})


def test_totals_are_numbers_that_plot_and_the_file_is_linked(report, tmp_path):
    found = report_metadata(report, tmp_path / "r.html", "/logs/lance_fleet_report/html")
    assert found["lance/report"].value == "[Open the report](/logs/lance_fleet_report/html)"
    assert (found["lance/overdue"].value, found["lance/datasets"].value) == (2, 40)
    assert found["lance/30d_spent"].value > found["lance/30d_saved"].value > 0
    # A longer key takes the width of the values at 1,280 pixels.
    assert max(len(key) for key in found) <= 18
    assert str(tmp_path) in report_metadata(report, tmp_path / "r.html")["lance/report"].value


def test_its_own_schedule_refreshes_it_and_its_age_is_judged(tmp_path):
    policy = sample_policy(tmp_path, str(tmp_path / "warehouse"))
    write_sample(policy, 3, now=datetime.now(UTC), days=1)
    definitions = build_fleet_definitions(
        policy, datasets=[], store=STORE, running=True, prefix="eu", stale_after=timedelta(hours=5)
    )
    schedule = definitions.resolve_schedule_def("eu_lance_fleet_report_schedule")
    assert (schedule.job_name, schedule.default_status) == (
        "eu_lance_fleet_report",
        dg.DefaultScheduleStatus.RUNNING,
    )
    asset = definitions.resolve_assets_def(dg.AssetKey(["eu_lance_fleet", "report"]))
    (spec,) = asset.specs
    assert spec.freshness_policy == dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=5))
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        config = {"ops": {"eu_lance_fleet__report": {"config": {"survey": False}}}}
        job = definitions.resolve_job_def("eu_lance_fleet_report")
        result = job.execute_in_process(instance=instance, run_config=config)
    (event,) = result.asset_materializations_for_node("eu_lance_fleet__report")
    assert event.metadata["lance/report"].value == "[Open the report](/logs/eu_lance_fleet_report/html)"
    assert "1 damaged, 2 overdue" in event.metadata["lance/worst"].value
