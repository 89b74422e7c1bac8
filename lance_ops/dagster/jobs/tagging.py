"""Job `lance_tag`: create, move or delete a tag, once over all retries and re-executions of the run.

A tag makes no version, so no commit shows a retry that an earlier attempt succeeded. The first attempt notes
the present tag on its run before any change, and later ones compare: an unchanged tag is changed; a tag in
the requested state was changed; and a tag changed by others is kept.
"""

import json
from enum import Enum
from typing import TypedDict

from pydantic import Field

from lance_ops.dagster import keys
from lance_ops.dagster.jobs.call import Call
from lance_ops.dagster.jobs.config import OperationConfig
from lance_ops.dagster.jobs.told import Told
from lance_ops.errors import AlreadyExistsError, InvalidArgumentError, VersionNotFoundError
from lance_ops.maintenance.metadata.actions import create_tag, delete_tag, move_tag
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.refs import Tag

# Index of the value in `_identity`.
_CREATED = 2


class _Noted(TypedDict):
    """Request and finding of the first attempt, with the version."""

    asked: list[str]
    found: list[str] | None
    version: int


class TagAction(Enum):
    """Action on a tag. Dagster's config uses the names of the members."""

    create = "create"
    move = "move"
    delete = "delete"


class TagConfig(OperationConfig):
    """Tag a version, which cleanup then keeps."""

    name: str = Field(description="The tag.")
    action: TagAction = Field(default=TagAction.create, description="Create it, move it, or delete it.")
    version: int | None = Field(
        default=None,
        ge=1,
        description="Version to tag, default the newest; for a deletion, the expected version of the tag.",
    )
    moved_from: int | None = Field(
        default=None, ge=1, description="Expected version of a tag to move; default any."
    )
    rerun_token: str = Field(
        default="",
        description="A re-executed run changes no tag again, unless this has a new value.",
    )


def tagged(call: Call, config: TagConfig) -> Told:
    """Create, move or delete a tag; see `TagConfig`."""
    dataset = Dataset.open(call.ref.uri, storage_options=call.store.options_of(call.ref))
    now = dataset.tags.get(config.name)
    noted = _noted(call, config)
    if noted is None:
        _check(config, dataset, now)
        version = dataset.version if config.version is None else config.version
        _note(call, config, found=_identity(now), version=version)
        return _apply(dataset, config, now, version)
    version = noted["version"]
    if _identity(now) == noted["found"]:
        return _apply(dataset, config, now, version)
    # A moved tag is still the one that was found: it was not deleted.
    if config.action is TagAction.delete and not _is_moved(noted["found"], _identity(now)):
        since = "" if now is None else f"; one created since names version {now.version} and is kept"
        return Told(f"tag {config.name!r} was deleted before{since}")
    if config.action is not TagAction.delete and now is not None and now.version == version:
        return _names(now)
    is_now = "it is deleted now" if now is None else f"it names version {now.version}"
    raise InvalidArgumentError(
        f"tag {config.name!r} was changed during this run: {is_now}",
        path=call.ref.uri,
        field="name",
        hint="launch another run to change the tag",
    )


def _check(config: TagConfig, dataset: Dataset, now: Tag | None) -> None:
    """Check that the tag is as expected by the config."""
    action, name = config.action, config.name
    if config.moved_from is not None and action is not TagAction.move:
        raise InvalidArgumentError(f"not for action {action.value!r}", field="moved_from")
    if action is TagAction.create:
        if now is not None and config.version not in (None, now.version):
            raise InvalidArgumentError(
                f"the tag {name!r} exists and names version {now.version}",
                path=dataset.uri,
                field="name",
                hint="action 'move' moves it",
            )
        return
    if now is None:
        raise VersionNotFoundError(f"there is no tag {name!r}", path=dataset.uri)
    deletes = action is TagAction.delete
    expected = config.version if deletes else config.moved_from
    if deletes and expected is None:
        raise InvalidArgumentError(
            f"version is required: the expected version of tag {name!r}",
            path=dataset.uri,
            field="version",
            hint=f"it names version {now.version}",
        )
    if expected not in (None, now.version):
        raise InvalidArgumentError(
            f"tag {name!r} names version {now.version}, expected {expected}",
            path=dataset.uri,
            field="version" if deletes else "moved_from",
        )


def _apply(dataset: Dataset, config: TagConfig, now: Tag | None, version: int) -> Told:
    if config.action is TagAction.delete:
        delete_tag(dataset, config.name)
        return Told(f"tag {config.name!r} is deleted; its version {version} is kept until the next cleanup")
    if config.action is TagAction.move:
        return _names(move_tag(dataset, config.name, version))
    return _names(_created(dataset, config.name, version) if now is None else now)


def _created(dataset: Dataset, name: str, version: int) -> Tag:
    """Create a tag; a concurrent one on the same version may be our own from a lost response."""
    try:
        return create_tag(dataset, name, version)
    except AlreadyExistsError:
        there = dataset.tags.get(name)
        if there is None or there.version != version:
            raise
        return there


def _names(tag: Tag) -> Told:
    return Told(f"tag {tag.name!r} names version {tag.version}", {keys.VERSION: tag.version})


def _identity(tag: Tag | None) -> list[str] | None:
    """Return values that distinguish a tag from a later one with the same name."""
    return (
        None if tag is None else [str(tag.branch), *map(str, (tag.version, tag.created_at, tag.updated_at))]
    )


def _is_moved(found: list[str] | None, now: list[str] | None) -> bool:
    """Return whether a tag is the one that was found, by its time of creation."""
    return found is not None and now is not None and found[_CREATED] == now[_CREATED]


def _request(call: Call, config: TagConfig) -> list[str]:
    versions = map(str, (config.version, config.moved_from))
    return [call.ref.uri, config.action.value, config.name, *versions, config.rerun_token]


def _run_of_notes(call: Call) -> str:
    """Return the first run, which its re-executions share."""
    first, instance = call.notes.root_run_id, call.context.instance
    return first if instance.has_run(first) else call.notes.run_id


def _noted(call: Call, config: TagConfig) -> _Noted | None:
    """Return the finding of an earlier attempt of the same work; None without one."""
    run = call.context.instance.get_run_by_id(_run_of_notes(call))
    noted = None if run is None else run.tags.get(keys.TAG_FOUND)
    if noted is None:
        return None
    values: _Noted = json.loads(noted)
    return values if values["asked"] == _request(call, config) else None


def _note(call: Call, config: TagConfig, *, found: list[str] | None, version: int) -> None:
    values: _Noted = {"asked": _request(call, config), "found": found, "version": version}
    call.context.instance.add_run_tags(_run_of_notes(call), {keys.TAG_FOUND: json.dumps(values)})
