import os
import subprocess
import sys
import time

import dagster as dg
import pytest
import yaml

from lance_ops.dagster import build_retry_sensor, dead_runs, keys
from lance_ops.dagster.dead_runs import end_dead_runs, is_alive
from tests.support.dagster import Daemon


@dg.job
def work():
    pass


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def process():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def started(instance, pid, parent=None, **tags):
    run = instance.create_run_for_job(
        work, status=dg.DagsterRunStatus.STARTING, tags=tags, parent_run_id=parent, root_run_id=parent
    )
    instance.report_engine_event(f"Started process for run (pid: {pid}).", run)
    event = dg.DagsterEvent(event_type_value="PIPELINE_START", job_name=run.job_name)
    instance.report_dagster_event(event, run.run_id)
    return run.run_id


def status(instance, run_id):
    return instance.get_run_by_id(run_id).status.value


def test_a_run_is_ended_when_its_process_is_gone_and_not_before(instance, process):
    run_id = started(instance, process.pid)
    assert end_dead_runs(instance) == []
    assert status(instance, run_id) == "STARTED"
    assert instance.get_run_by_id(run_id).tags[keys.MACHINE_TAG] == dead_runs.seen_here(run_id)

    process.kill()
    process.wait()
    Daemon(build_retry_sensor(fleet=work), instance).tick()

    assert status(instance, run_id) == "FAILURE"


def test_a_run_that_was_being_cancelled_ends_as_cancelled(instance, process):
    run_id = started(instance, process.pid)
    end_dead_runs(instance)
    instance.report_run_canceling(instance.get_run_by_id(run_id))
    process.kill()
    process.wait()
    assert end_dead_runs(instance) == [run_id]
    assert status(instance, run_id) == "CANCELED"


@pytest.mark.parametrize("tags", [{}, {keys.MACHINE_TAG: dead_runs.seen_here("the run that it re-executes")}])
def test_a_run_that_was_not_seen_here_is_left_to_its_launcher(instance, process, tags):
    process.kill()
    process.wait()
    run_id = started(instance, process.pid, **tags)
    assert end_dead_runs(instance) == []
    assert status(instance, run_id) == "STARTED"


@pytest.mark.parametrize(
    ("served", "location", "machine", "ended"),
    [
        ('{"host": "localhost"}', "code", None, True),
        ('{"host": "127.0.0.1", "port": 4000}', "code", "copied", True),
        ('{"host": "127.0.0.1", "port": 4000}', "other", None, False),
        ('{"host": "code_server", "port": 4000}', "code", None, False),
        ('{"host": "localhost"}', "code", "of another machine", False),
        ("no JSON", "code", None, False),
        (None, "code", None, False),
    ],
)
def test_a_run_that_nobody_saw_is_ended_where_this_code_server_had_started_it(
    instance, process, monkeypatch, served, location, machine, ended
):
    process.kill()
    process.wait()
    tags = {".dagster/grpc_info": served} if served is not None else {}
    parent = started(instance, process.pid)
    if machine is not None:
        tags[keys.MACHINE_TAG] = dead_runs.seen_here(parent) if machine == "copied" else machine
    run_id = started(instance, process.pid, parent if machine == "copied" else None, **tags)
    # Runs of a test have no code location.
    monkeypatch.setattr(dead_runs.CodePlace, "of_run", lambda run: dead_runs.CodePlace("code", "r"))
    assert end_dead_runs(instance, dead_runs.CodePlace(location, "r")) == ([run_id] if ended else [])


def test_a_run_of_another_container_of_one_host_name_is_left_alone(monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(dead_runs, "_namespace", lambda: 4026532000)
        tag = dead_runs.seen_here("r")
    assert tag != dead_runs.seen_here("r")
    assert dead_runs._namespace() > 0


def test_a_run_without_a_process_of_a_code_server_is_left_alone(instance):
    run = instance.create_run_for_job(work, status=dg.DagsterRunStatus.STARTED)
    assert end_dead_runs(instance) == []
    assert status(instance, run.run_id) == "STARTED"


def test_a_process_that_got_the_number_of_another_one_is_not_the_one_of_the_run():
    now = time.time()
    assert is_alive(os.getpid(), now)
    assert is_alive(os.getpid(), None)
    assert not is_alive(os.getpid(), now - 86_400 * 3650)


def test_the_shipped_settings_let_a_run_of_ten_hours_live(pytestconfig):
    settings = yaml.safe_load((pytestconfig.rootpath / "dagster_home" / "dagster.yaml").read_text())
    monitoring = settings["run_monitoring"]
    assert monitoring["enabled"]
    assert monitoring["max_runtime_seconds"] > 12 * 3600
    assert monitoring["free_slots_after_run_end_seconds"] <= 60
    assert monitoring["start_timeout_seconds"] <= 300
