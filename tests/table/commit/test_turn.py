"""Commits take turns on one machine, and lose nothing where they cannot."""

import errno
import fcntl
import os
import threading

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.storage.local import turn as folder_turns
from lance_ops.table.commit import loop
from lance_ops.table.commit import turn as turns

ROWS = pa.table({"x": [1, 2]})


@pytest.fixture
def uri(tmp_path):
    lo.write_dataset(ROWS, str(tmp_path / "t"))
    return str(tmp_path / "t")


def taken(uri: str) -> bool:
    """Whether somebody has the turn."""
    descriptor = os.open(f"{uri}/_versions", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def append_at_once(uri: str, writers: int, each: int) -> list[int]:
    """Append rows from several threads, and say how many attempts each commit took."""
    attempts, failures = [], []

    def work():
        try:
            for _ in range(each):
                attempts.append(lo.append(uri, ROWS).version)
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    return attempts


def test_the_turn_lasts_from_the_look_at_the_head_until_the_version_has_its_name(uri, monkeypatch):
    seen = {}
    publish, settle, find = loop.publish, loop.settle, loop.known_head

    def spy(name, inner):
        def call(*args, **kwargs):
            seen[name] = taken(uri)
            return inner(*args, **kwargs)

        return call

    monkeypatch.setattr(loop, "known_head", spy("look", find))
    monkeypatch.setattr(loop, "publish", spy("publish", publish))
    monkeypatch.setattr(loop, "settle", spy("settle", settle))
    lo.append(uri, ROWS)
    assert seen == {"look": True, "publish": True, "settle": False}
    assert not taken(uri)


def test_writers_in_a_queue_lose_no_race(uri, monkeypatch):
    # However slow the machine is: nobody goes on without the turn.
    monkeypatch.setattr(turns, "_LONGEST_WAIT", 600.0)
    lost = []
    publish = loop.publish
    monkeypatch.setattr(loop, "publish", lambda *args: publish(*args) or lost.append(args) or False)
    append_at_once(uri, 4, 5)
    assert not lost
    assert lo.dataset(uri).count_rows() == 2 * 21
    assert lo.dataset(uri).version == 21


def test_a_holder_that_hangs_delays_a_commit_and_does_not_stop_it(uri, monkeypatch):
    monkeypatch.setattr(turns, "_LONGEST_WAIT", 0.02)
    hanging = folder_turns.FolderTurn(f"{uri}/_versions")
    assert hanging.wait(0.0)
    assert lo.append(uri, ROWS).version == 2
    assert append_at_once(uri, 3, 2)
    hanging.end()
    assert lo.dataset(uri).count_rows() == 2 * 8


def test_without_locks_nothing_is_lost(uri, monkeypatch):
    def refuse(descriptor, how):
        raise OSError(errno.EOPNOTSUPP, "no locks")

    monkeypatch.setattr(folder_turns.fcntl, "flock", refuse)
    append_at_once(uri, 4, 3)
    assert lo.dataset(uri).count_rows() == 2 * 13


def test_a_commit_that_fails_ends_its_turn(uri, monkeypatch):
    def fail(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "encode_manifest", fail)
    with pytest.raises(KeyboardInterrupt):
        lo.append(uri, ROWS)
    assert not taken(uri)


def test_a_race_that_is_lost_to_one_outside_the_queue_is_tried_again_at_once(uri, monkeypatch):
    publish, slept = loop.publish, []
    rivals = [3, 2, 1]

    def overtaken(*args):
        if rivals:
            rivals.pop()
            lance.write_dataset(ROWS, uri, mode="append")
        return publish(*args)

    monkeypatch.setattr(loop, "publish", overtaken)
    monkeypatch.setattr(turns.time, "sleep", slept.append)
    assert lo.append(uri, ROWS).version == 5
    assert not slept
    assert lo.dataset(uri).count_rows() == lance.dataset(uri).count_rows() == 10


def test_the_peer_appends_beside_a_queue(uri):
    stop = threading.Event()
    added, failures = [], []

    def peer():
        while not stop.is_set():
            try:
                lance.write_dataset(ROWS, uri, mode="append")
                added.append(1)
            except Exception as error:  # noqa: BLE001 - raised below
                failures.append(error)
                return

    thread = threading.Thread(target=peer)
    thread.start()
    append_at_once(uri, 3, 4)
    stop.set()
    thread.join()
    assert not failures
    assert lo.dataset(uri).count_rows() == lance.dataset(uri).count_rows() == 2 * (13 + len(added))


def test_turns_leave_nothing_in_the_dataset(uri):
    before = {name for _, _, names in os.walk(uri) for name in names}
    lo.append(uri, ROWS)
    new = {name for _, _, names in os.walk(uri) for name in names} - before
    assert all(name.endswith((".lance", ".manifest", ".txn")) or "hint" in name for name in new), new
    assert lance.dataset(uri).count_rows() == 4
