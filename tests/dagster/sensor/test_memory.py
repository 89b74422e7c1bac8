"""What the manifest sensor knows of each dataset lies beside its cursor, which does not grow with them."""

import json

import dagster as dg
import pytest

from lance_ops.dagster import LanceDatasetRef, LanceDownstream, SensorOptions, build_manifest_sensor
from lance_ops.dagster.sensor.cursor import DatasetCursor, SensorCursor, parse_cursor
from lance_ops.dagster.sensor.memory import SHELVES, SensorMemory
from tests.support.dagster import Daemon, published_versions, versions_of, write

LIMIT = 20_000


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


def daemon_for(refs, instance, name="lance_manifest_sensor"):
    downstream = [LanceDownstream(recompute, [ref.name for ref in refs])]
    options = SensorOptions(max_events=10_000)
    return Daemon(build_manifest_sensor(refs, downstream=downstream, options=options, name=name), instance)


def test_the_cursor_of_many_datasets_stays_short(tmp_path, instance):
    """Each has something to tell, with a text that is remembered."""
    refs = [
        LanceDatasetRef(f"name/of/t{number}", str(tmp_path / f"t{number}.lance")) for number in range(300)
    ]
    daemon = daemon_for(refs, instance)
    told = []
    while events := daemon.tick().asset_events:
        told += [event.asset_key for event in events]
        assert len(daemon.cursor) < LIMIT
    assert len(told) == len(set(told)) == len(refs)
    assert len(daemon.cursor) < 200
    assert all(daemon.remembered(ref.name).problem for ref in refs[::50])


def test_a_cursor_of_an_earlier_release_is_taken_over_and_shrinks(ref, instance):
    write(ref.uri, 0, 1)
    daemon = daemon_for([ref], instance)
    daemon.tick()
    entry = daemon.remembered(ref.name)
    others = {f"t{number}": {"version": 1, "data": "0" * 32} for number in range(300)}
    datasets = others | {ref.name: entry.to_dict()}
    # As it was kept until there was a memory.
    daemon.cursor = json.dumps({"schema": 1, "offset": 0, "datasets": datasets})

    assert daemon.tick().asset_events == []
    assert daemon.remembered(ref.name) == entry
    write(ref.uri, 1, 2)
    assert versions_of(daemon.tick().asset_events) == [2]
    daemon.tick()

    assert len(daemon.cursor) < 200
    assert published_versions(instance, ref) == [1, 2]
    assert len(daemon.run_keys) == 2


def test_what_a_tick_owes_is_remembered_when_it_is_stored_and_not_before(ref, instance):
    daemon = daemon_for([ref], instance)
    daemon.tick()
    daemon.tick()
    write(ref.uri, 0, 1)

    daemon.tick(dies_before_cursor=True)
    assert daemon.remembered(ref.name).version is None
    daemon.tick()
    assert parse_cursor(daemon.cursor).datasets[ref.name].version == 1
    daemon.tick()

    assert parse_cursor(daemon.cursor).datasets == {}
    assert daemon.remembered(ref.name).version == 1
    assert published_versions(instance, ref) == [1]
    assert len(daemon.run_keys) == 1


def test_a_memory_that_is_lost_publishes_and_starts_nothing_twice(ref, instance):
    write(ref.uri, 0, 1)
    daemon = daemon_for([ref], instance)
    daemon.tick()
    (request,) = daemon.run_keys
    daemon.tick()
    name = parse_cursor(daemon.cursor).memory
    memory = SensorMemory(instance, "lance_manifest_sensor\n", name, is_new=False)
    for shelf in range(SHELVES):
        instance.daemon_cursor_storage.set_cursor_values({memory.key(shelf): "torn"})

    assert daemon.tick().asset_events == []
    write(ref.uri, 1, 2)
    assert versions_of(daemon.tick().asset_events) == [2]

    assert published_versions(instance, ref) == [1, 2]
    assert daemon.run_keys[0] == request
    assert len(daemon.run_keys) == 2


def test_a_sensor_that_is_given_the_cursor_of_another_one_remembers_nothing_of_it(ref, instance):
    """It may start other jobs: what the other one has dealt with it has not."""
    write(ref.uri, 0, 1)
    daemon = daemon_for([ref], instance)
    daemon.tick()
    daemon.tick()
    other = daemon_for([ref], instance, name="eu_lance_manifest_sensor")
    other.cursor = daemon.cursor

    result = other.tick()

    assert result.asset_events == []
    assert len(result.run_requests) == 1
    assert daemon.remembered(ref.name).version == 1


def test_a_cursor_that_is_reset_begins_anew(ref, instance):
    write(ref.uri, 0, 1)
    daemon = daemon_for([ref], instance)
    daemon.tick()
    daemon.tick()
    daemon.cursor = None
    daemon.tick()
    assert parse_cursor(daemon.cursor).datasets[ref.name].version == 1


def test_datasets_that_are_gone_are_forgotten(instance):
    memory = SensorMemory(instance, "s", "m", is_new=False)
    names = [f"t{number}" for number in range(SHELVES * 4)]
    memory.put({name: DatasetCursor(1) for name in names}, names)
    left = names[1:]
    again = SensorMemory.recall(instance, "s", SensorCursor("m"), left)
    again.put({name: DatasetCursor(2) for name in left}, left)

    found = SensorMemory.recall(instance, "s", SensorCursor("m"), left)

    assert found.datasets == {name: DatasetCursor(2) for name in left}
