"""Of many datasets at rest a tick asks Dagster only for some events, and nothing is missed for that."""

import shutil

import dagster as dg
import pytest

from lance_ops.dagster import LanceDatasetRef, SensorOptions, build_manifest_sensor
from lance_ops.dagster.sensor import manifest_sensor, survey
from lance_ops.dagster.sensor.survey import asked_in_turn
from tests.support.dagster import Daemon, published_versions, versions_of, write


@pytest.fixture
def refs(tmp_path):
    return [LanceDatasetRef(f"t{number}", str(tmp_path / f"t{number}.lance")) for number in range(7)]


@pytest.fixture
def asked(monkeypatch):
    """Names of the datasets whose newest events were asked for, tick by tick; two at rest in each."""
    monkeypatch.setattr(survey, "_ASKED", 2)
    found = []
    original = manifest_sensor.last_published_of_all

    def ask(instance, refs):
        found.append([ref.name for ref in refs])
        return original(instance, refs)

    monkeypatch.setattr(manifest_sensor, "last_published_of_all", ask)
    return found


@pytest.fixture
def daemon(refs, asked):
    with dg.DagsterInstance.ephemeral() as instance:
        daemon = Daemon(build_manifest_sensor(refs, options=SensorOptions(full_checks=0)), instance)
        for ref in refs:
            write(ref.uri, 0, 2)
        daemon.tick()
        asked.clear()
        yield daemon


def test_all_are_asked_for_in_turn(refs, daemon, asked):
    for _ in range(7):
        assert versions_of(daemon.tick().asset_events) == []
    assert all(len(names) == 2 for names in asked)
    assert sorted(name for names in asked for name in names) == sorted([ref.name for ref in refs] * 2)


def test_what_is_new_is_told_at_once_whosever_turn_it_is(refs, daemon):
    for ref in refs:
        write(ref.uri, 2, 3)
        assert versions_of(daemon.tick().asset_events) == [2]
    assert all(published_versions(daemon.instance, ref) == [1, 2] for ref in refs)


def test_a_dataset_made_anew_with_as_many_versions_is_told_at_once(refs, daemon):
    for ref in refs:
        shutil.rmtree(ref.uri)
        write(ref.uri, 5, 9)
        assert versions_of(daemon.tick().asset_events) == [1]


def test_what_vanishes_is_told_at_once(refs, daemon):
    for ref in refs:
        shutil.rmtree(ref.uri)
        events = daemon.tick().asset_events
        checked = [event for event in events if isinstance(event, dg.AssetCheckEvaluation)]
        assert {event.asset_key for event in checked} == {ref.key}
        assert not any(event.passed for event in checked)


def test_events_that_were_wiped_are_told_again_within_a_round(refs, daemon):
    daemon.instance.wipe_assets([ref.key for ref in refs])
    told = [len(versions_of(daemon.tick().asset_events)) for _ in range(4)]
    assert sum(told) == len(refs)
    assert max(told) == 2
    assert all(published_versions(daemon.instance, ref) == [1] for ref in refs)


def test_few_datasets_are_all_asked_for_in_every_tick():
    refs = [LanceDatasetRef(f"t{number}", f"/t{number}.lance") for number in range(200)]
    assert asked_in_turn(refs, 0) == (refs, 0)


@pytest.mark.parametrize("count", [201, 1000, 5000, 10_001])
def test_many_are_asked_for_within_twenty_ticks(count):
    refs = [LanceDatasetRef(f"t{number}", f"/t{number}.lance") for number in range(count)]
    seen, start, most = set(), 0, 0
    for _ in range(20):
        asked, start = asked_in_turn(refs, start)
        seen |= {ref.name for ref in asked}
        most = max(most, len(asked))
    assert len(seen) == count
    assert most == max(200, -(-count // 20))


def test_a_place_to_go_on_from_outlives_datasets_that_are_gone():
    refs = [LanceDatasetRef(f"t{number}", f"/t{number}.lance") for number in range(300)]
    asked, start = asked_in_turn(refs, 900)
    assert asked == refs[:200]
    assert start == 200
