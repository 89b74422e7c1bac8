"""Merges of DataFrames by hash partitions: the rows of a local merge, whatever the clauses and the key."""

import threading
from datetime import date
from decimal import Decimal
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, SchemaMismatchError, TaskFailedError
from lance_ops.maintenance.merge_insert.partition import carried_keys, hash_keys
from lance_ops.spark import merge_join
from lance_ops.spark.merge import merge_dataframe
from lance_ops.table.join_keys import plain_keys

pytestmark = pytest.mark.spark

UPSERT = {"when_matched": "update_all", "when_not_matched": "insert_all"}
BY = {"join": "partitions", "partitions": 3}


def data_files(uri: str) -> set[str]:
    return {path.name for path in (Path(uri) / "data").iterdir()}


def live_files(uri: str) -> set[str]:
    ds = lo.dataset(uri)
    every = [lo.dataset(uri, version=number) for number in range(1, ds.version + 1)]
    return {file.path for one in every for fragment in one.fragments for file in fragment.files}


def start() -> pa.Table:
    ids = [*range(60), None]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "x": pa.array([0] * 61, pa.int32()),
            "s": [f"old {number}" for number in ids],
        }
    )


def content(uri: str) -> list[tuple]:
    rows = [tuple(row.values()) for row in lo.dataset(uri).to_table().to_pylist()]
    assert sorted(rows, key=str) == sorted(
        (tuple(row.values()) for row in lance.dataset(uri).to_table().to_pylist()), key=str
    )
    return sorted(rows, key=str)


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize(
    "clauses",
    [
        UPSERT,
        {"when_matched": "update_if", "condition": "source.x > target.x + 100", "when_not_matched": None},
        {"when_matched": "delete", "when_not_matched": "insert_all"},
        {"when_not_matched": "insert_all", "when_not_matched_by_source": "x = 0 and id < 30"},
        {"when_matched": "update_all", "when_not_matched_by_source": "delete"},
    ],
)
def test_a_merge_by_partitions_is_that_of_one_process(spark, tmp_path, clauses, stable):
    rows = [(n, n * 3) for n in range(40, 80)] + [(None, 1), (None, 2)]
    source = pa.table(
        {
            "id": pa.array([row[0] for row in rows], pa.int64()),
            "x": pa.array([row[1] for row in rows], pa.int32()),
        }
    )
    df = spark.createDataFrame(rows, "id long, x int").repartition(4)
    results, counts, ids = [], [], []
    for name in ("local", "spark"):
        uri = str(tmp_path / name)
        lo.write_dataset(start(), uri, max_rows_per_file=20, enable_stable_row_ids=stable)
        lo.delete(uri, "id in (3, 45)")
        if name == "local":
            done = lo.merge_insert(uri, source, "id", **clauses)
        else:
            done = merge_dataframe(df, uri, "id", **clauses, **BY)
        counts.append((done.rows_inserted, done.rows_updated, done.rows_deleted))
        results.append(content(uri))
        found = lo.dataset(uri).to_table(["id"], with_row_id=True).to_pylist()
        ids.append({row["id"]: row["_rowid"] for row in found if row["id"] is not None and row["id"] < 60})
        assert lo.fsck(uri, deep=True).ok
        assert data_files(uri) == live_files(uri)
    assert results[0] == results[1]
    assert counts[0] == counts[1]
    if stable and clauses.get("when_matched") != "delete":
        kept = {key: number for key, number in ids[0].items() if key != 45}
        assert kept == {key: number for key, number in ids[1].items() if key != 45}


TYPES = {
    pa.float32(): [0.0, -0.0, float("nan"), 1.5],
    pa.string(): ["", "a", "ä", "ab"],
    pa.binary(): [b"", b"\0", b"ab", b"a"],
    pa.decimal128(12, 2): [Decimal("1.50"), Decimal("-2.00"), Decimal("0.00"), Decimal("7.00")],
    pa.timestamp("us"): [0, -1, 10**15, 1],
    pa.date32(): [date(2020, 1, 1), date(1969, 1, 1), date(1970, 1, 1), date(1, 1, 1)],
    pa.bool_(): [True, False, True, False],
    pa.uint32(): [0, 2**32 - 1, 1, 2],
}


def test_keys_of_these_types_meet_in_their_partitions(spark, tmp_path):
    uri = str(tmp_path / "t")
    keys = {f"k{number}": pa.array(values, kind) for number, (kind, values) in enumerate(TYPES.items())}
    lo.append(uri, pa.table({**keys, "x": pa.array(range(4), pa.int32())}))
    df = spark.read.format("lance").load(uri).selectExpr(*keys, "x + 10 as x")
    done = merge_dataframe(df, uri, list(keys), **UPSERT, **BY)
    assert (done.rows_inserted, done.rows_updated) == (0, 4)
    assert sorted(lo.dataset(uri).to_table()["x"].to_pylist()) == [10, 11, 12, 13]


def test_several_columns_are_a_key_and_several_rows_of_one_are_refused_or_the_first_wins(spark, tmp_path):
    uri = str(tmp_path / "t")
    lo.append(uri, pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"], "v": [0, 0, 0]}))
    df = spark.createDataFrame([(1, "y", 5), (2, "y", 6), (None, "y", 7)], "a long, b string, v long")
    done = merge_dataframe(df, uri, ["a", "b"], **UPSERT, **BY)
    assert (done.rows_inserted, done.rows_updated) == (2, 1)
    before = data_files(uri)
    twice = spark.createDataFrame([(1, "x", n) for n in range(4)], "a long, b string, v long").coalesce(1)
    with pytest.raises(
        InvalidArgumentError, match=r"4 rows of the source have the same key \(a = 1, b = x\)"
    ):
        merge_dataframe(twice, uri, ["a", "b"], **UPSERT, **BY)
    assert data_files(uri) == before
    merge_dataframe(twice, uri, ["a", "b"], **UPSERT, **BY, on_duplicates="first")
    assert lo.dataset(uri).to_table(["v"], "a = 1 and b = 'x'")["v"].to_pylist() == [0]
    with pytest.raises(InvalidArgumentError, match="an existing key"):
        merge_dataframe(df.limit(1), uri, ["a", "b"], when_matched="fail", **BY)
    with pytest.raises(SchemaMismatchError, match="does not fit"):
        merge_dataframe(df.selectExpr("a", "b", "v as w"), uri, ["a", "b"], **UPSERT, **BY)


def test_a_failed_partition_leaves_no_file_and_a_job_is_done_once(spark, tmp_path):
    uri = str(tmp_path / "t")
    lo.append(uri, pa.table({"id": range(10), "x": pa.array(range(10), pa.int32())}))
    bad = spark.range(20).selectExpr("id", "cast(raise_error('broken') as int) as x")
    with pytest.raises(TaskFailedError, match="broken"):
        merge_dataframe(bad, uri, "id", **UPSERT, **BY)
    assert data_files(uri) == live_files(uri)
    df = spark.range(5, 15).selectExpr("id", "cast(7 as int) as x")
    assert merge_dataframe(df, uri, "id", **UPSERT, **BY, job_key="once").rows_inserted == 5
    assert merge_dataframe(bad, uri, "id", **UPSERT, **BY, job_key="once").already_committed
    assert lo.dataset(uri).version == 2


class Meanwhile:
    """Lets another writer act once a merge is about to commit."""

    def __init__(self, act):
        self.act, self.lock = act, threading.Lock()

    def __call__(self, event):
        with self.lock:
            if event.message == "committing" and self.act is not None:
                act, self.act = self.act, None
                act()


def test_rows_that_others_add_meanwhile_matter_where_they_have_a_key_that_is_added(spark, tmp_path):
    uri = str(tmp_path / "t")
    lo.append(uri, pa.table({"id": range(10), "x": [0] * 10}))
    df = spark.range(5, 15).selectExpr("id", "7L as x")

    def other(key):
        return Meanwhile(lambda: lo.append(uri, pa.table({"id": [key], "x": [1]})))

    done = merge_dataframe(df, uri, "id", **UPSERT, **BY, progress=other(100), max_replans=0)
    assert done.rebased_over
    more = spark.range(15, 20).selectExpr("id", "7L as x")
    done = merge_dataframe(more, uri, "id", **UPSERT, **BY, progress=other(17))
    assert done.lost_to
    assert (done.rows_inserted, done.rows_updated) == (4, 1)
    found = lo.dataset(uri).to_table().sort_by("id")
    assert found["id"].to_pylist() == [*range(20), 100]
    assert found["x"].to_pylist() == [*[0] * 5, *[7] * 15, 1]


def test_few_rows_come_to_the_driver_and_many_do_not(spark, tmp_path, monkeypatch):
    uri = str(tmp_path / "t")
    lo.append(uri, pa.table({"id": range(10), "x": [0] * 10}))
    monkeypatch.setattr("lance_ops.spark.merge.ON_DRIVER", 6)
    messages = []
    for first in (5, 8):
        df = spark.range(first, 12).selectExpr("id", "7L as x")
        merge_dataframe(df, uri, "id", **UPSERT, progress=lambda event: messages.append(event.message))
        assert df.storageLevel.useDisk is False
        assert ("joining and writing partitions" in messages) == (first == 5)
        messages.clear()
    with pytest.raises(InvalidArgumentError, match="join must be"):
        merge_dataframe(df, uri, "id", **UPSERT, join="best")


@pytest.mark.parametrize("at_once", [1, 7, 100])
def test_a_window_has_all_rows_of_its_keys(monkeypatch, at_once):
    rng = np.random.default_rng(at_once)
    keys = np.sort(rng.integers(0, 12, 90))
    addresses = [None if rng.integers(2) else int(n) for n in range(90)]
    sides = merge_join._Sides(
        ("k",),
        merge_join.spark_schema(pa.schema([("k", pa.int64())])),
        pa.schema([("k", pa.int64())]),
        pa.schema([("k", pa.int64())]),
    )
    table = pa.table(
        {
            "k": pa.array(keys),
            sides.keys[0]: pa.array(keys),
            "__lance_ops_address": pa.array(addresses, pa.int64()),
            "__lance_ops_selected": pa.array([True] * 90),
        }
    )
    monkeypatch.setattr(merge_join, "WINDOW_ROWS", at_once)
    windows = list(merge_join.iter_windows(table.to_batches(max_chunksize=5), sides))
    seen = [{*window.source_keys[0].to_pylist(), *window.target_keys[0].to_pylist()} for window in windows]
    assert sum(len(item) for item in seen) == len(set().union(*seen)) == len(set(keys.tolist()))
    assert sum(len(window.addresses) + window.source.num_rows for window in windows) == 90
    assert (len(windows) > 3) == (at_once < 10)


def test_hashes_of_keys_tell_them_apart_and_leave_out_nulls():
    columns = [pa.array([1, 2, None, 1]), pa.array(["a", "a", "a", "b"])]
    hashes = hash_keys(carried_keys([plain_keys(column) for column in columns]))
    assert len(set(hashes.tolist())) == 3
