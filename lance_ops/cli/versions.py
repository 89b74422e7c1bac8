"""The commands on versions: tag, restore and clone."""

import click

from lance_ops.cli.command import Call, dataset_command
from lance_ops.cli.options import job_key_option


@click.command("tag", short_help="Name a version, so that cleanup keeps it.")
@click.argument("uri")
@click.argument("name", required=False)
@click.option("--version", type=click.IntRange(min=1), help="The version to name; default the newest.")
@click.option("--move", is_flag=True, help="Let an existing tag name another version.")
@click.option("--delete", is_flag=True, help="Remove the tag.")
@dataset_command
def tag_command(call: Call, *, name: str | None, version: int | None, move: bool, delete: bool) -> None:
    """Give the newest version of URI, or --version, the tag NAME; without NAME, list the tags."""
    from lance_ops.cli.output import print_rows
    from lance_ops.maintenance.metadata.actions import create_tag, delete_tag, move_tag
    from lance_ops.table.dataset import Dataset

    if delete and (move or version is not None):
        raise click.UsageError("--delete goes with NAME alone")
    if name is None:
        if delete or move or version is not None:
            raise click.UsageError("which tag? give NAME")
        found = Dataset.open(call.uri, storage_options=call.storage_options).tags
        tags = [found[key] for key in sorted(found)]
        if call.as_json:
            call.show({tag.name: tag.version for tag in tags})
        else:
            print_rows(
                ("tag", "version", "branch"), [(t.name, str(t.version), t.branch or "main") for t in tags]
            )
        return
    if delete:
        delete_tag(call.uri, name, storage_options=call.storage_options)
        call.show({"deleted": name} if call.as_json else f"tag {name} is removed")
        return
    tag = (move_tag if move else create_tag)(call.uri, name, version, storage_options=call.storage_options)
    call.show(
        {"tag": tag.name, "version": tag.version}
        if call.as_json
        else f"tag {tag.name} names version {tag.version}"
    )


@click.command("restore", short_help="Make an old version the newest one.")
@click.argument("uri")
@click.argument("version")
@job_key_option
@dataset_command
def restore_command(call: Call, *, version: str, job_key: str | None) -> None:
    """Make VERSION (a number or a tag) of URI the newest version, under a new number."""
    from lance_ops.maintenance.metadata.actions import restore

    wanted = int(version) if version.isdecimal() else version
    call.show(restore(call.uri, wanted, job_key=job_key, storage_options=call.storage_options))


@click.command("clone", short_help="Make a dataset that starts with the files of another one.")
@click.argument("uri")
@click.argument("clone_uri", metavar="CLONE")
@click.option("--version", help="The version or tag to clone; default the newest.")
@dataset_command
def clone_command(call: Call, *, clone_uri: str, version: str | None) -> None:
    """Make a shallow clone of URI at CLONE: a dataset of its own that copies no file.

    A tag at URI keeps what the clone uses from cleanup; delete it when the clone is gone.
    """
    from lance_ops.maintenance.metadata.clone import shallow_clone

    done = shallow_clone(
        call.uri,
        clone_uri,
        int(version) if version is not None and version.isdecimal() else version,
        storage_options=call.storage_options,
    )
    call.show(
        {"operation": "clone", "uri": done.uri, "version": done.version}
        if call.as_json
        else f"clone: {done.uri} starts as version {done.version} of {call.uri}"
    )
