"""Builder of Spark sessions: settings, environment, Java, and the `lance` data source."""

import atexit
import functools
import os
import re
import secrets
import shutil
import site
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lance_ops import _extra_spark as _extra_spark

# isort: split
import py4j
import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_ops.errors import InvalidArgumentError, SparkStartError
from lance_ops.spark.cache import publish_tree
from lance_ops.spark.catalog import (
    CATALOG_CLASS,
    CATALOG_SETTING,
    EXTENSIONS_CLASS,
    EXTENSIONS_SETTING,
    load_classes,
)
from lance_ops.spark.datasource import PUSHDOWN_SETTING, register
from lance_ops.spark.java import find_java
from lance_ops.spark.shares import SLOTS_VARIABLE
from lance_ops.spark.small.parts import RESULT_VARIABLE, result_bytes
from lance_ops.spark.transport import ATTEMPTS_VARIABLE, task_attempts

LOOPBACK = "127.0.0.1"

_LINKED = ("bin", "data", "jars", "sbin")

DAEMON_SETTING = "spark.python.daemon.module"
DAEMON_MODULE = "lance_ops.spark.daemon"

# Settings that the data source and the runner require in any session.
REQUIRED_SQL_SETTINGS: Mapping[str, str] = {
    PUSHDOWN_SETTING: "true",
}

# Warnings and errors only, without those that do not concern users of this package.
_LOG4J_PROPERTIES = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


def build_session(
    app_name: str = "lance_ops",
    master: str = "local[*]",
    *,
    config: Mapping[str, str] | None = None,
    event_log: str | Path | None = None,
) -> SparkSession:
    """Return the running Spark session, or start one.

    A running session is returned, with the SQL settings of `config` applied.

    Args:
        app_name: Name of the application in Spark's UI and logs.
        master: `local[...]` or `spark://host:port`. Everything is bound to loopback unless the master is on
            another machine.
        config: Spark settings that override those of `spark_conf`.
        event_log: Folder for Spark's event log, created if missing; no log by default.

    Raises:
        JavaNotFoundError: No Java of version 17 or newer was found.
        SparkStartError: The JVM did not start, or the master did not answer.
        InvalidArgumentError: A session already runs, on another master or with different static settings.
    """
    running = find_running_session()
    if running is not None:
        _adopt_session(running, master, {**_event_log_conf(event_log), **(config or {})})
        return _prepare_session(running)
    prepare_environment(master)
    settings = spark_conf(master, config=config, event_log=event_log)
    try:
        settings = _with_classes(settings)
        session = SparkSession.builder.appName(app_name).config(map=settings).getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise SparkStartError(
            f"Spark did not start on {master}: {_first_line(error)}",
            hint=f"Java is {os.environ.get('JAVA_HOME')}; its own messages are on standard error",
        ) from error
    return _prepare_session(session)


def _with_classes(settings: Mapping[str, str]) -> dict[str, str]:
    """Start the JVM with the classes of this package, which all sessions of the process then have."""
    # A session reads these settings only when it is made, and needs the classes by then.
    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))  # noqa: SLF001 - as above
    load_classes(SparkContext._jvm)  # noqa: SLF001 - no public way starts a JVM without a session
    others = settings.get(EXTENSIONS_SETTING)
    extensions = EXTENSIONS_CLASS if others is None else f"{others},{EXTENSIONS_CLASS}"
    return {CATALOG_SETTING: CATALOG_CLASS, **settings, EXTENSIONS_SETTING: extensions}


def spark_conf(
    master: str = "local[*]",
    *,
    config: Mapping[str, str] | None = None,
    event_log: str | Path | None = None,
) -> dict[str, str]:
    """Return the settings of `build_session`, for a session built elsewhere.

    Call `prepare_environment` in that process before the session is built.

    Args:
        master: As for `build_session`; it is part of the result.
        config: Settings that override those made here; JVM options are appended instead.
        event_log: Folder for Spark's event log, created if missing.
    """
    settings = {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": _warehouse_directory().as_uri(),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Without a fallback, a type that Arrow does not support is an error instead of a silent slowdown.
        "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
        "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
        # The first bounds batches of vectors, the second those of images: without a limit in bytes, some
        # hundred rows of a megabyte each exceed the memory of the JVM.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
        "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
        **REQUIRED_SQL_SETTINGS,
        **_event_log_conf(event_log),
    }
    java_options = {"spark.driver.extraJavaOptions": _logging_option()}
    if is_on_this_machine(master):
        # On other machines, the administrator must ensure that every executor can import it: otherwise no
        # Python would start.
        settings[DAEMON_SETTING] = DAEMON_MODULE
        settings["spark.driver.host"] = LOOPBACK
        settings["spark.driver.bindAddress"] = LOOPBACK
    if master.startswith("local"):
        settings["spark.sql.shuffle.partitions"] = str(max(2, _local_cores(master)))
        settings[f"spark.executorEnv.{SLOTS_VARIABLE}"] = str(_local_cores(master))
    elif is_on_this_machine(master):
        java_options["spark.executor.extraJavaOptions"] = _logging_option()
        environment = spark_environment(master)
        for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP", "PYTHONPATH"):
            if name in environment:
                settings[f"spark.executorEnv.{name}"] = environment[name]
    settings.update(config or {})
    if is_on_this_machine(master):
        settings.setdefault(f"spark.executorEnv.{ATTEMPTS_VARIABLE}", str(task_attempts(settings)))
        most = result_bytes(settings.get("spark.driver.maxResultSize", "1g"))
        settings.setdefault(f"spark.executorEnv.{RESULT_VARIABLE}", str(most))
    for key, option in java_options.items():
        settings[key] = f"{option} {(config or {}).get(key, '')}".strip()
    return settings


def spark_environment(master: str = "local[*]") -> dict[str, str]:
    """Return additional environment variables for Spark's JVM and its Python workers.

    Raises:
        JavaNotFoundError: No Java of version 17 or newer was found.
    """
    here = is_on_this_machine(master)
    variables = {
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(_prepare_spark_home(here=here)),
        # The workers must import the same modules as the driver; other machines have their own configuration.
        "PYSPARK_PYTHON": sys.executable if here else os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if here:
        variables["SPARK_LOCAL_IP"] = LOOPBACK
        variables.update(_python_path())
    return variables


def _prepare_spark_home(*, here: bool) -> Path:
    """Return SPARK_HOME if set, else a folder with the Spark of the pyspark package.

    On this machine, that is a folder of links in the cache, without the archives of pyspark: Spark puts these
    first on the path of each Python process, and they contain no compiled modules, so that each process would
    compile pyspark again.

    Args:
        here: Driver and executors run on this machine, by this interpreter, which has pyspark installed.

    Raises:
        SparkStartError: There is no bash, which the scripts of Spark require.
    """
    if os.environ.get("SPARK_HOME"):
        return Path(os.environ["SPARK_HOME"])
    if shutil.which("bash") is None:
        raise SparkStartError("no bash on PATH: the start scripts of Spark require it", hint="install bash")
    home = Path(pyspark.__file__).parent
    return publish_tree("spark", {name: home / name for name in _LINKED}) if here else home


def _python_path() -> dict[str, str]:
    """Return PYTHONPATH with this package and pyspark, if a new Python would not find them by itself."""
    known = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    found = {*known, *site.getsitepackages(), site.getusersitepackages()}
    ours = Path(__file__).parents[2]
    packages = [str(ours), *(str(Path(file).parents[1]) for file in (pyspark.__file__, py4j.__file__))]
    missing = [folder for folder in dict.fromkeys(packages) if folder not in found]
    return {"PYTHONPATH": os.pathsep.join([*missing, *known])} if missing else {}


def prepare_environment(master: str = "local[*]") -> None:
    """Set the variables of `spark_environment` in this process, where pyspark reads them."""
    os.environ.update(spark_environment(master))


def is_on_this_machine(master: str) -> bool:
    """Return whether driver, master and executors all run here, so that loopback is enough."""
    return re.match(r"local\b|spark://(127\.0\.0\.1|localhost|\[::1\])(:|$)", master) is not None


def find_running_session() -> SparkSession | None:
    """Return the Spark session of this process, started by any thread; None without one."""
    try:
        session = SparkSession.active()
    except PySparkException:
        return None
    # No public API identifies a session with a stopped context; pyspark itself uses this attribute.
    return None if session.sparkContext._jsc is None else session  # noqa: SLF001 - see above


def _adopt_session(session: SparkSession, master: str, asked: Mapping[str, str]) -> None:
    running_on = session.conf.get("spark.master", "")
    same_kind = master == running_on or (master.startswith("local") and running_on.startswith("local"))
    if not same_kind:
        raise InvalidArgumentError(
            f"a Spark session already runs on {running_on}, not on {master}", hint="call stop() on it first"
        )
    for key, value in asked.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
        elif session.conf.get(key, None) != value:
            raise InvalidArgumentError(
                f"the running Spark session cannot change {key} to {value!r}",
                field=key,
                hint="call stop() on it first",
            )


def _prepare_session(session: SparkSession) -> SparkSession:
    for key, value in REQUIRED_SQL_SETTINGS.items():
        session.conf.set(key, value)
    register(session)
    return session


def _event_log_conf(folder: str | Path | None) -> dict[str, str]:
    if folder is None:
        return {}
    path = Path(folder).absolute()
    path.mkdir(parents=True, exist_ok=True)
    return {"spark.eventLog.enabled": "true", "spark.eventLog.dir": path.as_uri()}


def _logging_option() -> str:
    folder = publish_tree("log4j", {"log4j2.properties": _LOG4J_PROPERTIES})
    return f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}"


@functools.cache
def _warehouse_directory() -> Path:
    """Return a folder outside of the working directory for the session's own tables, removed at its end."""
    # Spark creates it for the first table, which is rare.
    folder = Path(tempfile.gettempdir()) / f"lance-ops-warehouse-{secrets.token_hex(8)}"
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _local_cores(master: str) -> int:
    count = re.match(r"local\[(\d+)", master)
    if count is not None:
        return int(count.group(1))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
