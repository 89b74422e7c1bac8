"""Lineage of a stored version: whether later versions are built on it.

Between the time a writer reads the head and the time it stores the next version, others may commit that
version and more, and a cleanup may remove it again. The name is free then, the store accepts the manifest,
and no reader will ever see it: readers open the newest version, which was not built on it. So after every
put, versions above ours are checked (architecture, invariant 1).

Restored versions: verify that the restored version still exists.

Cleanups of this library keep a version that is being restored (see `pins`); others ignore pins. If one of
them removed the version and its files just before the new manifest was stored, the newest version would miss
files, so the previous state is stored as the next version.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import TypeVar

from lance_ops.errors import (
    CommitOutcomeUnknownError,
    LanceOpsError,
    NotFoundError,
    RetryableCommitConflictError,
    StorageError,
    VersionNotFoundError,
)
from lance_ops.storage import Store
from lance_ops.storage.retry import is_there, retry
from lance_ops.table.commit.apply import build_manifest
from lance_ops.table.commit.concurrent_commits import base_conflict
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY, Bases
from lance_ops.table.manifest.deletion_vector import read_deletion_vector
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.fragments.totals import by_id
from lance_ops.table.manifest.listing import ManifestLocation, latest, list_versions, locate, manifest_path
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.apply_fragments import reserved_ids
from lance_ops.table.transaction.operations import (
    JOBS_ENTRY,
    CreateIndex,
    Delete,
    ManifestOptions,
    MapUpdate,
    Operation,
    Overwrite,
    ReserveFragments,
    Restore,
    Rewrite,
    Scope,
    Update,
    UpdateConfig,
    brought_files,
    files_of,
    used_among,
)
from lance_ops.table.transaction.transaction import (
    Transaction,
    encode_transaction,
    new_transaction,
    read_transaction,
)

_PAUSES = (0.0, 0.0)
_V = TypeVar("_V")

KnowsJob = Callable[[Store, Manifest, str], bool]
"""Returns whether the record of a version has a job; see `job_record.knows_job`."""


class Standing(Enum):
    """State of a stored version in the history."""

    STANDS = "stands"
    ORPHANED = "orphaned"
    UNKNOWN = "unknown"


def settle(
    store: Store,
    location: ManifestLocation,
    manifest: Manifest,
    transaction: Transaction,
    *,
    base: Manifest | None = None,
    knows_job: KnowsJob | None = None,
) -> None:
    """Verify that a version stored just now is in the history.

    Args:
        store: Root of the dataset.
        location: Location of the version.
        manifest: The version.
        transaction: The committed transaction.
        base: The read version, if already loaded.
        knows_job: Looks up the job of a commit under a job key.

    Raises:
        RetryableCommitConflictError: It took the name of a version that was cleaned up, below the newest one.
            It is removed again.
        CommitOutcomeUnknownError: That is unknown.
    """
    standing = find_standing(store, location, manifest, transaction, base=base, knows_job=knows_job)
    path = f"{store.uri}/{location.path}"
    if standing is Standing.ORPHANED:
        try:
            store.delete(location.path)
        except LanceOpsError as error:
            raise CommitOutcomeUnknownError(
                f"version {location.version} is below the newest version, where no reader looks, and "
                f"could not be removed ({error})",
                path=path,
                hint="remove this manifest, then run the operation again",
            ) from error
        reason = "others committed this and later versions, and it was cleaned up before ours was stored"
        raise base_conflict(transaction, reason, location.version)
    if standing is Standing.UNKNOWN:
        raise CommitOutcomeUnknownError(
            f"version {location.version} was written, but it is unknown whether newer versions are "
            "built on it",
            path=path,
            hint="check whether the newest version contains the change",
        )


def find_standing(
    store: Store,
    location: ManifestLocation,
    manifest: Manifest,
    transaction: Transaction,
    *,
    base: Manifest | None = None,
    knows_job: KnowsJob | None = None,
) -> Standing:
    """Determine whether the versions above one were built on it.

    Args:
        store: Root of the dataset.
        location: Location of the version.
        manifest: The version.
        transaction: The committed transaction.
        base: The read version, if already loaded.
        knows_job: Looks up the job of a commit under a job key.

    Raises:
        CommitOutcomeUnknownError: The store does not answer.
    """
    find = partial(_find_standing, store, location, manifest, transaction, base, knows_job)
    try:
        return retry(find, _PAUSES, on=LanceOpsError)
    except LanceOpsError as error:
        raise CommitOutcomeUnknownError(
            f"version {location.version} was written, and whether it is the newest one cannot be "
            f"told ({error})",
            path=f"{store.uri}/{location.path}",
            hint="delete nothing that the commit wrote before the versions can be listed",
        ) from error


def _find_standing(
    store: Store,
    location: ManifestLocation,
    manifest: Manifest,
    transaction: Transaction,
    base: Manifest | None,
    knows_job: KnowsJob | None,
) -> Standing:
    ours, head = transaction.operation, latest(store)
    if head.version <= location.version:
        return Standing.STANDS
    if base is None and location.version == 1 and _starts_above(store):
        return Standing.ORPHANED
    following = ManifestLocation(
        location.version + 1, manifest_path(location.version + 1, location.scheme), scheme=location.scheme
    )
    try:
        successor = read_manifest(store, following)
        theirs = read_transaction(store, successor)
    except NotFoundError:
        # Cleaned up concurrently: only files that are certainly ours count now.
        used = used_among(brought_files(ours, base), read_manifest(store, head))
        return Standing.STANDS if used else Standing.UNKNOWN
    job = transaction.job_key if JOBS_ENTRY in manifest.config else None
    if (
        job is not None
        and knows_job is not None
        and theirs is not None
        and _carries_jobs(theirs.operation)
        and not knows_job(store, successor, job)
    ):
        # What a job did may also be done by others; that it is done is in the record alone.
        return Standing.ORPHANED
    standing = compare(manifest, ours, successor, theirs.operation if theirs else None, base=base)
    adds_none = not ours.numbered_fragments()
    if (
        standing is Standing.UNKNOWN
        and isinstance(ours, Delete | Update)
        and adds_none
        and theirs is not None
    ):
        # A later delete in a fragment replaces its deletion file, so ours is no longer named. Where rows
        # moved, those of a fragment that is gone may live on elsewhere.
        moves = isinstance(theirs.operation, Rewrite | Update) and bool(theirs.operation.new_fragments)
        same_places = not moves
        if same_places and _are_deleted(ours, Bases(store, successor.base_paths), successor):
            return Standing.STANDS
    return standing


def _carries_jobs(theirs: Operation) -> bool:
    """Return whether a version with this operation has the record of jobs of the version before it."""
    if isinstance(theirs, UpdateConfig):
        return theirs.config is None or not (theirs.config.replace or JOBS_ENTRY in theirs.config.entries)
    return theirs.scope is Scope.NAMED or isinstance(theirs, Overwrite)


def _starts_above(store: Store) -> bool:
    """Return whether a clone of a later version was made where a dataset was created at the same time."""
    above = next((item for item in list_versions(store) if item.version > 1), None)
    if above is None:
        return False
    theirs = read_transaction(store, read_manifest(store, above))
    return theirs is not None and theirs.operation.kind == "Clone"


def _are_deleted(ours: Delete | Update, files: Bases, successor: Manifest) -> bool:
    """Return whether all rows of a delete are deleted in the next version, in which no row moved."""
    after = by_id(successor.fragments)
    emptied = ours.changed_fragments().difference(fragment.id for fragment in ours.updated_fragments)
    if not emptied.isdisjoint(after):
        return False
    for fragment in ours.updated_fragments:
        now, deleted = after.get(fragment.id), read_deletion_vector(files, fragment)
        if now is None or deleted is None:
            continue
        gone = read_deletion_vector(files, now)
        if gone is None or len(deleted.difference(gone)):
            return False
    return True


def compare(
    manifest: Manifest,
    ours: Operation,
    successor: Manifest,
    theirs: Operation | None,
    *,
    base: Manifest | None = None,
) -> Standing:
    """Determine from their contents whether the next version was built on a version. Pure.

    Args:
        manifest: The version.
        ours: Its transaction.
        successor: The version with the next number.
        theirs: Its transaction; None when it is not recorded.
        base: The read version of ours, if already loaded.
    """
    own = brought_files(ours, base)
    if used_among(own, successor):
        return Standing.STANDS
    if isinstance(ours, UpdateConfig) and isinstance(theirs, Overwrite):
        # It replaces the rows and their schema, and keeps the settings.
        kept = _same_map(manifest.config, successor.config, MapUpdate(theirs.config_upsert), but=JOBS_ENTRY)
        same = kept and manifest.table_metadata == successor.table_metadata
        return Standing.STANDS if same else Standing.ORPHANED
    if theirs is not None and theirs.scope is Scope.ALL:
        # The effects of ours would be gone either way; but the ids that it allocated must be respected.
        return Standing.STANDS if _max_id(successor) >= _max_id(manifest) else Standing.UNKNOWN
    if theirs is None or theirs.scope is not Scope.NAMED:
        return Standing.UNKNOWN
    if not own:
        return Standing.STANDS if _shows(ours, manifest, successor, theirs) else Standing.ORPHANED
    if isinstance(theirs, Rewrite) and own & theirs.replaced_files():
        return Standing.STANDS
    # Our files are missing: theirs removed all of them, or never saw them.
    bearers = {fragment.id for fragment in manifest.fragments if own & files_of(fragment)}
    segments = {index.uuid for index in manifest.indices if f"{index.directory}/" in own}
    taken = bearers <= theirs.changed_fragments() and segments <= theirs.removed_segments()
    return Standing.UNKNOWN if taken else Standing.ORPHANED


def _shows(ours: Operation, manifest: Manifest, successor: Manifest, theirs: Operation) -> bool:
    """Return whether the next version shows the effect of an operation without files of its own."""
    if isinstance(ours, ReserveFragments):
        reserved = reserved_ids(manifest, ours.num_fragments)
        given = any(fragment.id in reserved for fragment in successor.fragments)
        return not given and _max_id(successor) >= _max_id(manifest) + _new_ids(theirs)
    if isinstance(ours, CreateIndex):
        return ours.removed_segments().isdisjoint(index.uuid for index in successor.indices)
    if isinstance(ours, UpdateConfig):
        return _same_settings(manifest, successor, theirs)
    before, after = ([node.id for node in one.schema.walk()] for one in (manifest, successor))
    return before == after and _same_fragments(manifest, successor, theirs)


def _same_fragments(manifest: Manifest, successor: Manifest, theirs: Operation) -> bool:
    """Return whether two versions have the same fragments, except those changed by `theirs`."""
    changed = set(theirs.changed_fragments())
    before = {fragment.id: files_of(fragment) for fragment in manifest.fragments}
    if not changed <= before.keys():
        # It changed a fragment that does not exist in the next version, so it did not see it.
        return False
    after = {fragment.id: files_of(fragment) for fragment in successor.fragments}
    if any(after.get(number) != files for number, files in before.items() if number not in changed):
        return False
    if isinstance(theirs, Rewrite):
        changed.update(fragment.id for fragment in theirs.new_fragments)
    added = after.keys() - before.keys() - changed
    return len(added) == len(theirs.numbered_fragments()) and all(
        number > _max_id(manifest) for number in added
    )


def _same_settings(manifest: Manifest, successor: Manifest, theirs: Operation) -> bool:
    """Return whether two versions have the same settings, except those changed by `theirs`."""
    update = theirs if isinstance(theirs, UpdateConfig) else UpdateConfig()
    fields = {node.id: node.metadata for node in successor.schema.walk()}
    return (
        _same_map(manifest.config, successor.config, update.config, but=JOBS_ENTRY)
        and _same_map(manifest.table_metadata, successor.table_metadata, update.table_metadata)
        and _same_map(manifest.schema.metadata, successor.schema.metadata, update.schema_metadata)
        and all(
            _same_map(node.metadata, fields.get(node.id, {}), update.field_metadata.get(node.id))
            for node in manifest.schema.walk()
        )
    )


def _same_map(
    before: Mapping[str, _V], after: Mapping[str, _V], update: MapUpdate | None, but: str = ""
) -> bool:
    if update is not None and update.replace:
        return True
    changed = update.entries.keys() if update is not None else set()
    return all(before.get(key) == after.get(key) for key in (before.keys() | after.keys()) - changed - {but})


def _max_id(manifest: Manifest) -> int:
    return -1 if manifest.max_fragment_id is None else manifest.max_fragment_id


def _new_ids(operation: Operation) -> int:
    """Return how many fragment ids an operation allocates."""
    if isinstance(operation, ReserveFragments):
        return operation.num_fragments
    return len(operation.numbered_fragments())


Publish = Callable[[ManifestLocation, bytes, Transaction], bool]
"""Signature of `publish.publish`, with store and committer bound."""


def confirm_restored(
    store: Store,
    publish: Publish,
    location: ManifestLocation,
    manifest: Manifest,
    before: Manifest,
    restored: Manifest,
) -> None:
    """Verify that a restore restored an existing version.

    Args:
        store: Root of the dataset.
        publish: Stores a manifest if its version is free.
        location: Location of the version that the restore made.
        manifest: That version.
        before: The version before it.
        restored: The version that was restored.

    Raises:
        RetryableCommitConflictError: It was removed. The newest version is as it was before the restore.
        CommitOutcomeUnknownError: It was removed, and others have built on the restore since; or the store
            does not answer.
    """
    try:
        _confirm(store, publish, location, manifest, before, restored)
    except StorageError as error:
        # The version exists, so none of its files may be removed.
        raise CommitOutcomeUnknownError(
            f"version {location.version} was written, but it is unknown whether the restored version "
            f"still exists ({error})",
            path=f"{store.uri}/{location.path}",
            hint="run fsck on the newest version",
        ) from error


def _confirm(
    store: Store,
    publish: Publish,
    location: ManifestLocation,
    manifest: Manifest,
    before: Manifest,
    restored: Manifest,
) -> None:
    try:
        locate(store, restored.version)
    except VersionNotFoundError:
        missing = next((path for path in _files(manifest) if not is_there(store, path)), None)
    else:
        return
    if missing is None:
        return
    # Nothing is removed: another writer may be building on our version. But only one writer gets the next
    # number, so this cannot undo the commits of others.
    transaction = new_transaction(Restore(before.version), manifest.version)
    store.put(transaction.path, encode_transaction(transaction))
    options = ManifestOptions(manifest.timestamp, restored=before)
    number = manifest.version + 1
    after = ManifestLocation(number, manifest_path(number, location.scheme), scheme=location.scheme)
    theirs = "a cleanup that ignores pins"
    what = f"version {restored.version} was removed while it was restored as version {manifest.version}"
    undone = build_manifest(manifest, transaction, options)
    if publish(after, encode_manifest(undone), transaction) and _stands(store, after, undone, transaction):
        raise RetryableCommitConflictError(
            f"{what}; version {number} equals version {before.version}",
            ours=Restore.name,
            theirs=theirs,
            version=restored.version,
            path=f"{store.uri}/{missing}",
        )
    raise CommitOutcomeUnknownError(
        f"{what}, and others have committed on top of it",
        path=f"{store.uri}/{missing}",
        hint="restore a version for which fsck reports no problem",
    )


def _stands(store: Store, location: ManifestLocation, manifest: Manifest, transaction: Transaction) -> bool:
    """Return whether a version is in the history; otherwise remove it.

    Its number may have been free because others committed it and more, and a cleanup removed it.

    Raises:
        CommitOutcomeUnknownError: That is unknown.
    """
    try:
        settle(store, location, manifest, transaction)
    except RetryableCommitConflictError:
        return False
    return True


def _files(manifest: Manifest) -> Iterator[str]:
    for fragment in manifest.fragments:
        yield from (f"{DATA_DIRECTORY}/{file.path}" for file in fragment.all_files if file.base_id is None)
        deletion = fragment.deletion_file
        if deletion is not None and deletion.base_id is None:
            yield deletion.path(fragment.id)
