"""The `lance-ops` command."""

import contextlib
import signal
import threading
from collections.abc import Iterator

import click

from lance_ops._removed import CALIBRATION_REMOVED
from lance_ops._version import __version__
from lance_ops.cli.alerts import alerts_command
from lance_ops.cli.answers import (
    count_command,
    diff_command,
    export_command,
    head_command,
    schema_command,
    show_command,
)
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
from lance_ops.cli.options import verbosity_options
from lance_ops.cli.query import changes_command, query_command
from lance_ops.cli.reports import fsck_command, health_command, history_command, indices_command
from lance_ops.cli.rows import add_columns_command, alter_column_command, merge_insert_command, update_command
from lance_ops.cli.sql import sql_command
from lance_ops.cli.upkeep import (
    cleanup_command,
    compact_columns_command,
    compact_command,
    compact_wal_command,
    index_command,
    maintain_command,
    undo_cleanup_command,
)
from lance_ops.cli.usage import close_command, plain_usage_errors
from lance_ops.cli.versions import (
    branch_command,
    clone_command,
    migrate_manifest_paths_command,
    migrate_store_command,
    restore_command,
    tag_command,
)
from lance_ops.cli.warmup import warmup_command

EXIT_CODE = 128 + signal.SIGTERM
INTERRUPTED = 128 + signal.SIGINT
INTERRUPTED_TEXT = (
    "interrupted: files that were not committed are removed; commits are whole, and history lists them"
)

ALIASES = {
    "describe": "show",
    "info": "show",
    "log": "history",
    "optimize": "maintain",
    "versions": "history",
}
"""Other names of commands, by which they run, too."""

OTHER_NAMES = {
    "add": "Use append to add rows, or add-columns.",
    "cat": "Use head or query to show rows, or export to write them to a file.",
    "checkout": "Use --version of query, or restore to make an old version the newest.",
    "check": "Use fsck to check files, or health to list due maintenance.",
    "columns": "Use schema.",
    "copy": "Use clone to copy a dataset, or export to write its rows to a file.",
    "create-index": "Use index.",
    "drop": "Use drop-columns, index --drop, or truncate; a dataset ends with its folder.",
    "dump": "Use export.",
    "gc": "Use cleanup.",
    "import": "Use append.",
    "insert": "Use append, or merge-insert to update rows with the same key.",
    "load": "Use append.",
    "overwrite": "Use append --mode overwrite.",
    "prune": "Use cleanup to remove old versions, or delete to delete rows.",
    "remove": "Use delete to delete rows, or cleanup to remove old versions.",
    "rename": "Use alter-column --name.",
    "rollback": "Use restore.",
    "rows": "Use count, or head.",
    "search": "Use query --nearest or query --match.",
    "select": "Use query, or sql 'SELECT ...'.",
    "size": "Use show.",
    "stats": "Use show, or indices --name for those of an index.",
    "upsert": "Use merge-insert.",
    "vacuum": "Use cleanup.",
    "validate": "Use fsck.",
    "verify": "Use fsck.",
    "write": "Use append, or export to write rows to a file.",
}
"""Advice for commands of other tools."""


class _Commands(click.Group):
    """Group that lists the commands in the order of a table's life, and handles signals."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command given by the arguments."""
        with ends_in_order(), plain_usage_errors():
            return super().invoke(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a name or alias.

        Raises:
            click.UsageError: The command was removed, or has another name here.
        """
        if cmd_name == "calibrate":
            raise click.UsageError(f"calibrate was removed: {CALIBRATION_REMOVED}", ctx)
        found = super().get_command(ctx, cmd_name) or super().get_command(ctx, ALIASES.get(cmd_name, ""))
        if found is None and cmd_name in OTHER_NAMES:
            raise click.UsageError(f"No such command {cmd_name!r}. {OTHER_NAMES[cmd_name]}", ctx)
        # click knows the commands alone.
        close = close_command(cmd_name, [*ALIASES, *OTHER_NAMES]) if found is None else None
        if close is not None and close_command(cmd_name, self.commands) is None:
            advice = OTHER_NAMES.get(close, f"Use {ALIASES.get(close)}.")
            raise click.UsageError(f"No such command {cmd_name!r}. {advice}", ctx)
        return found

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lance-ops")
@verbosity_options
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
    compact_columns_command,
    compact_wal_command,
    index_command,
    cleanup_command,
    undo_cleanup_command,
    tag_command,
    branch_command,
    restore_command,
    clone_command,
    history_command,
    health_command,
    indices_command,
    jobs_command,
    show_command,
    schema_command,
    head_command,
    count_command,
    query_command,
    changes_command,
    diff_command,
    export_command,
    fsck_command,
    sql_command,
    write_fragments_command,
    commit_command,
    migrate_manifest_paths_command,
    migrate_store_command,
    fleet_command,
    alerts_command,
    warmup_command,
    demo_command,
    ui_command,
):
    main.add_command(_command)


@contextlib.contextmanager
def ends_in_order() -> Iterator[None]:
    """End at SIGINT, and at SIGTERM, which schedulers send, with one line and the exit code of a shell.

    A SIGTERM that is ignored, or handled by the calling program, is left alone.
    """
    is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    handles = is_default and threading.current_thread() is threading.main_thread()
    if handles:
        signal.signal(signal.SIGTERM, _end)
    try:
        yield
    except KeyboardInterrupt as error:
        click.echo(str(error) or INTERRUPTED_TEXT, err=True)
        raise SystemExit(INTERRUPTED) from None
    finally:
        if handles:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(*_: object) -> None:
    # Only once: the removal of uncommitted files is not interrupted.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(EXIT_CODE)
