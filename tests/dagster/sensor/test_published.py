import random

import dagster as dg
import pytest

from lance_ops.dagster import LanceDatasetRef
from lance_ops.dagster.event_log import TURNS
from lance_ops.dagster.publication import last_published_of_all
from lance_ops.dagster.sensor import published
from lance_ops.dagster.sensor.published import published_versions


@pytest.fixture
def instance(tmp_path):
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


@pytest.fixture
def parsed(monkeypatch):
    """Names of the datasets whose newest event was parsed at each look."""
    looks = []

    def note(instance, refs):
        looks.append([ref.name for ref in refs])
        return last_published_of_all(instance, refs)

    monkeypatch.setattr(published, "last_published_of_all", note)
    return looks


def refs_of(count):
    return [LanceDatasetRef(f"t{number:02d}", f"/nowhere/t{number}") for number in range(count)]


def tell(instance, ref, version, data="d"):
    tags = {"lance/version": str(version), "dagster/data_version": data, "lance/transaction_uuid": "u"}
    instance.report_runless_asset_event(dg.AssetMaterialization(ref.key, tags=tags))


def test_an_idle_look_parses_a_tenth_of_the_newest_events_and_all_of_them_in_ten(instance, parsed):
    refs = refs_of(2 * TURNS)
    for ref in refs:
        tell(instance, ref, 1)
    for _ in range(2):
        published_versions(instance, "s", refs)
    parsed.clear()

    for _ in range(TURNS):
        assert all(item.version == 1 for item in published_versions(instance, "s", refs[::-1]).values())

    assert [len(names) for names in parsed] == [2] * TURNS
    assert sorted(name for names in parsed for name in names) == [ref.name for ref in refs]


def test_what_is_known_is_what_the_log_says_after_every_event(instance):
    chance, refs = random.Random(5), refs_of(12)
    for step in range(60):
        ref = chance.choice(refs)
        if chance.random() < 0.2:
            instance.report_runless_asset_event(dg.AssetMaterialization(ref.key))
        elif chance.random() < 0.1:
            instance.report_runless_asset_event(
                dg.AssetMaterialization("another", tags={"lance/version": "9"})
            )
        else:
            tell(instance, ref, chance.randint(1, 5), data=str(step))
        if chance.random() < 0.7:
            assert published_versions(instance, "s", refs) == last_published_of_all(instance, refs)


def test_events_that_were_wiped_are_missed_within_ten_looks(instance):
    refs = refs_of(TURNS)
    for ref in refs:
        tell(instance, ref, 1)
    for _ in range(3):
        published_versions(instance, "s", refs)
    instance.wipe_assets([ref.key for ref in refs])

    for _ in range(TURNS):
        found = published_versions(instance, "s", refs)

    assert set(found.values()) == {None}


def test_datasets_that_come_and_go_are_read_and_forgotten(instance, parsed):
    refs = refs_of(3)
    for ref in refs:
        tell(instance, ref, 1)
    for _ in range(2):
        published_versions(instance, "s", refs[:2])
    assert published_versions(instance, "s", refs)["t02"].version == 1
    assert set(published_versions(instance, "s", refs[:1])) == {"t00"}


def test_instances_and_sensors_know_nothing_of_each_other(instance, tmp_path):
    (ref,) = refs_of(1)
    tell(instance, ref, 1)
    for _ in range(3):
        published_versions(instance, "s", [ref])
    (tmp_path / "other").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "other")) as other:
        tell(other, ref, 7)
        assert published_versions(other, "s", [ref])["t00"].version == 7
    assert published_versions(instance, "another", [ref])["t00"].version == 1
