import pickle
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from lance_ops.errors import FileMissingError, InvalidArgumentError, TaskFailedError
from lance_ops.maintenance import runner
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.testing import RunnerConformance


class TestInTurn(RunnerConformance):
    @pytest.fixture
    def runner(self):
        return LocalRunner(1)


class TestOnThreads(RunnerConformance):
    @pytest.fixture
    def runner(self):
        return LocalRunner(3)


@dataclass(frozen=True)
class Number:
    value: int


def square(task: Number) -> int:
    return task.value**2


def fail_on_three(task: Number) -> int:
    if task.value == 3:
        raise FileMissingError("the file is gone", path="data/x.lance")
    return task.value


@pytest.mark.parametrize("threads", [1, 3, 16])
def test_results_come_in_the_order_of_the_tasks(threads):
    assert LocalRunner(threads).map(square, [Number(n) for n in range(20)]) == [n**2 for n in range(20)]


@pytest.mark.parametrize("threads", [1, 4])
def test_on_done_sees_every_task_once_in_the_callers_thread(threads):
    seen: dict[int, int] = {}
    here = threading.get_ident()

    def on_done(index: int, result: int) -> None:
        assert threading.get_ident() == here
        assert index not in seen
        seen[index] = result

    LocalRunner(threads).map(square, [Number(n) for n in range(10)], on_done=on_done)
    assert seen == {n: n**2 for n in range(10)}


@pytest.mark.parametrize("threads", [1, 4])
def test_a_failing_task_raises_with_its_cause_and_its_path(threads):
    with pytest.raises(TaskFailedError, match=r"task 4 of 6 failed: FileMissingError") as caught:
        LocalRunner(threads).map(fail_on_three, [Number(n) for n in range(6)])
    assert isinstance(caught.value.__cause__, FileMissingError)
    assert caught.value.path == "data/x.lance"
    assert pickle.loads(pickle.dumps(caught.value)).path == "data/x.lance"


def test_tasks_running_when_another_fails_are_waited_for_and_handed_over():
    started, failed = threading.Event(), threading.Event()
    done: list[int] = []

    def work(task: Number) -> int:
        if task.value == 0:
            assert started.wait(10)
            failed.set()
            raise ValueError("first")
        started.set()
        assert failed.wait(10)
        return task.value

    with pytest.raises(TaskFailedError, match="first"):
        LocalRunner(2).map(work, [Number(0), Number(1)], on_done=lambda _, result: done.append(result))
    assert done == [1]


def test_tasks_not_yet_started_are_given_up_after_a_failure():
    ran: list[int] = []
    gate = threading.Event()

    def work(task: Number) -> int:
        ran.append(task.value)
        if task.value == 0:
            raise ValueError("first")
        assert gate.wait(10)
        return task.value

    def release(index: int, result: int) -> None:
        raise AssertionError

    gate.set()
    with pytest.raises((TaskFailedError, AssertionError)):
        LocalRunner(2).map(work, [Number(n) for n in range(200)], on_done=release)
    assert len(ran) < 200


def test_an_exception_of_the_listener_ends_the_run():
    def stop(index: int, result: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LocalRunner(2).map(square, [Number(n) for n in range(50)], on_done=stop)


def test_no_tasks_give_no_results():
    assert LocalRunner().map(square, []) == []


def test_a_runner_without_threads_is_refused():
    with pytest.raises(InvalidArgumentError, match="threads"):
        LocalRunner(0)


@pytest.mark.parametrize("started", [1, 2, 3])
def test_results_of_tasks_whose_start_is_interrupted_are_handed_over(monkeypatch, started):
    class Interrupted(ThreadPoolExecutor):
        submitted = 0

        def submit(self, function, /, *args, **options):
            super().submit(function, *args, **options)
            Interrupted.submitted += 1
            if Interrupted.submitted == started:
                assert begun.acquire(timeout=10)
                raise KeyboardInterrupt
            return Future()

    def work(task: Number) -> int:
        begun.release()
        time.sleep(0.05)
        return task.value

    begun = threading.Semaphore(0)
    done: list[int] = []
    monkeypatch.setattr(runner, "ThreadPoolExecutor", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        LocalRunner(4).map(work, [Number(n) for n in range(5)], on_done=lambda _, result: done.append(result))
    # Those that had not begun when the interrupt came do not begin any more.
    assert done == sorted(done)
    assert set(done) <= set(range(started))
    assert begun._value == len(done) - 1
