"""What the threads of a process held when it forked, nobody waits for in the child."""

import multiprocessing
import os
from datetime import UTC, datetime

import pyarrow as pa
from botocore.credentials import RefreshableCredentials

import lance_ops as lo
from lance_ops.index import opened
from lance_ops.storage import fork_safe
from lance_ops.storage.objects import aws_credentials


def _read_in_child(dataset, answers):
    answers.put((lo.dataset(dataset.uri).count_rows("a > 3"), dataset.to_table()["a"].to_pylist()))


def test_a_fork_reads_whatever_the_threads_of_its_parent_were_at(tmp_path):
    lo.write_dataset(pa.table({"a": range(10)}), tmp_path / "t.lance")
    dataset = lo.dataset(tmp_path / "t.lance")
    dataset.to_table()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_read_in_child, args=(dataset, answers), daemon=True)
    held = [lock for lock in list(fork_safe._every) if lock.acquire(blocking=False)]
    assert held
    try:
        child.start()
    finally:
        for lock in held:
            lock.release()
    try:
        assert answers.get(timeout=60) == (6, list(range(10)))
    finally:
        child.kill()
        child.join()


def test_a_fork_searches_while_a_thread_of_its_parent_looks_for_an_open_index(tmp_path):
    lo.write_dataset(pa.table({"a": range(10)}), tmp_path / "t.lance")
    lo.create_index(tmp_path / "t.lance", "a", "BTREE")
    dataset = lo.dataset(tmp_path / "t.lance")
    assert dataset.count_rows("a = 3") == 1
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=lambda: answers.put(dataset.to_table(filter="a = 4").num_rows))
    with opened._lock:
        child.start()
    try:
        assert answers.get(timeout=30) == 1
    finally:
        child.kill()
        child.join()


def test_a_lock_that_nobody_holds_stays_open_in_a_fork():
    lock = fork_safe.new_lock()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=lambda: answers.put(lock.acquire(timeout=0)))
    child.start()
    assert answers.get(timeout=60)
    child.join()


def test_credentials_found_before_a_fork_are_looked_for_anew_in_the_child(monkeypatch):
    """Those of the parent renew themselves under a lock of their own, which a thread may have held."""
    found = []

    class Session:
        def get_credentials(self):
            found.append(os.getpid())
            return RefreshableCredentials(
                "key", "secret", "token", datetime.max.replace(tzinfo=UTC), dict, "test"
            )

    monkeypatch.setattr(aws_credentials, "_session", lambda _profile: Session())
    monkeypatch.setattr(RefreshableCredentials, "refresh_needed", lambda *_arguments, **_options: False)
    credentials = aws_credentials.BotocoreCredentials()
    assert credentials()["access_key_id"] == credentials()["access_key_id"] == "key"
    assert found == [os.getpid()]
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=lambda: answers.put((credentials()["token"], len(found))))
    child.start()
    try:
        assert answers.get(timeout=60) == ("token", 2)
    finally:
        child.kill()
        child.join()
