"""The `lance-ops` command."""

import contextlib
import signal
import threading
from collections.abc import Iterator

import click

from lance_ops._removed import CALIBRATION_REMOVED
from lance_ops._version import __version__
from lance_ops.cli.alerts import alerts_command
from lance_ops.cli.changes import (
    append_command,
    delete_command,
    drop_columns_command,
    replace_command,
)
from lance_ops.cli.columns import merge_command, replace_columns_command, truncate_command
from lance_ops.cli.demo import demo_command, ui_command
from lance_ops.cli.distributed import commit_command, write_fragments_command
from lance_ops.cli.fleet.group import fleet_command
from lance_ops.cli.jobs import jobs_command
from lance_ops.cli.query import changes_command, query_command
from lance_ops.cli.reports import fsck_command, health_command, history_command, indices_command
from lance_ops.cli.rows import add_columns_command, alter_column_command, merge_insert_command, update_command
from lance_ops.cli.sql import sql_command
from lance_ops.cli.upkeep import cleanup_command, compact_command, index_command, maintain_command
from lance_ops.cli.versions import (
    branch_command,
    clone_command,
    migrate_manifest_paths_command,
    restore_command,
    tag_command,
)
from lance_ops.cli.warmup import warmup_command

EXIT_CODE = 128 + signal.SIGTERM


class _Commands(click.Group):
    """Group that lists the commands in the order of a table's life, and handles SIGTERM."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command given by the arguments."""
        with ends_in_order():
            return super().invoke(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a name; for a removed one, raise an error that names its replacement."""
        if cmd_name == "calibrate":
            raise click.UsageError(f"calibrate was removed: {CALIBRATION_REMOVED}", ctx)
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lance-ops")
def main() -> None:
    """Read, write and maintain Lance datasets.

    URI is a folder, or a location in an object store such as s3://bucket/table. Every command takes --json.
    """


for _command in (
    append_command,
    replace_command,
    merge_insert_command,
    update_command,
    delete_command,
    truncate_command,
    add_columns_command,
    merge_command,
    replace_columns_command,
    alter_column_command,
    drop_columns_command,
    maintain_command,
    compact_command,
    index_command,
    cleanup_command,
    tag_command,
    branch_command,
    restore_command,
    clone_command,
    history_command,
    health_command,
    indices_command,
    jobs_command,
    query_command,
    changes_command,
    fsck_command,
    sql_command,
    write_fragments_command,
    commit_command,
    migrate_manifest_paths_command,
    fleet_command,
    alerts_command,
    warmup_command,
    demo_command,
    ui_command,
):
    main.add_command(_command)


@contextlib.contextmanager
def ends_in_order() -> Iterator[None]:
    """Handle SIGTERM, which schedulers send, as SIGINT.

    A SIGTERM that is ignored, or handled by the calling program, is left alone.
    """
    is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not is_default or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(*_: object) -> None:
    # Only once: the removal of uncommitted files is not interrupted.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(EXIT_CODE)
