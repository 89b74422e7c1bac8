"""The provider in an environment with Airflow: what `inside.py` says, and the example as a DAG."""

import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

import lance_ops as lo
from tools.throwaway_environment import airflow_environment

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.airflow]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory):
    """Runs the interpreter of an environment with Airflow and the dependencies of the core."""
    python = airflow_environment()
    home = tmp_path_factory.mktemp("airflow")
    environment = {
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # Else a DAG that changed within half a minute stays as it was.
        "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "examples" / "airflow"),
        "LAKE": str(home / "lake"),
        "PYTHONPATH": str(ROOT),
    }

    def run(*arguments, **more):
        done = subprocess.run(
            [str(python), *arguments],
            env={**environment, **more},
            cwd=home,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
        return done.stdout + done.stderr

    run.home = home
    return run


def test_hook_operators_and_triggers(airflow):
    """Each test of `inside.py` passed, and there were some."""
    said = airflow(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest", str(ROOT / "tests/airflow/inside.py")
    )
    assert " passed" in said
    assert "skipped" not in said


def test_the_example_runs_as_a_dag(airflow):
    airflow("-m", "airflow", "db", "migrate")
    # A DAG runs every day: the second run finds what the first one made.
    for day in ("2026-01-01", "2026-01-02"):
        said = airflow("-m", "airflow", "dags", "test", "lance_lake", day)
        assert "successful" in said
    events = lo.dataset(str(airflow.home / "lake" / "events.lance"))
    rows = events.to_table(["id", "clicks"]).to_pydict()
    found = dict(zip(rows["id"], rows["clicks"], strict=True))
    assert found == {**dict.fromkeys([0, 1, 2, 5, 6, 7, 8, 9, 100], 1), 4: 5}
    assert [index.name for index in events.indices] == ["id_idx"]
    assert len(events.versions()) == 1


def test_airflow_raises_max_tries_of_tasks_that_are_cleared(airflow):
    """What tells a task that was cleared from one that is tried again; runs after the example."""

    def max_tries():
        with sqlite3.connect(airflow.home / "airflow.db") as database:
            found = database.execute("SELECT task_id, max_tries, try_number, state FROM task_instance")
            return {task: values for task, *values in found}

    before = max_tries()
    assert {state for _, _, state in before.values()} == {"success"}
    airflow("-m", "airflow", "tasks", "clear", "--yes", "lance_lake")
    for task, (most, tries, state) in max_tries().items():
        assert state is None
        assert tries == before[task][1]
        assert most > before[task][0], task


def test_a_task_whose_retries_were_lowered_before_it_was_cleared_works_or_is_skipped(airflow):
    """The clear leaves `max_tries` as it was, so the job key is the old one."""
    dags = {"AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "tests" / "airflow")}
    airflow("-m", "airflow", "db", "migrate")
    airflow("-m", "airflow", "dags", "test", "lance_lowered", **dags)
    lake = airflow.home / "lake"
    assert lo.dataset(str(lake / "set.lance")).to_table()["id"].to_pylist() == [2]

    dags["RETRIES"] = "1"
    airflow("-m", "airflow", "dags", "reserialize", **dags)
    airflow("-m", "airflow", "tasks", "clear", "--yes", "lance_lowered", **dags)
    said = airflow(str(ROOT / "tests" / "airflow" / "lowered.py"), **dags)
    assert "RAN replace max_tries=2 try_number=2 success" in said
    assert "RAN append max_tries=2 try_number=2 skipped" in said
    assert lo.dataset(str(lake / "set.lance")).to_table()["id"].to_pylist() == [1]
    assert lo.dataset(str(lake / "added.lance")).to_table()["id"].to_pylist() == [2]
