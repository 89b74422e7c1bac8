"""The record of earlier releases: its keys are found and taken over, and its writers do no harm."""

import contextlib
import os
import shutil
import time
import uuid
import zipfile
from datetime import timedelta
from pathlib import Path
from unittest import mock

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CorruptFileError, JobUnprovenError
from lance_ops.storage import open_store
from lance_ops.table.commit.jobs.earlier_record import NOTES, SEGMENTS
from lance_ops.table.commit.jobs.job_keys import find_job
from lance_ops.table.commit.jobs.job_record import SEAL, JobRecord
from lance_ops.table.commit.jobs.stream_epochs import Epoch, is_due
from lance_ops.table.commit.jobs.stream_notes import stream_key
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.operations import JOBS_ENTRY, MapUpdate, UpdateConfig
from tests.support.faulty_store import FaultyStore, InjectedCrash, crash_moments
from tests.support.table_actions import commit

ARCHIVE = Path(__file__).parents[3] / "fixtures" / "job-record-0.1.0.zip"
EPOCHS = [stream_key("q", number) for number in range(3)]
DONE = [*"ABDEG", *EPOCHS]
"""Of the table of the fixture, whose script says how it came about."""
NOT_DONE = [*"CFHX", stream_key("q", 3)]


def rows(key: str) -> pa.Table:
    return pa.table({"k": [key]})


def append(uri, key: str):
    return lo.append(uri, rows(key), job_key=key)


def clean_by_us(uri) -> None:
    lo.cleanup(uri, retain_versions=1)


def clean_by_the_peer(uri) -> None:
    lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)


def extract(folder: Path) -> str:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    old = time.time() - 7200
    for path in (folder / "t.lance" / NOTES).iterdir():
        os.utime(path, (old, old))
    return str(folder / "t.lance")


@pytest.fixture
def uri(tmp_path) -> str:
    return extract(tmp_path)


def check(uri, done=DONE, not_done=NOT_DONE) -> None:
    dataset = lo.dataset(uri)
    assert [key for key in (*done, *not_done) if find_job(dataset, key) is not None] == list(done)


@pytest.mark.parametrize("clean", [clean_by_us, clean_by_the_peer])
def test_keys_of_an_earlier_release_are_found_and_taken_over(uri, clean):
    check(uri)
    lo.compact(uri)
    check(uri)
    assert not append(uri, "X").already_committed
    assert JOBS_ENTRY in lo.dataset(uri).config
    lo.compact(uri)
    clean(uri)
    check(uri, [*DONE, "X"], NOT_DONE[:3])
    for key in DONE:
        assert append(uri, key).already_committed
    lo.restore(uri, "d")
    check(uri, list("ABD"), ["C", "E", "F", "G", "H", "X", *EPOCHS])
    assert not append(uri, "E").already_committed
    clean(uri)
    check(uri, list("ABDE"), ["C", "F", "G", "X"])


def test_a_cleanup_takes_the_keys_over_before_it_removes_versions(uri):
    clean_by_us(uri)
    check(uri)
    clean_by_us(uri)
    lo.compact(uri)
    clean_by_the_peer(uri)
    check(uri)


def test_a_restore_under_a_job_key_takes_over_the_keys_of_the_version_that_it_brings_back(uri):
    lo.restore(uri, 9, job_key="back")
    clean_by_the_peer(uri)
    check(uri, [*"ABDEF", "back"], ["C", "G", *EPOCHS])


def test_streams_go_on(uri):
    assert not is_due(lo.dataset(uri), Epoch("q", 2, "checkpoint"))
    assert is_due(lo.dataset(uri), Epoch("q", 3, "checkpoint"))
    lo.compact(uri)
    clean_by_us(uri)
    assert not is_due(lo.dataset(uri), Epoch("q", 2, "checkpoint"))
    assert is_due(lo.dataset(uri), Epoch("q", 3, "checkpoint"))


def test_without_its_record_a_copy_knows_the_jobs_whose_files_it_has(uri):
    shutil.rmtree(f"{uri}/_lance_ops")
    check(uri, [*"EG", *EPOCHS], ["C", "F", "X"])
    clean_by_us(uri)
    lo.compact(uri)
    clean_by_the_peer(uri)
    check(uri, [*"EG", *EPOCHS], ["C", "F", "X"])


def test_where_the_peer_removed_versions_before_it_was_taken_over_nothing_is_guessed(uri):
    lance.write_dataset(rows("x"), uri, mode="overwrite")
    clean_by_the_peer(uri)
    for key in "ABDE":
        with pytest.raises(JobUnprovenError, match="unknown"):
            append(uri, key)
    append(uri, "X")
    for key in "ABDE":
        with pytest.raises(JobUnprovenError, match="another job key"):
            append(uri, key)


def test_damage_of_a_segment_is_an_error_and_never_an_answer(uri):
    store = open_store(uri)
    (info,) = store.list(SEGMENTS)
    data = bytearray(bytes(store.read(info.path)))
    for damaged in (data[:90], bytes([data[0] ^ 1]) + data[1:]):
        store.put(info.path, damaged)
        with pytest.raises(CorruptFileError, match="job keys"):
            append(uri, "X")


def test_processes_of_earlier_releases_are_kept_from_using_keys(uri):
    """They report two entries of a segment that are out of order as damage, whatever key they look for."""
    append(uri, "X")
    data = bytes(open_store(uri).read(SEAL))
    assert SEAL.endswith("-2-0.keys")
    assert len(data) == 2 * 48
    assert data[:8] > data[48:56]


@pytest.mark.parametrize("crashed", [False, True])
def test_what_such_a_process_was_about_to_commit_is_found_by_its_note(uri, crashed):
    old = lo.dataset(uri)
    append(uri, "X")
    # It looked for its job before the seal was there; its commits know of no record.
    with mock.patch("lance_ops.table.commit.loop.with_job", lambda store, head, before, after, *_: after):
        done = commit(old, UpdateConfig(MapUpdate({"y": "1"})), job_key="Y", job_is_new=True)
    uuid = done.transaction.uuid
    store = open_store(uri)
    store.put(f"{NOTES}/{uuid}.{old.version}.{0:016x}", b"")
    if not crashed:
        store.put(f"{NOTES}/{uuid}.{old.version}.{0:016x}.{done.version}.1795814013395203", b"")
    append(uri, "Z")
    assert find_job(lo.dataset(uri), "Y").version == done.version
    lo.create_tag(uri, "after")
    lo.restore(uri, done.version - 1)
    clean_by_the_peer(uri)
    assert find_job(lo.dataset(uri), "Y") is None
    lo.restore(uri, "after")
    if crashed:
        with pytest.raises(JobUnprovenError):
            find_job(lo.dataset(uri), "Y")
    else:
        assert find_job(lo.dataset(uri), "Y").version == done.version


def test_taking_over_may_be_interrupted_anywhere(tmp_path):
    start = extract(tmp_path)

    def interrupted(number=None, when="before"):
        uri = str(tmp_path / f"{number}-{when}.lance")
        shutil.copytree(start, uri)
        store = FaultyStore(open_store(uri), number, when=when)
        with contextlib.suppress(InjectedCrash):
            lo.cleanup(Dataset.open(store), retain_versions=1)
        check(uri)
        append(uri, "X")
        clean_by_us(uri)
        check(uri, [*DONE, "X"], NOT_DONE[:3])
        shutil.rmtree(uri)
        return store

    for moment in crash_moments(range(1, interrupted().counted + 1)):
        assert interrupted(*moment).fired


def test_a_random_name_that_looks_like_one_of_a_job_is_not_recorded(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(rows("a"), uri)
    looks_so = uuid.UUID("5b0bed16-8961-4e6d-8fe1-91c5031253aa")
    with mock.patch.object(uuid, "uuid4", return_value=looks_so):
        lo.update_config(uri, {"x": "1"})
    lo.append(uri, rows("b"), job_key="A")
    record = JobRecord.of(lo.dataset(uri).config, uri)
    assert record is not None
    assert len(record.recent) == 1
    assert lo.append(uri, rows("b"), job_key="A").already_committed
