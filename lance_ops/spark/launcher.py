"""Spark's command lines, without the bash scripts that Spark ships.

Spark's own `bin/spark-submit` and `bin/spark-class` need bash on PATH. All they do is to ask Spark's launcher
for the Java command line and to run it, which is done here for machines without bash and for the processes of
a standalone cluster.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from lance_ops.errors import SparkStartError
from lance_ops.spark.cache import publish_tree

SUBMIT_CLASS = "org.apache.spark.deploy.SparkSubmit"

_LINKED = ("bin", "data", "jars", "sbin")

_SUBMIT_SCRIPT = """\
#!/bin/sh
SPARK_HOME={spark_home} exec {python} -m lance_ops.spark.launcher {submit_class} "$@"
"""


def find_spark_home(environment: Mapping[str, str] | None = None) -> Path:
    """The Spark installation: SPARK_HOME where it is set, else the one inside the pyspark package.

    Raises:
        SparkStartError: Neither exists.
    """
    variables = os.environ if environment is None else environment
    if variables.get("SPARK_HOME"):
        return Path(variables["SPARK_HOME"])
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SparkStartError("pyspark is not installed and SPARK_HOME is not set")
    return Path(spec.origin).parent


def prepare_spark_home(environment: Mapping[str, str], *, here: bool) -> Path:
    """The folder for SPARK_HOME with a `bin/spark-submit` that runs on this machine.

    Where nobody set one, that is a small folder of links in the cache, without Spark's archives of pyspark:
    Spark puts these first on the path of each Python process that it starts, and they hold no compiled
    modules, so that every one of them would compile pyspark again. Without bash on PATH, its
    `bin/spark-submit` comes here.

    Args:
        environment: Variables of this process.
        here: Driver and executors run on this machine, by this interpreter, which has pyspark installed.
    """
    home = find_spark_home(environment)
    if environment.get("SPARK_HOME"):
        return home
    if shutil.which("bash", path=environment.get("PATH", "")):
        return publish_tree("spark", {name: home / name for name in _LINKED}) if here else home
    script = _SUBMIT_SCRIPT.format(
        spark_home=shlex.quote(str(home)), python=shlex.quote(sys.executable), submit_class=SUBMIT_CLASS
    )
    return publish_tree("spark", {"bin/spark-submit": script, "jars": home / "jars"})


def build_java_command(
    main_class: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """The command line with which Spark's scripts would run one of its classes, and its environment.

    Args:
        main_class: Full name, such as `org.apache.spark.deploy.master.Master`.
        arguments: Arguments of that class.
        environment: Variables of the process; JAVA_HOME has to be among them.

    Raises:
        SparkStartError: Spark's launcher refused the arguments or Java did not run.
    """
    home = find_spark_home(environment)
    variables = {
        **environment,
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": _scala_version(home),
        # Python workers must agree on the hash of a string, or shuffles by key lose rows.
        "PYTHONHASHSEED": "0",
    }
    variables.setdefault("SPARK_CONF_DIR", str(home / "conf"))
    java = Path(environment["JAVA_HOME"]) / "bin" / "java"
    launcher = [str(java), "-Xmx128m", "-cp", str(home / "jars" / "*"), "org.apache.spark.launcher.Main"]
    try:
        answer = subprocess.run(  # noqa: S603 - Spark's launcher under the Java that was found
            [*launcher, main_class, *arguments],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise SparkStartError(f"Java does not run: {error}", path=str(java)) from error
    # Messages, then NUL and line feed, then each argument with a NUL behind it.
    _, separator, command = answer.stdout.partition(b"\0\n")
    if answer.returncode != 0 or not separator:
        said = (answer.stdout + answer.stderr).decode("utf-8", "replace").strip()
        raise SparkStartError(f"Spark's launcher refused: {said[-2000:]}", path=str(java))
    return [os.fsdecode(argument) for argument in command.split(b"\0")[:-1]], variables


def _scala_version(home: Path) -> str:
    for jar in sorted((home / "jars").glob("spark-core_*.jar")):
        return jar.name.removeprefix("spark-core_").partition("-")[0]
    raise SparkStartError("this is no Spark installation: it has no jars/spark-core", path=str(home))


def main(arguments: Sequence[str]) -> None:
    """Become the Spark class named first, with the other arguments."""
    try:
        command, environment = build_java_command(arguments[0], arguments[1:], os.environ)
    except SparkStartError as error:
        sys.exit(str(error))
    os.execvpe(command[0], command, environment)  # noqa: S606 - replaces this process, as the scripts do


if __name__ == "__main__":
    main(sys.argv[1:])
