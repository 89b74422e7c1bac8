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
from lance_ops.maintenance.ingest.commit import commit_write
from lance_ops.maintenance.ingest.options import WriteOptions
from lance_ops.maintenance.ingest.plan import plan_write
from lance_ops.maintenance.ingest.task import WriteTaskResult
from lance_ops.spark import append_dataframe
from lance_ops.spark.small_parts import SMALL_BYTES, SmallPart, write_or_send, write_small_parts
from tests.support.spark import run_script

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


@pytest.mark.spark
@pytest.mark.slow
def test_a_second_copy_of_a_task_that_really_runs_adds_nothing(tmp_path):
    """Speculation: the first copy of a task waits until the second one has started, and both then write."""
    script = """
        import time
        from pathlib import Path

        import lance_ops as lo
        from lance_ops.spark import append_dataframe, build_session
        from tests.support.spark_cluster import StandaloneCluster

        ROWS, PARTITIONS = 800_000, 4
        folder = Path("marks").absolute()
        folder.mkdir()
        config = {
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.multiplier": "1.0",
            "spark.speculation.quantile": "0.25",
            "spark.speculation.minTaskRuntime": "100ms",
            "spark.speculation.efficiency.enabled": "false",
        }

        def slow(kind):
            def work(batches):
                from pyspark import TaskContext

                context = TaskContext.get()
                if context.partitionId() == 1:
                    (folder / f"{kind}-{context.attemptNumber()}").touch()
                    limit = time.monotonic() + 120
                    while len(list(folder.glob(f"{kind}-*"))) < 2 and time.monotonic() < limit:
                        time.sleep(0.05)
                yield from batches
            return work

        with StandaloneCluster(workers=2, cores=2, hosts=("127.0.0.1", "localhost")) as cluster:
            spark = build_session("speculation", cluster.master_url, config=config)
            for kind, rows in (("large", ROWS), ("small", 4000)):
                for way in ("save", "append"):
                    uri = str(Path(f"{kind}-{way}.lance").absolute())
                    df = spark.range(0, rows, 1, PARTITIONS).mapInArrow(slow(f"{kind}-{way}"), "id long")
                    if way == "save":
                        df.write.format("lance").mode("append").save(uri)
                    else:
                        append_dataframe(df, uri)
                    assert len(list(folder.glob(f"{kind}-{way}-*"))) == 2, "no second copy has run"
                    found = lo.dataset(uri)
                    assert found.version == 1
                    assert found.to_table()["id"].to_pylist() == list(range(rows))
                    assert len(found.fragments) == 1
                    lo.cleanup(uri, delete_unverified=True)
                    assert lo.fsck(uri).ok
            spark.stop()
    """
    run_script(script, cwd=tmp_path, timeout=1200.0)
