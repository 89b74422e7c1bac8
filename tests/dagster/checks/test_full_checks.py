"""Files get lost without a commit: each dataset is checked in full now and then, though no version is new."""

import itertools
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from lance_ops.dagster import LanceDatasetRef, SensorOptions, build_manifest_sensor
from lance_ops.dagster.checks.catalog import CHECKS, own_name
from lance_ops.dagster.checks.evaluate import examine
from lance_ops.dagster.checks.records import latest_records, says_otherwise
from lance_ops.dagster.sensor import manifest_sensor as sensor
from lance_ops.maintenance.cleanup.operation import cleanup
from lance_ops.maintenance.health.policy import MaintenancePolicy
from tests.support.dagster import STORE, Daemon, write


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def refs_in(folder: Path, count: int) -> list[LanceDatasetRef]:
    refs = [LanceDatasetRef(f"t{number}", str(folder / f"t{number}.lance")) for number in range(count)]
    for ref in refs:
        write(ref.uri, 0, 5)
    return refs


def lose_a_file(ref: LanceDatasetRef) -> Path:
    (path,) = (Path(ref.uri) / "data").iterdir()
    path.rename(path.with_suffix(".away"))
    return path


def bring_back(path: Path) -> None:
    path.with_suffix(".away").rename(path)


def failed_checks(result: dg.SensorResult) -> list[tuple[str, str]]:
    events = [event for event in result.asset_events if isinstance(event, dg.AssetCheckEvaluation)]
    return [(event.asset_key.path[-1], own_name(event.check_name)) for event in events if not event.passed]


def daemon_for(refs: list[LanceDatasetRef], instance: dg.DagsterInstance, **options) -> Daemon:
    return Daemon(build_manifest_sensor(refs, options=SensorOptions(**options)), instance)


def test_a_file_that_is_lost_later_is_found_told_once_and_told_when_it_is_back(tmp_path, instance):
    (ref,) = refs_in(tmp_path, 1)
    daemon = daemon_for([ref], instance, full_check_every=timedelta(0))
    assert failed_checks(daemon.tick()) == []
    lost = lose_a_file(ref)
    told = daemon.tick()
    assert failed_checks(told) == [("t0", "files_present")]
    assert lost.name in (told.skip_reason.skip_message or "")
    assert failed_checks(daemon.tick()) == []
    assert daemon.remembered("t0").problem is not None
    bring_back(lost)
    healed = [event for event in daemon.tick().asset_events if isinstance(event, dg.AssetCheckEvaluation)]
    assert {own_name(event.check_name): event.passed for event in healed}["files_present"]
    assert daemon.tick().asset_events == []


def test_no_full_check_before_its_time(tmp_path, instance, monkeypatch):
    (ref,) = refs_in(tmp_path, 1)
    daemon = daemon_for([ref], instance, full_check_every=timedelta(hours=6))
    daemon.tick()
    lose_a_file(ref)
    assert failed_checks(daemon.tick()) == []
    later = sensor.time.time() + timedelta(hours=6, minutes=1).total_seconds()
    monkeypatch.setattr(sensor.time, "time", lambda: later)
    assert failed_checks(daemon.tick()) == [("t0", "files_present")]


def test_full_checks_are_spread_over_ticks_the_oldest_first(tmp_path, instance, monkeypatch):
    refs = refs_in(tmp_path, 5)
    minutes = itertools.count(1_000_000)
    monkeypatch.setattr(sensor.time, "time", lambda: 60.0 * next(minutes))
    daemon = daemon_for(refs, instance, full_check_every=timedelta(0), full_checks=2)
    daemon.tick()
    for ref in refs:
        lose_a_file(ref)
    found = [failed_checks(daemon.tick()) for _ in range(3)]
    assert sorted(name for names in found for name, _ in names) == [ref.name for ref in refs]
    assert max(map(len, found)) <= 2


def test_a_look_without_files_does_not_clear_what_a_full_check_found(tmp_path, instance, monkeypatch):
    (ref,) = refs_in(tmp_path, 1)
    daemon = daemon_for([ref], instance, full_check_every=timedelta(0))
    daemon.tick()
    lose_a_file(ref)
    daemon.tick()
    monkeypatch.setattr("lance_ops.dagster.sensor.survey._MAX_FILES", 0)
    quick = Daemon(
        build_manifest_sensor([ref], options=SensorOptions(full_check_every=timedelta(hours=6))),
        instance,
        cursor=daemon.cursor,
    )
    assert quick.tick().asset_events == []
    assert quick.remembered("t0").problem == daemon.remembered("t0").problem


@pytest.mark.parametrize("cursor", [None, "", "no JSON", '{"schema": 0}'])
def test_a_check_that_failed_before_the_cursor_was_lost_passes_when_the_file_is_back(
    tmp_path, instance, cursor
):
    (ref,) = refs_in(tmp_path, 1)
    daemon = daemon_for([ref], instance, full_check_every=timedelta(0))
    daemon.tick()
    lost = lose_a_file(ref)
    assert failed_checks(daemon.tick()) == [("t0", "files_present")]
    bring_back(lost)
    daemon.cursor = cursor
    healed = [event for event in daemon.tick().asset_events if isinstance(event, dg.AssetCheckEvaluation)]
    assert {own_name(event.check_name): event.passed for event in healed}["files_present"]
    assert daemon.tick().asset_events == []


def test_a_lost_cursor_repeats_no_check_that_dagster_shows_as_it_is(tmp_path, instance):
    (ref,) = refs_in(tmp_path, 1)
    daemon = daemon_for([ref], instance)
    daemon.tick()
    daemon.cursor = None
    assert daemon.tick().asset_events == []


def test_a_damage_that_came_while_the_cursor_was_lost_is_told_once(tmp_path, instance):
    (ref,) = refs_in(tmp_path, 1)
    daemon = daemon_for([ref], instance)
    daemon.tick()
    lose_a_file(ref)
    daemon.cursor = None
    assert failed_checks(daemon.tick()) == [("t0", "files_present")]
    assert failed_checks(daemon.tick()) == []


def test_a_manifest_that_could_not_be_read_before_the_cursor_was_lost_passes_again(tmp_path, instance):
    (ref,) = refs_in(tmp_path, 1)
    daemon = daemon_for([ref], instance)
    daemon.tick()
    (path,) = (Path(ref.uri) / "_versions").glob("*.manifest")
    sound = path.read_bytes()
    path.write_bytes(b"no manifest")
    daemon.cursor = None
    assert set(failed_checks(daemon.tick())) == {("t0", check) for check in CHECKS}
    path.write_bytes(sound)
    daemon.cursor = None
    healed = [event for event in daemon.tick().asset_events if isinstance(event, dg.AssetCheckEvaluation)]
    assert {own_name(event.check_name): event.passed for event in healed}["manifest_readable"]


def test_what_another_policy_or_a_cleanup_elsewhere_changes_is_told_by_the_next_full_check(
    tmp_path, instance
):
    (ref,) = refs_in(tmp_path, 1)
    for number in range(1, 4):
        write(ref.uri, number * 5, number * 5 + 5)
    strict = replace(ref, policy=MaintenancePolicy(max_versions=2, max_small_fragments=1))
    daemon = daemon_for([strict], instance, full_check_every=timedelta(0))
    assert sorted(failed_checks(daemon.tick())) == [("t0", "fragmentation"), ("t0", "version_backlog")]
    cleanup(ref.uri, older_than=timedelta(0), retain_versions=1)
    told = [event for event in daemon.tick().asset_events if isinstance(event, dg.AssetCheckEvaluation)]
    assert {own_name(event.check_name) for event in told if not event.passed} == {"fragmentation"}
    assert daemon.tick().asset_events == []
    lenient = daemon_for([ref], instance, full_check_every=timedelta(0))
    lenient.cursor = daemon.cursor
    assert all(
        event.passed for event in lenient.tick().asset_events if isinstance(event, dg.AssetCheckEvaluation)
    )
    assert lenient.tick().asset_events == []


def test_a_cleanup_elsewhere_turns_a_failed_check_green_before_the_next_full_check(
    tmp_path, instance, monkeypatch
):
    passing, failing = refs_in(tmp_path, 2)
    for number in range(1, 4):
        write(failing.uri, number * 5, number * 5 + 5)
    failing = replace(failing, policy=MaintenancePolicy(max_versions=2))
    daemon = daemon_for([passing, failing], instance)
    assert failed_checks(daemon.tick()) == [(failing.name, "version_backlog")]
    begun = sensor.time.time()
    # Nothing is due, and what is remembered does not change with each tick.
    remembered = daemon.remembered(failing.name)
    assert daemon.tick().asset_events == []
    assert daemon.remembered(failing.name) == remembered
    cleanup(failing.uri, older_than=timedelta(0), retain_versions=1)
    assert daemon.tick().asset_events == []
    monkeypatch.setattr(sensor.time, "time", lambda: begun + timedelta(minutes=11).total_seconds())
    events = [event for event in daemon.tick().asset_events if isinstance(event, dg.AssetCheckEvaluation)]
    assert {event.asset_key.path[-1] for event in events} == {failing.name}
    assert {own_name(event.check_name): event.passed for event in events}["version_backlog"]
    assert daemon.remembered(failing.name).failed is None
    assert daemon.tick().asset_events == []


def test_a_verdict_that_a_run_stored_during_the_look_stands(tmp_path, instance):
    (ref,) = refs_in(tmp_path, 1)
    daemon_for([ref], instance).tick()
    shown = latest_records(instance, [ref])["t0"]
    stored = max(record.stored_at for record in shown.values())
    outcomes = examine(ref, STORE)
    assert not says_otherwise(shown, outcomes, stored + 1)
    failing = [replace(outcome, passed=False) for outcome in outcomes]
    assert says_otherwise(shown, failing, stored + 1)
    assert not says_otherwise(shown, failing, min(record.stored_at for record in shown.values()) - 1)
    assert says_otherwise({}, outcomes, stored + 1)
