"""Files of runs that were killed go as soon as their job is done, and never while they may be committed."""

from collections.abc import Callable
from itertools import count

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CommitConflictError, RetryableCommitConflictError, TaskFailedError
from lance_ops.maintenance.cleanup.operation import CleanupResult
from lance_ops.maintenance.ingest.operation import commit_write
from lance_ops.maintenance.ingest.options import WriteOptions
from lance_ops.maintenance.ingest.plan import WritePlan, plan_write, write_task
from lance_ops.maintenance.metadata.actions import restore
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.storage import Store
from lance_ops.storage.memory import MemoryStore
from lance_ops.table.commit.jobs.earlier_record import is_of_job
from lance_ops.table.dataset import Dataset
from tests.support.faulty_store import FaultyStore, InjectedCrash
from tests.support.interleaving import Snapshot

ONE = LocalRunner(1)
_names = count()


def table(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore(f"memory://left-over/{next(_names)}")
    lo.append(made, table(1, 2))
    lo.append(made, table(3))
    return made


def cleanup(store: Store, **options) -> CleanupResult:
    result = lo.cleanup(store, retain_versions=100, **options)
    assert isinstance(result, CleanupResult)
    return result


FOLDERS = ("data", "_deletions", "_indices", "_transactions")


def files(store: Store) -> set[str]:
    """All files but transactions without a job key, as a compaction has one."""
    found = {info.path for folder in FOLDERS for info in store.list(folder)}
    return {
        path for path in found if not path.startswith("_transactions/") or is_of_job(path.split("-", 1)[1])
    }


def used(store: Store) -> set[str]:
    names = set()
    for version in Dataset.open(store).versions():
        dataset = Dataset.open(store, version.version)
        names |= {f"data/{file.path}" for fragment in dataset.fragments for file in fragment.files}
        names |= {f"{index.directory}/{file.path}" for index in dataset.indices for file in index.files}
        names |= {
            item.deletion_file.path(item.id) for item in dataset.fragments if item.deletion_file is not None
        }
        names.add(f"_transactions/{dataset.manifest.transaction_file}")
    return names


def index(store: Store) -> object:
    return lo.create_index(store, "x", runner=ONE)


def spread(store: Store) -> object:
    """Four fragments, of which the last deletes of the test take rows of one at a time."""
    return lo.append(store, table(5, 6, 7, 8), max_rows_per_file=2)


JOBS: dict[str, tuple[Callable[[Store], object], Callable[[Store], object]]] = {
    "append": (
        spread,
        lambda store: lo.append(store, table(7, 8, 9), max_rows_per_file=1, runner=ONE, job_key="job"),
    ),
    "overwrite": (
        spread,
        lambda store: lo.write_dataset(
            table(7, 8), store, mode="overwrite", max_rows_per_file=1, runner=ONE, job_key="job"
        ),
    ),
    "replace": (
        spread,
        lambda store: lo.replace_where(store, table(3, 4), "x > 2 and x < 6", runner=ONE, job_key="job"),
    ),
    "delete": (spread, lambda store: lo.delete(store, "x > 2 and x < 6", runner=ONE, job_key="job")),
    "compaction": (index, lambda store: lo.compact(store, runner=ONE, job_key="job")),
    "index": (spread, lambda store: lo.create_index(store, "x", runner=ONE, job_key="job")),
}


@pytest.mark.parametrize(("prepare", "job"), JOBS.values(), ids=JOBS.keys())
def test_what_a_killed_run_left_goes_once_the_job_is_done(store: MemoryStore, prepare, job) -> None:
    prepare(store)
    snapshot = Snapshot(store)
    counting = FaultyStore(snapshot.restore())
    job(counting)
    left_something = 0
    for call in range(1, counting.counted + 1):
        fresh = snapshot.restore()
        with pytest.raises((InjectedCrash, TaskFailedError)):
            job(FaultyStore(fresh, fail_at=call))
        before = files(fresh)
        assert cleanup(fresh).complete
        if before - used(fresh):
            # The run may be at work still, for all that anybody knows.
            left_something += 1
            assert files(fresh) == before
        job(fresh)
        assert cleanup(fresh).complete
        assert files(fresh) - used(fresh) == set(), call
        assert lo.fsck(Dataset.open(fresh)).ok
        snapshot.drop(fresh)
    assert left_something


def started(store: Store, *, mode: str = "append", key: str = "job") -> tuple[WritePlan, list]:
    """A run that has written its files and is stopped before its commit."""
    plan = plan_write(table(7).schema, store, WriteOptions(mode=mode, job_key=key))
    return plan, [write_task(plan.task, table(7).to_batches())]


def test_the_run_that_was_only_slow_finds_the_job_done(store: MemoryStore) -> None:
    plan, results = started(store)
    lo.append(store, table(7), job_key="job")
    assert cleanup(store).data_files_removed == 1
    assert commit_write(plan, results).already_committed
    assert sorted(Dataset.open(store).to_table()["x"].to_pylist()) == [1, 2, 3, 7]


def test_it_fails_where_a_restore_undid_the_job(store: MemoryStore) -> None:
    plan, results = started(store)
    lo.append(store, table(7), job_key="job")
    assert cleanup(store).data_files_removed == 1
    restore(Dataset.open(store), 2)
    with pytest.raises(CommitConflictError):
        commit_write(plan, results)
    assert Dataset.open(store).to_table()["x"].to_pylist() == [1, 2, 3]
    assert lo.fsck(Dataset.open(store)).ok


def test_it_fails_also_where_it_plans_anew_after_that(store: MemoryStore) -> None:
    """The versions between are gone, so that it commits on the newest one, where its job is undone."""
    plan, results = started(store)
    lo.append(store, table(7), job_key="job")
    assert cleanup(store).data_files_removed == 1
    restore(Dataset.open(store), 2)
    lo.append(store, table(9))
    lo.cleanup(store, retain_versions=1)
    with pytest.raises(CommitConflictError) as failure:
        commit_write(plan, results)
    assert not isinstance(failure.value, RetryableCommitConflictError)
    assert "a cleanup removed the files of this run of the job" in str(failure.value)
    assert Dataset.open(store).to_table()["x"].to_pylist() == [1, 2, 3, 9]
    assert lo.fsck(Dataset.open(store)).ok


def test_nothing_goes_when_another_version_came_in_between(store: MemoryStore) -> None:
    started(store)
    lo.append(store, table(7), job_key="job")
    before = files(store)

    class Late(FaultyStore):
        """A restore undoes the job just after the removal was announced."""

        def put(self, path, data, **options):
            super().put(path, data, **options)
            if path.startswith("_lance_ops/removals/"):
                restore(Dataset.open(store), 2)

    assert cleanup(Late(store)).complete
    assert files(store) == before
    assert cleanup(store).data_files_removed == 0


def test_the_word_of_a_killed_cleanup_is_not_taken_for_files_of_jobs(store: MemoryStore) -> None:
    """It died before it looked whether the job still counts; now a run may have looked, and commit."""
    _, results = started(store)
    lo.append(store, table(7), job_key="job")

    class Killed(FaultyStore):
        def put(self, path, data, **options):
            super().put(path, data, **options)
            if path.startswith("_lance_ops/removals/"):
                raise InjectedCrash

    with pytest.raises(InjectedCrash):
        cleanup(Killed(store))
    restore(Dataset.open(store), 2)
    assert cleanup(store).data_files_removed == 0
    assert all(store.exists(path) for result in results for path in result.paths)


def test_an_undone_job_keeps_what_its_runs_wrote(store: MemoryStore) -> None:
    lo.append(store, table(7), job_key="job")
    restore(Dataset.open(store), 2)
    plan, results = started(store)
    assert cleanup(store).data_files_removed == 0
    assert not commit_write(plan, results).already_committed
    assert Dataset.open(store).to_table()["x"].to_pylist() == [1, 2, 3, 7]


def test_an_overwrite_can_pass_a_restore_with_all_its_files(store: MemoryStore) -> None:
    plan, results = started(store, mode="overwrite")
    lo.append(store, table(7), job_key="job")
    restore(Dataset.open(store), 2)
    assert cleanup(store).data_files_removed == 0
    commit_write(plan, results)
    assert Dataset.open(store).to_table()["x"].to_pylist() == [7]


def test_an_overwrite_whose_files_went_while_its_job_was_done_passes_no_restore(store: MemoryStore) -> None:
    plan, results = started(store, mode="overwrite")
    lo.append(store, table(7), job_key="job")
    assert cleanup(store).data_files_removed == 1
    restore(Dataset.open(store), 2)
    with pytest.raises(CommitConflictError, match="a cleanup removed"):
        commit_write(plan, results)
    assert sorted(Dataset.open(store).to_table()["x"].to_pylist()) == [1, 2, 3]
    assert lo.fsck(Dataset.open(store)).ok


def test_a_transaction_that_went_so_is_not_named_by_a_version(store: MemoryStore) -> None:
    """A restore can be carried over another one; its transaction was written before it was stopped."""
    start = Dataset.open(store)

    class Slow(FaultyStore):
        def put(self, path, data, **options):
            if path.endswith(".manifest"):
                self.disarm_late()
            super().put(path, data, **options)

        def disarm_late(self) -> None:
            if late:
                late.pop()
                # Another run of the job is committed, a cleanup comes, and the job is undone.
                restore(Dataset.open(store), 1, job_key="job")
                assert cleanup(store).transaction_files_removed == 1
                restore(Dataset.open(store), 2)

    late = [True]
    with pytest.raises(CommitConflictError, match="a cleanup removed"):
        restore(Dataset.open(Slow(store)), 1, job_key="job")
    assert Dataset.open(store).version == start.version + 2
    for version in Dataset.open(store).versions():
        name = Dataset.open(store, version.version).manifest.transaction_file
        assert store.exists(f"_transactions/{name}")


def test_a_delete_of_another_job_keeps_its_files(store: MemoryStore) -> None:
    def pause_before_commit(key: str | None) -> None:
        with pytest.raises(InjectedCrash):
            lo.delete(
                FaultyStore(
                    store, fail_at=lambda call: call.name == "put" and call.path.endswith(".manifest")
                ),
                "x = 1",
                runner=ONE,
                job_key=key,
            )

    pause_before_commit("another")
    pause_before_commit(None)
    lo.delete(store, "x = 2", job_key="job")
    assert cleanup(store).deletion_files_removed == 0
    lo.delete(store, "x = 1", job_key="another")
    assert cleanup(store).deletion_files_removed == 1


def test_other_jobs_keep_their_files(store: MemoryStore) -> None:
    started(store, key="another")
    lo.append(store, table(7), job_key="job")
    assert cleanup(store).data_files_removed == 0
