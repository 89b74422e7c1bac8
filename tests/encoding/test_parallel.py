import os
import threading

import pytest

from lance_ops.encoding.parallel import available_threads, run_side_by_side


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
