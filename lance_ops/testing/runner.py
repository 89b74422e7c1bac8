"""Test suite for runners: results in order, listeners in the caller's thread, failures with their cause."""

import pickle
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import FileMissingError, PermissionDeniedError, StorageFullError, TaskFailedError
from lance_ops.testing.tasks import Task, square


class RunnerConformance:
    """Contract of `Runner`. A subclass named `Test...` overrides the fixtures."""

    @pytest.fixture
    def runner(self) -> lo.Runner:
        """The runner."""
        raise pytest.UsageError("override the fixture `runner`")

    @pytest.fixture
    def folder(self, tmp_path: Path) -> str:
        """A fresh folder with the same path in this process and in the workers; local by default."""
        return str(tmp_path)

    @pytest.mark.parametrize("count", [1, 2, 9])
    def test_results_come_in_the_order_of_the_tasks(self, runner: lo.Runner, count: int) -> None:
        assert runner.map(square, [Task(n) for n in range(count)]) == [n**2 for n in range(count)]

    def test_no_tasks_give_no_results(self, runner: lo.Runner) -> None:
        assert runner.map(square, []) == []

    def test_equal_tasks_are_all_run(self, runner: lo.Runner) -> None:
        assert runner.map(square, [Task(3)] * 4) == [9] * 4

    def test_the_listener_hears_of_every_task_once_in_the_callers_thread(self, runner: lo.Runner) -> None:
        heard: list[tuple[int, int]] = []
        threads: set[int] = set()

        def listen(index: int, result: int) -> None:
            threads.add(threading.get_ident())
            heard.append((index, result))

        runner.map(square, [Task(n) for n in range(9)], on_done=listen)
        assert sorted(heard) == [(n, n**2) for n in range(9)]
        assert threads == {threading.get_ident()}

    def test_a_task_that_fails_is_named_with_its_cause_and_its_file(self, runner: lo.Runner) -> None:
        with pytest.raises(TaskFailedError, match=r"task 3 of 4 failed: FileMissingError") as caught:
            runner.map(square, [Task(n, "missing" if n == 2 else "") for n in range(4)])
        assert isinstance(caught.value.__cause__, FileMissingError)
        assert caught.value.path == "data/x.lance"
        assert pickle.loads(pickle.dumps(caught.value)).path == "data/x.lance"

    @pytest.mark.parametrize(
        ("fate", "kind"), [("full", StorageFullError), ("denied", PermissionDeniedError)]
    )
    def test_what_the_caller_has_to_act_on_keeps_its_type(
        self, runner: lo.Runner, fate: str, kind: type[Exception]
    ) -> None:
        with pytest.raises(kind):
            runner.map(square, [Task(1, fate)])

    def test_the_listener_hears_of_every_task_that_ended_well_although_another_failed(
        self, runner: lo.Runner, folder: str
    ) -> None:
        tasks = [Task(n, "missing" if n == 1 else "", f"{folder}/{n}") for n in range(9)]
        heard: set[int] = set()
        with pytest.raises(TaskFailedError):
            runner.map(square, tasks, on_done=lambda index, _: heard.add(index))
        # Nothing runs any more: the started tasks are exactly the reported ones and the failed one.
        assert {int(trace.name) for trace in Path(folder).iterdir()} == heard | {1}

    def test_an_exception_of_the_listener_reaches_the_caller(self, runner: lo.Runner) -> None:
        def listen(_: int, __: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            runner.map(square, [Task(n) for n in range(9)], on_done=listen)

    def test_a_runner_works_again_after_a_failure(self, runner: lo.Runner) -> None:
        with pytest.raises(TaskFailedError):
            runner.map(square, [Task(1, "missing"), Task(2)])
        assert runner.map(square, [Task(1), Task(2)]) == [1, 4]

    def test_operations_run_on_it(self, runner: lo.Runner, folder: str) -> None:
        uri = f"{folder}/t.lance"
        for start in range(0, 40, 10):
            lo.append(uri, pa.table({"id": range(start, start + 10)}), runner=runner)
        lo.delete(uri, "id % 4 = 1", runner=runner)
        lo.compact(uri, runner=runner)
        dataset = lo.dataset(uri)
        assert dataset.to_table()["id"].to_pylist() == [n for n in range(40) if n % 4 != 1]
        assert len(dataset.fragments) == 1
