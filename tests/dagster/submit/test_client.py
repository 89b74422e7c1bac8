"""The client for `spark-submit`, with programs in the place of Spark's: what it starts, hears, ends."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import deque
from contextlib import suppress

import dagster as dg
import pytest

from lance_ops.dagster import LanceStoreResource, SparkSubmit
from lance_ops.dagster.submit.client import SparkSubmitClient
from lance_ops.dagster.submit.process import ProcessGroup, held
from lance_ops.errors import InvalidArgumentError, ProgramLostError, SparkStartError

# What stands for Spark: notes its command line, and runs the application as a child of its own.
SUBMIT = """
import json, subprocess, sys
arguments = sys.argv[1:]
open({noted!r}, "w").write(json.dumps(arguments))
application = next(i for i, a in enumerate(arguments) if a.endswith(".py"))
sys.exit(subprocess.run([sys.executable, *arguments[application:]]).returncode)
"""


class Cluster:
    """A folder with a stand-in for `spark-submit` and applications."""

    def __init__(self, folder):
        self.folder = folder
        self.noted = folder / "noted.json"
        submit = folder / "submit"
        submit.write_text(SUBMIT.format(noted=str(self.noted)))
        self.command = [sys.executable, str(submit)]
        self.settings = {"spark.x": "1"}

    def run(self, code, *, on_message=None, **options):
        """Run an application in an op; (what came of it, the run)."""
        application = self.folder / "application.py"
        application.write_text(textwrap.dedent(code))
        client = SparkSubmitClient(
            "local[1]", config=self.settings, submit=SparkSubmit(command=self.command, **options)
        )
        outcome = []

        @dg.op
        def step(context):
            try:
                outcome.append(
                    client.run(
                        context=context,
                        application=str(application),
                        arguments=["--day", "1"],
                        extras={"e": 1},
                        on_message=on_message,
                    )
                )
            except Exception as error:  # noqa: BLE001 - what it is, is the question
                outcome.append(error)

        @dg.job
        def job():
            step()

        with dg.DagsterInstance.ephemeral() as instance:
            job.execute_in_process(instance=instance)
        return outcome[0]


@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path)


OPENED = """
from dagster_pipes import PipesCliArgsParamsLoader, open_dagster_pipes
with open_dagster_pipes(params_loader=PipesCliArgsParamsLoader()) as pipes:
"""


def test_what_a_program_says_is_heard_and_the_command_line_is_that_of_spark(cluster):
    heard = []
    code = OPENED + "    pipes.report_custom_message({'e': pipes.get_extra('e')})\n"
    options = {"packages": ["a:b:1"], "py_files": ["x.zip"], "arguments": ["--verbose"]}
    done = cluster.run(code, on_message=heard.append, **options)
    assert isinstance(done, dg.PipesClientCompletedInvocation)
    assert heard == [{"e": 1}]
    said = cluster.noted.read_text()
    assert '"--master", "local[1]", "--deploy-mode", "client"' in said
    assert '"--conf", "spark.x=1"' in said
    assert '"--packages", "a:b:1"' in said
    assert '"--py-files", "x.zip"' in said
    assert '"--verbose", ' in said
    assert 'application.py", "--day", "1", "--dagster-pipes-context"' in said


def test_settings_that_are_secret_are_on_no_command_line(cluster):
    heard = []
    code = (
        OPENED
        + f"    import json; noted = json.load(open({str(cluster.noted)!r}))\n"
        + "    pipes.report_custom_message(open(noted[noted.index('--properties-file') + 1]).read())\n"
    )
    secrets = {"spark.hadoop.fs.s3a.secret.key": "h\\u=sh\nh", "spark.executorEnv.A_TOKEN": "hüsh"}
    cluster.settings = secrets
    assert isinstance(cluster.run(code, on_message=heard.append), dg.PipesClientCompletedInvocation)
    assert not any(name in cluster.noted.read_text() for name in secrets)
    assert '"--load-spark-defaults"' in cluster.noted.read_text()
    told = ["spark.hadoop.fs.s3a.secret.key=h\\\\u=sh\\nh", "spark.executorEnv.A_TOKEN=hüsh"]
    assert heard[0].splitlines() == told
    with pytest.raises(InvalidArgumentError, match="properties file"):
        SparkSubmitClient("yarn", config=secrets, submit=SparkSubmit(arguments=["--properties-file", "mine"]))


def test_a_program_that_answered_and_does_not_end_is_ended(cluster):
    heard = []
    answer = "    pipes.report_custom_message({'lance_ops': 'plan', 'text': 'little'})\n"
    hangs = OPENED + answer + "    import time; time.sleep(600)\n"
    done = cluster.run(hangs, on_message=heard.append, termination_seconds=1)
    assert isinstance(done, dg.PipesClientCompletedInvocation)
    assert heard == [{"lance_ops": "plan", "text": "little"}]


def test_a_program_that_never_begins_is_another_failure_than_one_that_is_lost(cluster):
    begun = cluster.run("import sys; sys.exit('no such queue')")
    assert isinstance(begun, SparkStartError)
    assert "no such queue" in str(begun)
    lost = cluster.run(OPENED + "    import os; os.kill(os.getpid(), 9)\n")
    assert isinstance(lost, ProgramLostError)
    assert "no answer" in str(lost)


def test_a_command_that_is_not_there_says_so(cluster):
    cluster.command = ["/nowhere/spark-submit"]
    error = cluster.run("")
    assert isinstance(error, SparkStartError)
    assert "cannot run /nowhere/spark-submit" in str(error)


def test_a_driver_in_the_cluster_needs_a_folder_to_talk_through(tmp_path):
    with pytest.raises(InvalidArgumentError, match="a folder shared by"):
        SparkSubmitClient("yarn", submit=SparkSubmit(deploy_mode="cluster"))
    store = LanceStoreResource(
        runner="spark-submit",
        spark_master="yarn",
        submit=SparkSubmit(deploy_mode="cluster", exchange=str(tmp_path)),
    )
    assert store.submits
    assert store.submit_client() is not None


def test_a_driver_in_the_cluster_gets_its_program_through_the_folder(cluster, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    found = "arguments[application].removeprefix('local://'), *arguments[application + 1:]"
    submit = SUBMIT.format(noted=str(cluster.noted)).replace("*arguments[application:]", found)
    (tmp_path / "submit").write_text(submit)
    heard = []
    code = OPENED + "    pipes.report_custom_message(__file__)\n"
    done = cluster.run(code, on_message=heard.append, deploy_mode="cluster", exchange=str(shared))
    assert isinstance(done, dg.PipesClientCompletedInvocation)
    assert heard[0].startswith(str(shared))
    assert "extraJavaOptions" not in cluster.noted.read_text()
    assert list(shared.iterdir()) == []


def alive(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        # A process that ended and that nobody waited for is there, and does nothing any more.
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    return False


def wait(until, seconds=60.0):
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.02)


# The driver: a child of what is started, which cleans up when it is asked to end, or does not hear.
DRIVER = """
import os, pathlib, signal, subprocess, sys, time
folder = pathlib.Path(sys.argv[1])
if len(sys.argv) == 2:
    subprocess.run([sys.executable, __file__, str(folder), "driver"])
else:
    if {deaf}:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        (folder / "new").write_text(str(os.getpid()))
        (folder / "new").rename(folder / "pid")
        time.sleep(600)
    finally:
        (folder / "cleaned").touch()
"""


@pytest.mark.parametrize("deaf", [False, True])
def test_nothing_of_a_program_outlives_a_step_that_is_terminated(tmp_path, deaf):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER.format(deaf=deaf))
    group = ProcessGroup(
        [sys.executable, str(script), str(tmp_path)], os.environ, deque(), 1.0 if deaf else 60.0
    )

    def terminated():
        with group:
            wait((tmp_path / "pid").exists)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        terminated()
    wait(lambda: not alive(int((tmp_path / "pid").read_text())))
    assert (tmp_path / "cleaned").exists() is not deaf


WATCHING = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, getattr(signal, sys.argv[3]))
from lance_ops.spark.submitted.program import end_with
end_with(sys.argv[1])
pathlib.Path(sys.argv[2]).touch()
time.sleep(600)
"""


@pytest.mark.parametrize("before", ["SIG_DFL", "SIG_IGN"])
def test_a_driver_ends_with_the_step_that_submitted_it(tmp_path, before):
    (tmp_path / "context").write_text("a request with secrets")
    with held(tmp_path / "watch"):
        driver = subprocess.Popen(
            [sys.executable, "-c", WATCHING, str(tmp_path / "watch"), str(tmp_path / "ready"), before]
        )
        wait((tmp_path / "ready").exists)
        assert driver.poll() is None
        # Of all that the step starts, what goes on after it does not keep the driver alive.
        child = os.fork()
        if not child:
            time.sleep(600)
            os._exit(0)
    try:
        assert driver.wait(60) == -signal.SIGTERM
    finally:
        driver.kill()
        driver.wait()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert not (tmp_path / "context").exists()
