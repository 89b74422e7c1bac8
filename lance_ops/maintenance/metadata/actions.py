"""Metadata operations: restore, config, dropped columns, tags."""

from collections.abc import Iterable, Mapping

from lance_ops.errors import FormatError, InvalidArgumentError, check_type
from lance_ops.maintenance.target import Target, store_of
from lance_ops.table.commit.committer import Committer
from lance_ops.table.commit.damaged_head import RESTORED_OVER, stand_in_for_head
from lance_ops.table.commit.loop import commit
from lance_ops.table.commit.result import CommitResult
from lance_ops.table.dataset import Dataset
from lance_ops.table.history import refs
from lance_ops.table.history.refs import Tag
from lance_ops.table.transaction.operations import (
    MapUpdate,
    Operation,
    Project,
    Restore,
    UpdateConfig,
)


def restore(
    target: Target,
    version: int | str | tuple[str, int],
    *,
    job_key: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    committer: Committer | None = None,
) -> CommitResult:
    """Make an old version the newest one, under a new number. The versions in between stay.

    The newest version may be damaged, as long as the one to restore is not.

    Args:
        target: Dataset, or where it lies.
        version: Version number, tag, or (branch, version) of the branch of `target`.
        job_key: See `commit`; so for all functions here.
        storage_options: For opening `target`.
        committer: See `commit`.

    Raises:
        VersionNotFoundError: There is no such version.
        RetryableCommitConflictError: A cleanup is removing the version.
        InvalidArgumentError: The version is on another branch.
    """
    try:
        return _restore(_open(target, storage_options), version, job_key, committer, {})
    except FormatError:
        stand_in = stand_in_for_head(store_of(target, storage_options), storage_options)
        if stand_in is None:
            raise
        notes = {RESTORED_OVER: str(stand_in.version)}
        return _restore(stand_in, version, job_key, committer, notes)


def _restore(
    dataset: Dataset,
    version: int | str | tuple[str, int],
    job_key: str | None,
    committer: Committer | None,
    notes: Mapping[str, str],
) -> CommitResult:
    number = version
    if not isinstance(version, int):
        wanted = dataset.checkout_version(version)
        if wanted.uri != dataset.uri:
            raise InvalidArgumentError(f"{version!r} is a version of another branch", path=dataset.uri)
        number = wanted.version
    assert isinstance(number, int)
    return commit(dataset, Restore(number), job_key=job_key, committer=committer, properties=notes)


def update_config(
    target: Target,
    upsert: Mapping[str, str] | None = None,
    delete: Iterable[str] = (),
    *,
    table_metadata: Mapping[str, str | None] | None = None,
    schema_metadata: Mapping[str, str | None] | None = None,
    field_metadata: Mapping[str, Mapping[str, str | None]] | None = None,
    job_key: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    committer: Committer | None = None,
) -> CommitResult:
    """Change the table config, or the metadata of the table, the schema or single columns.

    Args:
        target: Dataset, or where it lies.
        upsert: Config keys to set.
        delete: Config keys to remove.
        table_metadata: Keys to set; to remove where the value is None.
        schema_metadata: Likewise, in the metadata of the Arrow schema.
        field_metadata: Likewise, in the metadata of columns, by their path.
        job_key: See `commit`.
        storage_options: For opening `target`.
        committer: See `commit`.

    Raises:
        InvalidArgumentError: There is no such column, or nothing to change.
    """
    given = {"upsert": upsert, "table_metadata": table_metadata, "schema_metadata": schema_metadata}
    for name, entries in given.items():
        if entries is not None:
            check_type(entries, Mapping, "a mapping of keys to values", field=name)
    dataset = _open(target, storage_options)
    config: dict[str, str | None] = {**(upsert or {}), **dict.fromkeys(delete)}
    operation = UpdateConfig(
        config=MapUpdate(config) if config else None,
        table_metadata=MapUpdate(dict(table_metadata)) if table_metadata else None,
        schema_metadata=MapUpdate(dict(schema_metadata)) if schema_metadata else None,
        field_metadata={
            dataset.lance_schema.field(path).id: MapUpdate(dict(entries))
            for path, entries in (field_metadata or {}).items()
        },
    )
    if operation == UpdateConfig():
        raise InvalidArgumentError("there is nothing to change", field="upsert")
    return _commit(dataset, operation, job_key, committer)


def drop_columns(
    target: Target,
    columns: Iterable[str],
    *,
    job_key: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    committer: Committer | None = None,
) -> CommitResult:
    """Drop top-level columns from the schema, and the indices on them. Data files stay as they are.

    Raises:
        InvalidArgumentError: There is no such column, or none would be left.
    """
    dataset = _open(target, storage_options)
    dropped = set(columns)
    missing = dropped.difference(dataset.lance_schema.names)
    kept = [top for top in dataset.lance_schema.fields if top.name not in dropped]
    if missing or not kept or not dropped:
        raise InvalidArgumentError(
            f"cannot drop the columns {sorted(dropped)} of {list(dataset.lance_schema.names)}",
            path=dataset.uri,
            field="columns",
        )
    schema = dataset.lance_schema.project_ids({node.id for top in kept for node in top.walk()})
    # What remains is as required as it was, so rows written meanwhile stay valid.
    return _commit(dataset, Project(schema, preserves_nullability=True), job_key, committer)


def _open(target: Target, storage_options: Mapping[str, str] | None) -> Dataset:
    return target if isinstance(target, Dataset) else Dataset.open(target, storage_options=storage_options)


def _commit(
    dataset: Dataset, operation: Operation, job_key: str | None, committer: Committer | None
) -> CommitResult:
    return commit(dataset, operation, job_key=job_key, committer=committer)


def create_tag(
    target: Target,
    name: str,
    version: int | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> Tag:
    """Name a version, which cleanup then keeps. Makes no version of its own.

    Args:
        target: Dataset, or where it lies.
        name: The tag.
        version: That of `target` when None.
        storage_options: For opening `target`.

    Raises:
        AlreadyExistsError: The tag exists.
        VersionNotFoundError: There is no such version.
        InvalidArgumentError: The name breaks a rule of the format.
    """
    dataset = _open(target, storage_options)
    number = dataset.version if version is None else version
    return refs.create_tag(dataset.root, name, number, branch=dataset.branch)


def move_tag(
    target: Target,
    name: str,
    version: int | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> Tag:
    """Let a tag name another version; see `create_tag`.

    Raises:
        VersionNotFoundError: There is no such tag, or no such version.
    """
    dataset = _open(target, storage_options)
    number = dataset.version if version is None else version
    return refs.update_tag(dataset.root, name, number, branch=dataset.branch)


def delete_tag(target: Target, name: str, *, storage_options: Mapping[str, str] | None = None) -> None:
    """Remove a tag; its version stays until the next cleanup.

    Raises:
        VersionNotFoundError: There is no such tag.
    """
    refs.delete_tag(_open(target, storage_options).root, name)
