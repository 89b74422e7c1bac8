"""The record of jobs in the config: what it holds, when it writes a file, and what damage does to it."""

import os
import shutil
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CorruptFileError, CorruptManifestError, JobUnprovenError, UnsupportedError
from lance_ops.storage import open_store
from lance_ops.table.commit.jobs import job_record
from lance_ops.table.commit.jobs.job_keys import find_job
from lance_ops.table.commit.jobs.job_record import (
    DIRECTORY,
    DONE,
    RECENT,
    JobEntry,
    JobRecord,
    new_entry,
    remove_unused_files,
)
from lance_ops.table.commit.jobs.stream_notes import stream_key
from lance_ops.table.transaction.operations import JOBS_ENTRY, Append
from lance_ops.table.transaction.transaction import job_uuid, job_uuid_prefix
from tests.support.counting_store import CountingStore
from tests.support.table_actions import commit

NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


@pytest.fixture
def store():
    return open_store(f"memory://{uuid.uuid4()}")


def entry(key: str, version: int = 7) -> JobEntry:
    return new_entry(job_uuid(key), key, version, [f"data/{key}.lance"])


def found(record: JobRecord, store, key: str) -> JobEntry | None:
    return record.find(store, job_uuid_prefix(key))


def test_a_record_reads_as_it_was_written(store):
    one, other = entry("one"), entry(stream_key("q", 3), 2**62)
    record = JobRecord(5, NOW).add(store, one, other)
    assert JobRecord.of({JOBS_ENTRY: str(record)}, "") == record
    assert found(record, store, "one") == one
    assert found(record, store, stream_key("q", 3)) == other
    assert found(record, store, "none") is None
    assert JobRecord.of({}, "") is None
    assert list(store.list("")) == []


def test_a_full_record_moves_to_a_file(store):
    jobs = [entry(str(number), number + 1) for number in range(3 * RECENT + 5)]
    record = JobRecord(1, NOW)
    for job in jobs:
        record = record.add(store, job)
        assert len(str(record)) < 9000
    # What the versions in between name stays.
    assert len(list(store.list(DONE))) == 3
    counting = CountingStore(store)
    for number in (0, RECENT, 3 * RECENT + 4):
        assert found(record, counting, str(number)) == jobs[number]
    assert found(record, counting, "none") is None
    assert len(counting.requests) == 3
    assert [*record.filed(store), *record.recent] == jobs


def test_the_newest_keys_are_kept(store, monkeypatch):
    monkeypatch.setattr(job_record, "MAX_JOB_KEYS", 200)
    record = JobRecord(1, NOW).add(store, *(entry(str(number)) for number in range(300)))
    assert found(record, store, "99") is None
    assert found(record, store, "100") is not None


def test_of_a_stream_the_last_epoch_is_kept(store):
    record = JobRecord(1, NOW).add(store, entry("one"))
    for number in range(5 * RECENT):
        record = record.add(
            store, *(entry(stream_key(query, number)) for query in ("p", "q")), entry(str(number))
        )
    jobs = [*record.filed(store), *record.recent]
    assert len({job.uuid for job in jobs if job.stream and found(record, store, "p")}) <= 4
    for query in ("p", "q"):
        assert found(record, store, stream_key(query, 5 * RECENT - 1)) is not None
    assert found(record, store, "one") is not None


@pytest.mark.parametrize("text", ["", "1 5", "1 5 7 -\nx", "1 5 7 -\n", "1 5 7 ../x"])
def test_a_damaged_entry_is_an_error(tmp_path, text):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"k": [1]}), job_key="one")
    lance.dataset(uri).update_config({JOBS_ENTRY: text})
    with pytest.raises(CorruptManifestError, match=JOBS_ENTRY):
        find_job(lo.dataset(uri), "one")
    with pytest.raises(CorruptManifestError, match=JOBS_ENTRY):
        lo.append(uri, pa.table({"k": [1]}), job_key="two")


def test_a_later_format_is_refused():
    with pytest.raises(UnsupportedError, match="format 2"):
        JobRecord.of({JOBS_ENTRY: "2 5 7 -\nsomething else"}, "")


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"\xff" + data[1:]])
def test_a_damaged_file_is_an_error_and_never_an_answer(store, damage):
    record = JobRecord(1, NOW).add(store, *(entry(str(number)) for number in range(2 * RECENT)))
    path = f"{DONE}/{record.file}"
    store.put(path, damage(bytes(store.read(path))))
    with pytest.raises(CorruptFileError, match="damaged"):
        found(record, store, "none")
    with pytest.raises(CorruptFileError, match="damaged"):
        record.add(store, *(entry(f"x{number}") for number in range(2 * RECENT)))


def test_a_copy_without_the_file_knows_the_newest_jobs_and_guesses_no_other(store):
    record = JobRecord(1, NOW).add(store, *(entry(str(number)) for number in range(2 * RECENT)))
    record = record.add(store, entry("new"))
    store.delete(f"{DONE}/{record.file}")
    assert found(record, store, "new") is not None
    with pytest.raises(JobUnprovenError, match="missing"):
        found(record, store, "0")
    with pytest.raises(JobUnprovenError, match="missing"):
        record.add(store, *(entry(f"x{number}") for number in range(RECENT)))


def keyed_table(tmp_path, monkeypatch) -> str:
    """A table whose rows no file of a job has, and whose record has a file."""
    monkeypatch.setattr(job_record, "RECENT", 2)
    uri = str(tmp_path / "t.lance")
    for number in range(4):
        lo.append(uri, pa.table({"k": [number]}), job_key=str(number))
    lo.compact(uri)
    return uri


def clean_by_the_peer(uri: str) -> None:
    lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)


def test_branches_and_clones_know_the_jobs_of_the_version_that_they_were_made_of(tmp_path, monkeypatch):
    uri = keyed_table(tmp_path, monkeypatch)
    peer = lance.dataset(uri)
    copies = [f"{tmp_path}/c{number}.lance" for number in range(3)]
    lo.create_branch(uri, "ours")
    peer.create_branch("theirs")
    lo.shallow_clone(uri, copies[0])
    peer.shallow_clone(copies[1], peer.version)
    lo.deep_clone(uri, copies[2])
    for place in (*copies, f"{uri}/tree/ours", f"{uri}/tree/theirs"):
        for number in range(7):
            done = lo.append(place, pa.table({"k": [number]}), job_key=str(number)).already_committed
            assert done is (number < 4)
        for number in range(7):
            assert lo.append(place, pa.table({"k": [number]}), job_key=str(number)).already_committed
        assert lo.dataset(place).count_rows() == 7


def test_a_cleanup_keeps_the_file_for_a_clone_that_it_is_given(tmp_path, monkeypatch):
    uri, clone = keyed_table(tmp_path, monkeypatch), f"{tmp_path}/c.lance"
    lance.dataset(uri).shallow_clone(clone, lance.dataset(uri).version)
    for number in range(4, 10):
        lo.append(uri, pa.table({"k": [number]}), job_key=str(number))
    for path in Path(uri, DONE).iterdir():
        os.utime(path, (0, 0))
    lo.cleanup(uri, retain_versions=1, clones=[clone])
    assert len(list(Path(uri, DONE).iterdir())) == 2
    assert lo.append(clone, pa.table({"k": [0]}), job_key="0").already_committed


def test_a_copy_by_the_peer_reports_that_the_file_is_missing_until_it_is_there(tmp_path, monkeypatch):
    uri = keyed_table(tmp_path, monkeypatch)
    copy = f"{tmp_path}/c.lance"
    lance.dataset(uri).deep_clone(copy, lance.dataset(uri).version)
    for key in ("0", "new"):
        with pytest.raises(JobUnprovenError, match="copy _lance_ops/job_keys/done"):
            lo.append(copy, pa.table({"k": [0]}), job_key=key)
    shutil.copytree(f"{uri}/{DONE}", f"{copy}/{DONE}")
    assert lo.append(copy, pa.table({"k": [0]}), job_key="0").already_committed
    assert not lo.append(copy, pa.table({"k": [0]}), job_key="new").already_committed


def test_a_record_that_the_peer_removed_is_not_taken_for_one_without_jobs(tmp_path, monkeypatch):
    uri = keyed_table(tmp_path, monkeypatch)
    lance.dataset(uri).update_config({"x": "1"}, replace=True)
    assert lo.append(uri, pa.table({"k": [0]}), job_key="0").already_committed
    clean_by_the_peer(uri)
    for _ in range(2):
        for key in ("0", "new"):
            with pytest.raises(JobUnprovenError, match="unknown"):
                lo.append(uri, pa.table({"k": [0]}), job_key=key)
        lo.append(uri, pa.table({"k": [5]}))
        lo.compact(uri)
        lo.cleanup(uri, retain_versions=1)
    # As the hint says: to forget them all.
    lance.dataset(uri).delete_config_keys([JOBS_ENTRY])
    shutil.rmtree(f"{uri}/{DIRECTORY}")
    assert not lo.append(uri, pa.table({"k": [0]}), job_key="new").already_committed


def test_a_cleanup_of_ours_keeps_a_record_that_the_peer_removed(tmp_path, monkeypatch):
    uri = keyed_table(tmp_path, monkeypatch)
    lance.dataset(uri).update_config({"x": "1"}, replace=True)
    lo.cleanup(uri, retain_versions=1)
    clean_by_the_peer(uri)
    for number in range(4):
        assert lo.append(uri, pa.table({"k": [number]}), job_key=str(number)).already_committed


def test_a_first_job_that_failed_leaves_no_doubt(tmp_path):
    uri = str(tmp_path / "t.lance")
    for _ in range(3):
        lo.append(uri, pa.table({"k": [0]}))
    clean_by_the_peer(uri)
    fails = patch("lance_ops.table.commit.loop.publish", side_effect=KeyboardInterrupt)
    with fails, pytest.raises(KeyboardInterrupt):
        lo.append(uri, pa.table({"k": [1]}), job_key="one")
    clean_by_the_peer(uri)
    assert not lo.append(uri, pa.table({"k": [1]}), job_key="one").already_committed
    assert lo.append(uri, pa.table({"k": [1]}), job_key="one").already_committed


def test_a_transaction_whose_random_name_is_like_that_of_a_job_is_no_lost_record():
    """One in 16 is: names of the earlier record are told from random ones by one digit."""
    store = open_store(f"memory://{uuid.uuid4().hex}")
    base = lo.write_dataset(pa.table({"a": [1]}), store).snapshot()
    lo.append(store, pa.table({"a": [2]}))
    (late,) = lo.write_fragments(pa.table({"a": [3]}), store)
    with patch.object(uuid, "uuid4", return_value=uuid.UUID("b334f170-8cc6-41b8-9dd1-2b1454fe29f2")):
        commit(base, Append((late,)))
    # What was committed between the read version and this one can no longer be read.
    lo.cleanup(store, older_than=timedelta(0), retain_versions=1)
    assert not lo.append(store, pa.table({"a": [4]}), job_key="load").already_committed
    assert lo.append(store, pa.table({"a": [4]}), job_key="load").already_committed
    assert not lo.append(store, pa.table({"a": [5]}), job_key="other").already_committed


def test_files_that_a_version_names_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(job_record, "RECENT", 2)
    uri = str(tmp_path / "t.lance")
    for number in range(10):
        lo.append(uri, pa.table({"k": [number]}), job_key=str(number))
        if number == 4:
            lo.create_tag(uri, "tag")
    store = open_store(uri)
    later = datetime.now(UTC) + timedelta(days=2)
    assert len(list(store.list(DONE))) == 3
    lo.cleanup(uri, retain_versions=1, delete_unverified=True)
    # Those of the last day stay for commits under way.
    assert len(list(store.list(DONE))) == 3
    configs = [lo.dataset(uri, version.version).config for version in lo.dataset(uri).versions()]
    assert len(configs) == 2
    assert remove_unused_files(store, configs, later) == 1
    assert remove_unused_files(store, configs, later) == 0
    for number in range(10):
        assert lo.append(uri, pa.table({"k": [number]}), job_key=str(number)).already_committed
    lo.restore(uri, "tag")
    for number in range(10):
        assert lo.append(uri, pa.table({"k": [number]}), job_key=str(number)).already_committed is (
            number < 5
        )
