import shutil
from datetime import UTC, datetime, timedelta

import dagster as dg
import lance
import pytest

from lance_ops.dagster import LanceDatasetRef, MaintenanceTimes, build_jobs, build_maintenance_schedules
from lance_ops.maintenance.delete.operation import delete
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.index.operation import create_index
from tests.support.dagster import STORE, write
from tests.support.unknown_index import forget_kind

POLICY = MaintenancePolicy(max_small_fragments=2, max_versions=3, older_than=timedelta(0), retain_versions=1)


@pytest.fixture
def refs(tmp_path):
    return [
        LanceDatasetRef(name, str(tmp_path / f"{name}.lance"), policy=POLICY)
        for name in ("busy", "quiet", "missing")
    ]


@pytest.fixture
def datasets(refs):
    busy, quiet, _ = refs
    write(quiet.uri, 0, 10)
    write(busy.uri, 0, 10)
    create_index(busy.uri, "a")
    write(busy.uri, 10, 20)
    write(busy.uri, 20, 30)
    write(busy.uri, 30, 40)
    return refs


def evaluate(refs, name, *, at=datetime(2026, 1, 2, 3, 40, tzinfo=UTC), instance=None):
    if instance is None:
        with dg.DagsterInstance.local_temp() as made:
            return evaluate(refs, name, at=at, instance=made)
    jobs = build_jobs(refs)
    schedule = {item.name: item for item in build_maintenance_schedules(refs, jobs)}[name]
    defs = dg.Definitions(jobs=jobs, schedules=[schedule], resources={"lance_store": STORE})
    with dg.build_schedule_context(
        instance=instance,
        scheduled_execution_time=at,
        resources={"lance_store": STORE},
        repository_def=defs.get_repository_def(),
    ) as context:
        return schedule.evaluate_tick(context)


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("lance_compact_when_due", "compact"),
        ("lance_index_when_due", "index"),
        ("lance_cleanup_when_due", "cleanup"),
    ],
)
def test_only_datasets_for_which_it_is_due_get_a_run(datasets, name, operation):
    (request,) = evaluate(datasets, name).run_requests
    busy = datasets[0]
    assert request.partition_key == "busy"
    assert request.tags["lance_ops/dataset"] == "busy"
    assert request.run_key.startswith(f"{operation}:{busy.uri}@5:")
    assert busy.policy_hash in request.run_key


def test_a_scheduled_cleanup_is_no_dry_run(datasets):
    (request,) = evaluate(datasets, "lance_cleanup_when_due").run_requests
    assert request.run_config == {"ops": {"cleanup": {"config": {"dry_run": False}}}}


def test_a_version_is_asked_for_once_and_cleanup_once_a_day(datasets):
    def keys(name, day):
        return [
            request.run_key
            for request in evaluate(datasets, name, at=datetime(2026, 1, day, tzinfo=UTC)).run_requests
        ]

    assert keys("lance_compact_when_due", 2) == keys("lance_compact_when_due", 3)
    assert keys("lance_cleanup_when_due", 2) != keys("lance_cleanup_when_due", 3)


@pytest.mark.parametrize(("status", "again"), [("FAILURE", True), ("CANCELED", True), ("SUCCESS", False)])
def test_a_run_that_failed_is_asked_for_again_but_once_a_day(datasets, status, again):
    name = "lance_compact_when_due"
    day, same_day, next_day = (datetime(2026, 1, *at, tzinfo=UTC) for at in ((2, 1), (2, 2), (3, 1)))
    with dg.DagsterInstance.local_temp() as instance:
        keys = []
        for at in (day, same_day, same_day, next_day):
            (request,) = evaluate(datasets, name, at=at, instance=instance).run_requests
            if request.run_key not in keys:
                # As Dagster does, which never starts a key twice.
                keys.append(request.run_key)
                job = dg.GraphDefinition(name="lance_compact").to_job()
                instance.create_run_for_job(job, tags=request.tags, status=dg.DagsterRunStatus[status])
    assert len(keys) == (3 if again else 1)


def test_a_dataset_made_anew_is_due_anew_under_the_same_version(datasets):
    name = "lance_compact_when_due"
    busy = datasets[0]
    (before,) = evaluate(datasets, name).run_requests
    shutil.rmtree(busy.uri)
    for start in range(4):
        write(busy.uri, start, start + 1)
    (after,) = evaluate(datasets, name).run_requests
    assert before.run_key != after.run_key


def test_one_dataset_that_breaks_does_not_keep_maintenance_from_the_others(datasets, monkeypatch):
    from lance_ops.dagster.jobs import schedules as module

    original = module.judge_dataset

    def judge(dataset, policy):
        if "quiet" in dataset.uri:
            raise RuntimeError("boom")
        return original(dataset, policy)

    monkeypatch.setattr(module, "judge_dataset", judge)
    (request,) = evaluate(datasets, "lance_compact_when_due").run_requests
    assert request.partition_key == "busy"


def test_a_tick_without_work_says_why_for_each_dataset(refs):
    for ref in refs[:2]:
        write(ref.uri, 0, 10)
    result = evaluate(refs, "lance_compact_when_due")
    assert not result.run_requests
    assert "busy: 0 small fragments (limit 2)" in result.skip_message
    assert "missing: no dataset here" in result.skip_message


def test_deleted_rows_make_compaction_due(refs):
    write(refs[1].uri, 0, 10)
    delete(refs[1].uri, "a < 5")
    (request,) = evaluate(refs, "lance_compact_when_due").run_requests
    assert request.partition_key == "quiet"
    assert "50.0% of rows deleted" in request.tags["lance_ops/due"]


def test_a_requested_run_works(datasets):
    with dg.DagsterInstance.ephemeral() as instance:
        (request,) = evaluate(datasets, "lance_compact_when_due").run_requests
        jobs = {job.name: job for job in build_jobs(datasets)}
        result = jobs["lance_compact"].execute_in_process(
            partition_key=request.partition_key,
            run_config=request.run_config,
            tags=request.tags,
            instance=instance,
            resources={"lance_store": STORE},
        )
        assert result.success
    assert not evaluate(datasets, "lance_compact_when_due").run_requests


def test_times_are_the_callers_choice(refs):
    times = MaintenanceTimes(compact="5 5 * * *", timezone="Europe/Berlin")
    schedule = build_maintenance_schedules(refs, build_jobs(refs), times=times)[0]
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("5 5 * * *", "Europe/Berlin")


@pytest.mark.peer
def test_what_could_not_help_is_not_started_and_says_why(refs, monkeypatch):
    forget_kind(monkeypatch, "BITMAP")
    busy, _, _ = refs
    for start in range(0, 40, 10):
        write(busy.uri, start, start + 10)
    assert evaluate(refs[:1], "lance_compact_when_due").run_requests
    lance.dataset(busy.uri).create_scalar_index("a", "BITMAP")
    for start in range(40, 60, 10):
        write(busy.uri, start, start + 10)
        assert_blocked(evaluate(refs[:1], "lance_index_when_due"))
        lance.dataset(busy.uri).optimize.optimize_indices()
        assert_blocked(evaluate(refs[:1], "lance_compact_when_due"))


def assert_blocked(tick):
    assert not tick.run_requests
    assert "blocked: " in tick.skip_message
    assert "a_idx" in tick.skip_message
