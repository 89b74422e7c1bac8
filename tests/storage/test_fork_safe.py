"""What the threads of a process held when it forked, nobody waits for in the child."""

import contextlib
import multiprocessing
import os
import re
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from botocore.credentials import RefreshableCredentials

import lance_ops as lo
from lance_ops import cache
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
    with cache._lock:
        child.start()
    try:
        assert answers.get(timeout=30) == 1
    finally:
        child.kill()
        child.join()


def _forks(count, in_child):
    """How many of so many forked children end well; one that does not within its time hangs."""
    good = 0
    for _ in range(count):
        child = os.fork()
        if not child:
            signal.alarm(20)
            try:
                in_child()
            except BaseException:  # noqa: BLE001 - the child must not go on as the test
                os._exit(1)
            os._exit(0)
        good += os.waitpid(child, 0)[1] == 0
    return good


@contextlib.contextmanager
def _busy(work, threads=4):
    stop = threading.Event()

    def run():
        while not stop.is_set():
            work()

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in running:
            thread.join()


def test_a_lock_that_threads_contend_for_is_open_in_every_fork():
    """Also where a thread has acquired it and does not know it yet."""
    lock = fork_safe.new_lock()

    def work():
        with lock:
            sum(range(50))

    def in_child():
        assert lock.acquire(timeout=5)
        assert lock.locked()
        lock.release()
        assert not lock.locked()

    with _busy(work):
        assert _forks(40, in_child) == 40


class _Slow:
    computing = threading.Event()
    go_on = threading.Event()

    @fork_safe.cached_property
    def value(self):
        self.computing.set()
        self.go_on.wait()
        return 1


def test_a_property_that_a_thread_computes_is_computed_anew_in_a_fork():
    thread = threading.Thread(target=lambda: _Slow().value)
    thread.start()
    _Slow.computing.wait()

    def in_child():
        _Slow.go_on.set()
        assert _Slow().value == 1

    try:
        assert _forks(1, in_child) == 1
    finally:
        _Slow.go_on.set()
        thread.join()


def test_a_fork_reads_and_writes_while_threads_of_its_parent_scan(tmp_path):
    uri = tmp_path / "t.lance"
    lo.write_dataset(pa.table({"id": range(400)}), uri, max_rows_per_file=100)
    lo.create_index(uri, "id")
    dataset = lo.dataset(uri)
    dataset.to_table(filter="id = 5")

    def in_child():
        assert dataset.to_table(filter="id = 7")["id"].to_pylist() == [7]
        lo.append(uri, pa.table({"id": [1000]}))

    with _busy(lambda: dataset.to_table(filter="id < 100")):
        assert _forks(6, in_child) == 6
    assert lo.dataset(uri).count_rows("id = 1000") == 6


def test_each_lock_of_the_package_is_open_in_a_fork():
    """Locks come from `new_lock`, or their module has a hook of its own."""
    package = Path(lo.__file__).parent
    unsafe = re.compile(
        r"threading\.(R?Lock|Condition|Semaphore)\(|default_factory=threading\.(R?Lock|Condition)|"
        r"functools import .*\bcached_property"
    )
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if (text := path.read_text("utf-8")) and "register_at_fork" not in text and unsafe.search(text)
    }
    assert found == set()


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
