"""The suites find what they are for, and say what is missing."""

import subprocess
import sys
import uuid

import pytest

from lance_ops import testing
from lance_ops.errors import AlreadyExistsError, LanceOpsError
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.storage import open_store


def refused(call, *arguments, error=AssertionError):
    with pytest.raises((error, pytest.fail.Exception)):
        call(*arguments)


@pytest.fixture
def store():
    return open_store(f"memory://{uuid.uuid4().hex}")


class Overwriting:
    """Looks before it puts, in two steps, or not even that."""

    def __init__(self, *, looks: bool) -> None:
        self.looks = looks

    def commit(self, store, location, manifest):
        if self.looks and store.exists(location.path):
            raise AlreadyExistsError("there", path=location.path)
        store.put(location.path, manifest)


class Littering(Overwriting):
    def commit(self, store, location, manifest):
        super().commit(store, location, manifest)
        store.put(f"{location.path}.bak", manifest)


def test_a_committer_that_overwrites_is_found(store):
    suite = testing.CommitterConformance()
    refused(suite.test_a_version_is_never_replaced, Overwriting(looks=False), store)
    suite.test_a_version_is_never_replaced(
        Overwriting(looks=True), open_store(f"memory://{uuid.uuid4().hex}")
    )


def test_a_committer_that_leaves_copies_where_readers_look_is_found(store):
    suite = testing.CommitterConformance()
    refused(suite.test_a_manifest_is_stored_whole_and_nothing_else, Littering(looks=True), store)


class Mixing(LocalRunner):
    """Gives results in an order of its own, and hears of no failure."""

    def map(self, function, tasks, *, on_done=None):
        results = []
        for index, task in reversed(list(enumerate(tasks))):
            try:
                results.append(function(task))
            except LanceOpsError:
                continue
            if on_done is not None:
                on_done(index, results[-1])
        return results


def test_a_runner_that_mixes_results_or_loses_failures_is_found(tmp_path):
    suite, runner = testing.RunnerConformance(), Mixing(1)
    refused(suite.test_results_come_in_the_order_of_the_tasks, runner, 2)
    refused(suite.test_a_task_that_fails_is_named_with_its_cause_and_its_file, runner)
    refused(
        suite.test_the_listener_hears_of_every_task_that_ended_well_although_another_failed,
        runner,
        str(tmp_path),
    )


class Silent:
    def notify(self, alert):
        pass


def test_a_notifier_that_tells_nobody_is_found():
    suite = testing.NotifierConformance()
    refused(
        suite.test_every_kind_of_alert_arrives_with_its_text, Silent(), list, "conflict", error=ValueError
    )


class Forgetful:
    """A store whose conditional puts replace."""

    supports_put_if_absent = True

    def __init__(self, store) -> None:
        self.store = store

    def put(self, path, data, *, if_absent=False):
        self.store.put(path, data)

    def __getattr__(self, name):
        return getattr(self.store, name)


def test_a_store_whose_conditional_puts_replace_is_found(store):
    suite = testing.StoreConformance()
    refused(suite.test_put_if_absent_never_replaces, Forgetful(store))
    refused(suite.test_of_racing_writers_exactly_one_wins, Forgetful(store))


def test_workers_import_the_tasks_without_pytest():
    code = "import sys, lance_ops.testing.tasks; print('pytest' in sys.modules)"
    assert subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout == ("False\n")


def test_a_name_that_is_no_suite_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_suite"):
        _ = testing.no_such_suite
