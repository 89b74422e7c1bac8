import errno
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import lance
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    DatasetExistsError,
    InvalidArgumentError,
    NotFlushedError,
    SchemaMismatchError,
    StorageFullError,
    UnsupportedVersionError,
)
from lance_ops.maintenance.ingest.operation import abandon_write, commit_write
from lance_ops.maintenance.ingest.options import WriteOptions
from lance_ops.maintenance.ingest.plan import plan_write, write_task
from tests.support.faulty_store import FaultyStore
from tests.support.flushes import FlushSeam
from tests.support.interop import (
    SCHEMA,
    data_files,
    fragment_sizes,
    our_dataset,
    peer_dataset,
    peer_table,
    rows,
    xs,
)


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


@pytest.mark.peer
def test_create_append_and_overwrite_read_the_same_in_the_peer(uri):
    created = lo.write_dataset(rows(0, 10), uri)
    assert (created.mode, created.read_version, created.version, created.rows_added) == (
        "create",
        None,
        1,
        10,
    )
    added = lo.append(uri, rows(10, 25))
    assert (added.mode, added.read_version, added.version, added.fragments_added) == ("append", 1, 2, 1)
    assert peer_table(uri) == rows(0, 25)
    replaced = lo.write_dataset(pa.table({"y": ["a", None]}), uri, mode="overwrite")
    assert (replaced.mode, replaced.version, replaced.fragments_removed) == ("overwrite", 3, 2)
    assert peer_table(uri) == pa.table({"y": ["a", None]})
    assert lance.dataset(uri, version=2).to_table() == rows(0, 25)


@pytest.mark.peer
def test_the_peer_appends_to_ours_and_we_to_the_peers(tmp_path):
    ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    our_dataset(ours, [5])
    lance.write_dataset(rows(5, 9), str(ours), mode="append")
    peer_dataset(theirs, [5])
    lo.append(theirs, rows(5, 9))
    for uri in (ours, theirs):
        lo.append(uri, rows(9, 12))
        assert peer_table(uri) == rows(0, 12)
        assert lo.dataset(uri).to_table() == rows(0, 12)


def test_append_creates_the_dataset_and_says_so(uri):
    assert lo.append(uri, rows(0, 3)).mode == "create"
    assert xs(uri) == [0, 1, 2]


def test_create_on_an_existing_dataset_writes_nothing(uri):
    our_dataset(uri, [3])
    before = data_files(uri)
    with pytest.raises(DatasetExistsError, match="append"):
        lo.write_dataset(rows(0, 3), uri)
    assert data_files(uri) == before


def test_rows_are_cut_into_fragments_of_the_wished_size(uri):
    result = lo.write_dataset(rows(0, 25), uri, max_rows_per_file=10)
    assert result.fragments_added == 3
    assert list(fragment_sizes(uri).values()) == [10, 10, 5]
    assert xs(uri) == list(range(25))


def test_files_are_cut_at_the_wished_bytes(uri):
    table = pa.table({"x": np.random.default_rng(0).integers(0, 2**60, 200_000)})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=20_000))
    result = lo.write_dataset(reader, uri, max_bytes_per_file=400_000)
    assert result.fragments_added > 2
    assert lo.dataset(uri).to_table() == table


def test_every_mismatch_is_reported_before_anything_is_written(uri):
    our_dataset(uri, [3])
    before = data_files(uri)
    data = pa.table({"x": ["a"], "s": [b"b"], "new": [1]})
    with pytest.raises(SchemaMismatchError) as caught:
        lo.append(uri, data)
    assert caught.value.mismatches == (
        "x: string in the data, int64 in the dataset",
        "s: binary in the data, string in the dataset",
        "f: missing, the dataset has it as double; fill_missing writes nulls",
        "new: column not found in the dataset (int64 in the data)",
    )
    assert data_files(uri) == before
    assert lo.dataset(uri).version == 1


def test_types_that_lose_nothing_are_cast(uri):
    our_dataset(uri, [2])
    lo.append(
        uri,
        pa.table({
            "f": pa.array([0.5, None], pa.float32()),
            "s": pa.array(["row 2", None]).dictionary_encode(),
            "x": pa.array([2, 3], pa.int16()),
        }),
    )  # fmt: skip
    assert lo.dataset(uri).to_table().slice(2).to_pylist() == [
        {"x": 2, "s": "row 2", "f": 0.5},
        {"x": 3, "s": None, "f": None},
    ]


@pytest.mark.peer
def test_missing_columns_are_filled_with_nulls_only_when_asked(uri):
    our_dataset(uri, [1])
    with pytest.raises(SchemaMismatchError, match="s: missing"):
        lo.append(uri, rows(1, 2).select(["x"]))
    lo.append(uri, rows(1, 2).select(["x"]), fill_missing=True)
    lo.append(uri, rows(2, 3).select([]), fill_missing=True)
    assert peer_table(uri).slice(1).to_pylist() == [
        {"x": 1, "s": None, "f": None},
        {"x": None, "s": None, "f": None},
    ]


def test_a_null_in_a_required_column_leaves_no_file_behind(uri):
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    lo.write_dataset(pa.table({"x": [1]}, schema=schema), uri)
    before = data_files(uri)
    batches = [pa.record_batch({"x": [2] * 10}), pa.record_batch({"x": pa.array([None], pa.int64())})]
    with pytest.raises(SchemaMismatchError, match="x: 1 nulls"):
        lo.append(uri, batches, max_rows_per_file=4)
    assert data_files(uri) == before
    lo.append(uri, pa.table({"x": [2]}))
    assert xs(uri) == [1, 2]


def test_an_append_of_nothing_commits_nothing(uri):
    our_dataset(uri, [2])
    result = lo.append(uri, rows(0, 0))
    assert (result.changed, result.version, result.rows_added) == (False, 1, 0)
    assert lo.dataset(uri).version == 1


@pytest.mark.peer
def test_a_dataset_can_be_created_empty(uri):
    lo.write_dataset(rows(0, 0), uri)
    assert peer_table(uri) == rows(0, 0)
    lo.append(uri, rows(0, 2))
    assert xs(uri) == [0, 1]


@pytest.mark.peer
def test_the_aliases_of_the_peer_are_understood(uri):
    lo.write_dataset(rows(0, 3), uri, data_storage_version="stable")
    lo.append(uri, rows(3, 5), data_storage_version="stable")
    assert lo.dataset(uri).data_storage_version == lance.dataset(str(uri)).data_storage_version == "2.2"
    assert xs(uri) == list(range(5))
    with pytest.raises(UnsupportedVersionError, match=r"0\.1 is read but not written"):
        lo.write_dataset(rows(0, 1), uri, mode="overwrite", data_storage_version="legacy")


def test_an_append_keeps_the_storage_version_of_the_dataset(uri):
    our_dataset(uri, [2], data_storage_version="2.0")
    lo.append(uri, rows(2, 3))
    lo.append(uri, rows(2, 3), data_storage_version="2.0")
    lo.append(uri, rows(3, 4), data_storage_version="2.1")
    lo.append(uri, rows(4, 5))
    dataset = lo.dataset(uri)
    written = [fragment.files[0].storage_version for fragment in dataset.fragments]
    assert written == ["2.0", "2.0", "2.0", "2.1", "2.0"]
    assert dataset.data_storage_version == "2.0"


@pytest.mark.peer
def test_a_storage_version_that_cannot_be_written_is_named(uri):
    lance.write_dataset(rows(0, 3), uri, data_storage_version="0.1")
    with pytest.raises(UnsupportedVersionError, match=r"0\.1"):
        lo.append(uri, rows(3, 4))


@pytest.mark.peer
def test_stable_row_ids_go_on_counting(uri):
    our_dataset(uri, [3, 2], enable_stable_row_ids=True)
    lance.write_dataset(rows(5, 6), uri, mode="append")
    lo.append(uri, rows(6, 8))
    assert peer_table(uri, with_row_id=True)["_rowid"].to_pylist() == list(range(8))
    assert lo.dataset(uri).to_table(with_row_id=True)["_rowid"].to_pylist() == list(range(8))


def test_a_job_is_committed_once(uri):
    first = lo.append(uri, rows(0, 3), job_key="load 1", properties={"run": "a"})
    before = data_files(uri)
    second = lo.append(uri, rows(0, 3), job_key="load 1")
    assert (first.already_committed, second.already_committed, second.version) == (False, True, 1)
    assert not second.changed
    third = lo.append(uri, rows(3, 5), job_key="load 2")
    assert third.version == 2
    assert lo.append(uri, rows(3, 5), job_key="load 1").version == 1
    assert xs(uri) == [0, 1, 2, 3, 4]
    assert before < data_files(uri)
    assert lo.dataset(uri).read_transaction(1).properties["run"] == "a"


@pytest.mark.parametrize("mode", ["append", "replace_where"])
@pytest.mark.parametrize("exists", [True, False])
def test_data_without_rows_are_no_job_done(uri, mode, exists):
    options = {"mode": mode, "job_key": "monday", "predicate": "x >= 0" if mode == "replace_where" else None}
    data = pa.table({"x": pa.array([1, 2], pa.int64())})
    if exists:
        lo.append(uri, data.slice(0, 0))
    lo.write_dataset(data.slice(0, 0), uri, **options)
    assert lo.write_dataset(data, uri, **options).rows_added == 2
    assert lo.write_dataset(data, uri, **options).already_committed
    assert lo.dataset(uri).count_rows() == 2


def test_a_job_that_runs_twice_at_once_is_committed_once_and_leaves_no_files(uri):
    our_dataset(uri, [1])
    options = WriteOptions(job_key="load")
    plans = [plan_write(SCHEMA, uri, options) for _ in range(2)]
    results = [write_task(plan.task, rows(1, 4).to_batches()) for plan in plans]
    first, second = (commit_write(plan, [result]) for plan, result in zip(plans, results, strict=True))
    assert (first.already_committed, second.already_committed) == (False, True)
    assert xs(uri) == [0, 1, 2, 3]
    assert not set(results[1].paths) & data_files(uri)
    assert set(results[0].paths) <= data_files(uri)


def test_parts_written_apart_are_committed_once_in_their_order(uri):
    our_dataset(uri, [2])
    plan = pickle.loads(pickle.dumps(plan_write(SCHEMA, uri, WriteOptions(max_rows_per_file=3))))
    task = pickle.loads(pickle.dumps(plan.task))
    results = [write_task(task, rows(start, start + 5).to_batches()) for start in (2, 7)]
    results = [pickle.loads(pickle.dumps(result)) for result in results]
    assert [(result.rows, len(result.fragments)) for result in results] == [(5, 2), (5, 2)]
    done = commit_write(plan, results)
    assert (done.version, done.rows_added, done.fragments_added) == (2, 10, 4)
    assert xs(uri) == list(range(12))


def test_an_abandoned_write_leaves_nothing(uri):
    our_dataset(uri, [2])
    before = data_files(uri)
    plan = plan_write(SCHEMA, uri)
    abandon_write(plan, [write_task(plan.task, rows(2, 5).to_batches())])
    assert data_files(uri) == before


def test_an_append_goes_on_over_commits_of_others(uri):
    our_dataset(uri, [2])
    plan = plan_write(SCHEMA, uri)
    result = write_task(plan.task, rows(2, 4).to_batches())
    lo.append(uri, rows(10, 11))
    lo.delete(uri, "x = 0")
    done = commit_write(plan, [result])
    assert (done.read_version, done.version, len(done.conflicts)) == (1, 4, 2)
    assert xs(uri) == [1, 10, 2, 3]


def test_an_append_whose_read_version_is_gone_is_tried_on_the_head_with_the_same_files(uri):
    our_dataset(uri, [2])
    plan = plan_write(SCHEMA, uri)
    result = write_task(plan.task, rows(2, 4).to_batches())
    lo.append(uri, rows(10, 11))
    lo.append(uri, rows(11, 12))
    # A version between the read version and the head is gone: nobody can say what it changed.
    (location,) = [item for item in lo.dataset(uri).versions() if item.version == 2]
    lo.dataset(uri).store.delete(_manifest_path(uri, location.version))
    done = commit_write(plan, [result])
    assert done.version == 4
    assert any("planned again" in line for line in done.conflicts)
    assert xs(uri) == [0, 1, 10, 11, 2, 3]


def _manifest_path(uri, version):
    from lance_ops.table.manifest.listing import locate

    return locate(lo.dataset(uri).store, version).path


def test_an_append_to_a_schema_that_changed_meanwhile_fails_and_leaves_no_files(uri):
    our_dataset(uri, [2])
    plan = plan_write(SCHEMA, uri)
    result = write_task(plan.task, rows(2, 4).to_batches())
    lo.write_dataset(pa.table({"y": [1]}), uri, mode="overwrite")
    before = data_files(uri) - set(result.paths)
    with pytest.raises(CommitConflictError):
        commit_write(plan, [result])
    assert data_files(uri) == before
    assert lo.dataset(uri).to_table() == pa.table({"y": [1]})


def test_two_writers_that_create_at_once_both_get_their_rows_in(uri):
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: lo.append(uri, rows(n, n + 1)), range(4)))
    assert sorted(result.version for result in done) == [1, 2, 3, 4]
    assert [result.mode for result in sorted(done, key=lambda r: r.version)] == ["create"] + ["append"] * 3
    assert sorted(xs(uri)) == [0, 1, 2, 3]


def test_files_stay_while_nobody_knows_whether_they_are_committed(uri):
    our_dataset(uri, [2])
    ds = lo.dataset(uri)
    versions = []

    def is_lost(call):
        versions.extend([call.path] if call.name == "put" and call.path.startswith("_versions/") else [])
        return call.path in versions

    store = FaultyStore(ds.store, fail_at=is_lost, when="after", mode="error", count="any", times=100)
    with pytest.raises(CommitOutcomeUnknownError):
        lo.append(store, rows(2, 4), job_key="load")
    assert xs(uri) == [0, 1, 2, 3]
    again = lo.append(uri, rows(2, 4), job_key="load")
    assert (again.already_committed, again.version) == (True, 2)
    assert xs(uri) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_input_files_are_written_in_parallel_in_their_order(uri, tmp_path, kind, monkeypatch):
    monkeypatch.setattr("lance_ops.maintenance.ingest.operation._BYTES_PER_TASK", 1)
    for number in range(5):
        part = rows(number * 3, number * 3 + 3)
        if kind == "parquet":
            pq.write_table(part, tmp_path / f"{number}.parquet")
        else:
            pacsv.write_csv(part, tmp_path / f"{number}.csv")
    events = []
    result = lo.write_dataset(
        str(tmp_path / f"*.{kind}"), uri, runner=lo.LocalRunner(2), progress=events.append
    )
    assert result.fragments_added == 5
    assert xs(uri) == list(range(15))
    assert [(event.done, event.total) for event in events if "input files" in event.message][-1] == (5, 5)


def test_csv_is_parsed_as_the_types_of_the_dataset(uri, tmp_path):
    our_dataset(uri, [1])
    (tmp_path / "in.csv").write_text("x,f,s\n1,2,007\n2,,008\n")
    lo.append(uri, tmp_path / "in.csv")
    assert lo.dataset(uri).to_table().slice(1).to_pylist() == [
        {"x": 1, "s": "007", "f": 2.0},
        {"x": 2, "s": "008", "f": None},
    ]


def test_a_file_that_does_not_fit_is_named_and_nothing_is_written(uri, tmp_path):
    our_dataset(uri, [1])
    before = data_files(uri)
    pq.write_table(rows(1, 2), tmp_path / "a.parquet")
    pq.write_table(rows(2, 3).drop_columns(["f"]), tmp_path / "b.parquet")
    with pytest.raises(SchemaMismatchError, match=r"b\.parquet"):
        lo.append(uri, [tmp_path / "a.parquet", tmp_path / "b.parquet"])
    assert data_files(uri) == before


def test_progress_counts_the_rows_of_a_stream(uri):
    events = []
    lo.write_dataset(rows(0, 30).to_reader(10), uri, progress=events.append)
    assert [event.done for event in events if event.message == "writing rows"] == [10, 20, 30]
    assert events[-1].message == "committed"
    assert {event.operation for event in events} == {"append"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "upsert"}, "unknown mode"),
        ({"max_rows_per_file": 0}, "max_rows_per_file"),
        ({"max_bytes_per_file": -1}, "max_bytes_per_file"),
    ],
)
def test_options_that_make_no_sense_are_refused(uri, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        lo.write_dataset(rows(0, 1), uri, **options)


@pytest.mark.parametrize("count", [10, 100_000])
@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_a_version_appears_after_its_data_are_on_the_disk(tmp_path, monkeypatch, count, mode):
    folder = tmp_path / "t.lance"
    if mode != "create":
        our_dataset(str(folder), [2])
    before, flushed, at_link = set(folder.rglob("*")), [], []
    link = os.link
    FlushSeam(monkeypatch, after=flushed.append)
    monkeypatch.setattr(os, "link", lambda source, target: (at_link.extend(flushed), link(source, target)))
    assert lo.write_dataset(rows(0, count), str(folder), mode=mode).rows_added == count
    new = [path for path in folder.rglob("*") if path not in before and path.is_file()]
    needed = [path for path in new if path.parent.name in ("data", "_transactions")]
    assert len(needed) == 2
    assert {str(path) for file in needed for path in (file, file.parent)} <= set(at_link)


@pytest.mark.parametrize(
    ("number", "error"), [(errno.EIO, NotFlushedError), (errno.ENOSPC, StorageFullError)]
)
@pytest.mark.parametrize("count", [10, 100_000])
def test_data_that_do_not_reach_the_disk_are_not_committed(tmp_path, monkeypatch, count, number, error):
    our_dataset(str(tmp_path / "t.lance"), [2])
    ds = lo.dataset(str(tmp_path / "t.lance"))
    before = {path for path in tmp_path.rglob("*") if path.is_file()}

    def fail(path):
        if os.path.basename(os.path.dirname(path)) == "data":
            raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        FlushSeam(patch, before=fail)
        with pytest.raises(error):
            lo.append(ds, rows(2, count))
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    # What was lost is gone, so what comes next counts.
    lo.append(ds, rows(2, count))
    assert xs(ds.uri) == list(range(count))


def test_data_are_on_the_disk_when_somebody_else_stores_the_manifest(tmp_path, monkeypatch):
    class Elsewhere:
        def commit(self, store, location, manifest):
            at_commit.extend(flushed)
            (tmp_path / "t.lance/_versions").mkdir()
            (tmp_path / "t.lance" / location.path).write_bytes(manifest)

    flushed, at_commit = [], []
    FlushSeam(
        monkeypatch,
        after=lambda path: flushed.append("data") if "/data/" in path else None,
    )
    lo.write_dataset(rows(0, 10), str(tmp_path / "t.lance"), committer=Elsewhere())
    assert at_commit == ["data"]
