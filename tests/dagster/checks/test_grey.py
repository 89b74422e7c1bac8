"""What could not be evaluated, does not apply or is older than the policy is not green."""

import shutil
from dataclasses import replace
from datetime import timedelta

import dagster as dg
import pytest

from lance_ops.dagster import (
    LanceDatasetRef,
    SensorOptions,
    build_asset_checks,
    build_check_alert_sensor,
    build_manifest_sensor,
    keys,
)
from lance_ops.dagster.checks.catalog import CHECKS, own_name, page_name
from lance_ops.dagster.checks.computed import last_verdict
from lance_ops.dagster.checks.definitions import build_check_specs
from lance_ops.dagster.checks.records import check_key, latest_records
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.index.names import drop_index
from lance_ops.maintenance.index.operation import create_index
from lance_ops.storage import open_store
from lance_ops.table.manifest.listing import latest
from tests.support.dagster import OF_INDICES, STORE, Daemon, Told, checks_of, write


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def ref(tmp_path):
    return LanceDatasetRef("numbers", str(tmp_path / "numbers.lance"))


def shown(ref, instance):
    """The newest verdict of each check."""
    records = latest_records(instance, [ref])[ref.name]
    return {name: record.evaluation for name, record in records.items()}


def remove(ref):
    shutil.rmtree(ref.uri)


def damage(ref):
    store = open_store(ref.uri)
    store.put(latest(store).path, b"no manifest")


@pytest.mark.parametrize("harm", [remove, damage])
def test_no_check_of_a_dataset_that_cannot_be_read_stays_green(ref, instance, harm):
    sensor, told = Daemon(build_manifest_sensor([ref]), instance), Told()
    alerts = Daemon(build_check_alert_sensor([ref], told), instance)
    write(ref.uri, 0, 1)
    sensor.tick()
    alerts.tick()

    harm(ref)
    sensor.tick()
    alerts.tick()

    found = shown(ref, instance)
    assert set(found) == set(CHECKS)
    assert not any(item.passed for item in found.values())
    assert found["files_present"].description.startswith("could not be evaluated: ")
    assert [alert.check for alert in told.alerts] == [keys.MANIFEST_READABLE]
    assert checks_of(sensor.tick().asset_events) == {}

    shutil.rmtree(ref.uri, ignore_errors=True)
    write(ref.uri, 0, 1)
    sensor.tick()
    alerts.tick()
    assert [alert.passed for alert in told.alerts] == [False, True]


def test_checks_of_indices_are_not_evaluated_without_an_index(ref, instance):
    sensor = Daemon(build_manifest_sensor([ref]), instance)
    write(ref.uri, 0, 1)
    assert not OF_INDICES.intersection(checks_of(sensor.tick().asset_events))
    create_index(ref.uri, "a")
    assert set(OF_INDICES) - set(checks_of(sensor.tick().asset_events)) == {"vector_recall"}
    drop_index(ref.uri, "a_idx")
    assert not OF_INDICES.intersection(checks_of(sensor.tick().asset_events))


def test_a_verdict_by_another_policy_is_made_again(ref, instance):
    for number in range(6):
        write(ref.uri, number, number + 1)
    sensor = Daemon(build_manifest_sensor([ref]), instance)
    sensor.tick()
    assert shown(ref, instance)["fragmentation"].passed

    strict = replace(ref, policy=MaintenancePolicy(max_small_fragments=3))
    later = Daemon(build_manifest_sensor([strict]), instance, cursor=sensor.cursor)
    events = later.tick().asset_events

    assert not [event for event in events if isinstance(event, dg.AssetMaterialization)]
    assert "6 of 6 fragments are small, the limit is 3" in shown(ref, instance)["fragmentation"].description
    assert later.tick().asset_events == []


def test_an_entry_that_names_no_policy_takes_over_the_one_of_now(ref, instance):
    write(ref.uri, 0, 1)
    sensor = Daemon(build_manifest_sensor([ref]), instance)
    sensor.tick()
    sensor.cursor = sensor.cursor.replace(f', "policy": "{ref.policy_hash}"', "")
    assert "policy" not in sensor.cursor

    assert sensor.tick().asset_events == []
    assert sensor.remembered(ref.name).policy == ref.policy_hash


@pytest.mark.parametrize("ended", [False, True])
def test_a_run_that_is_to_evaluate_checks_takes_no_verdict_away(ref, instance, ended):
    options = SensorOptions(full_check_every=timedelta(0))
    sensor, told = Daemon(build_manifest_sensor([ref], options=options), instance), Told()
    alerts = Daemon(build_check_alert_sensor([ref], told), instance)
    write(ref.uri, 0, 1)
    sensor.tick()
    alerts.tick()
    before = shown(ref, instance)

    selection = dg.AssetSelection.checks(*(check_key(ref, name) for name in before))
    job = dg.Definitions(
        assets=[dg.AssetSpec(ref.key)],
        asset_checks=build_asset_checks([ref]),
        resources={"lance_store": STORE},
        jobs=[dg.define_asset_job("check", selection)],
    ).resolve_job_def("check")
    run = instance.create_run_for_job(job)
    key = check_key(ref, keys.MANIFEST_READABLE)
    newest = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert newest.run_id == run.run_id
    assert shown(ref, instance) == before
    assert last_verdict(instance, ref).metadata[keys.NOT_EVALUATED]
    assert checks_of(sensor.tick().asset_events) == {}

    if ended:
        instance.report_run_failed(run, "the worker is gone")
        assert set(checks_of(sensor.tick().asset_events)) == set(before)
    damage(ref)
    sensor.tick()
    alerts.tick()
    assert [alert.check for alert in told.alerts] == [keys.MANIFEST_READABLE]


def test_checks_of_indices_are_there_when_a_local_dataset_has_one_or_the_reference_says_so(tmp_path):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))

    def names(ref):
        return [spec.name for spec in build_check_specs(ref)]

    everything = sorted(page_name(name) for name in CHECKS)
    assert sorted(names(ref)) == everything
    write(ref.uri, 0, 5)
    without = names(ref)
    assert not [name for name in without if "index" in name or "recall" in name]
    create_index(ref.uri, "a", "BTREE")
    assert set(names(ref)) - set(without) == {page_name(name) for name in OF_INDICES - {"vector_recall"}}
    assert names(replace(ref, indexed=False)) == without
    remote = LanceDatasetRef("t", "s3://nowhere/t.lance")
    assert sorted(names(remote)) == sorted(names(replace(ref, indexed=True))) == everything
    assert names(replace(remote, indexed=False)) == without


def test_checks_are_sorted_into_damage_and_upkeep():
    names = sorted(page_name(name) for name in CHECKS)
    assert [name.partition("_")[0] for name in names] == ["damage"] * 3 + ["upkeep"] * 7
    assert [own_name(page_name(name)) for name in CHECKS] == list(CHECKS)
    assert page_name("rows_loaded") == own_name("rows_loaded") == "rows_loaded"
