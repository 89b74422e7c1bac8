"""Commands on versions: tag, branch, restore and clone."""

from typing import Literal

import click

from lance_ops.cli.command import Call, dataset_command
from lance_ops.cli.options import dry_run_option, job_key_option


@click.command("tag", short_help="Tag a version, so that cleanup keeps it.")
@click.argument("uri")
@click.argument("name", required=False)
@click.option("--version", type=click.IntRange(min=1), help="Version to tag; default the newest.")
@click.option("--move", is_flag=True, help="Move an existing tag to another version.")
@click.option("--delete", is_flag=True, help="Remove the tag.")
@dataset_command
def tag_command(call: Call, *, name: str | None, version: int | None, move: bool, delete: bool) -> None:
    """Tag the newest version of URI, or --version, as NAME; without NAME, list the tags."""
    from lance_ops.cli.output import print_rows
    from lance_ops.maintenance.metadata.actions import create_tag, delete_tag, move_tag
    from lance_ops.table.dataset import Dataset

    if delete and (move or version is not None):
        raise click.UsageError("--delete can be used with NAME only")
    if name is None:
        if delete or move or version is not None:
            raise click.UsageError("NAME of the tag is missing")
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


@click.command("branch", short_help="Create, list or delete branches.")
@click.argument("uri")
@click.argument("name", required=False)
@click.option("--version", help="Version or tag at which the branch starts; default the newest.")
@click.option("--from", "parent", help="Branch at which the new one starts; default main, or that of URI.")
@click.option("--delete", is_flag=True, help="Delete the branch with its versions and files.")
@dataset_command
def branch_command(
    call: Call, *, name: str | None, version: str | None, parent: str | None, delete: bool
) -> None:
    """Create the branch NAME at the newest version of URI, or --version; without NAME, list the branches.

    No file is copied. Cleanup keeps the files that branches use.
    """
    from lance_ops.cli.output import print_rows
    from lance_ops.maintenance.metadata.branches import create_branch, delete_branch
    from lance_ops.table.dataset import Dataset

    if delete and (version is not None or parent is not None):
        raise click.UsageError("--delete can be used with NAME only")
    if name is None:
        if delete or version is not None or parent is not None:
            raise click.UsageError("NAME of the branch is missing")
        found = Dataset.open(call.uri, storage_options=call.storage_options).branches
        branches = [found[key] for key in sorted(found)]
        if call.as_json:
            call.show(
                {b.name: {"parent": b.parent_branch, "parent_version": b.parent_version} for b in branches}
            )
        else:
            print_rows(
                ("branch", "started at"),
                [(b.name, f"version {b.parent_version} of {b.parent_branch or 'main'}") for b in branches],
            )
        return
    if delete:
        removed = delete_branch(call.uri, name, storage_options=call.storage_options)
        call.show(
            {"deleted": name, "files_removed": removed}
            if call.as_json
            else f"branch {name} is removed with {removed:,} files"
        )
        return
    number = int(version) if version is not None and version.isdecimal() else None
    if parent is not None and number is None and version is not None:
        raise click.UsageError("a tag already names a branch: give --version a number, or omit --from")
    start = version if number is None else number
    done = create_branch(
        call.uri,
        name,
        start if parent is None else (parent, number),
        storage_options=call.storage_options,
    )
    call.show(
        {"branch": name, "uri": done.uri, "version": done.version}
        if call.as_json
        else f"branch {name} starts as version {done.version}: {done.uri}"
    )


@click.command("restore", short_help="Make an old version the newest one.")
@click.argument("uri")
@click.argument("version")
@dry_run_option
@job_key_option
@dataset_command
def restore_command(call: Call, *, version: str, dry_run: bool, job_key: str | None) -> None:
    """Make VERSION (a number or a tag) of URI the newest version, under a new number.

    A dry run shows which rows, columns and indices come back and which go.
    """
    from lance_ops.maintenance.metadata.actions import restore

    wanted = int(version) if version.isdecimal() else version
    call.show(
        restore(call.uri, wanted, dry_run=dry_run, job_key=job_key, storage_options=call.storage_options)
    )


@click.command("clone", short_help="Create a dataset that starts as a copy of another one.")
@click.argument("uri")
@click.argument("clone_uri", metavar="CLONE")
@click.option("--version", help="Version or tag to clone; default the newest.")
@click.option("--deep", is_flag=True, help="Copy all files, so that the clone depends on no other dataset.")
@dataset_command
def clone_command(call: Call, *, clone_uri: str, version: str | None, deep: bool) -> None:
    """Create a clone of URI at CLONE: an independent dataset, which copies no file unless it is --deep.

    A tag at URI protects the files of a shallow clone from cleanup; delete it after the clone.
    """
    from lance_ops.maintenance.metadata.clone import shallow_clone
    from lance_ops.maintenance.metadata.deep_clone import deep_clone

    done = (deep_clone if deep else shallow_clone)(
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


@click.command("migrate-store", short_help="Move a dataset into an external manifest store, or out of it.")
@click.argument("uri")
@click.option(
    "--into",
    metavar="ADDRESS",
    help="Of the external manifest store: dynamodb://TABLE, or a URL of SQLAlchemy.",
)
@click.option("--out", is_flag=True, help="Delete its rows: the dataset is opened without it afterwards.")
@click.option("--rebuild", is_flag=True, help="Make its rows again from the manifests in the object store.")
@dataset_command
def migrate_store_command(call: Call, *, into: str | None, out: bool, rebuild: bool) -> None:
    """Move URI with its branches into an external manifest store, or --out of it, or --rebuild its lost rows.

    Stop all writers first. A second run finishes an interrupted one.
    """
    from lance_ops.maintenance.metadata.manifest_store import migrate_store

    call.show(
        migrate_store(call.uri, into=into, out=out, rebuild=rebuild, storage_options=call.storage_options)
    )


@click.command("migrate-paths", short_help="Rename manifests to the other scheme.")
@click.argument("uri")
@click.option(
    "--scheme",
    type=click.Choice(["v2", "v1"]),
    default="v2",
    show_default=True,
    help="v2 lists the newest version first; pylance before 0.17 reads v1 only.",
)
@dry_run_option
@dataset_command
def migrate_manifest_paths_command(call: Call, *, scheme: Literal["v1", "v2"], dry_run: bool) -> None:
    """Rename all manifests of URI and its branches to --scheme. A second run finishes an interrupted one.

    Stop other writers first. Until the command has ended, the dataset can neither be read nor written.
    """
    from lance_ops.maintenance.metadata.manifest_paths import migrate_manifest_paths

    call.show(migrate_manifest_paths(call.uri, scheme, dry_run=dry_run, storage_options=call.storage_options))
