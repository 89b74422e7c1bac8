"""Doing work before it is asked for."""

import threading
import time
from functools import partial

import pytest

from lance_ops.storage.prefetch import look_at_many, prefetch


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_order(threads):
    assert list(prefetch((partial(pow, n, 2) for n in range(50)), threads)) == [n * n for n in range(50)]
    assert list(prefetch(iter(()), threads)) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_no_more_is_started_than_the_consumer_is_ahead_of(threads):
    started = []
    results = prefetch((partial(started.append, n) for n in range(100)), threads)
    next(results)
    assert len(started) <= threads + 1
    del results
    assert len(started) <= threads + 1


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_error_ends_it_and_leaves_no_thread(threads):
    def work(number):
        if number == 4:
            raise ValueError(number)
        return number

    seen = []
    with pytest.raises(ValueError, match="4"):
        seen.extend(prefetch((partial(work, n) for n in range(100)), threads))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lance-scan")]


def test_no_thread_is_started_for_a_single_task():
    assert list(prefetch(iter([threading.get_ident]), 4)) == [threading.get_ident()]


def test_all_items_are_looked_at_once_by_some_threads_at_a_time():
    at_work, most, lock = 0, 0, threading.Lock()

    def look(item: int) -> int:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        with lock:
            at_work -= 1
        return item * item

    assert sorted(look_at_many(range(200), look, 3)) == [(item, item * item) for item in range(200)]
    assert most <= 3
    assert list(look_at_many([], look, 3)) == []


def test_looks_begin_in_order_and_none_after_the_deadline():
    begun = []
    assert list(look_at_many(range(5), begun.append, 2, deadline=0.0)) == []
    assert begun == []
    for item, _ in look_at_many(range(5), begun.append, 1):
        assert item <= len(begun)
    assert begun == [0, 1, 2, 3, 4]


def test_a_look_that_hangs_is_left_to_itself_unless_it_is_waited_for():
    going, hanging = threading.Event(), threading.Event()

    def look(item: str) -> str:
        if item == "hangs":
            hanging.set()
            going.wait(60)
        else:
            hanging.wait(60)
        return item

    deadline = time.monotonic() + 0.2
    looks = look_at_many(["hangs", "answers"], look, 2, deadline=deadline, waits=False)
    assert [item for item, _ in looks] in (["answers"], [])
    assert not going.is_set()
    going.set()
    assert dict(look_at_many(["hangs", "answers"], look, 2)).keys() == {"hangs", "answers"}


def test_an_error_of_a_look_ends_all_and_so_does_closing():
    def look(item: int) -> int:
        if item == 3:
            raise ValueError("broken")
        return item

    with pytest.raises(ValueError, match="broken"):
        list(look_at_many(range(9), look, 1))
    begun = []
    looks = look_at_many(range(1000), lambda item: begun.append(item) or time.sleep(0.001), 1)
    next(looks)
    looks.close()
    assert len(begun) < 1000
