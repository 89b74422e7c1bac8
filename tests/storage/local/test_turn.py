"""Turns by a lock on a folder: one holder at a time, freed when it dies, and never more than advice."""

import errno
import fcntl
import multiprocessing
import os
import signal
import threading
import time

import pytest

from lance_ops.storage import open_store
from lance_ops.storage.local import turn as turns
from lance_ops.storage.local.turn import FolderTurn
from lance_ops.storage.store import takes_turns

FORK = multiprocessing.get_context("fork")
SPAWN = multiprocessing.get_context("spawn")


def _hold(folder, ready) -> None:
    assert FolderTurn(folder).wait(1.0)
    ready.set()
    signal.pause()


def holder(folder):
    ready = SPAWN.Event()
    process = SPAWN.Process(target=_hold, args=(str(folder), ready), daemon=True)
    process.start()
    assert ready.wait(60)
    return process


def test_one_has_the_turn_until_it_ends(tmp_path):
    first, second = FolderTurn(str(tmp_path)), FolderTurn(str(tmp_path))
    assert first.wait(0.0)
    assert first.wait(0.0)
    assert not second.wait(0.01)
    assert (first.is_held, second.is_held) == (True, False)
    first.end()
    assert not first.is_held
    assert second.wait(0.0)
    second.end()
    second.end()
    assert os.listdir(tmp_path) == []


def test_threads_of_one_process_take_turns(tmp_path):
    inside, most = [], []

    def work():
        mine = FolderTurn(str(tmp_path))
        assert mine.wait(60.0)
        inside.append(1)
        most.append(len(inside))
        inside.pop()
        mine.end()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


def test_the_turn_of_a_process_that_dies_ends(tmp_path):
    process = holder(tmp_path)
    assert not FolderTurn(str(tmp_path)).wait(0.0)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    mine = FolderTurn(str(tmp_path))
    assert mine.wait(0.0)
    mine.end()


def test_whoever_waits_for_one_that_hangs_is_told_so_in_time(tmp_path):
    process = holder(tmp_path)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        assert not FolderTurn(str(tmp_path)).wait(0.05)
        assert time.monotonic() - started >= 0.05
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.join()


@pytest.fixture
def long_waits(monkeypatch):
    """Every wait counts as a long one; tells how often it was slept."""
    slept, sleep = [], time.sleep
    monkeypatch.setattr(turns, "_LONG", 0.0)
    monkeypatch.setattr(turns.time, "sleep", lambda seconds: slept.append(seconds) or sleep(seconds))
    yield slept
    turns._hanging.clear()


def test_a_holder_that_hangs_is_waited_for_once(tmp_path, long_waits, monkeypatch):
    process = holder(tmp_path)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        assert not FolderTurn(str(tmp_path)).wait(0.05)
        assert long_waits
        long_waits.clear()
        for _ in range(3):
            assert not FolderTurn(str(tmp_path)).wait(600.0)
        assert not long_waits
        # Not for ever: it may have gone on since, with short turns.
        monkeypatch.setattr(turns, "_NOT_AGAIN_FOR", 0.0)
        turns._hanging.clear()
        for _ in range(2):
            long_waits.clear()
            assert not FolderTurn(str(tmp_path)).wait(0.05)
            assert long_waits
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.join()


def test_another_holder_than_the_one_that_hung_is_waited_for(tmp_path, long_waits):
    first = holder(tmp_path)
    assert not FolderTurn(str(tmp_path)).wait(0.05)
    os.kill(first.pid, signal.SIGKILL)
    first.join()
    second = holder(tmp_path)
    long_waits.clear()
    assert not FolderTurn(str(tmp_path)).wait(0.05)
    assert long_waits
    os.kill(second.pid, signal.SIGKILL)
    second.join()
    mine = FolderTurn(str(tmp_path))
    assert mine.wait(0.0)
    mine.end()
    assert not turns._hanging


@pytest.mark.parametrize(
    "told", [None, b"", b"\xff\xfe", b"1: FLOCK ADVISORY WRITE -1 00:00:0 0 EOF\n", b"1:\n"]
)
def test_where_nobody_tells_who_has_it_every_wait_is_a_whole_one(tmp_path, long_waits, monkeypatch, told):
    locks = tmp_path / "locks"
    if told is not None:
        locks.write_bytes(told)
    monkeypatch.setattr(turns, "_LOCKS", str(locks))
    first = FolderTurn(str(tmp_path))
    assert first.wait(0.0)
    for _ in range(2):
        long_waits.clear()
        assert not FolderTurn(str(tmp_path)).wait(0.02)
        assert long_waits
    first.end()


def _wait_in_child(folder, inherited, out) -> None:
    # What came along by the fork is not the child's, and ending it frees nothing.
    inherited.end()
    out.put(FolderTurn(folder).wait(0.0))
    signal.pause()


def test_a_forked_child_neither_has_the_turn_nor_keeps_it(tmp_path):
    mine, out = FolderTurn(str(tmp_path)), FORK.SimpleQueue()
    assert mine.wait(0.0)
    child = FORK.Process(target=_wait_in_child, args=(str(tmp_path), mine, out), daemon=True)
    child.start()
    try:
        assert out.get() is False
        assert not FolderTurn(str(tmp_path)).wait(0.0)
        mine.end()
        other = FolderTurn(str(tmp_path))
        assert other.wait(0.0)
        other.end()
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.join()


def _die_with_a_child(folder, out) -> None:
    assert FolderTurn(folder).wait(1.0)
    child = os.fork()
    if not child:
        signal.pause()
    out.put(child)
    signal.pause()


def test_a_child_that_outlives_the_holder_does_not_keep_the_turn(tmp_path):
    out = SPAWN.Queue()
    process = SPAWN.Process(target=_die_with_a_child, args=(str(tmp_path), out), daemon=True)
    process.start()
    child = out.get(timeout=60)
    try:
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        # The child closes what it shares as the first thing that it does, which may be still to come.
        mine = FolderTurn(str(tmp_path))
        assert mine.wait(60.0)
        mine.end()
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOLCK, errno.EBADF, errno.ENOSYS])
def test_without_locks_there_are_no_turns(tmp_path, monkeypatch, number):
    def refuse(descriptor, how):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(turns.fcntl, "flock", refuse)
    before = len(os.listdir("/proc/self/fd"))
    mine = FolderTurn(str(tmp_path))
    assert not mine.wait(60.0)
    assert not mine.is_held
    mine.end()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_that_is_not_there_has_no_turns(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for name in ("absent", "file"):
        assert not FolderTurn(str(tmp_path / name)).wait(60.0)


def test_a_folder_that_may_only_be_read_has_turns(tmp_path):
    tmp_path.chmod(0o500)
    try:
        mine = FolderTurn(str(tmp_path))
        assert mine.wait(0.0)
        mine.end()
    finally:
        tmp_path.chmod(0o700)


def test_an_interrupted_wait_leaves_no_descriptor(tmp_path, monkeypatch):
    first = FolderTurn(str(tmp_path))
    assert first.wait(0.0)

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(turns.time, "sleep", interrupt)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(KeyboardInterrupt):
        FolderTurn(str(tmp_path)).wait(60.0)
    assert len(os.listdir("/proc/self/fd")) == before
    first.end()


def test_stores_of_folders_take_turns_and_others_do_not(tmp_path):
    store = open_store(str(tmp_path))
    assert takes_turns(store)
    (tmp_path / "a").mkdir()
    mine = store.turn("a")
    assert mine.wait(0.0)
    descriptor = os.open(tmp_path / "a", os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
    mine.end()
    assert not takes_turns(open_store("memory://turns"))
