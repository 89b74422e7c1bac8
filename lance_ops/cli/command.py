"""Common parts of the commands on a dataset: options, output, and errors."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance_ops.cli.options import common_options, verbosity
from lance_ops.cli.output import fail, plain_warnings, print_result, progress_listener
from lance_ops.errors import LanceOpsError
from lance_ops.maintenance.text import count_text

if TYPE_CHECKING:
    from lance_ops.maintenance.progress import Progress, ProgressEvent
    from lance_ops.maintenance.runner import Runner
    from lance_ops.table.dataset import Dataset


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a command.

    Attributes: uri: The dataset. storage_options: Options of its store, or None. as_json: Print one JSON
    object instead of text.
    """

    uri: str
    storage_options: Mapping[str, str] | None
    as_json: bool

    def open(self, version: int | str | None = None) -> "Dataset":
        """Open the dataset; its newest version when None."""
        from lance_ops.table.dataset import Dataset

        return Dataset.open(self.uri, version, storage_options=self.storage_options)

    def show(self, result: object) -> None:
        """Print a result or plan; when quiet, results of changes have no text."""
        if verbosity() == "quiet" and not self.as_json and hasattr(result, "already_committed"):
            return
        print_result(result, as_json=self.as_json)

    @contextmanager
    def running(self, spark: str | None, **options: object) -> Iterator[dict[str, Any]]:
        """Return the options of an operation: those given, and runner, progress and storage options.

        A Spark session started for it is stopped at the end.
        """
        with running(spark) as run:
            yield {**run, "storage_options": self.storage_options, **options}


def dataset_command(command: Callable[..., None]) -> Callable[..., None]:
    """Declare a command on the dataset URI; typed errors become a message and exit code 1."""

    @functools.wraps(command)
    def run(uri: str, as_json: bool, storage_options: tuple[tuple[str, str], ...], **values: Any) -> None:
        try:
            with plain_warnings():
                command(Call(uri, dict(storage_options) or None, as_json), **values)
        except LanceOpsError as error:
            fail(error, as_json=as_json, uri=uri)

    return common_options(run)


def source_of(paths: tuple[str, ...]) -> str | list[str]:
    """Return SOURCE as the operations accept it: one path or glob, or several."""
    return paths[0] if len(paths) == 1 else list(paths)


@contextmanager
def running(spark: str | None) -> Iterator[dict[str, Any]]:
    """Return runner and progress for an operation; a Spark session started for it is stopped at the end."""
    with _runner(spark) as runner, progress_listener() as listener:
        commits = _Commits(listener)
        try:
            yield {"runner": runner, "progress": commits}
        except KeyboardInterrupt:
            # What the end of the command says, instead of its general line.
            raise KeyboardInterrupt(commits.text()) from None


@dataclass(slots=True)
class _Commits:
    """Counts the commits of an operation by its progress events, and passes these on."""

    listener: "Progress | None"
    begun: int = 0
    done: int = 0

    def __call__(self, event: "ProgressEvent") -> None:
        self.begun += event.message == "committing"
        self.done += event.message == "committed"
        if self.listener is not None:
            self.listener(event)

    def text(self) -> str:
        """What is committed when the operation is interrupted now."""
        if self.begun > self.done:
            return "interrupted during a commit: lance-ops history shows whether its version is there"
        if self.done:
            return f"interrupted: {count_text(self.done, 'commit')} made so far, and nothing after"
        return "interrupted: nothing was committed"


@contextmanager
def _runner(spark: str | None) -> "Iterator[Runner]":
    if spark is None:
        from lance_ops.maintenance.runner import LocalRunner

        yield LocalRunner()
        return
    from lance_ops.spark import SparkRunner, build_session
    from lance_ops.spark.session import find_running_session

    found = find_running_session() is not None
    session = build_session("lance-ops", spark)
    try:
        yield SparkRunner(session)
    finally:
        if not found:
            session.stop()
