"""The `lance-ops` command."""

import click

from lance_ops._version import __version__
from lance_ops.cli.changes import (
    append_command,
    cleanup_command,
    compact_command,
    delete_command,
    drop_columns_command,
    index_command,
    replace_command,
)
from lance_ops.cli.demo import demo_command, ui_command
from lance_ops.cli.query import query_command
from lance_ops.cli.reports import fsck_command, health_command, history_command, indices_command
from lance_ops.cli.versions import clone_command, restore_command, tag_command
from lance_ops.cli.warmup import warmup_command


class _InOrder(click.Group):
    """Lists the commands in the order of a table's life instead of the alphabet's."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)


@click.group(cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lance-ops")
def main() -> None:
    """Keep Lance datasets healthy.

    URI is a folder, or a location in an object store such as s3://bucket/table. Every command takes --json.
    """


for _command in (
    append_command,
    replace_command,
    delete_command,
    drop_columns_command,
    compact_command,
    index_command,
    cleanup_command,
    tag_command,
    restore_command,
    clone_command,
    history_command,
    health_command,
    indices_command,
    query_command,
    fsck_command,
    warmup_command,
    demo_command,
    ui_command,
):
    main.add_command(_command)
