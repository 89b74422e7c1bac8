"""What is run by the interpreter of Airflow's environment; see `test_airflow.py`."""

import asyncio
import gc
import json
import sys
import types
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest
import structlog
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    TaskDeferred,
)
from airflow.triggers.shared_stream import SharedStreamManager

import lance_ops as lo
from lance_ops.airflow import triggers
from lance_ops.airflow.hook import LanceHook
from lance_ops.airflow.operators import (
    LanceAppendOperator,
    LanceCompactOperator,
    LanceCompactWalOperator,
    LanceDeleteOperator,
    LanceFleetRunOperator,
    LanceFsckOperator,
    LanceIndexOperator,
    LanceMaintainOperator,
    LanceMergeOperator,
    LanceReplaceOperator,
)
from lance_ops.airflow.provider import get_provider_info
from lance_ops.airflow.sensors import LanceVersionSensor
from lance_ops.airflow.triggers import LancePauseTrigger, LanceVersionTrigger
from lance_ops.errors import InvalidArgumentError, RetryableCommitConflictError, StorageError


def table(*ids):
    return pa.table({"id": list(ids)})


def context(run="r1", max_tries=0, try_number=1, clear_number=0):
    ti = types.SimpleNamespace(
        dag_id="d", task_id="t", run_id=run, map_index=-1, max_tries=max_tries, try_number=try_number
    )
    return {"ti": ti, "dag_run": types.SimpleNamespace(clear_number=clear_number)}


class State:
    """The state of an asset, as Airflow keeps it."""

    def __init__(self):
        self.values = {}

    async def aget(self, key, default=None):
        return self.values.get(key, default)

    async def aset(self, key, value):
        self.values[key] = value


def watcher(uri, state=None, **options):
    trigger = LanceVersionTrigger(str(uri), poll_seconds=0.01, **options)
    trigger.asset_state_store = state
    return trigger


async def events_of(trigger, count, act=lambda: None, *, dies=False):
    """The events of a trigger; `act` commits once it looks. It ends after so many, or dies then."""
    found = []

    async def listen():
        async for event in trigger.run():
            found.append(event.payload)
            if dies and len(found) == count:
                return

    task = asyncio.create_task(listen())
    await asyncio.sleep(0.2)
    await asyncio.to_thread(act)
    async with asyncio.timeout(60):
        while len(found) < count or not (  # noqa: ASYNC110 - it is the trigger that is waited for
            dies or trigger._seen.version >= found[-1]["version"]
        ):
            await asyncio.sleep(0.01)
    task.cancel()
    return found


def test_a_version_is_an_event_once_and_one_that_changed_no_data_is_none(tmp_path):
    uri = tmp_path / "t.lance"
    lo.append(str(uri), table(1))

    def act():
        lo.append(str(uri), table(2))
        lo.compact(str(uri))
        lo.append(str(uri), table(3))

    told = asyncio.run(events_of(watcher(uri), 2, act))
    newest = lo.dataset(str(uri))
    assert [event["version"] for event in told] == [2, newest.version]
    assert told[-1]["rows"] == 3
    assert told[-1]["data_version"] == newest.data_version
    assert {event["operation"] for event in told} == {"Append"}


def test_a_triggerer_that_is_started_again_goes_on_where_it_was(tmp_path):
    uri, state = tmp_path / "t.lance", State()
    lo.append(str(uri), table(1))
    told = asyncio.run(events_of(watcher(uri, state), 1, lambda: lo.append(str(uri), table(2))))
    for number in (3, 4):
        lo.append(str(uri), table(number))
    told += asyncio.run(events_of(watcher(uri, state), 2))
    told += asyncio.run(events_of(watcher(uri, state), 1, lambda: lo.append(str(uri), table(5))))
    assert [event["version"] for event in told] == [2, 3, 4, 5]


def test_a_triggerer_that_dies_before_it_remembers_tells_that_event_again_and_leaves_none_out(tmp_path):
    uri, state = tmp_path / "t.lance", State()
    lo.append(str(uri), table(1))
    told = asyncio.run(events_of(watcher(uri, state), 1, lambda: lo.append(str(uri), table(2)), dies=True))
    lo.append(str(uri), table(3))
    told += asyncio.run(events_of(watcher(uri, state), 2))
    assert [event["version"] for event in told] == [2, 2, 3]
    assert told[0] == told[1]


def test_datasets_of_a_connection_share_one_poll_as_long_as_somebody_watches_them(tmp_path, monkeypatch):
    monkeypatch.setattr(triggers, "_WATCHING", {})
    uris = [tmp_path / name for name in ("a.lance", "b.lance")]
    for uri in uris:
        lo.append(str(uri), table(1))
    watchers = [watcher(uri) for uri in uris]
    keys = {trigger.shared_stream_key() for trigger in watchers}
    assert len(keys) == 1

    async def looks():
        stream = LanceVersionTrigger.open_shared_stream({"lance_conn_id": None, "poll_seconds": 0.01})
        both = await anext(stream)
        del watchers[0]
        gc.collect()
        return both, await anext(stream)

    both, one = asyncio.run(asyncio.wait_for(looks(), 60))
    assert {name: newest.version for name, newest in both.items()} == {str(uri): 1 for uri in uris}
    assert set(one) == {str(uris[1])}


async def shared(uris, state, told, act):
    """Watch datasets with Airflow's own sharing, until `act`, which waits for events by `until`, is done."""
    manager = SharedStreamManager(log=structlog.get_logger(), max_subscriber_queue=100, ack_timeout=30)

    async def watch(number, uri):
        trigger = watcher(uri, state)
        key = trigger.shared_stream_key()
        try:
            stream = manager.subscribe(trigger_id=number, trigger=trigger, key=key)
            async for event in trigger.filter_shared_stream(stream):
                told.append((Path(uri).stem, event.payload["version"]))
        finally:
            await manager.unsubscribe(number, key)

    async def until(*events):
        async with asyncio.timeout(60):
            while not set(events) <= set(told):  # noqa: ASYNC110 - it is the triggers that are waited for
                await asyncio.sleep(0.01)

    def start(uri):
        tasks.append(asyncio.create_task(watch(len(tasks), uri)))

    tasks = []
    for uri in uris:
        start(uri)
    async with asyncio.timeout(60):
        while len(state.values) < len(uris):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await act(until, start)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_a_store_that_fails_once_costs_no_event_of_a_shared_poll(tmp_path, monkeypatch):
    uris, told = [str(tmp_path / name) for name in ("a.lance", "b.lance")], []
    for uri in uris:
        lo.append(uri, table(1))
    before, failures = triggers.events_since, [StorageError("503 slow down")]

    def flaky(uri, *arguments, **options):
        if failures and uri == uris[0]:
            raise failures.pop()
        return before(uri, *arguments, **options)

    async def act(until, start):
        monkeypatch.setattr(triggers, "events_since", flaky)
        for uri in uris:
            lo.append(uri, table(2))
        await until(("a", 2), ("b", 2))

    asyncio.run(shared(uris, State(), told, act))
    assert sorted(told) == [("a", 2), ("b", 2)]
    assert not failures


def test_a_watcher_that_joins_a_poll_late_leaves_nothing_out(tmp_path):
    uri, told = str(tmp_path / "a.lance"), []
    state = State()
    lo.append(uri, table(1))

    async def act(until, start):
        behind = dict(state.values)
        lo.append(uri, table(2))
        await until(("a", 2))
        told.clear()
        state.values.update(behind)
        start(uri)
        await until(("a", 2))

    asyncio.run(shared([uri], state, told, act))
    assert told == [("a", 2)]


@pytest.mark.parametrize("versions", [1, 2, 4])
def test_a_dataset_made_anew_is_told_from_its_first_version(tmp_path, versions):
    uri, told = str(tmp_path / "a.lance"), []
    lo.append(uri, table(1))

    async def act(until, start):
        lo.append(uri, table(2))
        await until(("a", 2))
        told.clear()
        # Put in its place at once: a look in between would see fewer versions.
        for number in range(versions):
            lo.append(str(tmp_path / "new.lance"), table(100 + number))
        (tmp_path / "a.lance").rename(tmp_path / "old.lance")
        (tmp_path / "new.lance").rename(tmp_path / "a.lance")
        await until(*(("a", number) for number in range(1, versions + 1)))

    asyncio.run(shared([uri], State(), told, act))
    assert told == [("a", number) for number in range(1, versions + 1)]


def test_triggers_come_back_from_how_airflow_keeps_them():
    for trigger in (LanceVersionTrigger("a", "c", 5.0, True), LancePauseTrigger(1.0, 2)):
        path, arguments = trigger.serialize()
        module, _, name = path.rpartition(".")
        again = getattr(sys.modules[module], name)(**arguments)
        assert again.serialize() == trigger.serialize()


def test_a_task_that_is_tried_again_commits_once_and_another_run_again(tmp_path):
    uri = str(tmp_path / "t.lance")
    task = LanceAppendOperator(task_id="t", dataset=uri, source=lambda _: table(1))
    for run in ("r1", "r1", "r2"):
        task.execute(context(run))
    assert lo.dataset(uri).count_rows() == 2


def test_an_append_that_is_cleared_is_skipped_and_adds_no_row(tmp_path):
    uri = str(tmp_path / "t.lance")
    task = LanceAppendOperator(task_id="t", dataset=uri, source=lambda _: table(1), retries=2)
    assert not task.execute(context(max_tries=2))["already_committed"]
    assert task.execute(context(max_tries=2))["already_committed"]
    with pytest.raises(AirflowSkipException, match="were appended by version 1"):
        task.execute(context(max_tries=3))
    assert lo.dataset(uri).count_rows() == 1


def test_an_append_that_is_cleared_after_its_version_was_cleaned_up_is_skipped(tmp_path):
    uri = str(tmp_path / "t.lance")
    task = LanceAppendOperator(task_id="t", dataset=uri, source=lambda _: table(1))
    task.execute(context())
    lo.append(uri, table(2))
    lo.cleanup(uri, older_than=timedelta(0), retain_versions=1)
    task.execute(context())
    with pytest.raises(AirflowSkipException):
        task.execute(context(max_tries=1, try_number=2))
    assert lo.dataset(uri).count_rows() == 2


def test_an_append_that_is_cleared_after_its_rows_were_deleted_fails_and_says_so(tmp_path):
    uri = str(tmp_path / "t.lance")
    task = LanceAppendOperator(task_id="t", dataset=uri, source=lambda _: table(1))
    task.execute(context())
    lo.append(uri, table(2))
    lo.delete(uri, "id = 1")
    with pytest.raises(AirflowFailException, match="deleted since"):
        task.execute(context(max_tries=1))


def test_an_append_that_a_restore_undid_is_done_again_when_its_task_is_cleared(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, table(2))
    task = LanceAppendOperator(task_id="t", dataset=uri, source=lambda _: table(1))
    task.execute(context())
    lo.restore(uri, 1)
    task.execute(context(max_tries=1))
    assert sorted(lo.dataset(uri).to_table()["id"].to_pylist()) == [1, 2]


def test_on_clear_append_adds_the_rows_once_for_each_time_that_the_task_was_cleared(tmp_path):
    uri = str(tmp_path / "t.lance")
    task = LanceAppendOperator(task_id="t", dataset=uri, source=lambda _: table(1), on_clear="append")
    for max_tries in (0, 0, 1, 1):
        task.execute(context(max_tries=max_tries))
    assert lo.dataset(uri).count_rows() == 2


def test_what_sets_rows_does_so_again_when_it_is_cleared_and_once_however_often_it_is_tried(tmp_path):
    uri = str(tmp_path / "t.lance")
    given = [table(1)]

    def source(_):
        return given[0]

    common = {"task_id": "t", "dataset": uri, "source": source}
    for task in (
        LanceAppendOperator(mode="overwrite", **common),
        LanceReplaceOperator(predicate="id >= 0", **common),
        LanceMergeOperator(on=["id"], clauses={"when_not_matched": "insert_all"}, **common),
    ):
        given[0] = table(1)
        key = {"run": type(task).__name__}
        task.execute(context(**key))
        given[0] = table(5)
        assert task.execute(context(**key))["already_committed"]
        assert 5 not in lo.dataset(uri).to_table()["id"].to_pylist()
        assert not task.execute(context(**key, max_tries=1))["already_committed"]
        assert lo.dataset(uri).to_table()["id"].to_pylist().count(5) == 1
        lo.delete(uri, "id = 5")


@pytest.mark.parametrize("clear_number", [0, 1], ids=["by its numbers", "by the run's"])
def test_a_task_whose_retries_were_lowered_before_it_was_cleared_does_its_work_again(tmp_path, clear_number):
    uri, given = str(tmp_path / "t.lance"), [table(1)]

    def task(retries):
        return LanceReplaceOperator(
            task_id="t", dataset=uri, source=lambda _: given[0], predicate="id >= 0", retries=retries
        )

    first = {"max_tries": 2, "try_number": 1}
    task(2).execute(context(**first))
    # The answer was lost: the second try of the same work finds it done.
    assert task(2).execute(context(max_tries=2, try_number=2))["already_committed"]
    given[0] = table(5)
    # Cleared after one try with one retry: 2 again. Told by the run where `retries` went up once more.
    cleared = context(max_tries=2, try_number=2, clear_number=clear_number)
    now = task(2 if clear_number else 1)
    assert not now.execute(cleared)["already_committed"]
    assert lo.dataset(uri).to_table()["id"].to_pylist() == [5]
    given[0] = table(6)
    assert now.execute(cleared)["already_committed"]
    assert lo.dataset(uri).to_table()["id"].to_pylist() == [5]


def test_an_append_whose_retries_were_lowered_before_it_was_cleared_is_never_green_and_adds_no_row(tmp_path):
    common = {"task_id": "t", "source": lambda _: table(1)}
    cleared = context(max_tries=2, try_number=2, clear_number=1)
    for on_clear, outcome in (("skip", AirflowSkipException), ("append", AirflowFailException)):
        uri = str(tmp_path / f"{on_clear}.lance")
        LanceAppendOperator(dataset=uri, on_clear=on_clear, retries=2, **common).execute(context(max_tries=2))
        task = LanceAppendOperator(dataset=uri, on_clear=on_clear, retries=1, **common)
        with pytest.raises(outcome, match="were appended by version 1"):
            task.execute(cleared)
        assert lo.dataset(uri).count_rows() == 1
    # What the failure advises: cleared once more.
    assert not task.execute(context(max_tries=3, try_number=3, clear_number=2))["already_committed"]
    assert lo.dataset(uri).count_rows() == 2


def test_all_that_was_due_is_judged_anew_when_the_task_is_cleared_with_fewer_retries(tmp_path):
    uri = str(tmp_path / "t.lance")
    policy = lo.MaintenancePolicy(max_small_fragments=3)
    for retries, again in (
        (2, context(max_tries=2)),
        (1, context(max_tries=2, try_number=2, clear_number=1)),
    ):
        for number in range(6):
            lo.append(uri, table(number))
        LanceMaintainOperator(task_id="t", dataset=uri, policy=policy, retries=retries).execute(again)
        assert len(lo.dataset(uri).fragments) == 1


def test_upkeep_that_is_cleared_is_done_again(tmp_path):
    uri = str(tmp_path / "t.lance")
    task = LanceCompactOperator(task_id="t", dataset=uri)
    for max_tries in (0, 1):
        for number in range(3):
            lo.append(uri, table(number))
        task.execute(context(max_tries=max_tries))
        assert len(lo.dataset(uri).fragments) == 1


def test_a_table_without_mem_wal_has_nothing_to_fold(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, table(1))
    for options in ({}, {"max_bytes": 1 << 20}):
        LanceCompactWalOperator(task_id="t", dataset=uri, options=options).execute(context())
    assert lo.dataset(uri).version == 1


def test_a_conflict_frees_the_worker_and_is_tried_again(tmp_path, monkeypatch):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, table(1, 2))

    def conflict(*_, **__):
        raise RetryableCommitConflictError("in the way", ours="Delete", theirs="Rewrite")

    task = LanceDeleteOperator(
        task_id="t", dataset=uri, predicate="id = 1", deferrable=True, conflict_retries=1
    )
    with monkeypatch.context() as patch:
        patch.setattr(lo, "delete", conflict)
        with pytest.raises(TaskDeferred) as deferred:
            task.execute(context())
        with pytest.raises(AirflowException):
            task.resume(context(), {"attempt": 1})
    assert isinstance(deferred.value.trigger, LancePauseTrigger)

    async def wake():
        trigger = LancePauseTrigger(0.01, deferred.value.trigger.attempt)
        return [event.payload async for event in trigger.run()]

    (payload,) = asyncio.run(wake())
    assert task.resume(context(), payload)["rows_deleted"] == 1


def test_what_trying_again_cannot_mend_fails_at_once(tmp_path):
    for task in (
        LanceCompactOperator(task_id="t", dataset=str(tmp_path / "none.lance")),
        LanceDeleteOperator(task_id="t", dataset=str(tmp_path / "none.lance"), predicate="id ="),
    ):
        with pytest.raises(AirflowFailException):
            task.execute(context())
    uri = tmp_path / "t.lance"
    lo.append(str(uri), table(1))
    for path in (uri / "data").iterdir():
        path.unlink()
    with pytest.raises(AirflowFailException, match="damaged"):
        LanceFsckOperator(task_id="t", dataset=str(uri)).execute(context())


def test_what_is_due_is_done_in_order(tmp_path):
    uri = str(tmp_path / "t.lance")
    for number in range(6):
        lo.append(uri, table(number))
    policy = lo.MaintenancePolicy(
        max_small_fragments=3, max_versions=3, older_than=timedelta(0), retain_versions=1
    )
    task = LanceMaintainOperator(task_id="t", dataset=uri, policy=policy)
    states = {item["operation"]: item["state"] for item in task.execute(context())["outcomes"]}
    assert states == {"compact": "done", "index": "nothing due", "cleanup": "done"}
    again = task.execute(context("r2"))["outcomes"]
    assert {item["state"] for item in again} == {"nothing due"}
    assert "1 version (limit 3)" in again[2]["reason"]


def test_a_failed_operation_of_maintenance_fails_the_task(tmp_path, monkeypatch):
    uri = str(tmp_path / "t.lance")
    for number in range(6):
        lo.append(uri, table(number))

    def broken(*_, **__):
        raise InvalidArgumentError("no such option", field="method")

    monkeypatch.setattr("lance_ops.maintenance.maintain.perform.compact", broken)
    task = LanceMaintainOperator(task_id="t", dataset=uri, policy=lo.MaintenancePolicy(max_small_fragments=3))
    with pytest.raises(AirflowFailException, match="no such option"):
        task.execute(context())


def test_a_fleet_is_maintained_by_its_policy(tmp_path):
    for name in ("one", "two"):
        for number in range(6):
            lo.append(str(tmp_path / "lake" / f"{name}.lance"), table(number))
    policy = tmp_path / "fleet.yaml"
    policy.write_text(
        f"version: 1\nmode: auto\nstores: {{lake: {{root: '{tmp_path}/lake'}}}}\n"
        "classes: {default: {max_small_fragments: 3}}\n"
    )
    task = LanceFleetRunOperator(task_id="t", policy=str(policy), budget="1 GB")
    assert task.execute(context())["done"] == 2
    assert [len(lo.dataset(str(tmp_path / "lake" / f"{n}.lance")).fragments) for n in ("one", "two")] == [
        1,
        1,
    ]


def test_an_index_is_built_by_the_first_run_and_covers_new_rows_after_the_others(tmp_path):
    uri = str(tmp_path / "t.lance")
    build = {
        kind: LanceIndexOperator(task_id=kind, dataset=uri, column=column, kind=kind)
        for kind, column in (("BTREE", "id"), ("LABEL_LIST", "tags"))
    }
    for run in ("r1", "r2", "r3"):
        rows = pa.table({"id": [1, 2], "tags": [["a"], ["b"]]})
        LanceAppendOperator(task_id="a", dataset=uri, source=lambda _, rows=rows: rows).execute(context(run))
        for kind, task in build.items():
            # The context of these tests has one task: another run stands for another task.
            for _ in range(2):
                task.execute(context(f"{run} {kind}"))
    found = lo.describe_indices(uri)
    assert [index.name for index in found] == ["id_idx", "tags_idx"]
    assert all(index.num_rows_unindexed == 0 for index in found)
    uuids = {segment.uuid for segment in lo.dataset(uri).indices}
    again = LanceIndexOperator(task_id="again", dataset=uri, column="id", options={"replace": True})
    again.execute(context("r4"))
    assert len(uuids - {segment.uuid for segment in lo.dataset(uri).indices}) > 0
    other = LanceIndexOperator(
        task_id="other", dataset=uri, column="id", kind="BITMAP", options={"name": "id_idx"}
    )
    with pytest.raises(AirflowFailException, match="id_idx"):
        other.execute(context("r5"))


def test_a_sensor_waits_for_changed_data_after_a_version(tmp_path):
    uri = str(tmp_path / "t.lance")
    sensor = LanceVersionSensor(task_id="s", dataset=uri, after_version="1")
    assert not sensor.poke(context())
    lo.append(uri, table(1))
    lo.append(uri, table(2))
    assert sensor.poke(context())
    assert (sensor.found["version"], sensor.found["previous_version"]) == (2, 1)
    sensor.after_version = 2
    assert not sensor.poke(context())
    lo.compact(uri, strategy="rows")
    newest = lo.dataset(uri).version
    assert newest > 2
    assert not sensor.poke(context())
    layout = LanceVersionSensor(task_id="s", dataset=uri, after_version=2, layout=True)
    assert layout.poke(context())
    lo.append(uri, table(3))
    assert sensor.execute(context())["version"] == newest + 1
    lo.cleanup(uri, older_than=timedelta(0), retain_versions=1)
    assert sensor.poke(context())
    sensor.after_version = newest + 1
    assert not sensor.poke(context())
    sensor.after_version = "many"
    with pytest.raises(AirflowFailException, match="many"):
        sensor.poke(context())
    waiting = LanceVersionSensor(task_id="s", dataset=uri, after_version=newest + 1, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute(context())
    assert deferred.value.trigger.dataset == uri
    lo.append(uri, table(4))
    assert waiting.resume(context(), {})["version"] == newest + 2


def test_the_test_of_a_connection_fails_for_a_root_that_is_not_there(monkeypatch, tmp_path):
    for root, is_fine in ((tmp_path, True), (tmp_path / "missing", False), ("memory://nothing", False)):
        connection = {"conn_type": "lance", "extra": {"root": str(root)}}
        monkeypatch.setenv("AIRFLOW_CONN_TRIED", json.dumps(connection))
        assert LanceHook("tried").test_connection()[0] is is_fine, root


def test_a_connection_names_root_and_options(monkeypatch, tmp_path):
    extra = {
        "root": str(tmp_path),
        "storage_options": {"fsync": "false"},
        "password_option": "azure_storage_account_key",
    }
    connection = {"conn_type": "lance", "password": "s", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    hook = LanceHook("lake")
    assert hook.uri("a/t.lance") == f"{tmp_path}/a/t.lance"
    # An address is never joined to the root; one with a single slash is refused where it is opened.
    assert hook.uri("s3:/bucket/t.lance") == "s3:/bucket/t.lance"
    assert hook.storage_options == {"fsync": "false", "azure_storage_account_key": "s"}
    assert "'s'" not in repr(hook)


def test_airflow_finds_the_provider():
    info = get_provider_info()
    module, _, name = info["connection-types"][0]["hook-class-name"].rpartition(".")
    assert hasattr(import_module(module), name)
    for kind in ("hooks", "operators", "sensors", "triggers"):
        for path in info[kind][0]["python-modules"]:
            import_module(path)
    declared = (Path(lo.__file__).parents[1] / "pyproject.toml").read_text()
    assert 'provider_info = "lance_ops.airflow.provider:get_provider_info"' in declared


def test_the_facets_of_lineage_tell_schema_and_version(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, table(1))
    found = LanceCompactOperator(task_id="t", dataset=uri).get_openlineage_facets_on_complete(None)
    (output,) = found.outputs
    assert output.name == uri
    assert output.facets["version"].datasetVersion == "1"
    assert [item.name for item in output.facets["schema"].fields] == ["id"]
