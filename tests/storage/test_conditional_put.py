"""A server is asked whether it honours put-if-absent once, before the first commit, and only then."""

import contextlib
import threading
import uuid
from datetime import UTC, datetime, timedelta

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import PermissionDeniedError, StorageError, UnsupportedError
from lance_ops.maintenance.fsck.race_probe import RaceState, probe_races
from lance_ops.storage import open_store, require_put_if_absent
from lance_ops.storage.fsspec_store import FsspecStore
from lance_ops.storage.objects.store import ObjectStore
from lance_ops.table.commit.committer import LockCommitter
from tests.support.commands import lance_ops, lance_ops_json
from tests.support.fake_s3 import FakeS3

ROWS = pa.table({"x": [1, 2, 3]})


@pytest.fixture
def s3():
    with FakeS3() as server:
        yield server


@pytest.fixture(params=[ObjectStore, FsspecStore])
def kind(request):
    return request.param


def address():
    return f"s3://bucket-{uuid.uuid4().hex}/table"


def probes(s3):
    # The deletion afterwards is a request with the keys in its body, or not.
    return [request for request in s3.requests if "/.tmp_" in request and request.startswith("PUT ")]


def test_once_in_a_process_however_many_commits_stores_and_threads(s3, kind):
    uri = address()
    lo.write_dataset(ROWS, kind(uri, s3.options))
    assert len(probes(s3)) == 2
    stores = [kind(uri, s3.options) for _ in range(3)]
    threads = [
        threading.Thread(target=lo.write_dataset, args=(ROWS, store), kwargs={"mode": "append"})
        for store in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lo.delete(stores[0], "x = 1")
    assert lo.dataset(uri, storage_options=s3.options).count_rows() == 8
    assert len(probes(s3)) == 2
    assert not [key for key in s3.objects if ".tmp_" in key]


def test_threads_that_come_together_wait_for_one_answer(s3, kind):
    store = kind(address(), s3.options)
    barrier = threading.Barrier(6)

    def ask():
        barrier.wait()
        require_put_if_absent(store, "_versions")

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(probes(s3)) == 2
    assert s3.objects == {}


def test_each_bucket_is_asked_and_readers_never_ask(s3, kind):
    uris = [address(), address()]
    for uri in uris:
        lo.write_dataset(ROWS, kind(uri, s3.options))
    assert len(probes(s3)) == 4
    s3.requests.clear()
    dataset = lo.dataset(address_of_reader := uris[0], storage_options={**s3.options, "timeout": "29"})
    assert dataset.to_table() == ROWS
    lo.fsck(address_of_reader, storage_options=s3.options)
    assert not [request for request in s3.requests if request.split()[0] not in {"GET", "HEAD"}]


def test_a_server_that_overwrites_is_refused_before_anything_is_committed(s3, kind):
    s3.conditional = False
    store = kind(address(), s3.options)
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"ignores put-if-absent.*LockCommitter"):
            lo.write_dataset(ROWS, store)
    assert not [key for key in s3.objects if "_versions" in key]


def test_a_server_that_overwrites_refuses_no_reader_and_no_lock(s3, kind):
    s3.conditional = False
    options = {**s3.options, "aws_conditional_put": "disabled"}
    uri = address()
    lock = threading.Lock()
    committer = LockCommitter(lambda _: lock)
    for store in [kind(uri, s3.options), kind(uri, options)]:
        lo.write_dataset(ROWS, store, mode="append", committer=committer)
    assert probes(s3) == []
    assert lo.dataset(uri, storage_options=s3.options).count_rows() == 6
    with pytest.raises(UnsupportedError, match="LockCommitter"):
        lo.write_dataset(ROWS, kind(uri, options), mode="append")


def test_a_server_that_could_not_be_asked_is_asked_again(s3, kind):
    store = kind(address(), s3.options)
    s3.fail_with = 403
    with pytest.raises(PermissionDeniedError):
        require_put_if_absent(store, "_versions")
    s3.fail_with = None
    s3.requests.clear()
    require_put_if_absent(store, "_versions")
    require_put_if_absent(store, "_versions")
    assert len(probes(s3)) == 2


def test_a_server_that_does_not_know_the_condition_is_refused_by_name(s3):
    store = open_store(address(), s3.options)
    s3.fail_with = 501
    with pytest.raises(UnsupportedError, match=r"put-if-absent.*LockCommitter"):
        require_put_if_absent(store, "_versions")


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_answer_is_no_proof_against_the_server(s3, lost, monkeypatch):
    store = open_store(address(), s3.options)
    put, count = ObjectStore.put, 0

    def put_twice(self, path, data, **options):
        nonlocal count
        count += 1
        if count == lost:
            with contextlib.suppress(StorageError):
                put(self, path, data, **options)
        put(self, path, data, **options)

    monkeypatch.setattr(ObjectStore, "put", put_twice)
    require_put_if_absent(store, "_versions")
    assert count == 2


@pytest.mark.peer
def test_what_a_killed_process_leaves_bothers_nobody_and_goes_with_a_cleanup(s3, monkeypatch):
    uri = address()
    monkeypatch.setattr(ObjectStore, "delete", lambda self, path: None)
    lo.write_dataset(ROWS, uri, storage_options=s3.options)
    monkeypatch.undo()
    (left,) = [key for key in s3.objects if ".tmp_" in key]
    peer = lance.write_dataset(ROWS, uri, mode="append", storage_options=s3.options)
    assert peer.version == 2
    peer.cleanup_old_versions(older_than=timedelta(days=1))
    peer = lance.dataset(uri, storage_options=s3.options)
    assert peer.count_rows() == lo.dataset(uri, storage_options=s3.options).count_rows() == 6
    assert [version["version"] for version in peer.versions()] == [1, 2]
    s3.objects[left] = (b"1", datetime.now(UTC) - timedelta(days=30))
    lo.cleanup(uri, storage_options=s3.options)
    assert left not in s3.objects


@pytest.mark.parametrize("honours", [True, False])
def test_fsck_and_health_tell_by_name_what_the_probe_found(s3, kind, honours):
    uri = address()
    lock = threading.Lock()
    lo.write_dataset(ROWS, kind(uri, s3.options), committer=LockCommitter(lambda _: lock))
    s3.conditional = honours
    store = kind(uri, s3.options)
    result = lo.fsck(store, probe=True)
    name = "put-if-absent honoured" if honours else "put-if-absent not honoured"
    # It says nothing about the version, which is sound.
    assert (result.ok, result.races, "put_if_absent" in result.checks) == (True, name, True)
    assert f"racing writers: {name}" in str(result)
    assert result.to_dict()["races"] == name
    assert bool(result.of("put_if_absent")) is not honours
    if not honours:
        assert "LockCommitter" in result.of("put_if_absent")[0].message
    assert not [key for key in s3.objects if ".tmp_" in key]


def test_a_probe_that_could_not_be_made_says_so(s3, kind):
    store = kind(address(), s3.options)
    s3.fail_with = 403
    probe = probe_races(store)
    assert (probe.state, probe.is_safe) == (RaceState.UNKNOWN, False)
    assert probe.message


def test_the_commands_offer_the_probe(tmp_path):
    path = tmp_path / "t.lance"
    lo.write_dataset(ROWS, path)
    before = sorted(path.rglob("*"))
    for command in ("fsck", "health"):
        assert "racing writers" not in lance_ops(command, path).output
        assert "racing writers: decided by the store itself" in lance_ops(command, path, "--probe").output
        assert lance_ops_json(command, path, "--probe")["races"] == "decided by the store itself"
    assert sorted(path.rglob("*")) == before
