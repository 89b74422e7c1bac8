"""Metadata operations: restore, config, dropped columns, refs."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, Unpack, overload

from lance_ops.errors import FormatError, InvalidArgumentError, NotFoundError, check_type, public
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.engine import Attempt, Common, Run
from lance_ops.maintenance.metadata.dropped import schema_without
from lance_ops.maintenance.metadata.restored import RestorePlan, plan_restore
from lance_ops.maintenance.metadata.result import MetadataResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.target import store_of
from lance_ops.table.commit.damaged_head import RESTORED_OVER, stand_in_for_head
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.dataset import Dataset, Target, open_dataset, snapshot_of
from lance_ops.table.history import refs
from lance_ops.table.history.refs import Tag
from lance_ops.table.transaction.operations import (
    MapUpdate,
    Operation,
    Project,
    Restore,
    UpdateConfig,
)

_Version = int | str | tuple[str, int]


@overload
def restore(
    uri_or_dataset: Target,
    version: _Version,
    *,
    dry_run: Literal[False] = False,
    **run: Unpack[RunOptions],
) -> MetadataResult: ...
@overload
def restore(
    uri_or_dataset: Target, version: _Version, *, dry_run: Literal[True], **run: Unpack[RunOptions]
) -> RestorePlan: ...
@overload
def restore(
    uri_or_dataset: Target, version: _Version, *, dry_run: bool, **run: Unpack[RunOptions]
) -> MetadataResult | RestorePlan: ...
@public(target="uri_or_dataset")
@cleans_up
def restore(
    uri_or_dataset: Target, version: _Version, *, dry_run: bool = False, **run: Unpack[RunOptions]
) -> MetadataResult | RestorePlan:
    """Make an old version the newest one, under a new number. The versions in between are kept.

    The newest version may be damaged, if the one to restore is not.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        version: Version number, tag, or (branch, version) of the branch of the dataset.
        dry_run: Return the plan, which says what comes back and what goes, and change nothing.
        **run: See `RunOptions`; so for all functions here.

    Raises:
        VersionNotFoundError: The version does not exist.
        RetryableCommitConflictError: A cleanup is removing the version.
        InvalidArgumentError: The version is on another branch.

    Examples:
        >>> lo.restore("events.lance", 1).dataset.count_rows()
        5
    """

    def plan(dataset: Dataset) -> Operation:
        return Restore(_number_of(dataset, version))

    try:
        call = _start("restore", uri_or_dataset, run)
        if dry_run:
            return plan_restore(call.dataset, _number_of(call.dataset, version))
        return _change(call, plan)
    except FormatError:
        store = store_of(uri_or_dataset, run.get("storage_options"))
        stand_in = stand_in_for_head(store, run.get("storage_options"))
        if stand_in is None or dry_run:
            # What a version that cannot be read has is unknown.
            raise
        call = Run.on("restore", store, stand_in, run, max_replans=0)
        return _change(call, plan, {RESTORED_OVER: str(stand_in.version)})


def _number_of(dataset: Dataset, version: int | str | tuple[str, int]) -> int:
    if isinstance(version, int):
        return version
    wanted = dataset.checkout_version(version)
    if wanted.uri != dataset.uri:
        raise InvalidArgumentError(f"{version!r} is a version of another branch", path=dataset.uri)
    return wanted.version


@public(target="uri_or_dataset", upsert_values="upsert")
@cleans_up
def update_config(
    uri_or_dataset: Target,
    upsert: Mapping[str, str] | None = None,
    delete: Iterable[str] = (),
    *,
    table_metadata: Mapping[str, str | None] | None = None,
    schema_metadata: Mapping[str, str | None] | None = None,
    field_metadata: Mapping[str, Mapping[str, str | None]] | None = None,
    **run: Unpack[RunOptions],
) -> MetadataResult:
    """Change the table config, or the metadata of the table, the schema or single columns.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        upsert: Config keys to set.
        delete: Config keys to remove.
        table_metadata: Keys to set; a value of None removes the key.
        schema_metadata: Likewise, in the metadata of the Arrow schema.
        field_metadata: Likewise, in the metadata of columns, by their path.
        **run: See `RunOptions`.

    Raises:
        InvalidArgumentError: There is no such column, or nothing to change.

    Examples:
        >>> lo.update_config("events.lance", {"owner": "search"}).dataset.config["owner"]
        'search'
    """
    given = {"upsert": upsert, "table_metadata": table_metadata, "schema_metadata": schema_metadata}
    for name, entries in given.items():
        if entries is not None:
            check_type(entries, Mapping, "a mapping of keys to values", field=name)
    config: dict[str, str | None] = {**(upsert or {}), **dict.fromkeys(delete)}

    def plan(dataset: Dataset) -> Operation:
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
            raise InvalidArgumentError("nothing would change", field="upsert")
        return operation

    return _change(_start("update_config", uri_or_dataset, run), plan)


@public(target="uri_or_dataset")
@cleans_up
def drop_columns(uri_or_dataset: Target, columns: Iterable[str], **run: Unpack[RunOptions]) -> MetadataResult:
    """Drop columns, or members of them, and the indices on these. Data files stay as they are.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        columns: Names of columns, or paths of members such as `a.b` (`a.item.b` in a list). A struct
            or a list whose last member goes is dropped as well.
        **run: See `RunOptions`.

    Raises:
        InvalidArgumentError: A column or member does not exist, or none would be left.
        UnsupportedError: A member of a map, a fixed-size list, an extension type, or a packed struct of
            version 2.0: what is left could not be read.

    Examples:
        >>> lo.drop_columns("events.lance", ["price", "vector"]).dataset.schema.names
        ['id', 'kind']
    """
    if isinstance(columns, str):
        raise InvalidArgumentError(
            f"columns must be a list of names, got the string {columns!r}",
            field="columns",
            hint=f"write [{columns!r}]",
        )
    dropped = tuple(columns)

    def plan(dataset: Dataset) -> Operation:
        schema = schema_without(dataset.lance_schema, dropped, dataset.data_storage_version, dataset.uri)
        # The rest keeps its nullability, so rows written concurrently stay valid.
        return Project(schema, preserves_nullability=True)

    return _change(_start("drop_columns", uri_or_dataset, run), plan)


def _start(operation: str, target: Target, run: RunOptions) -> Run:
    """Start a run on the head, or on the caller's version: then the caller decides on conflicts."""
    given = snapshot_of(target)
    if given is not None:
        return Run.on(operation, given.store, given, run, max_replans=0, is_newest=False)
    return Run.start(operation, target, run)


def _change(
    call: Run, plan: Callable[[Dataset], Operation], notes: Mapping[str, str] | None = None
) -> MetadataResult:
    name = call.report.operation

    def commit(attempt: Attempt, operation: Operation) -> MetadataResult:
        done = attempt.commit(CommitRequest(operation, properties=notes or {}))
        change = done.transaction.operation.describe()
        return MetadataResult(**attempt.common(done), operation=name, change=change, dataset=done.dataset)

    def found(**common: Unpack[Common]) -> MetadataResult:
        dataset = call.dataset.latest()
        with contextlib.suppress(NotFoundError):
            dataset = dataset.checkout_version(common["version"])
        return MetadataResult(**common, operation=name, dataset=dataset)

    return call.execute(plan, commit, found)


@public(target="uri_or_dataset", tag="name", reference="version")
def create_tag(
    uri_or_dataset: Target,
    name: str,
    version: int | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> Tag:
    """Tag a version, which cleanup then keeps. Makes no version.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        name: The tag.
        version: That of a `Dataset` when None.
        storage_options: For opening the dataset.

    Raises:
        AlreadyExistsError: The tag exists.
        VersionNotFoundError: There is no such version.
        InvalidArgumentError: The name breaks a rule of the format.

    Examples:
        >>> lo.create_tag("events.lance", "first", 1).version
        1
        >>> lo.dataset("events.lance", "first").count_rows()
        5
    """
    dataset = open_dataset(uri_or_dataset, storage_options)
    number = dataset.version if version is None else version
    return refs.create_tag(dataset.root, name, number, branch=dataset.branch)


@public(target="uri_or_dataset", tag="name", reference="version")
def move_tag(
    uri_or_dataset: Target,
    name: str,
    version: int | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> Tag:
    """Move a tag to another version; see `create_tag`.

    Raises:
        VersionNotFoundError: There is no such tag, or no such version.

    Examples:
        >>> tag = lo.create_tag("events.lance", "latest", 1)
        >>> lo.move_tag("events.lance", "latest", 2).version
        2
    """
    dataset = open_dataset(uri_or_dataset, storage_options)
    number = dataset.version if version is None else version
    return refs.update_tag(dataset.root, name, number, branch=dataset.branch)


@public(target="uri_or_dataset", tag="name")
def delete_tag(
    uri_or_dataset: Target, name: str, *, storage_options: Mapping[str, str] | None = None
) -> None:
    """Remove a tag; its version stays until the next cleanup.

    Raises:
        VersionNotFoundError: There is no such tag.

    Examples:
        >>> tag = lo.create_tag("events.lance", "first", 1)
        >>> lo.delete_tag("events.lance", "first")
        >>> lo.dataset("events.lance").tags
        {}
    """
    refs.delete_tag(open_dataset(uri_or_dataset, storage_options).root, name)
