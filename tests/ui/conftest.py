"""A Dagster instance with a past, served, and a browser to look at it."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from selenium.webdriver.remote.webelement import WebElement

from lance_ops import dataset
from lance_ops.dagster.jobs.operations import COMPACT, DELETE, INDEX
from lance_ops.maintenance.ingest.operation import append
from tests.support.browser import PROJECT, Page, chromium
from tests.support.dagster_server import dagster_dev, launch_run, webhook
from tests.ui import fleet_location, flights_location
from tests.ui.flights_location import FOLDER, MONTHS, WEBHOOK, flights, flights_ref

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True)
class DagsterUi:
    """What the tests look at.

    Attributes:
        page: The browser.
        url: Of the webserver.
        uri: Of the dataset.
        compaction: Id of the run that compacted them.
        collision: Id of the run that lost against another writer.
        alerts: What the webhook got so far.
    """

    page: Page
    url: str
    uri: str
    compaction: str
    collision: str
    alerts: list[dict[str, Any]]

    def open(self, path: str, *wanted: str) -> str:
        """Open a page and wait for texts on it; returns all of its text."""
        return self.page.open(f"{self.url}{path}", *wanted)

    def picture(self, name: str, first: WebElement | None = None, last: WebElement | None = None) -> None:
        """Store a picture for the documents, when one is asked for; see `Page.picture`."""
        self.page.picture(name, first, last)


@pytest.fixture(scope="session")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterUi]:
    """The UI on half a year of flights, with a lost conflict on its way."""
    folder = tmp_path_factory.mktemp("flights")
    home = tmp_path_factory.mktemp("dagster_home")
    shutil.copy(PROJECT / "dagster_home" / "dagster.yaml", home)
    # First, so that no time is lost where there is no browser.
    with chromium(tmp_path_factory.mktemp("profile")) as page, webhook() as (hook, alerts):
        compaction = _make_history(folder, home)
        variables = {FOLDER: str(folder), WEBHOOK: hook, "PYTHONPATH": str(PROJECT)}
        with dagster_dev(Path(flights_location.__file__), home, variables) as url:
            collision = _collide(url, folder)
            _wait_for_sensors(home, flights_ref(folder).uri, alerts)
            yield DagsterUi(page, url, flights_ref(folder).uri, compaction, collision, alerts)


def _make_history(folder: Path, home: Path) -> str:
    """Six months, a delete, an index, a compaction, and rows that come in past Dagster."""
    definitions = flights_location.build(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(home))
        with dg.DagsterInstance.get() as instance:

            def run(job: str, partition: str, **config: object) -> str:
                ops = {"ops": {job.removeprefix("lance_"): {"config": config}}} if config else {}
                result = definitions.resolve_job_def(job).execute_in_process(
                    instance=instance,
                    partition_key=partition,
                    run_config=ops | _QUIET,
                )
                return result.run_id

            for month in MONTHS.get_partition_keys():
                run("flights_ingest_job", month)
            run(DELETE, "flights", predicate="dep_time IS NULL", dry_run=False)
            run(INDEX, "flights", column="flight")
            compaction = run(COMPACT, "flights")
            fleet_location.make_report(folder, instance)
    append(flights_ref(folder).uri, flights().slice(0, 2_000))
    return compaction


def _wait_for_sensors(home: Path, uri: str, alerts: list[dict[str, Any]]) -> None:
    """Wait until the conflict is told and the newest version is an event, which open pages would not show."""
    deadline = time.monotonic() + 180.0
    published = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(home))
        with dg.DagsterInstance.get() as instance:
            while published < dataset(uri).version or "conflict" not in [alert["kind"] for alert in alerts]:
                assert time.monotonic() < deadline, f"version {published} is an event, alerts: {alerts}"
                time.sleep(0.5)
                event = instance.get_latest_materialization_event(dg.AssetKey("flights"))
                if event is not None and event.asset_materialization is not None:
                    published = int(event.asset_materialization.metadata["lance/version"].value)


def _collide(url: str, folder: Path) -> str:
    """Launch a compaction that another writer gets in the way of; returns its run id."""
    (folder / "collide").touch()
    config = {"conflict_retries": 0, "target_rows_per_fragment": 1 << 20}
    return launch_run(
        url,
        COMPACT,
        location=Path(flights_location.__file__).name,
        config={"ops": {"compact": {"config": config}}},
        tags={"dagster/partition": "flights", "lance_ops/dataset": "flights"},
    )
