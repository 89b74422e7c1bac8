"""A version that a job holds stays with its files, until the job ends or its lease expires."""

import os
import time
import uuid
from datetime import timedelta

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import BranchInUseError, InvalidArgumentError, VersionNotFoundError
from lance_ops.storage import lease, open_store
from lance_ops.table.history.pins import PINS_DIRECTORY, VersionLease, list_pins

MINUTE = timedelta(minutes=1)


@pytest.fixture
def table(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": [1, 2]}))
    lo.delete(uri, "id = 1")
    lo.compact(uri)
    return uri


def _clean(uri):
    return lo.cleanup(uri, retain_versions=1, older_than=timedelta(0), delete_unverified=True)


def _age(uri, by):
    """Make all leases older."""
    folder = f"{uri}/{PINS_DIRECTORY}"
    for name in os.listdir(folder):
        then = time.time() - by.total_seconds()
        os.utime(f"{folder}/{name}", (then, then))


def test_a_held_version_can_be_read_after_a_cleanup(table):
    dataset = lo.dataset(table, version=1)
    with lo.hold_version(dataset) as held:
        assert held.version == 1
        _clean(table)
        assert 1 in [found["version"] for found in lo.dataset(table).versions()]
        assert dataset.to_table()["id"].to_pylist() == [1, 2]
        held.check()
    assert list_pins(open_store(table)) == []
    _clean(table)
    with pytest.raises(VersionNotFoundError):
        lo.dataset(table, version=1)


def test_the_newest_version_or_a_tag_can_be_held(table):
    lo.create_tag(table, "first", 1)
    with lo.hold_version(table) as held:
        assert held.version == lo.dataset(table).version
    with lo.hold_version(table, "first") as held:
        assert held.version == 1


def test_a_lease_that_is_not_refreshed_expires(table):
    with lo.hold_version(table, 1, lifetime=MINUTE) as held:
        _age(table, 2 * MINUTE)
        _clean(table)
        with pytest.raises(VersionNotFoundError):
            held.check()


def test_a_refresh_extends_a_lease(table):
    with lo.hold_version(table, 1, lifetime=MINUTE) as held:
        _age(table, 2 * MINUTE)
        held.refresh()
        _clean(table)
        held.check()


def test_a_running_job_refreshes_its_lease(table, monkeypatch):
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.01)
    with VersionLease(open_store(table), 1, "a test", timedelta(milliseconds=8)):
        deadline = time.monotonic() + 30
        first = list_pins(open_store(table))[0].modified
        while list_pins(open_store(table))[0].modified == first:
            assert time.monotonic() < deadline


def test_the_lease_of_a_job_that_failed_is_removed(table):
    with pytest.raises(RuntimeError), lo.hold_version(table, 1):
        raise RuntimeError
    assert list_pins(open_store(table)) == []


def test_a_branch_with_a_held_version_is_not_deleted(table):
    lo.create_branch(table, "dev")
    with lo.hold_version(f"{table}/tree/dev"), pytest.raises(BranchInUseError):
        lo.delete_branch(table, "dev")
    lo.delete_branch(table, "dev")


def test_leases_of_versions_that_do_not_exist_or_last_forever_are_refused(table):
    before = list_pins(open_store(table))
    with pytest.raises(VersionNotFoundError), lo.hold_version(table, 99):
        pass
    for wrong in (timedelta(seconds=1), timedelta(days=8)):
        with pytest.raises(InvalidArgumentError, match="lifetime"), lo.hold_version(table, lifetime=wrong):
            pass
    assert list_pins(open_store(table)) == before


def test_versions_behind_an_external_manifest_store_are_held(tmp_path):
    uri, options = f"memory://{uuid.uuid4()}", {"manifest_store": f"memory://{uuid.uuid4()}"}
    for number in range(2):
        lo.append(uri, pa.table({"id": [number]}), storage_options=options)
    with lo.hold_version(uri, 1, storage_options=options):
        lo.cleanup(uri, retain_versions=1, older_than=timedelta(0), storage_options=options)
        assert lo.dataset(uri, version=1, storage_options=options).count_rows() == 1
