import dagster as dg
import pytest

from lance_ops.dagster import event_log
from lance_ops.dagster.event_log import TURNS, LogPosition, read_since

MATERIALIZATION = dg.DagsterEventType.ASSET_MATERIALIZATION


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def store(instance, *names):
    for name in names:
        instance.report_runless_asset_event(dg.AssetMaterialization(name))


def names_of(events):
    return [event.asset_materialization.asset_key.to_user_string() for event in events.values()]


def test_everything_is_to_be_read_twice_and_then_what_came_since_the_look_before_the_last(instance):
    store(instance, "a")
    events, position = read_since(instance, LogPosition(), MATERIALIZATION)
    assert events is None
    store(instance, "b")
    events, position = read_since(instance, position, MATERIALIZATION)
    assert events is None
    store(instance, "c")
    events, position = read_since(instance, position, MATERIALIZATION)
    # An event that got its id before the last look may have been stored after it.
    assert names_of(events) == ["b", "c"]
    events, position = read_since(instance, position, MATERIALIZATION)
    assert names_of(events) == ["c"]
    events, position = read_since(instance, position, MATERIALIZATION)
    assert names_of(events) == []


def test_only_events_of_the_kind_are_read(instance):
    _, position = read_since(instance, LogPosition(), MATERIALIZATION)
    _, position = read_since(instance, position, MATERIALIZATION)
    instance.report_runless_asset_event(dg.AssetObservation("a"))
    store(instance, "b")
    assert names_of(read_since(instance, position, MATERIALIZATION)[0]) == ["b"]


def test_after_too_many_events_everything_is_to_be_read(instance, monkeypatch):
    monkeypatch.setattr(event_log, "_MOST", 3)
    position = LogPosition(0, 0)
    store(instance, "a", "b")
    events, position = read_since(instance, position, MATERIALIZATION)
    assert names_of(events) == ["a", "b"]
    store(instance, "c")
    events, position = read_since(instance, position, MATERIALIZATION)
    assert events is None
    store(instance, "d")
    events, _ = read_since(instance, position, MATERIALIZATION)
    assert names_of(events) == ["c", "d"]


def test_a_log_that_began_anew_is_read_from_its_begin(instance):
    store(instance, "a")
    events, position = read_since(instance, LogPosition(70, 80, 4), MATERIALIZATION)
    assert events is None
    events, position = read_since(instance, position, MATERIALIZATION)
    assert events is None
    store(instance, "b")
    assert names_of(read_since(instance, position, MATERIALIZATION)[0]) == ["b"]


def test_a_storage_that_hands_out_no_stream_is_read_whole(instance, monkeypatch):
    def refuse(*_arguments, **_options):
        raise NotImplementedError

    store(instance, "a")
    monkeypatch.setattr(instance.event_log_storage, "get_logs_for_all_runs_by_log_id", refuse)
    assert read_since(instance, LogPosition(1, 1, 1), MATERIALIZATION) == (None, LogPosition())


def test_all_shares_are_all_items_each_once():
    items = list(range(97))
    assert sorted(item for turn in range(TURNS) for item in LogPosition(turn=turn).share(items)) == items


@pytest.mark.parametrize("position", [LogPosition(), LogPosition(None, 5, 1), LogPosition(3, 5, TURNS - 1)])
def test_a_position_comes_back_from_json(position):
    assert LogPosition.from_list(position.to_list()) == position


@pytest.mark.parametrize(
    "content", [None, 7, "text", [], [1], [1, None, 0], [-1, -1, -1], [True, True, True], ["1", "2", "3"], {}]
)
def test_what_is_no_position_is_as_nothing_read(content):
    assert LogPosition.from_list(content) == LogPosition()
