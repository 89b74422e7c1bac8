"""Requests to a store are counted, and within a look a folder is listed once."""

import shutil

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import FileMissingError
from lance_ops.fleet.policy.load import parse_policy
from lance_ops.fleet.stores.metered import meter
from lance_ops.fleet.stores.opened import FleetStores
from lance_ops.storage import open_store


@pytest.fixture
def store(tmp_path):
    found = open_store(str(tmp_path))
    found.put("folder/one", b"1")
    return found


def paths(store):
    return [info.path for info in store.list("folder")]


def test_a_listing_counts_also_where_nobody_goes_to_its_end(store):
    counted = meter(store)
    next(iter(counted.list("folder")))
    assert counted.requests == 1
    assert list(counted.list("nothing")) == []
    assert counted.requests == 2


def test_within_a_look_a_folder_is_listed_once(store):
    seen = meter(store).once()
    assert paths(seen) == ["folder/one"]
    store.put("folder/two", b"2")
    assert paths(seen) == ["folder/one"]
    assert seen.requests == 1
    assert paths(meter(store)) == ["folder/one", "folder/two"]


def test_a_file_that_is_gone_has_folders_listed_anew(store):
    seen = meter(store).once()
    paths(seen)
    store.delete("folder/one")
    store.put("folder/two", b"2")
    with pytest.raises(FileMissingError):
        seen.read("folder/one")
    assert paths(seen) == ["folder/two"]


def test_a_store_behind_a_network_is_asked_by_more_threads_than_a_folder(tmp_path):
    near, far = (
        FleetStores(parse_policy(f"version: 1\nstores: {{s: {{root: '{root}'}}}}\n"))
        for root in (tmp_path, "memory://fleet")
    )
    assert near.threads < far.threads


def test_links_that_lead_out_are_seen_through_the_meter(tmp_path):
    victim, mine = tmp_path / "lake" / "victim.lance", tmp_path / "lake" / "mine.lance"
    for path in (victim, mine):
        lo.append(path, pa.table({"x": [1]}))
        lo.append(path, pa.table({"x": [2]}))
    shutil.rmtree(mine / "_transactions")
    (mine / "_transactions").symlink_to(victim / "_transactions")
    before = sorted(victim.rglob("*"))
    result = lo.cleanup(
        meter(open_store(tmp_path / "lake")).child("mine.lance"), retain_versions=1, delete_unverified=True
    )
    assert any(note.startswith("_transactions") for note in result.notes)
    assert sorted(victim.rglob("*")) == before
