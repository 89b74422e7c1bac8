"""Terminating a run of Dagster ends its compaction: what was committed stays, nothing else is left."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.dagster.jobs.operations import COMPACT
from tests.support.dagster_server import dagster_dev, launch_run, run_status, terminate_run

PROJECT = Path(__file__).parents[3]
# A code location as users have it, but that each task takes a while.
LOCATION = """
import time
import dagster as dg
from lance_ops.dagster import LanceDatasetRef, LanceStoreResource
from lance_ops.dagster.jobs import run_report
from lance_ops.dagster.jobs.operations import build_jobs
from lance_ops.maintenance.compact import recorded

rewrite = recorded.rewrite_group

def slow(task):
    result = rewrite(task)
    time.sleep(0.5)
    return result

recorded.rewrite_group = slow
run_report.SECONDS_BETWEEN_OBSERVATIONS = 0.0
run_report.SECONDS_BETWEEN_MESSAGES = 0.0
refs = [LanceDatasetRef(name, f"{folder}/{{name}}.lance") for name in ("whole", "rounds")]
store = LanceStoreResource(storage_options={{"fsync": "false"}})
defs = dg.Definitions(jobs=build_jobs(refs), resources={{"lance_store": store}})
"""
GROUPS = 60


@dataclass(frozen=True)
class Served:
    """A `dagster dev`, the folder of its datasets, its code location and its home."""

    url: str
    folder: Path
    location: str
    home: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    folder, home = tmp_path_factory.mktemp("datasets"), tmp_path_factory.mktemp("home")
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    script = folder / "location.py"
    script.write_text(LOCATION.format(folder=folder))
    with dagster_dev(script, home, {"PYTHONPATH": str(PROJECT)}) as url:
        yield Served(url, folder, script.name, home)


def wait(until: Callable[[], bool], seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize(("name", "threads", "commit_every"), [("whole", 1, None), ("rounds", 2, 1)])
def test_a_terminated_run_is_cancelled_and_leaves_nothing(served, name, threads, commit_every):
    dataset = served.folder / f"{name}.lance"
    uri = str(dataset)
    rows = GROUPS * 2 * 4
    lo.append(uri, pa.table({"x": range(rows)}), max_rows_per_file=4)
    config = {"target_rows_per_fragment": 8}
    if commit_every is not None:
        config["commit_every"] = commit_every
    run_id = launch_run(
        served.url,
        COMPACT,
        location=served.location,
        config={
            "ops": {"compact": {"config": config}},
            "resources": {"lance_store": {"config": {"threads": threads}}},
        },
        tags={"dagster/partition": name},
    )

    def is_at_work() -> bool:
        assert run_status(served.url, run_id) in {"QUEUED", "STARTING", "STARTED"}
        jobs = lo.list_jobs(uri) if (dataset / "_lance_ops" / "jobs").exists() else []
        return bool(jobs) and jobs[0].groups_done >= 3

    wait(is_at_work)
    terminate_run(served.url, run_id)
    wait(lambda: run_status(served.url, run_id) not in {"STARTED", "CANCELING"})
    assert run_status(served.url, run_id) == "CANCELED"
    with dg.DagsterInstance.from_config(str(served.home)) as instance:
        observed = instance.fetch_observations(dg.AssetKey(name), limit=100).records
    assert lo.list_jobs(uri) == []
    head = lo.dataset(uri)
    used = {file.path for fragment in head.fragments for file in fragment.files}
    first = head.checkout_version(1)
    used |= {file.path for fragment in first.fragments for file in fragment.files}
    assert {path.name for path in (dataset / "data").iterdir()} == used
    assert sorted(head.to_table()["x"].to_pylist()) == list(range(rows))
    assert (head.version == 1) == (commit_every is None)
    assert len(head.fragments) > GROUPS
    numbers = observed[0].asset_observation.metadata
    assert numbers["lance/tasks_total"].value == GROUPS
    assert 0 < numbers["lance/bytes_done"].value < numbers["lance/bytes_total"].value
    assert numbers["lance/seconds_left"].value > 0
    assert numbers["lance/expected_end"].value > observed[0].timestamp
