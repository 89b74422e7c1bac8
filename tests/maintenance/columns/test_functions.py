"""Columns computed by a function or read from a reader: as the peer adds them, resumed after a crash."""

import threading

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import (
    CommitConflictError,
    InvalidArgumentError,
    SchemaMismatchError,
    TaskFailedError,
)
from tests.support.interop import data_files, our_dataset, peer_table, rows

DOUBLE = pa.schema([("d", pa.int64()), ("n", pa.string())])


def double(batch):
    values = batch["x"].to_numpy()
    return pa.record_batch([pa.array(values * 2), pa.array([f"n{x}" for x in values])], schema=DOUBLE)


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
def test_a_function_gives_what_it_gives_with_the_peer(tmp_path, stable):
    tables = []
    for side in ("ours", "peers"):
        uri = str(tmp_path / side)
        our_dataset(uri, [7, 5], enable_stable_row_ids=stable)
        lo.delete(uri, "x in (3, 9)")
        if side == "ours":
            done = lo.add_columns(uri, lo.batch_udf(DOUBLE, batch_size=2)(double))
            assert (done.columns, done.fragments_updated) == (("d", "n"), 2)
        else:
            lance.dataset(uri).add_columns(lance.batch_udf(DOUBLE)(double))
        tables.append(peer_table(uri))
        assert lo.dataset(uri).to_table().equals(tables[-1])
        # And on: the other side compacts and appends.
        lance.dataset(uri).optimize.compact_files()
        lo.append(uri, tables[-1].slice(0, 2))
        assert lo.fsck(uri, deep=True).ok
    assert tables[0].equals(tables[1])
    assert tables[0]["d"].to_pylist() == [2 * x for x in tables[0]["x"].to_pylist()]


@pytest.mark.peer
def test_what_the_peer_wraps_as_a_function_is_taken_too_and_schemas_are_asked_for(uri):
    our_dataset(uri, [4])
    lo.add_columns(uri, lance.batch_udf(DOUBLE)(double))
    lo.add_columns(uri, lambda batch: batch.select(["x"]).rename_columns(["y"]), read_columns=["x"])
    lo.add_columns(uri, lambda batch: batch.to_pandas()[["f"]].rename(columns={"f": "g"}))
    found = peer_table(uri)
    assert found.schema.names == ["x", "s", "f", "d", "n", "y", "g"]
    assert found["y"].to_pylist() == found["x"].to_pylist()
    assert found["g"].to_pylist()[:4] == [0, 0.25, 0.5, 0.75]


def test_a_function_is_given_the_live_rows_that_it_asked_for_in_batches(uri):
    our_dataset(uri, [7, 5])
    lo.delete(uri, "x in (3, 9)")
    seen = []

    @lo.batch_udf(pa.schema([("a", pa.uint64())]), read_columns=["_rowaddr", "x"], batch_size=4)
    def address(batch):
        seen.append((batch.schema.names, batch["x"].to_pylist()))
        return pa.record_batch([batch["_rowaddr"]], ["a"])

    lo.add_columns(uri, address, runner=lo.LocalRunner(1))
    assert [names for names, _ in seen] == [["_rowaddr", "x"]] * 3
    assert [part for _, part in seen] == [[0, 1, 2, 4], [5, 6], [7, 8, 10, 11]]
    table = lo.dataset(uri).to_table(with_row_address=True)
    assert table["a"].to_pylist() == table["_rowaddr"].to_pylist()


@pytest.mark.peer
def test_a_reader_gives_a_row_for_each_live_row(uri):
    our_dataset(uri, [7, 5])
    lo.delete(uri, "x in (1, 7)")
    new = pa.table({"y": range(10), "z": [f"z{n}" for n in range(10)]})
    plan = lo.add_columns(uri, new, dry_run=True)
    assert (plan.fragments, lo.dataset(uri).version) == (2, 3)
    lo.add_columns(uri, pa.RecordBatchReader.from_batches(new.schema, new.to_batches(max_chunksize=3)))
    found = peer_table(uri)
    assert found["y"].to_pylist() == list(range(10))
    assert lo.dataset(uri).to_table().equals(found)
    before = data_files(uri)
    for count in (9, 11):
        with pytest.raises(SchemaMismatchError, match="live rows"):
            lo.add_columns(uri, pa.table({"w": range(count)}))
    assert data_files(uri) == before


@pytest.mark.parametrize(
    ("function", "error", "match"),
    [
        (lambda batch: batch.slice(1).select(["x"]), SchemaMismatchError, "3 rows, expected 4"),
        (lambda batch: batch.select(["x"]), SchemaMismatchError, r"columns \['x'\], expected"),
        (lambda batch: 7, SchemaMismatchError, "a int, expected a record batch"),
        (lambda batch: pa.record_batch([["a"] * 4], ["y"]), SchemaMismatchError, "y: a is no int8"),
        (
            lambda batch: pa.record_batch([pa.array([1, 2, 300, 4])], ["y"]),
            SchemaMismatchError,
            "y: 300 is no int8 in the row with address 2",
        ),
        (lambda batch: 1 / 0, TaskFailedError, "division by zero"),
    ],
)
def test_what_a_function_does_wrong_is_named_and_changes_nothing(uri, function, error, match):
    our_dataset(uri, [4])
    before = data_files(uri)
    with pytest.raises(error, match=match):
        lo.add_columns(uri, function, output_schema=pa.schema([("y", pa.int8())]))
    assert (lo.dataset(uri).version, data_files(uri)) == (1, before)


def test_what_makes_no_sense_is_refused(uri):
    our_dataset(uri, [4])
    with pytest.raises(InvalidArgumentError, match="read"):
        lo.add_columns(uri, double, read_columns=["nope"], output_schema=DOUBLE)
    with pytest.raises(InvalidArgumentError):
        lo.add_columns(uri, double, batch_size=0, output_schema=DOUBLE)
    with pytest.raises(InvalidArgumentError, match="cannot add the columns"):
        lo.add_columns(uri, lambda batch: batch)
    lo.delete(uri, "true")
    with pytest.raises(InvalidArgumentError, match="declare"):
        lo.add_columns(uri, double)


class Counting:
    """A function that counts its rows, and fails once it has been called so often."""

    def __init__(self, fail_at=None):
        self.rows, self.calls, self.fail_at, self.lock = 0, 0, fail_at, threading.Lock()

    def __call__(self, batch):
        with self.lock:
            self.calls += 1
            if self.calls == self.fail_at:
                raise KeyboardInterrupt if self.fail_at < 0 else MemoryError("killed")
            self.rows += batch.num_rows
        return pa.record_batch([batch["x"]], ["y"])


SCHEMA = pa.schema([("y", pa.int64())])


def test_a_crashed_job_goes_on_with_what_is_there(uri):
    our_dataset(uri, [3, 3, 3, 3])
    first = Counting(fail_at=3)
    with pytest.raises(TaskFailedError):
        lo.add_columns(uri, first, output_schema=SCHEMA, job_key="k", runner=lo.LocalRunner(1))
    (job,) = lo.list_jobs(uri)
    assert (job.operation, job.groups_done, job.groups_total) == ("add_columns", 2, 4)
    # Others go on meanwhile: rows go from what is done, and from what is not; rows come.
    lo.delete(uri, "x in (1, 10)")
    lance.dataset(uri).insert(rows(12, 14))
    second = Counting()
    done = lo.add_columns(uri, second, output_schema=SCHEMA, job_key="k")
    assert (done.fragments_resumed, done.fragments_updated, second.rows) == (2, 5, 3 + 2 + 2)
    assert lo.list_jobs(uri) == []
    found = peer_table(uri)
    assert found["y"].to_pylist() == found["x"].to_pylist() == [0, *range(2, 10), 11, 12, 13]
    assert lo.add_columns(uri, second, output_schema=SCHEMA, job_key="k").already_committed
    used = {f"data/{file.path}" for part in lo.dataset(uri).fragments for file in part.files}
    assert {name for name in data_files(uri) if name.startswith("data/")} == used


def test_rows_that_come_back_are_computed(uri):
    our_dataset(uri, [3, 3])
    lo.delete(uri, "x = 1")
    with pytest.raises(TaskFailedError):
        lo.add_columns(uri, Counting(2), output_schema=SCHEMA, job_key="k", runner=lo.LocalRunner(1))
    lo.restore(uri, 2)
    done = lo.add_columns(uri, Counting(), output_schema=SCHEMA, job_key="k")
    assert done.fragments_resumed == 1
    assert lo.dataset(uri).to_table()["y"].to_pylist() == list(range(6))


def test_a_reader_is_resumed_from_its_start(uri):
    our_dataset(uri, [3, 3, 3])
    new = pa.table({"y": range(9)})

    def broken():
        yield from new.slice(0, 5).to_batches()
        raise MemoryError("killed")

    with pytest.raises(MemoryError):
        lo.add_columns(uri, pa.RecordBatchReader.from_batches(new.schema, broken()), job_key="k")
    done = lo.add_columns(uri, new, job_key="k")
    assert done.fragments_resumed == 1
    assert lo.dataset(uri).to_table()["y"].to_pylist() == list(range(9))


@pytest.mark.peer
@pytest.mark.parametrize(
    "act",
    [
        lambda uri: (lo.delete(uri, "x = 1"), lo.append(uri, rows(9, 10))),
        lambda uri: (lance.dataset(uri).delete("x = 1"), lance.dataset(uri).insert(rows(9, 10))),
        lambda uri: (lo.delete(uri, "x = 8"), lo.append(uri, rows(9, 10))),
        lambda uri: lo.update(uri, {"x": "x + 100"}, "x = 4"),
        lambda uri: lo.delete(uri, "x = 1"),
        lambda uri: lo.append(uri, rows(9, 10)),
        lambda uri: lo.compact(uri),
        lambda uri: lo.write_dataset(rows(20, 29), uri, mode="overwrite", max_rows_per_file=3),
    ],
)
def test_a_reader_is_not_resumed_beside_other_rows(uri, act):
    our_dataset(uri, [3, 3, 3])
    new = pa.table({"y": range(9)})

    def broken():
        yield from new.slice(0, 5).to_batches()
        raise MemoryError("killed")

    with pytest.raises(MemoryError):
        lo.add_columns(uri, pa.RecordBatchReader.from_batches(new.schema, broken()), job_key="k")
    act(uri)
    before, files = lo.dataset(uri).to_table(), data_files(uri)
    for count in (9, before.num_rows):
        with pytest.raises(CommitConflictError, match="cancel_job") as failed:
            lo.add_columns(uri, pa.table({"y": range(count)}), job_key="k")
        assert not failed.value.retryable
    assert lo.dataset(uri).to_table().equals(before)
    assert {name for name in data_files(uri) - files if name.startswith("data/")} == set()
    lo.cancel_job(uri, "k")
    found = lo.dataset(uri).to_table()["x"]
    done = lo.add_columns(uri, pa.table({"y": found}), job_key="k")
    assert done.fragments_resumed == 0
    for table in (lo.dataset(uri).to_table(), peer_table(uri)):
        assert table["y"].to_pylist() == table["x"].to_pylist() == found.to_pylist()
    assert lo.list_jobs(uri) == []


def test_a_reader_of_a_job_lets_rows_go_while_it_commits(uri):
    our_dataset(uri, [3, 3])
    act = meanwhile(lambda: lo.delete(uri, "x = 1"))
    assert lo.add_columns(uri, pa.table({"y": range(6)}), job_key="k", progress=act).conflicts
    assert lo.dataset(uri).to_table()["y"].to_pylist() == [0, 2, 3, 4, 5]


def meanwhile(act):
    acts = [act]

    def progress(event):
        if event.message == "committing" and acts:
            acts.pop()()

    return progress


def test_after_a_conflict_only_what_is_new_is_computed(uri):
    our_dataset(uri, [4, 4])
    counting = Counting()

    def others():
        lance.dataset(uri).delete("x = 2")
        lo.append(uri, rows(8, 10))

    done = lo.add_columns(uri, counting, output_schema=SCHEMA, progress=meanwhile(others))
    assert done.conflicts
    assert counting.rows == 10
    assert lo.dataset(uri).to_table()["y"].to_pylist() == [0, 1, *range(3, 10)]


def test_a_reader_cannot_know_rows_that_came_meanwhile(uri):
    our_dataset(uri, [4])
    before = data_files(uri)
    act = meanwhile(lambda: lo.append(uri, rows(4, 6)))
    with pytest.raises(CommitConflictError, match="reader"):
        lo.add_columns(uri, pa.table({"y": range(4)}), progress=act)
    assert len(data_files(uri) - before) == 1
    act = meanwhile(lambda: lo.delete(uri, "x = 2"))
    lo.add_columns(uri, pa.table({"y": range(6)}), progress=act)
    assert lo.dataset(uri).to_table()["y"].to_pylist() == [0, 1, 3, 4, 5]


def test_wide_results_are_computed_in_small_windows(uri):
    our_dataset(uri, [3000])
    kind = pa.list_(pa.float32(), 8192)
    seen = []

    def embed(batch):
        seen.append(batch.num_rows)
        flat = np.repeat(batch["x"].to_numpy().astype(np.float32), 8192)
        return pa.record_batch([pa.FixedSizeListArray.from_arrays(flat, 8192)], ["v"])

    lo.add_columns(uri, embed, output_schema=pa.schema([("v", kind)]))
    assert (sum(seen), max(seen)) == (3000, 1024)
    assert lo.dataset(uri).take([2999], ["v"])["v"][0].as_py() == [2999.0] * 8192
