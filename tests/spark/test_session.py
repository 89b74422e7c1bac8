"""The Spark session builder."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

from lance_ops.errors import InvalidArgumentError, SparkStartError
from lance_ops.spark.java import find_java
from lance_ops.spark.session import (
    build_session,
    is_on_this_machine,
    prepare_environment,
    spark_conf,
    spark_environment,
)

REMOTE = "spark://spark.example:7077"


@pytest.mark.parametrize(
    ("master", "here"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[4,2]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://[::1]:7077", True),
        (REMOTE, False),
        ("spark://127.0.0.1.example:7077", False),
        ("spark://localhost.example:7077", False),
        ("yarn", False),
    ],
)
def test_loopback_is_for_masters_on_this_machine(master: str, here: bool) -> None:
    assert is_on_this_machine(master) is here
    conf = spark_conf(master)
    assert ("spark.driver.bindAddress" in conf) is here
    assert ("SPARK_LOCAL_IP" in spark_environment(master)) is here


def test_settings_of_the_caller_go_first_and_jvm_options_are_joined() -> None:
    conf = spark_conf(
        "local[3]",
        config={"spark.sql.session.timeZone": "Asia/Tokyo", "spark.driver.extraJavaOptions": "-Xss4m"},
    )
    assert conf["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert conf["spark.sql.shuffle.partitions"] == "3"
    assert conf["spark.driver.extraJavaOptions"].startswith("-Dlog4j2.configurationFile=file:")
    assert conf["spark.driver.extraJavaOptions"].endswith(" -Xss4m")


def test_rows_and_bytes_bound_the_batches_that_spark_hands_to_python() -> None:
    """Without a bound of bytes, 540 rows of 1 MB exceed the memory of the JVM."""
    conf = spark_conf()
    assert conf["spark.sql.execution.arrow.maxBytesPerBatch"] == "64m"
    assert int(conf["spark.sql.execution.arrow.maxRecordsPerBatch"]) <= 4096
    numbers = spark_conf(config={"spark.sql.execution.arrow.maxBytesPerBatch": "2147483647"})
    assert numbers["spark.sql.execution.arrow.maxBytesPerBatch"] == "2147483647"


@pytest.mark.parametrize(
    ("master", "config", "attempts"),
    [
        ("local[2]", {}, "1"),
        ("local[2, 4]", {}, "4"),
        ("local[*]", {"spark.task.maxFailures": "7"}, "1"),
        ("spark://127.0.0.1:7077", {}, "4"),
        ("spark://127.0.0.1:7077", {"spark.task.maxFailures": "7"}, "7"),
    ],
)
def test_workers_know_what_bounds_their_attempts_and_results(master, config, attempts) -> None:
    conf = spark_conf(master, config={**config, "spark.driver.maxResultSize": "20m"})
    assert conf["spark.executorEnv.LANCE_OPS_SPARK_ATTEMPTS"] == attempts
    assert conf["spark.executorEnv.LANCE_OPS_SPARK_RESULT_BYTES"] == str(20 << 20)


def test_executors_of_a_loopback_cluster_get_this_interpreter_and_java() -> None:
    conf = spark_conf("spark://127.0.0.1:7077")
    assert conf["spark.executorEnv.PYSPARK_PYTHON"] == sys.executable
    assert conf["spark.executorEnv.JAVA_HOME"] == str(find_java().home)
    assert not any(key.startswith("spark.executorEnv") for key in spark_conf(REMOTE))


def test_the_interpreter_of_a_remote_cluster_is_its_owners_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python/bin/python3")
    assert spark_environment(REMOTE)["PYSPARK_PYTHON"] == "/opt/python/bin/python3"
    assert spark_environment("local[*]")["PYSPARK_PYTHON"] == sys.executable


def test_without_bash_spark_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkStartError, match="no bash on PATH"):
        spark_environment()


def test_spark_finds_no_archive_of_pyspark_to_compile_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    home = Path(spark_environment()["SPARK_HOME"])
    assert (home / "bin" / "spark-class").exists()
    assert not (home / "python").exists()
    # Executors elsewhere have their own Python, of which nobody here knows what is installed.
    elsewhere = Path(spark_environment(REMOTE)["SPARK_HOME"])
    assert list((elsewhere / "python" / "lib").glob("pyspark.zip"))
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert spark_environment()["SPARK_HOME"] == "/opt/spark"


@pytest.mark.spark
def test_the_session_is_bound_to_loopback_and_speaks_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    row = spark.sql("SELECT current_timezone() AS zone, TIMESTAMP '2013-01-01 05:00:00Z' AS t").toArrow()
    assert row["zone"].to_pylist() == ["UTC"]
    assert row["t"].cast("timestamp[us]").to_pylist()[0].hour == 5


class _WherePysparkIs(DataSource):
    """One row for each of the processes that plan and read: where their pyspark is."""

    def __init__(self, options):
        super().__init__(options)
        self.planned = pyspark.__file__

    @classmethod
    def name(cls):
        return "where_pyspark_is"

    def schema(self):
        return "file string"

    def reader(self, schema):
        where = self.planned

        class Reader(DataSourceReader):
            def read(self, partition):
                yield from ((where,), (pyspark.__file__,))

        return Reader()


@pytest.mark.spark
def test_planning_and_working_processes_import_the_installed_pyspark(spark: SparkSession) -> None:
    spark.dataSource.register(_WherePysparkIs)
    found = {row.file for row in spark.read.format("where_pyspark_is").load().collect()}
    assert found == {pyspark.__file__}


@pytest.mark.spark
def test_workers_run_this_interpreter_and_import_this_package(spark: SparkSession) -> None:
    def describe(batches):
        import pyarrow as pa

        import lance_ops

        for batch in batches:
            python, package = [sys.executable], [lance_ops.__file__]
            yield pa.RecordBatch.from_pydict({"python": python * len(batch), "package": package * len(batch)})

    import lance_ops

    (row,) = spark.range(1).mapInArrow(describe, "python string, package string").collect()
    assert (row.python, row.package) == (sys.executable, lance_ops.__file__)


@pytest.mark.spark
def test_a_running_session_is_used_again_and_takes_sql_settings(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        again = build_session("another name", config={"spark.sql.shuffle.partitions": "7"})
        assert again is spark
        assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.spark
def test_another_thread_gets_the_session_of_the_process(spark: SparkSession) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(build_session).result() is spark
        with pytest.raises(InvalidArgumentError, match="already"):
            pool.submit(build_session, master="spark://127.0.0.1:7077").result()


@pytest.mark.spark
def test_a_running_session_on_another_master_is_an_error(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgumentError, match=r"already runs on local\[2\]"):
        build_session(master="spark://127.0.0.1:7077")


@pytest.mark.spark
def test_a_setting_that_cannot_change_any_more_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"field: spark\.eventLog\.enabled"):
        build_session(event_log=tmp_path / "events")
    with pytest.raises(InvalidArgumentError, match=r"field: spark\.executor\.memory"):
        build_session(config={"spark.executor.memory": "3g"})


@pytest.mark.spark
def test_a_required_setting_is_made_in_a_foreign_session_too(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    build_session()
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"


def test_the_environment_is_set_where_pyspark_looks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    prepare_environment()
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
