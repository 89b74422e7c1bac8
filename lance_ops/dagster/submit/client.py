"""Dagster Pipes client for `spark-submit`: starts a program and passes on its messages."""

import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg

from lance_ops.dagster.submit.config import SparkSubmit
from lance_ops.dagster.submit.process import ProcessGroup, held
from lance_ops.dagster.submit.properties import PROPERTIES_FILE, secret_settings, write_properties
from lance_ops.errors import InvalidArgumentError, ProgramLostError, SparkStartError
from lance_ops.spark.submitted.answer import is_outcome
from lance_ops.spark.submitted.request import CONTEXT_FILE, PROPERTIES, WATCH

Context = dg.OpExecutionContext | dg.AssetExecutionContext

_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
_POLL_SECONDS = 0.5
_LINES_KEPT = 40


class SparkSubmitClient(dg.PipesClient):
    """Runs programs by `spark-submit`, and passes on their messages from Dagster Pipes.

    Args:
        master: Spark master, e.g. `yarn`, `k8s://https://host:443`, `spark://host:7077`, `local[*]`.
        config: Settings of Spark: --conf; those with secret names go through a file.
        submit: Options of spark-submit.
    """

    def __init__(
        self,
        master: str,
        *,
        config: Mapping[str, str] | None = None,
        submit: SparkSubmit | None = None,
    ) -> None:
        self._master = master
        self._config = dict(config or {})
        self._submit = submit or SparkSubmit()
        if self._submit.deploy_mode == "cluster" and not self._submit.exchange:
            raise InvalidArgumentError(
                "deploy mode 'cluster' requires a folder shared by the driver and the step",
                field="exchange",
                hint="set `exchange` to a path on a shared file system",
            )
        own_file = any(part.partition("=")[0] == PROPERTIES_FILE for part in self._submit.arguments)
        if own_file and secret_settings(self._config):
            raise InvalidArgumentError(
                "secret settings require a properties file of their own, and the arguments name another",
                field="spark_config",
                hint="put these settings into the file named by the arguments",
            )

    def run(  # type: ignore[override]  # each client has arguments of its own
        self,
        *,
        context: Context,
        application: str,
        arguments: Sequence[str] = (),
        extras: Mapping[str, Any] | None = None,
        on_message: Callable[[Any], None] | None = None,
    ) -> dg.PipesClientCompletedInvocation:
        """Run a program to its end.

        Args:
            context: Context of the step.
            application: The Python file or jar; it finds the parameters of Pipes among its arguments
                (`PipesCliArgsParamsLoader`) and, on this machine, in its environment.
            arguments: Arguments of the program.
            extras: Extras for the program, as with every Pipes client.
            on_message: Called with each custom message while the program runs.

        Raises:
            SparkStartError: It ended without any message.
            ProgramLostError: It ended with another exit code than 0; its earlier messages are in the log.
        """
        seen = _Seen(on_message)
        tail: deque[str] = deque(maxlen=_LINES_KEPT)
        with (
            self._folder() as folder,
            dg.open_pipes_session(
                context=context,
                context_injector=dg.PipesFileContextInjector(str(folder / CONTEXT_FILE)),
                message_reader=dg.PipesFileMessageReader(str(folder / "messages")),
                extras={**(extras or {}), **self._watched(folder)},
            ) as session,
        ):
            placed = self._placed(folder, application)
            command = self._command(folder, placed, arguments, session.get_bootstrap_cli_arguments())
            context.log.info("submitted to %s: %s", self._master, Path(application).name)
            environment = {**self._environment(), **session.get_bootstrap_env_vars()}
            with (
                held(folder / "watch"),
                ProcessGroup(command, environment, tail, self._submit.termination_seconds) as process,
            ):
                while process.wait(_POLL_SECONDS) is None and not self._is_overdue(seen):
                    seen.look(session.get_custom_messages())
                code = process.wait(_POLL_SECONDS)
        seen.look(session.get_custom_messages())
        completed = dg.PipesClientCompletedInvocation(session)
        if code == 0 or seen.answered_at is not None:
            return completed
        said = "".join(tail).strip() or "it printed nothing"
        if not session.message_handler.received_opened_message:
            raise SparkStartError(
                f"spark-submit to {self._master} ended with {_ending(code)} before the program began: {said}"
            )
        raise ProgramLostError(
            f"the program on {self._master} ended with {_ending(code)} and no answer: {said}",
            hint="a retry with the same job key finds its commits",
        )

    def _is_overdue(self, seen: "_Seen") -> bool:
        """Return whether a program with a result does not end: its work is done."""
        answered = seen.answered_at
        return answered is not None and time.monotonic() - answered > self._submit.termination_seconds

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """Create a folder for this submission, readable by its owner alone: the request may have secrets."""
        folder = Path(tempfile.mkdtemp(prefix="lance-ops-submit-", dir=self._submit.exchange or None))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _placed(self, folder: Path, application: str) -> str:
        """Place the program where the driver finds it: a file goes through the shared folder."""
        if self._submit.deploy_mode == "client" or not Path(application).is_file():
            return application
        return f"local://{shutil.copy(application, folder)}"

    def _watched(self, folder: Path) -> dict[str, str]:
        return {WATCH: str(folder / "watch")} if self._submit.deploy_mode == "client" else {}

    def _environment(self) -> dict[str, str]:
        from lance_ops.spark.session import spark_environment

        return {**os.environ, **spark_environment(self._master), **self._submit.environment}

    def _command(
        self, folder: Path, application: str, arguments: Sequence[str], pipes: Mapping[str, str]
    ) -> list[str]:
        from lance_ops.spark.session import spark_conf

        submit = self._submit
        program = submit.command or [f"{self._environment()['SPARK_HOME']}/bin/spark-submit"]
        settings = {
            name: value
            for name, value in spark_conf(self._master, config=self._config).items()
            if name != "spark.master"
        }
        if submit.deploy_mode == "cluster":
            # Our own variable names a file of this machine.
            settings.pop(_DRIVER_OPTIONS)
            settings.update({name: self._config[name] for name in (_DRIVER_OPTIONS,) if name in self._config})
        secret = secret_settings(settings)
        lists = {
            "--packages": submit.packages,
            "--jars": submit.jars,
            "--py-files": submit.py_files,
            "--files": submit.files,
            "--archives": submit.archives,
        }
        command = [*program, "--master", self._master, "--deploy-mode", submit.deploy_mode]
        command += ["--name", f"lance_ops {folder.name}"]
        if secret:
            # Every user of the machine sees the command lines of all.
            command += [
                PROPERTIES_FILE,
                write_properties(folder / PROPERTIES, secret),
                "--load-spark-defaults",
            ]
        command += [
            part
            for name, value in settings.items()
            if name not in secret
            for part in ("--conf", f"{name}={value}")
        ]
        command += [part for name, values in lists.items() if values for part in (name, ",".join(values))]
        command += [*submit.arguments, application, *arguments]
        return [*command, *(part for name, value in pipes.items() for part in (name, value))]


class _Seen:
    """Passes on each message once."""

    def __init__(self, listener: Callable[[Any], None] | None) -> None:
        self._listener = listener
        self._count = 0
        self.answered_at: float | None = None

    def look(self, messages: Sequence[Any]) -> None:
        for message in messages[self._count :]:
            self._count += 1
            if self._listener is not None:
                self._listener(message)
            if is_outcome(message):
                self.answered_at = time.monotonic()


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {-code}"
    return f"exit code {code}"
