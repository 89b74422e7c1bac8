"""Tasks on Spark's executors: the same promises as on threads."""

import os
import pickle
import signal
import threading
import time
from pathlib import Path

import pytest

from lance_ops.errors import FileMissingError, InvalidArgumentError, TaskFailedError
from lance_ops.spark.runner import SparkRunner
from lance_ops.spark.transport import dump_task
from lance_ops.storage import open_store
from lance_ops.testing import RunnerConformance

pytestmark = pytest.mark.spark


class TestOnExecutors(RunnerConformance):
    @pytest.fixture
    def runner(self, spark):
        return SparkRunner(spark)


def test_results_come_in_the_order_of_the_tasks(spark):
    # More tasks than jobs, so that jobs have several each.
    assert SparkRunner(spark).map(lambda n: n**2, range(130)) == [n**2 for n in range(130)]


def test_on_done_sees_every_task_once_in_the_callers_thread(spark):
    seen: dict[int, str] = {}
    here = threading.get_ident()

    def on_done(index: int, result: str) -> None:
        assert threading.get_ident() == here
        assert index not in seen
        seen[index] = result

    SparkRunner(spark).map(lambda n: f"task {n}", [5, 6, 7], on_done=on_done)
    assert seen == {0: "task 5", 1: "task 6", 2: "task 7"}


def test_tasks_run_at_the_same_time_in_processes_of_their_own(spark, tmp_path):
    def meet(number: int) -> int:
        (tmp_path / str(number)).touch()
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2:
            assert time.monotonic() < deadline, "the other task has not started"
            time.sleep(0.02)
        return os.getpid()

    first, second = SparkRunner(spark).map(meet, [1, 2])
    assert len({first, second, os.getpid()}) == 3


def test_the_slots_of_a_session_are_known(spark):
    assert SparkRunner(spark).slots == 2
    assert SparkRunner(spark, slots=7).slots == 7
    with pytest.raises(InvalidArgumentError, match="slots"):
        SparkRunner(spark, slots=0)


def test_a_failing_task_raises_with_its_typed_cause_and_the_executors_traceback(spark):
    def fail_on_one(number: int) -> int:
        if number == 1:
            raise FileMissingError("the file is gone", path="data/x.lance")
        return number

    done: list[int] = []
    with pytest.raises(TaskFailedError, match=r"task 2 of 3 failed: FileMissingError") as caught:
        SparkRunner(spark).map(fail_on_one, range(3), on_done=lambda index, _: done.append(index))
    cause = caught.value.__cause__
    assert isinstance(cause, FileMissingError)
    assert cause.path == caught.value.path == "data/x.lance"
    assert "fail_on_one" in cause.__notes__[0]
    assert 0 in done
    assert 1 not in done


def test_an_error_that_cannot_be_pickled_still_says_what_happened(spark):
    class StubbornError(Exception):
        def __init__(self, one: object, two: object) -> None:
            super().__init__(f"{one} and {two}")

    def fail(number: int) -> None:
        raise StubbornError(number, threading.Lock())

    with pytest.raises(TaskFailedError, match=r"StubbornError: 1 and <unlocked"):
        SparkRunner(spark).map(fail, [1])


def test_tasks_not_yet_started_are_given_up_after_a_failure(spark, tmp_path):
    def fail_on_zero(number: int) -> int:
        (tmp_path / str(number)).touch()
        if number == 0:
            raise ValueError("first")
        return number

    with pytest.raises(TaskFailedError, match="first"):
        SparkRunner(spark, slots=1).map(fail_on_zero, range(64))
    assert len(list(tmp_path.iterdir())) < 10


def test_an_exception_of_the_listener_ends_the_run(spark, tmp_path):
    def work(number: int) -> int:
        (tmp_path / str(number)).touch()
        return number

    def stop(index: int, result: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SparkRunner(spark, slots=1).map(work, range(64), on_done=stop)
    assert len(list(tmp_path.iterdir())) < 10


def test_a_worker_that_dies_is_a_typed_error_and_the_session_lives_on(spark):
    def die(number: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return number

    with pytest.raises(TaskFailedError, match=r"Spark gave up on task 1 of 1: .*crashed") as caught:
        SparkRunner(spark).map(die, [1])
    assert "nothing was committed" in str(caught.value)
    assert SparkRunner(spark).map(abs, [-1]) == [1]


def test_no_tasks_give_no_results(spark):
    assert SparkRunner(spark).map(abs, []) == []


def test_tasks_that_cannot_travel_are_refused_before_anything_runs(spark):
    with pytest.raises(InvalidArgumentError, match="cannot pickle"):
        SparkRunner(spark).map(id, [threading.Lock()])
    with pytest.raises(
        InvalidArgumentError, match=r"executors cannot read a dataset in the memory.*memory://here"
    ):
        SparkRunner(spark).map(id, [(1, {"store": open_store("memory://here")})])


def test_a_store_of_files_travels(tmp_path: Path):
    store = open_store(str(tmp_path))
    store.put("x", b"1")
    assert bytes(pickle.loads(dump_task(store)).read("x")) == b"1"
