"""Histories of jobs that are killed, paused and run again, with restores, tags and cleanups in between.

Whatever happens, a version that exists is readable, with the rows that it had at first: no file of a run that
may still commit goes, nor one of a version. When all jobs are done in the end, nothing is left of their runs.
"""

import contextlib
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import lance
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import LanceOpsError
from lance_ops.maintenance.metadata.actions import restore
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.storage import Store, is_temporary
from lance_ops.storage.memory import _OBJECTS, MemoryStore
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.listing import list_versions
from lance_ops.table.transaction.operations import Restore
from lance_ops.table.transaction.transaction import job_mark, job_uuid_prefix
from tests.safety.profile import examples
from tests.support.faulty_store import FaultyStore, InjectedCrash
from tests.support.interleaving import Snapshot, _Run

ONE = LocalRunner(1)
_names = count()

KINDS: dict[str, Callable[[Store, str], object]] = {
    "append": lambda store, key: lo.append(store, table(7, 8), max_rows_per_file=1, runner=ONE, job_key=key),
    "overwrite": lambda store, key: lo.write_dataset(
        table(1, 5, 9), store, mode="overwrite", max_rows_per_file=2, runner=ONE, job_key=key
    ),
    "replace": lambda store, key: lo.replace_where(
        store, table(3), "x > 2 and x < 6", runner=ONE, job_key=key
    ),
    "delete": lambda store, key: lo.delete(store, "x = 1", runner=ONE, job_key=key),
    "compact": lambda store, key: lo.compact(store, runner=ONE, job_key=key),
    "index": lambda store, key: lo.create_index(store, "x", replace=True, runner=ONE, job_key=key),
    "config": lambda store, key: lo.update_config(store, {"a": key}, job_key=key),
}


def table(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def files(store: Store) -> set[str]:
    folders = ("data", "_deletions", "_indices", "_transactions")
    return {info.path for folder in folders for info in store.list(folder)}


def used(store: Store) -> set[str]:
    datasets = [Dataset.open(store, location.version) for location in list_versions(store)]
    return {path for dataset in datasets for path in used_by(dataset)}


def used_by(dataset: Dataset) -> set[str]:
    names = {f"data/{file.path}" for fragment in dataset.fragments for file in fragment.files}
    names |= {f"{index.directory}/{file.path}" for index in dataset.indices for file in index.files}
    names |= {
        item.deletion_file.path(item.id) for item in dataset.fragments if item.deletion_file is not None
    }
    return names | {f"_transactions/{dataset.manifest.transaction_file}"}


class Run(_Run):
    """One whose threads, which it starts to read much, are not stopped."""

    def _turn(self, name: str, path: str) -> None:
        if threading.current_thread() is self._thread:
            super()._turn(name, path)


class History:
    """A table, the jobs that were begun on it, and the rows of all versions that it ever had."""

    def __init__(self) -> None:
        self.store = MemoryStore(f"memory://histories/{next(_names)}")
        lo.append(self.store, table(1, 2, 3))
        lo.append(self.store, table(4, 5))
        lo.append(self.store, table(6))
        self.kinds: dict[str, str] = {}
        self.paused: list[Run] = []
        self.rows: dict[tuple[int, str], list[int]] = {}
        self.check()

    def run(self, key: str, kind: str) -> None:
        self._job(key, kind)(self.store)

    def kill(self, key: str, kind: str, call: int) -> None:
        with contextlib.suppress(InjectedCrash):
            self._job(key, kind)(FaultyStore(self.store, fail_at=call))

    def pause(self, key: str, kind: str, calls: int) -> None:
        run = Run(self._job(key, kind), self.store, lambda name, path: True)
        run.advance(calls)
        self.paused.append(run)

    def go_on(self, which: int) -> None:
        if self.paused:
            run = self.paused.pop(which % len(self.paused))
            run.advance()
            assert run.error is None or isinstance(run.error, LanceOpsError), run.error

    def restore(self, which: int) -> None:
        versions = [location.version for location in list_versions(self.store)]
        # A cleanup may be about to remove it; so below.
        with contextlib.suppress(LanceOpsError):
            restore(Dataset.open(self.store), versions[which % len(versions)])

    def tag(self, which: int) -> None:
        versions = [location.version for location in list_versions(self.store)]
        with contextlib.suppress(LanceOpsError):
            lo.create_tag(self.store, f"t{next(_names)}", versions[which % len(versions)])

    def clean(self, retain: int) -> None:
        lo.cleanup(self.store, retain_versions=retain)

    def kill_clean(self, call: int) -> None:
        with contextlib.suppress(InjectedCrash):
            lo.cleanup(FaultyStore(self.store, fail_at=call), retain_versions=100)

    def pause_clean(self, calls: int, retain: int) -> None:
        # It may find its versions or its head gone.
        def clean(store: Store) -> None:
            lo.cleanup(store, retain_versions=retain)

        run = Run(clean, self.store, lambda name, path: True)
        run.advance(calls)
        self.paused.append(run)

    def _job(self, key: str, kind: str) -> Callable[[Store], object]:
        # A key is that of one piece of work.
        kind = self.kinds.setdefault(key, kind)

        def work(store: Store) -> None:
            # It may lose against others, or find nothing to do.
            with contextlib.suppress(LanceOpsError):
                KINDS[kind](store, key)

        return work

    def check(self) -> None:
        for location in list_versions(self.store):
            dataset = Dataset.open(self.store, location.version)
            rows = dataset.to_table()["x"].to_pylist()
            name = (location.version, dataset.manifest.transaction_file)
            assert self.rows.setdefault(name, rows) == rows
            assert [path for path in used_by(dataset) if not self.store.exists(path)] == []

    def finish(self) -> None:
        while self.paused:
            self.go_on(0)
            self.check()
        for key, kind in self.kinds.items():
            # Some may find that it cannot be told any more whether they are done.
            self.run(key, kind)
        self.check()
        self.clean(100)
        self.check()


keys = st.sampled_from("abc")
kinds = st.sampled_from(sorted(KINDS))
small = st.integers(0, 6)
STEPS = st.one_of(
    st.tuples(st.just("run"), keys, kinds),
    st.tuples(st.just("kill"), keys, kinds, st.integers(1, 16)),
    st.tuples(st.just("pause"), keys, kinds, st.integers(1, 40)),
    st.tuples(st.just("go_on"), small),
    st.tuples(st.just("restore"), small),
    st.tuples(st.just("tag"), small),
    st.tuples(st.just("clean"), st.sampled_from([1, 2, 100])),
    st.tuples(st.just("kill_clean"), st.integers(1, 8)),
    st.tuples(st.just("pause_clean"), st.integers(5, 60), st.sampled_from([1, 100])),
)


@examples(25)
@given(st.lists(STEPS, max_size=14))
def test_no_version_ever_misses_a_file_and_finished_jobs_leave_nothing(tmp_path_factory, steps) -> None:
    history = History()
    for name, *arguments in steps:
        getattr(history, name)(*arguments)
        history.check()
    history.finish()
    store = history.store
    as_the_peer_reads_them(store, tmp_path_factory.mktemp("peer"), history)
    done = done_at_head(store)
    assert {path for path in files(store) - used(store) if was_left(path, done)} == set()
    Snapshot.drop(store)


def done_at_head(store: Store) -> dict[str, int]:
    """Jobs in the lineage of the newest version, as far as versions are there, and the versions they made."""
    there = {location.version for location in list_versions(store)}
    number, done = max(there), {}
    while number in there:
        transaction = Dataset.open(store, number).read_transaction()
        if transaction.job_key is not None:
            done.setdefault(transaction.job_key, number)
        operation = transaction.operation
        number = operation.version if isinstance(operation, Restore) else number - 1
    return done


def was_left(path: str, done: dict[str, int]) -> bool:
    """Whether a run of these jobs wrote a file before the job was done; temporary ones wait for their age."""
    if is_temporary(path):
        return False
    folder, name = path.split("/")[:2]
    for key, version in done.items():
        if folder in ("data", "_indices") and name.startswith(job_uuid_prefix(key)):
            return True
        if folder == "_transactions" and name.split("-", 1)[1].startswith(job_uuid_prefix(key)):
            return int(name.split("-")[0]) < version
        if folder == "_deletions":
            _, read_version, number = name.partition(".")[0].split("-")
            if int(number) >> 16 == job_mark(key):
                return int(read_version) < version
    return False


def as_the_peer_reads_them(store: MemoryStore, folder: Path, history: History) -> None:
    """See that the peer reads the same rows of all versions."""
    lead = f"{store.uri}/"
    for key, value in list(_OBJECTS.items()):
        if key.startswith(lead):
            path = folder / key.removeprefix(lead)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(value[0].to_pybytes())
    for location in list_versions(store):
        name = Dataset.open(store, location.version).manifest.transaction_file
        rows = lance.dataset(folder, version=location.version).to_table()["x"].to_pylist()
        assert rows == history.rows[location.version, name]
