import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.dagster import LanceDatasetRef
from lance_ops.dagster.publication import (
    Published,
    build_version_events,
    last_published,
    plan_publication,
    resume_after,
)
from lance_ops.errors import LanceOpsError
from lance_ops.storage import open_store
from lance_ops.table.manifest.listing import locate
from tests.support.dagster import write


@given(st.sets(st.integers(1, 60)), st.integers(0, 60), st.integers(1, 30))
def test_a_plan_holds_each_new_version_once_and_in_order(versions, after, newest):
    plan = plan_publication(sorted(versions), after, newest=newest)
    assert list(plan.versions) == sorted(version for version in versions if version > after)
    assert len(plan.single) <= newest
    assert not plan.summarised or len(plan.single) == newest


@pytest.mark.parametrize(
    ("published", "head", "seen", "after"),
    [
        (None, 5, None, 0),
        (3, 5, None, 3),
        (5, 5, 5, 5),
        (7, 5, 5, 5),  # a run published after the head was looked up
        (7, 5, 6, 0),  # the head fell: made anew
        (7, 5, None, 0),
    ],
)
def test_where_to_go_on(published, head, seen, after):
    known = None if published is None else Published(published, None)
    assert resume_after(known, head, seen=seen) == after


def test_the_event_log_knows_the_newest_version_and_looks_past_reports_by_hand():
    key = dg.AssetKey("t")
    with dg.DagsterInstance.ephemeral() as instance:
        assert last_published(instance, key) is None
        instance.report_runless_asset_event(
            dg.AssetMaterialization(key, tags={"lance/version": "4", "dagster/data_version": "d"})
        )
        instance.report_runless_asset_event(dg.AssetMaterialization(key))
        assert last_published(instance, key) == Published(4, "d", None)


def test_a_version_that_is_cleaned_away_meanwhile_is_left_out(tmp_path):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    for start in range(3):
        write(ref.uri, start, start + 1)
    store = open_store(ref.uri)
    plan = plan_publication([1, 2, 3], 0)
    store.delete(locate(store, 2).path)

    events = list(build_version_events(ref, store, plan))

    assert [event.facts.version for event in events] == [1, 3]


def test_events_before_a_damaged_newest_version_stand(tmp_path):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    for start in range(2):
        write(ref.uri, start, start + 1)
    store = open_store(ref.uri)
    store.put(locate(store, 2).path, b"no manifest")
    events = build_version_events(ref, store, plan_publication([1, 2], 0))

    assert next(events).facts.version == 1
    with pytest.raises(LanceOpsError):
        next(events)


def test_the_next_event_names_the_versions_that_nobody_can_read(tmp_path):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    for start in range(5):
        write(ref.uri, start, start + 1)
    store = open_store(ref.uri)
    for version in (2, 3):
        store.put(locate(store, version).path, b"no manifest")

    events = list(build_version_events(ref, store, plan_publication([1, 2, 3, 4, 5], 0)))

    assert [event.facts.version for event in events] == [1, 4, 5]
    named = [event.materialization.metadata.get("lance/damaged_versions") for event in events]
    assert named[0] is named[2] is None
    assert [line.partition(":")[0] for line in named[1].value.splitlines()] == ["2", "3"]


@pytest.mark.parametrize("damaged", [{4}, {1, 2, 3, 4}])
def test_a_burst_whose_newest_version_is_damaged_is_summarised_at_one_that_opens(tmp_path, damaged):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    for start in range(6):
        write(ref.uri, start, start + 1)
    store = open_store(ref.uri)
    for version in damaged:
        store.put(locate(store, version).path, b"no manifest")

    events = list(build_version_events(ref, store, plan_publication([1, 2, 3, 4, 5, 6], 0, newest=2)))

    assert [event.facts.version for event in events] == ([5, 6] if 1 in damaged else [3, 5, 6])
    named = events[0].materialization.metadata["lance/damaged_versions"].value.splitlines()
    assert {int(line.partition(":")[0]) for line in named} == damaged


def test_a_summary_counts_and_names_the_versions_that_cannot_be_read(tmp_path):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    for start in range(6):
        write(ref.uri, start, start + 1)
    store = open_store(ref.uri)
    for version in (2, 4):
        store.put(locate(store, version).path, b"no manifest")

    events = list(build_version_events(ref, store, plan_publication([1, 2, 3, 4, 5, 6], 0, newest=1)))

    assert [event.facts.version for event in events] == [5, 6]
    metadata = events[0].materialization.metadata
    counted = {record["operation"]: record["versions"] for record in _records(metadata)}
    assert counted == {"Append": 2, "Overwrite": 1, "could not be read": 2}
    named = metadata["lance/damaged_versions"].value.splitlines()
    assert [line.partition(":")[0] for line in named] == ["2", "4"]
    assert "manifest" in named[0]


def test_a_summary_of_sound_versions_names_none(tmp_path):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    for start in range(3):
        write(ref.uri, start, start + 1)

    events = list(build_version_events(ref, open_store(ref.uri), plan_publication([1, 2, 3], 0, newest=1)))

    assert "lance/damaged_versions" not in events[0].materialization.metadata


def _records(metadata):
    return [record.data for record in metadata["lance/summarised_operations"].records]
