"""Writes from many partitions: few fragments, one commit, exactly once."""

from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import SchemaMismatchError
from lance_ops.maintenance.ingest.operation import commit_write
from lance_ops.maintenance.ingest.options import WriteOptions
from lance_ops.maintenance.ingest.plan import WriteTaskResult, plan_write
from lance_ops.spark import append_dataframe
from lance_ops.spark.small.parts import (
    SMALL_BYTES,
    SmallPart,
    result_bytes,
    send_limit,
    write_or_send,
    write_small_parts,
)

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string())])
LARGE = SMALL_BYTES // 8


def rows(start: int, count: int) -> list[pa.RecordBatch]:
    ids = np.arange(start, start + count)
    table = pa.table({"id": ids, "word": pa.array([f"w{n % 3}" for n in ids])}, schema=SCHEMA)
    return table.to_batches(max_chunksize=50_000)


@given(st.lists(st.sampled_from([0, 1, 7, LARGE]), max_size=6))
def test_rows_keep_their_order_and_neighbours_share_a_file(tmp_path_factory, sizes):
    uri = str(tmp_path_factory.mktemp("parts") / "t.lance")
    plan = plan_write(SCHEMA, uri, WriteOptions())
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    parts = [
        write_or_send(plan.task, iter(rows(start, size)), SCHEMA)
        for start, size in zip(starts, sizes, strict=True)
    ]
    assert [isinstance(part, SmallPart) for part in parts] == [0 < size < LARGE for size in sizes]
    written: list[WriteTaskResult] = []
    write_small_parts(plan.task, parts, written)
    commit_write(plan, written)
    found = lo.dataset(uri)
    expected = pa.Table.from_batches(list(chain.from_iterable(map(rows, starts, sizes))), SCHEMA)
    assert found.to_table().equals(expected)
    kinds = [size < LARGE for size in sizes if size]
    runs = sum(not small or not (n and kinds[n - 1]) for n, small in enumerate(kinds))
    # A run is of one kind, unless an empty partition stands between: that one is written by nobody.
    assert len(found.fragments) >= runs
    assert len(found.fragments) <= len(kinds)


@pytest.mark.parametrize("most", [1 << 20, 20 << 20, 1 << 30, 64 << 30])
@pytest.mark.parametrize("partitions", [1, 40, 2000, 1_000_000])
def test_all_partitions_send_less_than_spark_takes(most, partitions):
    limits = np.minimum(SMALL_BYTES, most // 16 // np.arange(1, partitions + 1))
    assert [send_limit(n, most) for n in (0, partitions - 1)] == [limits[0], limits[-1]]
    assert int(limits.sum()) < most


def test_a_size_of_results_is_read_as_spark_reads_it():
    given = {"1g": 1 << 30, "20m": 20 << 20, "4096": 4096, "8KB": 8192, "0": 1 << 30, "2t": 2 << 40}
    assert {text: result_bytes(text) for text in given} == given


def test_a_partition_above_the_limit_is_written(tmp_path):
    plan = plan_write(SCHEMA, str(tmp_path / "t.lance"), WriteOptions())
    sent = write_or_send(plan.task, iter(rows(0, 1000)), SCHEMA)
    assert isinstance(sent, SmallPart)
    assert write_or_send(plan.task, iter(rows(0, 1000)), SCHEMA, len(sent.data)) == sent
    written = write_or_send(plan.task, iter(rows(0, 1000)), SCHEMA, len(sent.data) - 1)
    assert isinstance(written, WriteTaskResult)
    assert sum(fragment.physical_rows for fragment in written.fragments) == 1000


def test_files_of_an_error_are_known_to_the_caller(tmp_path):
    uri = str(tmp_path / "t.lance")
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    plan = plan_write(strict, uri, WriteOptions())
    loose = pa.schema([("id", pa.int64())])
    bad = pa.record_batch([pa.array([None], pa.int64())], schema=loose)
    large = write_or_send(plan.task, [pa.record_batch([pa.array(np.arange(LARGE))], schema=strict)], strict)
    small = write_or_send(plan.task, [bad], loose)
    written: list[WriteTaskResult] = []
    with pytest.raises(SchemaMismatchError):
        write_small_parts(plan.task, [large, small], written)
    assert written == [large]


@pytest.mark.spark
def test_two_hundred_small_partitions_are_one_fragment(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    df = spark.range(0, 1000, 1, 40).selectExpr("id", "cast(id as string) word")
    df.write.format("lance").mode("append").save(uri)
    assert append_dataframe(df, uri).fragments_added == 1
    found = lo.dataset(uri)
    assert (len(found.fragments), found.version) == (2, 2)
    assert found.to_table(["id"])["id"].to_pylist() == [*range(1000), *range(1000)]
    assert len(list((Path(uri) / "data").iterdir())) == 2
