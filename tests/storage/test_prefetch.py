"""Doing work before it is asked for."""

import threading
from functools import partial

import pytest

from lance_ops.storage.prefetch import prefetch


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
