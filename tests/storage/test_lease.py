"""The lease of a dataset: one holder at a time, also of many that try at once, and after one died."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lance_ops.errors import LeaseHeldError, StorageError
from lance_ops.fleet.stores.metered import meter
from lance_ops.storage import lease, open_store
from lance_ops.storage.lease import FOLDER, LEASE, Lease, is_held


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "t.lance"))


def age(tmp_path, seconds: float) -> None:
    for path in (tmp_path / "t.lance" / FOLDER).iterdir():
        then = time.time() - seconds
        os.utime(path, (then, then))


def test_one_holds_it_and_lets_go(store):
    with Lease(store, "first"):
        assert is_held(store)
        with pytest.raises(LeaseHeldError, match="first"), Lease(store, "second"):
            pass
    assert not is_held(store)
    assert not list(store.list(FOLDER))
    with Lease(store, "second"):
        pass


def test_one_that_died_is_passed_over_when_its_lease_is_old(store, tmp_path):
    dead = Lease(store, "dead")
    dead.__enter__()
    dead._heartbeat.stop()
    with pytest.raises(LeaseHeldError), Lease(store, "next"):
        pass
    age(tmp_path, LEASE.total_seconds() + 1)
    assert not is_held(store)
    with Lease(store, "next") as held:
        held.check()
        # The dead was only slow: it sees that it was overrun.
        dead._renewed -= LEASE.total_seconds()
        with pytest.raises(LeaseHeldError):
            dead.check()
    dead.renew()
    assert not list(store.list(FOLDER))
    dead.__exit__()


def test_of_many_that_try_at_once_one_works_at_a_time(store):
    at_work, most, done = 0, 0, 0
    lock = threading.Lock()

    def work(number: int) -> None:
        nonlocal at_work, most, done
        for _ in range(8):
            try:
                with Lease(store, str(number)):
                    with lock:
                        at_work += 1
                        most = max(most, at_work)
                        done += 1
                    with lock:
                        at_work -= 1
            except LeaseHeldError:
                continue

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert most == 1
    assert done > 0


def test_where_nobody_is_it_takes_three_requests(store):
    counted = meter(store)
    with Lease(counted, "first"):
        pass
    assert counted.requests == 3


def test_who_was_stopped_for_long_leaves_the_lease_of_another_alone(store, tmp_path):
    slow = Lease(store, "slow")
    slow.__enter__()
    slow._heartbeat.stop()
    age(tmp_path, LEASE.total_seconds() + 1)
    with Lease(store, "next"):
        pass
    # Its number was given again meanwhile.
    with Lease(store, "third"):
        slow._renewed -= LEASE.total_seconds()
        slow.__exit__()
        assert is_held(store)
        with pytest.raises(LeaseHeldError, match="third"), Lease(store, "fourth"):
            pass
    assert not is_held(store)


def test_who_is_stopped_between_putting_and_looking_does_not_take_the_file_of_another_for_its_own(
    store, tmp_path, monkeypatch
):
    listed = Lease._step_back_if_not_alone

    def stopped(self, **how):
        if self.run == "slow":
            age(tmp_path, LEASE.total_seconds() + 1)
            with Lease(store, "next"):
                pass
            other.__enter__()
            self._renewed -= LEASE.total_seconds()
        listed(self, **how)

    other = Lease(store, "other")
    monkeypatch.setattr(Lease, "_step_back_if_not_alone", stopped)
    with pytest.raises(LeaseHeldError), Lease(store, "slow"):
        pass
    other.__exit__()


def test_a_lease_is_renewed_until_it_ends_whatever_the_store_does_in_between(store, tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.01)
    calls, renewed = [], threading.Event()
    renew = Lease.renew

    def failing_first(self):
        calls.append(self)
        if len(calls) == 1:
            raise StorageError("injected")
        renew(self)
        renewed.set()

    monkeypatch.setattr(Lease, "renew", failing_first)
    with Lease(store, "first") as held:
        age(tmp_path, LEASE.total_seconds() + 1)
        # The first of two may have begun before.
        for _ in range(2):
            renewed.clear()
            assert renewed.wait(60)
        assert is_held(store)
    assert not held._heartbeat._thread.is_alive()
    assert not list(store.list(FOLDER))
