"""How often an operation has the disk flush something, and how often it waits for that, on local files."""

import pickle
import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.maintenance.unflushed import UnflushedDataset
from tests.support.flushes import FlushSeam


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


class Flushes:
    """Counts what is brought to the disk, and how often somebody waits for that."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.waits = 0
        self._lock = threading.Lock()
        FlushSeam(monkeypatch, asked=self._count)

    def _count(self, together: int) -> None:
        with self._lock:
            self.calls += together
            self.waits += 1


@pytest.fixture
def uri(tmp_path) -> str:
    """A table of four fragments whose folders are all there."""
    made = str(tmp_path / "t.lance")
    lo.append(made, rows(*range(40)), max_rows_per_file=10)
    lo.delete(made, "x % 10 = 9")
    lo.append(made, rows(100), job_key="first")
    return made


# Operation; calls, and those among them that are waited for one after another.
BOUNDS: dict[str, tuple[Callable[[str], object], tuple[int, int]]] = {
    # Data, transaction, their two folders; the manifest and its folder.
    "append": (lambda uri: lo.append(uri, rows(1)), (6, 2)),
    "append of four files": (lambda uri: lo.append(uri, rows(1, 2, 3, 4), max_rows_per_file=1), (9, 2)),
    # Its note is empty: the folder is all there is to flush.
    "append under a job key": (lambda uri: lo.append(uri, rows(1), job_key="new"), (6, 2)),
    "overwrite": (lambda uri: lo.write_dataset(rows(1), uri, mode="overwrite"), (6, 2)),
    "delete in four fragments": (lambda uri: lo.delete(uri, "x % 10 = 1"), (9, 2)),
    "delete in four fragments under a job key": (
        lambda uri: lo.delete(uri, "x % 10 = 1", job_key="new"),
        (9, 2),
    ),
    "replacement": (lambda uri: lo.replace_where(uri, rows(1), "x = 1"), (8, 2)),
    # Pages, their lookup, transaction and four folders, of which two are new; the manifest and its folder.
    "new index": (lambda uri: lo.create_index(uri, "x"), (9, 2)),
    "setting": (lambda uri: lo.update_config(uri, {"a": "b"}), (4, 2)),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_an_operation_waits_for_the_disk_twice(uri, monkeypatch, name):
    operation, bounds = BOUNDS[name]
    flushes = Flushes(monkeypatch)
    operation(uri)
    assert (flushes.calls, flushes.waits) == bounds


def test_the_first_commit_of_a_table_waits_twice(tmp_path, monkeypatch):
    flushes = Flushes(monkeypatch)
    lo.append(str(tmp_path / "t.lance"), rows(1))
    # The folder above and that of the table, too.
    assert (flushes.calls, flushes.waits) == (8, 2)


def test_the_first_job_key_of_a_table_costs_its_folders_and_no_wait(tmp_path, monkeypatch):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, rows(1))
    flushes = Flushes(monkeypatch)
    lo.append(uri, rows(2), job_key="first")
    assert (flushes.calls, flushes.waits) == (11, 2)


def test_the_upkeep_of_indices_waits_twice_however_many_there_are(uri, monkeypatch):
    for kind in ("BTREE", "ZONEMAP"):
        lo.create_index(uri, "x", kind, name=kind)
    lo.append(uri, rows(7))
    flushes = Flushes(monkeypatch)
    done = lo.optimize_indices(uri)
    assert (done.segments_added, flushes.waits) == (2, 2)


@pytest.mark.parametrize("deferred", [False, True])
def test_a_compaction_waits_no_longer_for_many_indices_than_for_one(tmp_path, monkeypatch, deferred):
    waits = []
    for kinds in (["BTREE"], ["BTREE", "BITMAP", "BLOOMFILTER", "ZONEMAP"]):
        uri = str(tmp_path / f"{len(kinds)}.lance")
        lo.append(uri, rows(*range(40)), max_rows_per_file=10)
        for kind in kinds:
            lo.create_index(uri, "x", kind, name=kind)
        with monkeypatch.context() as patch:
            flushes = Flushes(patch)
            done = lo.compact(uri, defer_index_remap=deferred)
        assert done.remaps_deferred + done.indices_remapped == len(kinds)
        waits.append(flushes.waits)
    assert waits[0] == waits[1]


def test_a_build_on_other_machines_waits_for_its_files(uri):
    """What is written there nobody could flush here."""
    dataset = UnflushedDataset(lo.dataset(uri))
    elsewhere = pickle.loads(pickle.dumps(dataset))
    assert type(elsewhere) is lo.Dataset
    assert type(elsewhere.store) is type(lo.dataset(uri).store)
