"""Second copies of tasks, as Spark runs them where the first one is slow."""

import pytest

from tests.support.spark import run_script


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
