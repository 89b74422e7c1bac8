"""Shares of a scan, and `read_dataset`."""

from dataclasses import replace
from itertools import pairwise

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, PredicateError, VersionNotFoundError
from lance_ops.file.schema.model import Schema
from lance_ops.spark import read_dataset
from lance_ops.spark.shares import (
    Share,
    bytes_to_read,
    cut_fragments,
    cut_scan,
    group_fragments,
    with_blob_sizes,
)
from lance_ops.spark.types import arrow_schema, spark_schema
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.plan import FragmentPlan
from tests.safety.stream_histories import query
from tests.support.arrays import ALL_2_0_TYPES, random_array

ROWS = 300_000


def plan(size: int, rows: int = 1, **more) -> FragmentPlan:
    file = DataFile("x.lance", fields=(0,), column_indices=(0,), major=2, minor=0, size_bytes=size)
    return FragmentPlan(Fragment(id=0, files=(file,), physical_rows=rows), 0, **more)


def numbered(start: int, stop: int) -> pa.Table:
    ids = np.arange(start, stop)
    return pa.table(
        {"id": ids, "odd": ids % 2 == 1, "word": [f"word {n % 11}" for n in ids], "half": ids / 2}
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> str:
    """One large fragment and three small ones, with deletions in all; an index on half."""
    uri = str(tmp_path_factory.mktemp("scan") / "t.lance")
    lo.append(uri, numbered(0, ROWS), max_rows_per_file=ROWS)
    for start in range(ROWS, ROWS + 300, 100):
        lo.append(uri, numbered(start, start + 100))
    lo.create_tag(uri, "whole")
    lo.delete(uri, "id % 1000 < 10")
    lo.create_index(uri, "half")
    return uri


# Cutting


def test_small_fragments_are_read_together():
    groups = group_fragments([plan(size) for size in (5, 5, 5, 20, 1)], 10)
    assert [[bytes_to_read(part) for part in group] for group in groups] == [[5, 5], [5], [20], [1]]
    assert group_fragments([], 10) == []


def test_large_fragments_are_cut_by_rows_at_whole_batches():
    pieces = cut_fragments([plan(100 << 20, 1_000_000), plan(10, 10)], 40 << 20)
    assert [piece.span for piece in pieces] == [(0, 393_216), (393_216, 786_432), (786_432, 1_000_000), None]
    # Rows of a megabyte each.
    assert [piece.span for piece in cut_fragments([plan(100 << 20, 100)], 50 << 20)] == [(0, 50), (50, 100)]
    # Many small fragments, or what a limit has cut, stay as they are.
    limited = plan(100 << 20, 1_000_000, take=5)
    assert cut_fragments([limited], 1 << 20) == [limited]


def test_a_slot_that_reads_little_has_one_share(tmp_path):
    uri = str(tmp_path / "t.lance")
    columns = {name: pa.array([1, 2], pa.int64()) for name in "abcd"}
    lo.append(uri, pa.table(columns))

    def scan(megabytes, names):
        # As if its file had that size.
        (real,) = lo.dataset(uri).scanner(names).plan.fragments
        file = replace(real.fragment.files[0], size_bytes=megabytes << 20)
        fragment = replace(real.fragment, files=(file,), physical_rows=8_000_000)
        whole = lo.dataset(uri).scanner(names).plan
        return replace(whole, fragments=(replace(real, fragment=fragment),))

    for megabytes, names, slots, shares in (
        (100, ["a"], 2, 2),
        (100, None, 2, 4),
        (100, ["a"], 100, 25),
        (1000, ["a"], 1, 4),
        (1000, None, 1, 16),
        # Of a file of three megabytes, each row counts for a byte at least.
        (3, ["a"], 8, 2),
    ):
        assert len(cut_scan(scan(megabytes, names), slots=slots)) == shares, (megabytes, names, slots)
    # One of many fields may be nearly all of the bytes, so shares have about 512 MiB of files in all.
    uri = str(tmp_path / "wide.lance")
    columns = {f"c{number}": columns["a"] for number in range(100)}
    lo.append(uri, pa.table(columns))
    assert len(cut_scan(scan(10_240, ["c7"]), slots=1)) == 18


@given(
    sizes=st.lists(st.tuples(st.integers(0, 1 << 28), st.integers(1, 5_000_000)), max_size=8),
    share=st.integers(1 << 16, 1 << 28),
)
def test_every_row_is_in_one_piece(sizes, share):
    plans = [plan(size, rows) for size, rows in sizes]
    for whole in plans:
        pieces = cut_fragments([whole], share)
        spans = [piece.span or (0, whole.fragment.physical_rows) for piece in pieces]
        assert spans[0][0] == 0
        assert spans[-1][1] == whole.fragment.physical_rows
        assert all(left[1] == right[0] for left, right in pairwise(spans))
    pieces = cut_fragments(plans, share)
    assert [part for group in group_fragments(pieces, share) for part in group] == pieces


def test_bytes_of_blobs_count_where_they_are_read(tmp_path):
    """They lie beside the data files, of which they are a thousandth part."""
    uri = str(tmp_path / "t.lance")
    schema = pa.schema([pa.field("i", pa.int64()), lance.blob_field("b")])
    blobs = lance.blob_array([bytes([n]) * (1 << 20) for n in range(12)])
    lo.write_dataset(pa.table({"i": range(12), "b": blobs}, schema=schema), uri, data_storage_version="2.2")
    dataset = lo.dataset(uri)

    def shares(*columns: str) -> list[Share]:
        scan = with_blob_sizes(dataset.scanner(list(columns)).plan, dataset.bases)
        return cut_scan(scan, slots=2, share_bytes=3 << 20)

    assert len(shares("i")) == 1
    assert len(shares("b")) == len(shares("i", "b")) == 4
    assert {share.batch_rows for share in shares("b")} == {15}
    found = [
        row["i"]
        for share in shares("i", "b")
        for batch in share.read(dataset, arrow_schema(spark_schema(dataset.scanner(["i", "b"]).schema)))
        for row in batch.to_pylist()
    ]
    assert found == list(range(12))
    source = query(uri, mode="append", starting_version=1, max_bytes=3 << 20)
    assert [len(epoch) for epoch in source.drain()] == [2, 2, 2, 2, 2, 2]


def test_candidates_of_an_index_are_cut_too():
    candidates = np.arange(0, 1_000_000, 2, dtype=np.uint32)
    pieces = cut_fragments([plan(100 << 20, 1_000_000, candidates=candidates)], 20 << 20)
    assert len(pieces) == 3
    found = [piece.candidates for piece in pieces if piece.candidates is not None]
    assert np.array_equal(np.concatenate(found), candidates)


@pytest.mark.parametrize(
    "condition", [None, "word = 'word 3'", "half < 40000 AND odd", "id = 7 OR id > 299990"]
)
@pytest.mark.parametrize("share_bytes", [1 << 16, 1 << 20, 1 << 30])
def test_the_shares_have_the_rows_of_the_scan_in_its_order(table, condition, share_bytes):
    dataset = lo.dataset(table)
    scan = dataset.scanner(["id", "word"], condition)
    shares = cut_scan(scan.plan, share_bytes=share_bytes)
    assert len(shares) > 1 or share_bytes == 1 << 30 or condition is not None
    snapshot = dataset.narrowed((), Schema(()))
    target = arrow_schema(spark_schema(scan.schema))
    found = pa.Table.from_batches(
        [batch for share in shares for batch in share.read(snapshot, target)], target
    )
    expected = dataset.to_table(["id", "word"], condition)
    assert found["id"].to_pylist() == expected["id"].to_pylist()
    assert found["word"].to_pylist() == expected["word"].to_pylist()
    assert sum(share.count(snapshot) for share in shares) == expected.num_rows


# read_dataset


@pytest.mark.spark
@pytest.mark.peer
def test_columns_and_rows_are_those_that_were_asked_for(spark, table):
    df = read_dataset(spark, table, ["word", "id"], "half >= 149000 AND odd")
    assert df.columns == ["word", "id"]
    peer = lance.dataset(table).to_table(["id"], filter="half >= 149000 AND odd")
    assert [row.id for row in df.collect()] == peer["id"].to_pylist()
    assert df.where("word = 'word 1'").count() == sum(n % 11 == 1 for n in peer["id"].to_pylist())


@pytest.mark.spark
def test_one_fragment_keeps_several_cores_busy(spark, table):
    df = read_dataset(spark, table, ["id"], partition_bytes=200_000)
    assert df.rdd.getNumPartitions() > 3
    assert [row.id for row in df.collect()] == lo.dataset(table).to_table(["id"])["id"].to_pylist()
    format_df = (
        spark.read.format("lance").option("partition_bytes", 200_000).option("columns", "id").load(table)
    )
    assert format_df.rdd.getNumPartitions() > 3
    assert [row.id for row in format_df.collect()] == [row.id for row in df.collect()]


@pytest.mark.spark
def test_counts_come_from_metadata_or_from_the_columns_of_the_filter(spark, table, tmp_path):
    dataset = lo.dataset(table)
    df = read_dataset(spark, table)
    assert df.count() == dataset.count_rows() == df.where("true").count()
    assert read_dataset(spark, table, filter="odd").count() == dataset.count_rows("odd")
    assert read_dataset(spark, table, limit=7).count() == 7
    assert read_dataset(spark, table, filter="odd", limit=7).count() == 7
    copy = tmp_path / "t.lance"
    lo.append(str(copy), numbered(0, 10))
    df = read_dataset(spark, str(copy))
    for file in (copy / "data").iterdir():
        file.unlink()
    assert df.count() == 10


@pytest.mark.spark
def test_it_stays_at_its_version_and_knows_history(spark, table, tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, numbered(0, 10))
    df = read_dataset(spark, uri)
    lo.append(uri, numbered(10, 20))
    assert len(df.collect()) == df.count() == 10
    assert len(read_dataset(spark, uri, version=1).collect()) == 10
    assert read_dataset(spark, lo.dataset(uri, version=1)).count() == 10
    assert read_dataset(spark, table, version="whole").count() == ROWS + 300
    with pytest.raises(VersionNotFoundError):
        read_dataset(spark, uri, version=9)
    with pytest.raises(InvalidArgumentError, match="already pinned to a version"):
        read_dataset(spark, lo.dataset(uri), version=1)


@pytest.mark.spark
def test_limits_return_the_first_rows(spark, table):
    live = lo.dataset(table).to_table(["id"])["id"].to_pylist()
    assert [row.id for row in read_dataset(spark, table, ["id"], limit=5).collect()] == live[:5]
    assert len(read_dataset(spark, table, ["id"], "odd", limit=5).collect()) == 5
    assert read_dataset(spark, table, ["id"], "id < 0").collect() == []


@pytest.mark.spark
def test_what_cannot_be_read_is_said_at_once(spark, table, tmp_path):
    with pytest.raises(PredicateError):
        read_dataset(spark, table, filter="gone = 1")
    lo.append("memory://scan-test", pa.table({"id": [1]}))
    with pytest.raises(InvalidArgumentError, match="memory of this process"):
        read_dataset(spark, "memory://scan-test")


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_few_rows_that_an_index_finds_are_those_of_executors(spark, tmp_path, zone):
    """Of every type, nested ones too, with nulls, in whatever zone; and no task is run for them."""
    kinds = [kind for kind in ALL_2_0_TYPES if kind != pa.list_(pa.null())]
    columns = {f"c{number}": random_array(kind, 40) for number, kind in enumerate(kinds)}
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": range(40), **columns}), max_rows_per_file=15)
    lo.create_index(uri, "id", "BTREE")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        few = read_dataset(spark, uri, filter="id IN (3, 17, 18, 39)")
        all_rows = read_dataset(spark, uri)
        assert few.schema == all_rows.schema
        expected = all_rows.where("id IN (3, 17, 18, 39)").toArrow().sort_by("id")
        assert few.toArrow().sort_by("id").equals(expected)
        assert list(map(str, few.orderBy("id").collect())) == list(
            map(str, all_rows.where("id IN (3, 17, 18, 39)").orderBy("id").collect())
        )
        assert few.count() == 4
        assert few.where("id > 17").count() == 2
        assert read_dataset(spark, uri, ["c0"], "id = 100").collect() == []
        assert "LocalTableScan" in few._jdf.queryExecution().toString()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
