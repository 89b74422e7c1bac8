"""Jobs under way are listed, resumed and cancelled, by whoever sees the store."""

import json
import signal
import subprocess
import sys
from itertools import count

import pytest
from click.testing import CliRunner

import lance_ops as lo
from lance_ops.cli.main import main
from lance_ops.errors import InvalidArgumentError, JobCancelledError, TaskFailedError
from lance_ops.maintenance.jobs.folder import find_open_job
from lance_ops.maintenance.jobs.lease import Driver
from lance_ops.maintenance.jobs.listing import RESUMABLE_FOR, find_jobs, sweep_jobs
from lance_ops.maintenance.store_clock import store_now
from lance_ops.storage import open_store
from lance_ops.storage.memory import MemoryStore
from tests.maintenance.jobs.test_resume import ONE, compact, crash_after, fragments, records, unused, values

_names = count()

CHILD = """
import sys, lance_ops as lo
from lance_ops.maintenance.compact import recorded
from lance_ops.errors import LanceOpsError
real = recorded.rewrite_group
def rewrite(task):
    print("task", flush=True)
    sys.stdin.readline()
    return real(task)
recorded.rewrite_group = rewrite
result = lo.compact(sys.argv[1], target_rows_per_fragment=8, job_key="job", runner=lo.LocalRunner(1))
print("done", result.groups, result.already_committed, flush=True)
"""


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore(f"memory://jobs/{next(_names)}")
    fragments(made, 8)
    return made


def test_a_job_that_was_broken_off_is_listed_with_what_is_left(store):
    assert lo.list_jobs(store) == []
    crash_after(store, 3)
    (job,) = lo.list_jobs(store)
    assert (job.key, job.operation, job.state) == ("job", "compact", "running")
    assert (job.groups_done, job.groups_total) == (3, 4)
    assert 0 < job.bytes_done < job.bytes_total
    # A dead driver says nothing any more; here its last word is taken away instead of waiting.
    for path in records(store):
        if "/driver-" in path:
            store.delete(path)
    assert lo.list_jobs(store)[0].state == "broken off"


def test_it_goes_on_with_the_options_that_it_was_begun_with(store):
    crash_after(store, 3)
    result = lo.resume_job(store, "job", runner=ONE)
    assert (result.groups, result.groups_resumed, result.fragments_added) == (4, 3, 4)
    assert lo.list_jobs(store) == []
    with pytest.raises(InvalidArgumentError, match="no unfinished compaction 'job'"):
        lo.resume_job(store, "job")


@pytest.mark.parametrize("force", [False, True])
def test_a_job_that_nobody_runs_is_cancelled_at_once_and_leaves_nothing(store, force):
    before = {info.path for info in store.list("data")}
    crash_after(store, 3)
    if not force:
        assert not lo.cancel_job(store, "job")
        assert lo.list_jobs(store)[0].state == "cancelled"
    assert lo.cancel_job(store, "job", force=True)
    assert {info.path for info in store.list("data")} == before
    assert records(store) == []
    with pytest.raises(InvalidArgumentError, match="no unfinished job 'job'"):
        lo.cancel_job(store, "job")
    assert compact(store).groups == 4


def test_a_wish_that_a_dead_driver_left_does_not_end_the_next_run(store):
    """Its lease still runs; the next run begins anew, as what was done was to go."""
    crash_after(store, 3)
    assert not lo.cancel_job(store, "job")
    looks = []

    def look(event) -> None:
        job, _ = find_open_job(store, "job")
        looks.append(job.is_cancelled())

    result = compact(store, progress=look)
    assert (result.groups, result.groups_resumed) == (4, 0)
    assert looks
    assert not any(looks)
    assert values(store) == list(range(32))
    assert (unused(store), records(store)) == (set(), [])


def test_whoever_runs_a_cancelled_job_stops_and_leaves_nothing(store, monkeypatch):
    before = {info.path for info in store.list("data")}
    drivers = []
    enter = Driver.__enter__
    monkeypatch.setattr(Driver, "__enter__", lambda self: drivers.append(self) or enter(self))

    def cancel(event) -> None:
        if event.done == 2 and event.bytes_done:
            assert not lo.cancel_job(store, "job")
            drivers[0].look()

    with pytest.raises(JobCancelledError):
        compact(store, progress=cancel)
    assert {info.path for info in store.list("data")} == before
    assert records(store) == []


def test_a_driver_whose_job_was_broken_off_commits_nothing(store):
    """It is only slow: its results are gone, and it is told so before it publishes anything."""

    def break_off(event) -> None:
        if event.message == "committing":
            lo.cancel_job(store, "job", force=True)

    with pytest.raises(JobCancelledError):
        compact(store, progress=break_off)
    assert values(store) == list(range(32))
    assert len(lo.Dataset.open(store).fragments) == 8
    assert (unused(store), records(store)) == (set(), [])


def test_a_dead_job_goes_with_the_next_cleanup_and_no_other(store):
    crash_after(store, 3)
    now = store_now(store)
    assert sweep_jobs(store, now) == 0
    assert sweep_jobs(store, now + RESUMABLE_FOR) == 1
    assert (unused(store), records(store)) == (set(), [])


def test_what_the_header_of_is_gone_goes_at_once(store):
    crash_after(store, 3)
    job, _ = find_open_job(store, "job")
    store.delete(job.header_path)
    lo.cleanup(store, retain_versions=100)
    assert (unused(store), records(store), find_jobs(store)) == (set(), [], [])


def test_the_command_lists_resumes_and_cancels(tmp_path):
    uri = str(tmp_path / "t.lance")
    fragments(uri, 8)
    crash_after(open_store(uri), 2)
    run = CliRunner()
    listed = run.invoke(main, ["jobs", uri, "--json"])
    assert json.loads(listed.output)[0]["groups_done"] == 2
    assert "2 of 4" in run.invoke(main, ["jobs", uri]).output
    resumed = run.invoke(main, ["jobs", uri, "--resume", "job", "--json"])
    assert (resumed.exit_code, json.loads(resumed.output)["groups_resumed"]) == (0, 2)
    assert "no unfinished jobs" in run.invoke(main, ["jobs", uri]).output
    fragments(uri, 8)
    crash_after(open_store(uri), 2, job_key="other")
    assert "has ended" in run.invoke(main, ["jobs", uri, "--break", "other"]).output
    assert records(open_store(uri)) == []
    assert run.invoke(main, ["jobs", uri, "--cancel", "a", "--resume", "b"]).exit_code == 2


def start(uri: str) -> subprocess.Popen:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "task\n"
    return child


def test_two_processes_run_one_job_and_one_of_them_is_killed(tmp_path):
    """Both are in their first task when the first one dies; a third takes over what is left."""
    uri = str(tmp_path / "t.lance")
    fragments(uri, 8)
    first, second = start(uri), start(uri)
    second.stdin.write("\n")
    second.stdin.flush()
    assert second.stdout.readline() == "task\n"
    second.send_signal(signal.SIGKILL)
    first.stdin.write("\n" * 8)
    first.stdin.flush()
    third = compact(uri)
    told, _ = first.communicate(timeout=60)
    second.communicate(timeout=60)
    assert "done" in told
    store = open_store(uri)
    assert third.groups_resumed >= 1 or third.already_committed
    assert values(store) == list(range(32))
    assert len(lo.dataset(uri).fragments) == 4
    lo.cleanup(uri, retain_versions=100)
    assert (unused(store), records(store)) == (set(), [])
    done = [entry for entry in lo.dataset(uri).history() if entry.job_key == "job"]
    assert len(done) <= 1


def test_a_task_that_fails_costs_its_group_and_the_command_says_so(tmp_path):
    uri = str(tmp_path / "t.lance")
    fragments(uri, 8)
    victim = lo.dataset(uri).fragments[5].files[0].path
    content = (tmp_path / "t.lance" / "data" / victim).read_bytes()
    (tmp_path / "t.lance" / "data" / victim).unlink()
    arguments = ["compact", uri, "--target-rows", "8", "--job-key", "k"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 1
    assert "failed: fragments 4-5: FileMissingError" in done.output
    assert lo.list_jobs(uri)[0].state == "broken off"
    (tmp_path / "t.lance" / "data" / victim).write_bytes(content)
    again = CliRunner().invoke(main, [*arguments, "--json"])
    assert (again.exit_code, json.loads(again.output)["groups"]) == (0, 1)
    assert values(uri) == list(range(32))
    assert (unused(open_store(uri)), records(open_store(uri))) == (set(), [])
    assert lo.compact(uri, target_rows_per_fragment=8, job_key="k").already_committed


def test_a_run_whose_every_task_fails_says_why(store):
    for info in list(store.list("data")):
        store.delete(info.path)
    with pytest.raises(TaskFailedError, match="FileMissingError"):
        compact(store)
