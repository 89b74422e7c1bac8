import os
import subprocess
import sys
import threading

import pytest

from lance_ops.encoding import parallel
from lance_ops.encoding.parallel import (
    available_threads,
    count_shares,
    drain_side_by_side,
    keep_to_this_thread,
    run_side_by_side,
)


def test_results_come_in_the_order_of_the_tasks() -> None:
    for count in (1, 2, 9):
        assert run_side_by_side([lambda n=n: n * n for n in range(count)]) == [n * n for n in range(count)]


def test_tasks_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=30)
    assert sorted(run_side_by_side([meeting.wait, meeting.wait])) == [0, 1]


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_of_any_task_is_raised(failing: int) -> None:
    def task(number: int) -> int:
        return 1 // (number - failing)

    with pytest.raises(ZeroDivisionError):
        run_side_by_side([lambda: task(0), lambda: task(1)])


def test_a_forked_process_has_threads_of_its_own() -> None:
    run_side_by_side([int, int])
    child = os.fork()
    if child == 0:
        os._exit(0 if run_side_by_side([lambda: 1, lambda: 2]) == [1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert run_side_by_side([lambda: 3, lambda: 4]) == [3, 4]


def test_there_is_a_thread_at_least() -> None:
    assert available_threads() >= 1


def test_work_is_cut_where_each_share_is_worth_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_ops.encoding.parallel.available_threads", lambda: 3)
    assert [count_shares(size, 10) for size in (0, 19, 20, 30, 1000)] == [1, 1, 2, 3, 3]


def test_a_thread_that_has_a_share_cuts_it_no_further() -> None:
    ended = threading.Event()

    def share() -> tuple[int, bool]:
        # One after the other, in the same thread: a deadlock otherwise, once all threads do so.
        inner = run_side_by_side([threading.get_ident] * 3)
        ended.set()
        return count_shares(1 << 40, 1), set(inner) == {threading.get_ident()}

    assert run_side_by_side([lambda: (int(ended.wait(60)), True), share]) == [(1, True), (1, True)]


def test_a_task_that_no_thread_has_got_to_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    # The pool of this process may be larger: of a test that said there are more processors.
    monkeypatch.setattr(parallel, "_pool", None)
    may_end = threading.Event()
    threads = available_threads()
    busy = threading.Barrier(threads + 1)

    def occupy() -> None:
        busy.wait(60)
        may_end.wait(60)

    occupied = parallel._submit([occupy] * threads)
    busy.wait(60)
    try:
        here = threading.get_ident()
        assert run_side_by_side([threading.get_ident] * 4) == [here] * 4
    finally:
        may_end.set()
    for one in occupied:
        one.result()
    parallel._shared_pool().shutdown()


def test_threads_of_others_can_be_told_to_share_nothing() -> None:
    found: list[int] = []

    def work() -> None:
        keep_to_this_thread()
        found.append(count_shares(1 << 40, 1))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [1]


def test_an_error_is_raised_when_all_tasks_have_ended() -> None:
    ended = threading.Event()
    started = threading.Event()

    def slow() -> None:
        started.set()
        ended.wait(0.2)
        ended.set()

    def failing() -> None:
        started.wait(30)
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        run_side_by_side([failing, slow])
    assert ended.is_set()


def test_each_job_is_done_once() -> None:
    done: list[int] = []
    drain_side_by_side([lambda n=n: done.append(n) for n in range(100)])
    assert sorted(done) == list(range(100))
    drain_side_by_side([])


def test_the_interpreter_ends_and_tasks_of_its_last_moment_run() -> None:
    # The pool takes nothing any more by then, and its threads must keep nobody waiting.
    program = """
import atexit, threading
from lance_ops.encoding.parallel import run_side_by_side
atexit.register(lambda: print(run_side_by_side([lambda: 1, lambda: 2, lambda: 3])))
print(run_side_by_side([lambda: 4, lambda: 5]))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.split() == ["[4,", "5]", "[1,", "2,", "3]"]
    assert ended.stderr == ""
