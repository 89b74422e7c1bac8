"""Every failed run on a dataset is told, once it can be delivered, and nobody else's runs are."""

import re
import time
from pathlib import Path

import dagster as dg
import pytest

from lance_ops.alerts.values import incident_of
from lance_ops.dagster import (
    AlertOptions,
    ConflictAlert,
    FailureAlert,
    LanceDatasetRef,
    LanceIngest,
    build_failure_alert_sensor,
    build_ingest_asset,
)
from lance_ops.dagster.alerts.outcomes import FailureCursor, alerts_of_former
from lance_ops.dagster.jobs import failures
from lance_ops.dagster.jobs.operations import COMPACT, DELETE
from lance_ops.table.dataset import Dataset
from tests.support.dagster import STORE, Daemon, Told, run_job, write
from tests.support.tables import overwrite, rows

MONTHS = dg.StaticPartitionsDefinition(["x", "y"])


@pytest.fixture(params=["memory", "files"])
def instance(request, tmp_path):
    """Dagster stores the events of runs in different ways."""
    home = tmp_path / "home"
    home.mkdir()
    made = (
        dg.DagsterInstance.ephemeral()
        if request.param == "memory"
        else dg.DagsterInstance.local_temp(str(home))
    )
    with made as instance:
        yield instance


@pytest.fixture
def ref(tmp_path):
    return LanceDatasetRef("numbers", str(tmp_path / "numbers.lance"))


def alarm_of(refs, told, instance, **options):
    return Daemon(build_failure_alert_sensor(refs, told, **options), instance, resources={})


def lose_a_conflict(monkeypatch, ref, instance):
    """Another writer replaces all rows after compaction has rewritten them, and before its commit."""
    from lance_ops.maintenance.compact import commit as module

    original = module.commit_rewrites

    def late(*args, **options):
        overwrite(Dataset.open(ref.uri), rows(500, 510))
        return original(*args, **options)

    for start in range(0, 30, 10):
        write(ref.uri, start, start + 10)
    with monkeypatch.context() as patch:
        patch.setattr(module, "commit_rewrites", late)
        result = run_job(ref, COMPACT, instance, conflict_retries=0)
    assert not result.success
    return result


def fail(ref, instance):
    return run_job(ref, DELETE, instance, predicate="nothing = 1", dry_run=False)


def crash(ref, instance, name="lance_compact", **tags):
    """A run whose process died: it has no failed step."""
    job = dg.GraphDefinition(name=name).to_job()
    run = instance.create_run_for_job(job, tags={"lance_ops/dataset": ref.name, **tags})
    instance.report_run_failed(run, "the worker is gone")
    return run


def succeed(ref, instance, name="lance_compact", **tags):
    """A run of a job that has nothing to do."""
    job = dg.GraphDefinition(name=name).to_job()
    return job.execute_in_process(instance=instance, tags={"lance_ops/dataset": ref.name, **tags})


def test_a_real_conflict_reaches_the_notifier_with_both_transactions(monkeypatch, ref, instance):
    told = Told()
    result = lose_a_conflict(monkeypatch, ref, instance)
    alarm_of([ref], told, instance).tick()
    (alert,) = told.alerts
    assert isinstance(alert, ConflictAlert)
    assert (alert.dataset, alert.job, alert.step) == ("numbers", COMPACT, "compact")
    assert alert.run_id == result.run_id
    assert "Rewrite" in alert.ours
    assert "Overwrite" in alert.theirs
    assert alert.version == 5
    assert "Overwrite" in str(alert)
    assert Dataset.open(ref.uri).to_table()["a"].to_pylist() == list(range(500, 510))


def test_another_failure_says_what_was_done_to_which_dataset_and_what_helps(ref, instance):
    write(ref.uri, 0, 10)
    told = Told()
    result = fail(ref, instance)
    alarm_of([ref], told, instance).tick()
    (alert,) = told.alerts
    assert isinstance(alert, FailureAlert)
    assert (alert.dataset, alert.uri, alert.job, alert.step) == ("numbers", ref.uri, DELETE, "delete")
    assert alert.run_id == result.run_id
    assert alert.error
    assert "nothing" in alert.message
    assert alert.hint
    assert "numbers" in str(alert)


def test_a_lost_file_is_told_with_its_path(ref, instance):
    for start in range(0, 30, 10):
        write(ref.uri, start, start + 10)
    lost = next((Path(ref.uri) / "data").iterdir())
    lost.unlink()
    told = Told()
    assert not run_job(ref, COMPACT, instance).success
    alarm_of([ref], told, instance).tick()
    (alert,) = told.alerts
    assert alert.error == "FileMissingError"
    assert lost.name in alert.path


@pytest.mark.parametrize("tagged", [True, False], ids=["job", "asset page"])
def test_a_failed_ingest_is_told_whatever_the_source_raised(monkeypatch, ref, instance, tagged):
    monkeypatch.setattr(failures, "TRANSIENT_RETRIES", dg.RetryPolicy(max_retries=1))

    def source(request):
        raise OSError("no such bucket")

    ingest = LanceIngest(ref, source, partitions=MONTHS, name="warehouse/load")
    dg.materialize(
        [build_ingest_asset(ingest)],
        partition_key="x",
        instance=instance,
        resources={"lance_store": STORE},
        tags={"lance_ops/dataset": ref.name} if tagged else {},
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    told = Told()
    alarm_of([ref], told, instance, ingests=[ingest]).tick()
    (alert,) = told.alerts
    assert (alert.dataset, alert.step, alert.error) == ("numbers", "warehouse__load", "OSError")
    assert "no such bucket" in alert.message


def test_a_run_whose_process_died_is_told(ref, instance):
    told = Told()
    crash(ref, instance)
    alarm_of([ref], told, instance).tick()
    (alert,) = told.alerts
    assert (alert.dataset, alert.job, alert.step) == ("numbers", "lance_compact", "")
    assert "the worker is gone" in alert.message


def test_runs_of_others_are_not_told(tmp_path, ref, instance):
    other = LanceDatasetRef("other", str(tmp_path / "other.lance"))
    write(other.uri, 0, 10)
    fail(other, instance)

    @dg.op
    def breaks():
        raise ValueError("no")

    @dg.job
    def theirs():
        breaks()

    theirs.execute_in_process(instance=instance, raise_on_error=False)
    told = Told()
    alarm = alarm_of([ref], told, instance)
    alarm.tick()
    alarm.tick()
    assert told.alerts == []


def test_each_failure_is_told_once_and_those_of_later_as_well(ref, instance):
    told = Told()
    alarm = alarm_of([ref], told, instance)
    seen = []
    for number in range(3):
        seen.append(crash(ref, instance, f"lance_job{2 * number}").run_id)
        seen.append(crash(ref, instance, f"lance_job{2 * number + 1}").run_id)
        alarm.tick()
        alarm.tick()
    assert [alert.run_id for alert in told.alerts] == seen


def test_failures_of_one_cause_are_one_incident_until_the_job_succeeds(ref, instance):
    told = Told()
    alarm = alarm_of([ref], told, instance)
    alarm.tick()
    first = crash(ref, instance)
    alarm.tick()
    crash(ref, instance)
    crash(ref, instance, "lance_cleanup")
    alarm.tick()
    succeed(ref, instance, "lance_index")
    alarm.tick()
    assert [(alert.job, alert.recovered) for alert in told.alerts] == [
        ("lance_compact", False),
        ("lance_cleanup", False),
    ]
    succeed(ref, instance)
    for _ in range(3):
        alarm.tick()
    (ended,) = told.alerts[2:]
    assert (ended.job, ended.recovered, ended.run_id) == ("lance_compact", True, first.run_id)
    assert ended.until
    assert incident_of(ended) == incident_of(told.alerts[0])
    assert first.run_id not in incident_of(ended)
    again = crash(ref, instance)
    alarm.tick()
    # The same again within `quiet` waits until that is over.
    assert [alert.run_id for alert in told.alerts[3:]] == []
    assert again.run_id in alarm.cursor


def test_a_failure_that_was_over_before_it_could_be_sent_is_sent_once_with_its_end(ref, instance):
    told = Told()
    told.deaf = True
    alarm = alarm_of([ref], told, instance)
    alarm.tick()
    crash(ref, instance)
    alarm.failed_tick()
    succeed(ref, instance)
    assert "0 incidents open; 1 alert waiting: " in alarm.failed_tick()
    told.deaf = False
    for _ in range(3):
        alarm.tick()
    (alert,) = told.alerts
    assert not alert.recovered
    assert alert.until
    assert "over since" in str(alert)


def test_a_partition_that_failed_is_not_ended_by_another_one(ref, instance):
    told = Told()
    alarm = alarm_of([ref], told, instance)
    alarm.tick()
    for name in ("x", "y"):
        crash(ref, instance, **{"dagster/partition": name})
    alarm.tick()
    succeed(ref, instance, **{"dagster/partition": "y"})
    alarm.tick()
    assert [(alert.partition, alert.recovered) for alert in told.alerts] == [
        ("x", False),
        ("y", False),
        ("y", True),
    ]


def test_an_alert_has_time_severity_owner_links_and_what_to_do(tmp_path, instance):
    ref = LanceDatasetRef("shop/orders", str(tmp_path / "t"), owners=["team:a", "b@x.org"])
    told = Told()
    options = AlertOptions(webserver_base_url="https://dagster.example.com/")
    alarm = alarm_of([ref], told, instance, alerts=options)
    run = crash(ref, instance)
    alarm.tick()
    lines = str(told.alerts[0]).splitlines()
    assert lines[0].endswith("on shop/orders failed: the worker is gone")
    assert re.fullmatch(r"since \d{4}-\d\d-\d\d \d\d:\d\d UTC, severity error", lines[1])
    assert lines[2:] == [
        "owner: team:a, b@x.org",
        "advice: read the error; the next successful run of the job resolves this alert",
        f"run: https://dagster.example.com/runs/{run.run_id}",
        "asset: https://dagster.example.com/assets/shop/orders",
    ]


def test_what_a_dead_webhook_did_not_take_is_told_when_it_lives_again(monkeypatch, ref, instance):
    told = Told()
    told.deaf = True
    alarm = alarm_of([ref], told, instance)
    lost = [lose_a_conflict(monkeypatch, ref, instance).run_id, crash(ref, instance).run_id]
    alarm.tick()
    lost.append(crash(ref, instance, "lance_cleanup").run_id)
    assert "3 alerts waiting" in alarm.failed_tick()
    told.deaf = False
    alarm.tick()
    alarm.tick()
    assert sorted(alert.run_id for alert in told.alerts) == sorted(lost)
    assert {alert.kind for alert in told.alerts} == {"conflict", "failure"}


def test_a_tick_asks_a_dead_webhook_a_few_times_only(ref, instance):
    told = Told()
    told.deaf = True
    alarm = alarm_of([ref], told, instance)
    for number in range(6):
        crash(ref, instance, f"lance_job{number}")
    alarm.tick()
    assert told.asked == 3
    told.deaf = False
    alarm.tick()
    assert len(told.alerts) == 6


def test_a_notifier_that_raises_anything_loses_nothing(ref, instance):
    told = Told()

    class Broken(Told):
        def notify(self, alert):
            raise KeyError("token")

    crash(ref, instance)
    broken = alarm_of([ref], Broken(), instance)
    broken.tick()
    alarm = alarm_of([ref], told, instance)
    alarm.cursor = broken.cursor
    alarm.tick()
    assert len(told.alerts) == 1


@pytest.mark.parametrize(
    "cursor", [None, [], {"schema": 1, "after": "x", "waiting": [{}, 3]}, {"waiting": {"kind": "failure"}}]
)
def test_any_cursor_of_an_earlier_release_can_be_parsed(cursor):
    assert FailureCursor.of({}, cursor).after is None
    assert alerts_of_former(cursor) == []


@pytest.mark.parametrize(
    "cursor",
    ["nonsense", "[]", '{"schema": 2}', '{"schema": 2, "memory": "m", "state": 3}',
     '{"schema": 2, "memory": "m", "serial": "x", "state": {"incidents": {"rows": [{}, 3], "alerts": [1]}}}',
     '{"schema": 2, "memory": "m", "state": {"incidents": {"rows": {}, "alerts": {"a": {"kind": 1}}}}}'],
)  # fmt: skip
def test_any_cursor_can_be_parsed(cursor, ref, instance):
    told = Told()
    alarm = alarm_of([ref], told, instance)
    alarm.cursor = cursor
    crash(ref, instance)
    alarm.tick()
    assert len(told.alerts) == 1


def test_the_history_of_an_instance_is_not_told_to_a_new_sensor(ref, instance, monkeypatch):
    from lance_ops.dagster.alerts import failure_sensor

    crash(ref, instance)
    later = failure_sensor.time.time() + 7200.0
    monkeypatch.setattr(failure_sensor, "time", type("Clock", (), {"time": staticmethod(lambda: later)}))
    told = Told()
    alarm_of([ref], told, instance).tick()
    assert told.alerts == []


def clock_at(monkeypatch, seconds):
    from lance_ops.dagster.alerts import failure_sensor

    monkeypatch.setattr(failure_sensor, "time", type("Clock", (), {"time": staticmethod(lambda: seconds)}))


def test_the_first_failure_is_told_though_the_daemon_was_down_for_long(ref, instance, monkeypatch):
    told = Told()
    alarm = alarm_of([ref], told, instance)
    now = time.time()
    clock_at(monkeypatch, now)
    alarm.tick()
    crash(ref, instance)
    clock_at(monkeypatch, now + 7200.0)
    alarm.tick()
    assert len(told.alerts) == 1
    alarm.tick()
    assert len(told.alerts) == 1


def test_failures_are_told_after_the_runs_were_wiped_and_ids_begin_anew(ref, instance):
    told = Told()
    alarm = alarm_of([ref], told, instance)
    for number in range(3):
        crash(ref, instance, f"lance_job{number}")
    alarm.tick()
    assert len(told.alerts) == 3
    instance.wipe()
    alarm.tick()
    again = crash(ref, instance, "lance_job3")
    alarm.tick()
    assert [alert.run_id for alert in told.alerts[3:]] == [again.run_id]
    alarm.tick()
    assert len(told.alerts) == 4


def test_nothing_is_told_again_when_the_run_that_was_told_last_is_deleted(ref, instance):
    told = Told()
    alarm = alarm_of([ref], told, instance)
    crash(ref, instance)
    last = crash(ref, instance, "lance_cleanup")
    alarm.tick()
    instance.delete_run(last.run_id)
    alarm.tick()
    assert len(told.alerts) == 2
    crash(ref, instance, "lance_index")
    alarm.tick()
    assert len(told.alerts) == 3


def test_the_log_of_the_tick_has_every_alert(ref, instance, capsys):
    crash(ref, instance)
    alarm_of([ref], Told(), instance).tick()
    assert "of lance_compact on numbers failed: the worker is gone" in capsys.readouterr().err
