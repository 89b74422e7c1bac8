"""The worker daemon that imports before it forks."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

import lance_ops as lo
from lance_ops.spark.daemon import _READ_KERNELS, prefer_installed_pyspark

INSTALLED = Path(pyspark.__file__).parent


def archive(folder: Path, version: bytes) -> str:
    """A zip as Spark ships it, as far as the daemon looks into it."""
    path = folder / "pyspark.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("pyspark/version.py", version)
    return str(path)


def test_the_installed_pyspark_goes_before_the_same_one_in_a_zip(tmp_path):
    same = archive(tmp_path, (INSTALLED / "version.py").read_bytes())
    path = [same, "/spark/python/lib/py4j-0.10-src.zip", "/elsewhere", str(INSTALLED.parent)]
    assert prefer_installed_pyspark(path)
    assert path == ["/elsewhere", str(INSTALLED.parent)]


def test_a_zip_that_is_not_there_is_left_out(tmp_path):
    path = [str(tmp_path / "pyspark.zip"), str(INSTALLED.parent)]
    assert prefer_installed_pyspark(path)
    assert path == [str(INSTALLED.parent)]


def test_another_pyspark_or_none_leaves_the_zip(tmp_path):
    other = archive(tmp_path, b'__version__: str = "3.5.0"\n')
    for path in ([other, str(INSTALLED.parent)], [other], [str(INSTALLED.parent)]):
        before = list(path)
        assert not prefer_installed_pyspark(path)
        assert path == before


def run(code: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_what_is_preloaded_starts_no_thread_and_survives_a_fork(tmp_path):
    """A thread of the daemon would be missing in its workers, with whatever lock it held."""
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": range(100_000), "word": [f"w{n % 7}" for n in range(100_000)]}))
    code = f"""
import os, sys
from lance_ops.spark.daemon import preload
preload("pyspark.worker")
threads = [open(f"/proc/self/task/{{task}}/comm").read().strip() for task in os.listdir("/proc/self/task")]
# The allocator's own begins again after a fork.
assert [name for name in threads if name != "jemalloc_bg_thd"] == threads[:1], threads
pid = os.fork()
if pid == 0:
    import lance_ops as lo
    table = lo.dataset({uri!r}).to_table(filter="word = 'w3'")
    print(table.num_rows, sum(table["id"].to_pylist()))
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
    expected = [n for n in range(100_000) if n % 7 == 3]
    said = run(code, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    assert said == f"{len(expected)} {sum(expected)}"


def test_the_kernels_that_are_preloaded_exist():
    from lance_ops.encoding import kernels

    assert set(_READ_KERNELS) <= set(kernels.names())


@pytest.mark.spark
def test_workers_come_with_the_read_path_also_after_a_limit(spark, tmp_path):
    def look(batches):
        for _ in batches:
            zips = [entry for entry in sys.path if entry.endswith("pyspark.zip")]
            ready = "lance_ops.spark.read" in sys.modules
            yield pa.RecordBatch.from_pydict({"pid": [os.getpid()], "ready": [ready], "zips": [len(zips)]})

    def rows():
        return spark.range(0, 1, 1, 1).mapInArrow(look, "pid long, ready boolean, zips long").collect()

    assert {(row.ready, row.zips) for row in rows()} == {(True, 0)}
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": range(500_000)}), max_rows_per_file=100_000)
    df = spark.read.format("lance").option("partition_bytes", "1").load(uri)
    assert df.limit(5).count() == 5
    assert len(df.take(3)) == 3
    assert df.count() == 500_000
    assert {(row.ready, row.zips) for row in rows()} == {(True, 0)}
