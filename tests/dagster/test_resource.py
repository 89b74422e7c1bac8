import dagster as dg
import pytest

from lance_ops.dagster import LanceDatasetRef, LanceStoreResource
from lance_ops.errors import DatasetNotFoundError
from lance_ops.maintenance.runner import LocalRunner
from tests.support.dagster import write


def test_a_dataset_opens_at_a_version(tmp_path):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    store = LanceStoreResource()
    with pytest.raises(DatasetNotFoundError):
        store.open(ref)
    write(ref.uri, 0, 1)
    write(ref.uri, 1, 2)
    assert store.open(ref).version == 2
    assert store.open(ref, 1).count_rows() == 1


def test_a_printed_resource_shows_no_value_of_an_option():
    store = LanceStoreResource(storage_options={"aws_secret_access_key": "hunter2", "region": "north"})
    assert "hunter2" not in repr(store) + str(store)
    assert "aws_secret_access_key" in repr(store)


def test_secrets_may_come_from_the_environment_of_the_run(monkeypatch):
    seen = []

    @dg.op
    def look(lance_store: LanceStoreResource):
        seen.append(lance_store.storage_options)

    @dg.job(resource_defs={"lance_store": LanceStoreResource(storage_options={"token": dg.EnvVar("TOKEN")})})
    def looking():
        look()

    monkeypatch.setenv("TOKEN", "hunter2")
    assert looking.execute_in_process().success
    assert seen == [{"token": "hunter2"}]


def test_local_runner_is_the_default():
    runner = LanceStoreResource(threads=3).build_runner()
    assert isinstance(runner, LocalRunner)
    assert runner.threads == 3


@pytest.mark.parametrize("running", [False, True])
def test_only_a_session_that_the_run_started_is_stopped(monkeypatch, running):
    from lance_ops.spark import session as module

    class Session:
        stopped = 0

        def stop(self):
            self.stopped += 1

    session = Session()
    monkeypatch.setattr(module, "find_running_session", lambda: session if running else None)
    monkeypatch.setattr(module, "build_session", lambda *args, **options: session)

    @dg.op
    def compute(lance_store: LanceStoreResource):
        assert lance_store.spark_session() is session

    @dg.job(resource_defs={"lance_store": LanceStoreResource(runner="spark")})
    def computing():
        compute()

    assert computing.execute_in_process().success
    assert session.stopped == (0 if running else 1)
