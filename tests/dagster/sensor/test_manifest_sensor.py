import json
import os
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from lance_ops.dagster import (
    LanceDatasetRef,
    LanceDownstream,
    LanceStoreResource,
    SensorOptions,
    attempts,
    build_manifest_sensor,
    last_published,
)
from lance_ops.dagster.jobs.operations import APPEND, COMPACT, DELETE
from lance_ops.dagster.sensor import survey
from lance_ops.maintenance.cleanup.operation import cleanup
from lance_ops.maintenance.compact.operation import compact
from lance_ops.maintenance.delete.operation import delete
from lance_ops.maintenance.index.operation import create_index
from lance_ops.maintenance.metadata.actions import restore, update_config
from lance_ops.storage import open_store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.listing import latest
from tests.support.dagster import (
    STORE,
    WITHOUT_INDEX,
    Daemon,
    checks_of,
    materializations,
    published_versions,
    run_job,
    versions_of,
    write,
)
from tests.support.tables import rows


@dg.job
def recompute():
    pass


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def ref(tmp_path):
    return LanceDatasetRef("numbers", str(tmp_path / "numbers.lance"))


def daemon_for(ref, instance, **options):
    refs = ref if isinstance(ref, list) else [ref]
    downstream = [LanceDownstream(recompute, [item.name for item in refs])]
    sensor = build_manifest_sensor(refs, downstream=downstream, options=SensorOptions(**options))
    return Daemon(sensor, instance)


def newest_manifest(ref):
    return Path(ref.uri) / latest(open_store(ref.uri)).path


def test_versions_of_anyone_are_published_once_and_in_order(ref, instance):
    daemon = daemon_for(ref, instance)
    for start in range(3):
        write(ref.uri, start, start + 1)

    assert versions_of(daemon.tick().asset_events) == [1, 2, 3]
    assert versions_of(daemon.tick().asset_events) == []
    write(ref.uri, 3, 4)
    assert versions_of(daemon.tick().asset_events) == [4]
    assert published_versions(instance, ref) == [1, 2, 3, 4]


@pytest.mark.peer
def test_versions_of_the_peer_are_published(ref, instance):
    import lance

    lance.write_dataset(rows(0, 10), ref.uri, data_storage_version="2.0")
    lance.write_dataset(rows(10, 20), ref.uri, mode="append")
    lance.dataset(ref.uri).delete("a < 5")
    daemon = daemon_for(ref, instance)

    result = daemon.tick()

    events = [event for event in result.asset_events if isinstance(event, dg.AssetMaterialization)]
    assert [event.tags["lance/operation"] for event in events] == ["Overwrite", "Append", "Delete"]
    assert [event.metadata["dagster/row_count"].value for event in events] == [10, 20, 15]
    before = daemon.run_keys.copy()
    lance.dataset(ref.uri).optimize.compact_files()
    assert versions_of(daemon.tick().asset_events) == [4, 5]
    assert daemon.run_keys == before


def test_checks_come_with_every_new_version(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 10)

    first = checks_of(daemon.tick().asset_events)
    assert set(first) == WITHOUT_INDEX
    assert all(item.passed for item in first.values())
    assert checks_of(daemon.tick().asset_events) == {}
    delete(ref.uri, "a < 5")
    second = checks_of(daemon.tick().asset_events)
    assert second["deleted_ratio"].passed is False
    assert second["deleted_ratio"].severity is dg.AssetCheckSeverity.WARN


def test_downstream_starts_when_data_changed_and_only_then(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 10)
    write(ref.uri, 10, 20)
    (request,) = daemon.tick().run_requests
    instance.create_run_for_job(recompute, status=dg.DagsterRunStatus.SUCCESS, tags=request.tags)

    compact(ref.uri)
    create_index(ref.uri, "a")
    update_config(ref.uri, {"lance.compaction.batch_rows": "10"})
    result = daemon.tick()
    assert len(versions_of(result.asset_events)) == 4
    assert not result.run_requests
    assert result.skip_reason.skip_message.startswith("published 4 versions of 1 dataset")

    delete(ref.uri, "a = 3")
    result = daemon.tick()
    (request,) = result.run_requests
    assert request.job_name == "recompute"
    assert Dataset.open(ref.uri).data_version in request.run_key
    assert len(daemon.run_keys) == 2


@pytest.mark.parametrize("status", ["NOT_STARTED", "STARTING"])
def test_a_downstream_run_that_has_read_nothing_yet_is_enough(ref, instance, status):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    (request,) = daemon.tick().run_requests
    queued = instance.create_run_for_job(recompute, status=dg.DagsterRunStatus[status], tags=request.tags)

    write(ref.uri, 1, 2)
    assert not daemon.tick().run_requests

    instance.report_run_failed(queued)
    write(ref.uri, 2, 3)
    assert len(daemon.tick().run_requests) == 1


@pytest.mark.parametrize("status", ["NOT_STARTED", "STARTING"])
def test_a_run_whose_process_never_came_up_keeps_downstream_back_for_a_while_only(
    ref, instance, monkeypatch, status
):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    (request,) = daemon.tick().run_requests
    instance.create_run_for_job(recompute, status=dg.DagsterRunStatus[status], tags=request.tags)
    later = datetime.now(UTC) + timedelta(minutes=20)
    monkeypatch.setattr("lance_ops.dagster.downstream.now_utc", lambda: later)

    write(ref.uri, 1, 2)

    assert len(daemon.tick().run_requests) == 1


def test_a_lost_cursor_starts_nothing_that_has_run_for_the_same_data(ref, instance):
    """As after the demo, whose ticks leave no cursor behind: the runs tell what was computed."""
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 10)
    (request,) = daemon.tick().run_requests
    instance.create_run_for_job(recompute, status=dg.DagsterRunStatus.SUCCESS, tags=request.tags)
    write(ref.uri, 10, 20)
    (request,) = daemon.tick().run_requests
    instance.create_run_for_job(recompute, status=dg.DagsterRunStatus.SUCCESS, tags=request.tags)
    compact(ref.uri)
    cleanup(ref.uri, older_than=timedelta(0), retain_versions=1)

    assert not daemon_for(ref, instance).tick().run_requests

    # What was computed first is no excuse: the last run is for other data now.
    delete(ref.uri, "a >= 10")
    assert len(daemon_for(ref, instance).tick().run_requests) == 1


def test_a_lost_cursor_starts_again_what_failed(ref, instance, monkeypatch):
    monkeypatch.setattr(attempts, "PAUSES", (timedelta(0),))
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 10)
    (request,) = daemon.tick().run_requests
    instance.create_run_for_job(recompute, status=dg.DagsterRunStatus.FAILURE, tags=request.tags)
    assert len(daemon_for(ref, instance).tick().run_requests) == 1


def test_a_downstream_run_that_reads_already_is_not_enough(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    (request,) = daemon.tick().run_requests
    instance.create_run_for_job(recompute, status=dg.DagsterRunStatus.STARTED, tags=request.tags)
    write(ref.uri, 1, 2)
    assert len(daemon.tick().run_requests) == 1


def test_a_restore_starts_downstream_again_although_the_data_were_known(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 10)
    daemon.tick()
    delete(ref.uri, "a < 3")
    daemon.tick()

    restore(ref.uri, 1)
    daemon.tick()

    events = materializations(instance, ref)
    assert events[0].tags["dagster/data_version"] == events[2].tags["dagster/data_version"]
    assert len(daemon.run_keys) == 3


def test_commits_of_our_own_runs_are_recognised(tmp_path, ref, instance):
    daemon = daemon_for(ref, instance)
    for start in range(0, 30, 10):
        write(ref.uri, start, start + 10)
    daemon.tick()

    assert run_job(ref, COMPACT, instance).success
    assert run_job(ref, DELETE, instance, predicate="a < 3", dry_run=False).success
    result = daemon.tick()

    assert versions_of(result.asset_events) == []
    assert checks_of(result.asset_events) == {}
    assert published_versions(instance, ref) == [1, 2, 3, 4, 5, 6]
    assert len(result.run_requests) == 1


def commit_as_run(ref, run_id, start):
    return write(ref.uri, start, start + 1, properties={"dagster.run_id": run_id})


def test_a_version_is_left_to_the_run_that_is_about_to_report_it(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    daemon.tick()
    run = instance.create_run_for_job(recompute, status=dg.DagsterRunStatus.STARTED)
    write(ref.uri, 1, 2)
    commit_as_run(ref, run.run_id, 2)
    write(ref.uri, 3, 4)

    result = daemon.tick()
    assert versions_of(result.asset_events) == [2]
    assert (
        f"version 3 is left to run {run.run_id}" in json.dumps(str(result.skip_reason)) or result.run_requests
    )

    instance.report_run_failed(run)
    assert versions_of(daemon.tick().asset_events) == [3, 4]
    assert published_versions(instance, ref) == [1, 2, 3, 4]


def test_a_run_that_takes_long_to_report_is_not_waited_for(ref, instance):
    daemon = daemon_for(ref, instance, grace=timedelta(0))
    run = instance.create_run_for_job(recompute, status=dg.DagsterRunStatus.STARTED)
    commit_as_run(ref, run.run_id, 0)

    assert versions_of(daemon.tick().asset_events) == [1]


def test_a_run_that_this_instance_does_not_know_counts_as_foreign(ref, instance):
    daemon = daemon_for(ref, instance)
    commit_as_run(ref, "a run of another deployment", 0)

    assert versions_of(daemon.tick().asset_events) == [1]


def test_a_crash_before_the_cursor_is_stored_publishes_nothing_twice(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    write(ref.uri, 1, 2)

    daemon.tick(dies_before_cursor=True)
    assert len(daemon.run_keys) == 1
    result = daemon.tick()

    assert versions_of(result.asset_events) == []
    assert published_versions(instance, ref) == [1, 2]
    assert len(daemon.run_keys) == 1


def test_a_crash_between_events_and_runs_still_starts_downstream(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    with dg.build_sensor_context(instance=instance, resources={"lance_store": STORE}) as context:
        for event in daemon.sensor(context).asset_events:
            instance.report_runless_asset_event(event)

    result = daemon.tick()

    assert versions_of(result.asset_events) == []
    assert len(result.run_requests) == 1


@pytest.mark.parametrize("cursor", [None, "", "nonsense", '{"schema": 99}', '{"schema": 1, "datasets": 3}'])
def test_a_lost_cursor_publishes_nothing_twice(ref, instance, cursor):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    daemon.tick()

    daemon.cursor = cursor
    daemon.tick()

    assert published_versions(instance, ref) == [1]
    assert len(daemon.run_keys) == 1


def test_a_new_daemon_goes_on_where_the_old_one_stopped(ref):
    with dg.DagsterInstance.local_temp() as instance:
        write(ref.uri, 0, 1)
        old = daemon_for(ref, instance)
        old.tick()
        write(ref.uri, 1, 2)

        new = daemon_for(ref, instance)
        new.cursor = old.cursor

        assert versions_of(new.tick().asset_events) == [2]


def test_the_past_of_a_dataset_that_is_looked_at_for_the_first_time_is_one_event(ref, instance):
    for number in range(4):
        write(ref.uri, number, number + 1)
    daemon = daemon_for(ref, instance, grace=timedelta(0))

    (event,) = [item for item in daemon.tick().asset_events if isinstance(item, dg.AssetMaterialization)]

    assert event.tags["lance/version"] == "4"
    assert event.tags["lance/summarised_from"] == "1"
    assert event.metadata["lance/summarised_versions"].value == 4
    rows = event.metadata["lance/history"].value.splitlines()[2:]
    assert [row.split("|")[1] for row in rows] == ["4", "3", "2", "1"]
    assert len(daemon.run_keys) == 1
    assert versions_of(daemon.tick().asset_events) == []
    write(ref.uri, 4, 5)
    write(ref.uri, 5, 6)
    assert versions_of(daemon.tick().asset_events) == [5, 6]


def test_versions_that_a_run_may_still_tell_of_do_not_share_the_event_of_the_past(ref, instance, monkeypatch):
    for number in range(4):
        write(ref.uri, number, number + 1)
    moment = Dataset.open(ref.uri, 2).manifest.timestamp
    monkeypatch.setattr(survey, "now_utc", lambda: moment + timedelta(minutes=2, microseconds=1))

    versions = versions_of(daemon_for(ref, instance).tick().asset_events)

    assert versions == [2, 3, 4]


def test_the_past_is_told_although_the_newest_manifest_is_damaged(ref, instance):
    for number in range(3):
        write(ref.uri, number, number + 1)
    newest_manifest(ref).write_bytes(b"no manifest")
    daemon = daemon_for(ref, instance, grace=timedelta(0))

    assert versions_of(daemon.tick().asset_events) == [2]
    assert versions_of(daemon.tick().asset_events) == []


@pytest.mark.parametrize("dies", [False, True])
def test_a_first_look_whose_tick_died_tells_nothing_and_starts_nothing_twice(ref, instance, dies):
    for number in range(3):
        write(ref.uri, number, number + 1)
    daemon = daemon_for(ref, instance, grace=timedelta(0))
    daemon.tick(dies_before_cursor=dies)
    daemon.tick()
    daemon.tick()
    assert published_versions(instance, ref) == [3]
    assert len(set(daemon.run_keys)) == 1


def test_a_burst_is_summarised_but_for_its_newest_versions(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    daemon.tick()
    dataset = Dataset.open(ref.uri, storage_options={"fsync": "false"})
    for number in range(500):
        dataset = update_config(dataset, {"note": str(number)}).dataset

    result = daemon.tick()

    versions = versions_of(result.asset_events)
    assert versions == [481, *range(482, 502)]
    summary = next(event for event in result.asset_events if isinstance(event, dg.AssetMaterialization))
    assert summary.tags["lance/summarised_from"] == "2"
    assert summary.metadata["lance/summarised_versions"].value == 480
    (record,) = summary.metadata["lance/summarised_operations"].records
    assert record.data == {"operation": "UpdateConfig", "versions": 480}
    assert last_published(instance, ref.key).version == 501
    assert versions_of(daemon.tick().asset_events) == []
    assert len(daemon.run_keys) == 1


def test_a_corrupt_newest_manifest_fails_a_check_and_not_the_tick(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    daemon.tick()
    write(ref.uri, 1, 2)
    write(ref.uri, 2, 3)
    manifest = newest_manifest(ref)
    content = manifest.read_bytes()
    manifest.write_bytes(content[: len(content) // 2])

    result = daemon.tick()

    assert versions_of(result.asset_events) == [2]
    check = checks_of(result.asset_events)["manifest_readable"]
    assert check.passed is False
    assert check.severity is dg.AssetCheckSeverity.ERROR
    assert not result.run_requests
    assert checks_of(daemon.tick().asset_events) == {}

    manifest.write_bytes(content)
    result = daemon.tick()
    assert versions_of(result.asset_events) == [3]
    assert checks_of(result.asset_events)["manifest_readable"].passed
    assert len(result.run_requests) == 1


@pytest.mark.parametrize("seen", [False, True])
def test_a_restore_over_a_damaged_version_is_published_and_the_check_passes_again(ref, instance, seen):
    daemon = daemon_for(ref, instance)
    for start in range(3):
        write(ref.uri, start, start + 1)
        if start < 2 or seen:
            daemon.tick()
    newest_manifest(ref).write_bytes(b"no manifest")
    daemon.cursor = None
    assert checks_of(daemon.tick().asset_events)["manifest_readable"].passed is False
    restore(ref.uri, 2)

    result = daemon.tick()

    assert versions_of(result.asset_events) == [4]
    assert checks_of(result.asset_events)["manifest_readable"].passed
    write(ref.uri, 3, 4)
    assert versions_of(daemon.tick().asset_events) == [5]
    assert daemon.tick().asset_events == []


def test_a_lost_file_holds_downstream_back_until_it_is_there_again(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    daemon.tick()
    write(ref.uri, 1, 2)
    file = Dataset.open(ref.uri).fragments[-1].files[0]
    path = Path(ref.uri) / "data" / file.path
    content = path.read_bytes()
    path.unlink()

    result = daemon.tick()
    assert checks_of(result.asset_events)["files_present"].passed is False
    assert not result.run_requests

    path.write_bytes(content)
    result = daemon.tick()
    assert versions_of(result.asset_events) == []
    assert checks_of(result.asset_events)["files_present"].passed
    assert len(result.run_requests) == 1


def test_datasets_that_nobody_can_check_do_not_keep_others_from_their_full_checks(tmp_path, ref, instance):
    missing = [LanceDatasetRef(f"missing_{i}", str(tmp_path / f"missing_{i}.lance")) for i in range(3)]
    every = {"full_check_every": timedelta(0), "full_checks": 2}
    daemon = daemon_for([*missing, ref], instance, **every)
    write(ref.uri, 0, 10)
    daemon.tick()
    (lost,) = (Path(ref.uri) / "data").iterdir()
    lost.unlink()
    failed = [item for item in daemon.tick().asset_events if isinstance(item, dg.AssetCheckEvaluation)]
    assert [(item.asset_key, item.passed) for item in failed if not item.passed][:1] == [(ref.key, False)]


def test_a_dataset_that_nobody_made_yet_is_a_warning_told_once(ref, instance):
    daemon = daemon_for(ref, instance)

    result = daemon.tick()

    check = checks_of(result.asset_events)["manifest_readable"]
    assert check.passed is False
    assert check.severity is dg.AssetCheckSeverity.WARN
    assert "no dataset here" in str(result.skip_reason)
    assert daemon.tick().asset_events == []
    write(ref.uri, 0, 1)
    result = daemon.tick()
    assert versions_of(result.asset_events) == [1]
    assert checks_of(result.asset_events)["manifest_readable"].passed


def test_a_dataset_that_vanished_is_an_error(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    daemon.tick()
    newest_manifest(ref).unlink()

    check = checks_of(daemon.tick().asset_events)["manifest_readable"]

    assert check.severity is dg.AssetCheckSeverity.ERROR


def test_a_dataset_made_anew_at_the_same_place_starts_from_its_first_version(ref, instance):

    daemon = daemon_for(ref, instance)
    for start in range(3):
        write(ref.uri, start, start + 1)
    daemon.tick()
    shutil.rmtree(ref.uri)
    write(ref.uri, 0, 5)

    result = daemon.tick()

    assert versions_of(result.asset_events) == [1]
    assert len(daemon.run_keys) == 2
    assert versions_of(daemon.tick().asset_events) == []


def test_a_dataset_made_anew_with_more_versions_is_told_from_its_first_one(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    write(ref.uri, 1, 2)
    daemon.tick()
    shutil.rmtree(ref.uri)
    for start in range(5, 8):
        write(ref.uri, start, start + 1)

    daemon.tick(dies_before_cursor=True)
    daemon.tick()

    assert published_versions(instance, ref) == [1, 2, 1, 2, 3]
    assert daemon.tick().asset_events == []


@pytest.mark.parametrize("names_transaction", [True, False])
def test_a_dataset_made_anew_with_as_many_versions_is_told_and_starts_downstream(
    ref, instance, monkeypatch, names_transaction
):
    if not names_transaction:
        monkeypatch.setattr(survey, "is_of_another_dataset", lambda *_: False)
    daemon = daemon_for(ref, instance)
    for start in range(3):
        write(ref.uri, start, start + 1)
    daemon.tick()
    before = len(daemon.cursor)
    shutil.rmtree(ref.uri)
    for start in range(5, 8):
        write(ref.uri, start, start + 1)

    daemon.tick(dies_before_cursor=True)
    daemon.tick()

    assert published_versions(instance, ref) == [1, 2, 3, 1, 2, 3]
    assert len(daemon.run_keys) == 2
    assert daemon.tick().asset_events == []
    assert len(daemon.cursor) <= before


def test_a_newest_manifest_that_is_overwritten_is_damage_at_once(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    daemon.tick()
    manifest = newest_manifest(ref)
    sound = manifest.read_bytes()
    manifest.write_bytes(b"junk")

    assert checks_of(daemon.tick().asset_events)["manifest_readable"].passed is False
    manifest.write_bytes(sound)
    assert checks_of(daemon.tick().asset_events)["manifest_readable"].passed is True
    assert published_versions(instance, ref) == [1]


def test_a_manifest_that_only_got_another_time_is_no_news(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    daemon.tick()
    os.utime(newest_manifest(ref), (1, 1))

    result = daemon.tick()

    assert (result.asset_events, result.run_requests) == ([], [])


def test_a_cursor_of_before_marks_takes_over_what_is_there(ref, instance):
    daemon = daemon_for(ref, instance)
    write(ref.uri, 0, 1)
    daemon.tick()
    mark = daemon.remembered(ref.name).mark
    content = json.loads(daemon.cursor)
    del content["datasets"][ref.name]["mark"]
    daemon.cursor = json.dumps(content)

    assert daemon.tick().asset_events == []
    assert daemon.remembered(ref.name).mark == mark


def test_a_dataset_that_runs_made_anew_under_the_same_numbers_starts_downstream(tmp_path, ref, instance):
    import pyarrow.parquet as pq

    daemon = daemon_for(ref, instance)
    for number in (1, 2):
        pq.write_table(rows(number, number + 1), tmp_path / f"{number}.parquet")
        assert run_job(ref, APPEND, instance, paths=[str(tmp_path / f"{number}.parquet")]).success
    daemon.tick()
    assert daemon.tick().run_requests == []
    shutil.rmtree(ref.uri)
    for number in (2, 1):
        assert run_job(ref, APPEND, instance, paths=[str(tmp_path / f"{number}.parquet")]).success

    result = daemon.tick()

    assert result.asset_events == []
    assert len(result.run_requests) == 1
    assert published_versions(instance, ref) == [1, 2, 1, 2]
    assert daemon.tick().run_requests == []


def test_one_broken_dataset_does_not_hold_up_the_others(tmp_path, instance):
    good = LanceDatasetRef("good", str(tmp_path / "good.lance"))
    bad = LanceDatasetRef("bad", "nosuchscheme://bucket/bad.lance")
    write(good.uri, 0, 1)

    result = daemon_for([bad, good], instance).tick()

    assert versions_of(result.asset_events) == [1]
    assert (
        checks_of([e for e in result.asset_events if e.asset_key == bad.key])["manifest_readable"].passed
        is False
    )


@pytest.mark.parametrize("bound", ["events", "text"])
def test_what_does_not_fit_into_a_tick_is_done_in_the_next(tmp_path, instance, monkeypatch, bound):
    refs = [LanceDatasetRef(f"t{number}", str(tmp_path / f"t{number}.lance")) for number in range(3)]
    for ref in refs:
        write(ref.uri, 0, 1)
    # However many events are allowed, an answer with too much in them would not reach the daemon.
    if bound == "text":
        monkeypatch.setattr("lance_ops.dagster.sensor.tick.MOST_TEXT", 1000)
    daemon = daemon_for(refs, instance, max_events=1 if bound == "events" else 2000)

    seen = []
    for _ in range(3):
        result = daemon.tick()
        seen += [
            event.asset_key.path[0]
            for event in result.asset_events
            if isinstance(event, dg.AssetMaterialization)
        ]

    assert seen == ["t0", "t1", "t2"]


class SlowStore(LanceStoreResource):
    """Takes longer than a tick has for one dataset."""

    def open_store(self, ref):
        if ref.name == "slow":
            time.sleep(1.0)
        return super().open_store(ref)


def test_a_slow_store_does_not_hold_up_the_tick(tmp_path, instance):
    slow = LanceDatasetRef("slow", str(tmp_path / "slow.lance"))
    fast = LanceDatasetRef("fast", str(tmp_path / "fast.lance"))
    write(slow.uri, 0, 1)
    write(fast.uri, 0, 1)
    daemon = daemon_for([slow, fast], instance, budget_seconds=0.5)
    daemon.resources = {"lance_store": SlowStore(storage_options={"fsync": "false"})}

    result = daemon.tick()

    assert versions_of(result.asset_events) == [1]
    assert json.loads(result.cursor)["offset"] == 0


def test_many_datasets_are_published_in_one_tick(tmp_path, instance):
    refs = [LanceDatasetRef(f"t{number}", str(tmp_path / f"t{number}.lance")) for number in range(60)]
    write(refs[0].uri, 0, 1)
    for ref in refs[1:]:
        shutil.copytree(refs[0].uri, ref.uri)
    daemon = daemon_for(refs, instance, max_events=10_000, budget_seconds=600)

    result = daemon.tick()

    assert len(versions_of(result.asset_events)) == 60
    assert daemon.tick().asset_events == []


def test_the_budget_stays_below_the_limit_that_dagster_sets(monkeypatch):
    assert SensorOptions().budget == 40
    monkeypatch.setenv("DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS", "300")
    assert SensorOptions().budget == 280


def test_the_append_job_and_the_sensor_agree(tmp_path, ref, instance):
    import pyarrow.parquet as pq

    pq.write_table(rows(0, 5), tmp_path / "five.parquet")
    daemon = daemon_for(ref, instance)
    assert run_job(ref, APPEND, instance, paths=[str(tmp_path / "five.parquet")]).success

    result = daemon.tick()

    assert result.asset_events == []
    assert len(result.run_requests) == 1
    assert daemon.remembered("numbers").version == 1


def test_a_second_deployment_publishes_once_what_the_first_one_maintains(ref, instance):
    """The second one leaves `schedules_running` off, and has an event log of its own."""
    for start in range(3):
        write(ref.uri, start, start + 1)
    with dg.DagsterInstance.ephemeral() as second:
        daemons = [Daemon(build_manifest_sensor([ref]), each) for each in (instance, second)]
        for daemon in daemons:
            daemon.tick()
        assert run_job(ref, COMPACT, instance).success
        for daemon in [*daemons, *daemons]:
            daemon.tick()
        head = Dataset.open(ref.uri).version
        assert head > 3
        assert published_versions(instance, ref) == published_versions(second, ref) == [*range(1, head + 1)]
