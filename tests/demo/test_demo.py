"""The demo, run as a user runs it."""

import json
import os
import subprocess
import sys

import lance
import pytest

import lance_ops as lo

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.peer]


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("demo")
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", "from lance_ops.cli import main; main()", "demo", "--path", "demo", "--json"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_the_flights_that_flew_remain(summary: dict[str, object]) -> None:
    rival = summary["second_writer"]
    expected = 328_521 + rival["appended"] - rival["cancelled"]
    assert summary["flights"] == expected
    assert lance.dataset(summary["uri"]).count_rows("dep_time IS NOT NULL") == expected
    assert lo.fsck(summary["uri"], deep=True).ok


def test_the_peer_reads_every_kept_version(summary: dict[str, object]) -> None:
    versions = lance.dataset(summary["uri"]).versions()
    assert len(versions) == 5
    for info in versions:
        dataset = lance.dataset(summary["uri"], version=info["version"])
        dataset.validate()
        assert dataset.to_table(columns=["flight"]).num_rows == dataset.count_rows()


def test_the_index_answers_through_the_peer(summary: dict[str, object]) -> None:
    scanner = lance.dataset(summary["uri"]).scanner(columns=["flight"], filter="flight = 1545")
    assert "ScalarIndexQuery" in scanner.explain_plan()
    assert scanner.to_table().num_rows == lo.dataset(summary["uri"]).count_rows("flight = 1545")


def test_three_kinds_of_index_cover_every_row_after_the_compactions(summary: dict[str, object]) -> None:
    assert summary["indices"] == {"BTree": 1.0, "Bitmap": 1.0, "Inverted": 1.0}
    dataset = lance.dataset(summary["uri"])
    bitmap = dataset.scanner(columns=["flight"], filter="dest = 'MCO'")
    assert "ScalarIndexQuery" in bitmap.explain_plan()
    assert bitmap.to_table().num_rows == lo.dataset(summary["uri"]).count_rows("dest = 'MCO'") > 10_000
    found = dataset.to_table(columns=["dest"], full_text_query="orlando", limit=100_000)
    assert found.num_rows == lo.dataset(summary["uri"]).count_rows("route like '%Orlando%'") > 10_000


def test_the_lost_compaction_raised_an_alert_that_names_both_sides(summary: dict[str, object]) -> None:
    assert len(summary["alerts"]) == 1
    assert "Restore of version" in summary["alerts"][0]
    assert "ours:" in summary["alerts"][0]


def test_spark_computed_the_delays_of_the_last_data(summary: dict[str, object]) -> None:
    delays = lo.dataset(summary["delays_uri"]).to_table().to_pylist()
    flights = lo.dataset(summary["uri"]).to_table(columns=["carrier"], filter="dep_delay IS NOT NULL")
    assert sum(row["flights"] for row in delays) == flights.num_rows
    assert {row["month"] for row in delays} == set(range(1, 13))


def test_every_operation_shows_in_the_table_of_versions(summary: dict[str, object]) -> None:
    operations = {name for row in summary["versions"] for name in row["operations"]}
    assert operations >= {
        "Overwrite",
        "Append",
        "Delete",
        "CreateIndex",
        "ReserveFragments",
        "Rewrite",
        "Restore",
    }
