"""Migrate manifest paths: rename all manifests of a dataset to the other scheme without losing a version.

Each manifest is first copied to its new name, newest first; only when all have new names are the old ones
removed, oldest first. So the newest version always has a name of each scheme in use, and an interrupted run
is finished by the next one. While both schemes exist, both libraries fail to read and write, rather than use
one of them.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, overload

from lance_ops.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CorruptManifestError,
    InvalidArgumentError,
    public,
)
from lance_ops.maintenance.results import Result
from lance_ops.maintenance.target import Target, store_of
from lance_ops.maintenance.text import count_text
from lance_ops.storage import Store
from lance_ops.storage.retry import unless_gone
from lance_ops.table.history.refs import branch_store, list_branches
from lance_ops.table.manifest.listing import (
    VERSIONS_DIRECTORY,
    NamingScheme,
    forget_naming,
    manifest_path,
    parse_manifest_name,
)
from lance_ops.table.manifest.no_dataset import no_dataset

_SCHEMES = {"v1": NamingScheme.V1, "v2": NamingScheme.V2}
_ROUNDS = 20

SchemeName = Literal["v1", "v2"]


@dataclass(frozen=True, slots=True)
class MigratePathsPlan:
    """Plan of a migration; prints as text.

    Attributes:
        uri: The dataset.
        scheme: The new naming scheme.
        version: The newest version.
        manifests: Number of manifests to rename, on all branches.
    """

    uri: str
    scheme: str
    version: int
    manifests: int

    def to_dict(self) -> dict[str, object]:
        """Numbers and ids as JSON values."""
        return {
            "operation": "migrate_manifest_paths",
            "dry_run": True,
            "uri": self.uri,
            "scheme": self.scheme,
            "version": self.version,
            "manifests": self.manifests,
        }

    def __str__(self) -> str:
        return (
            f"{count_text(self.manifests, 'manifest')} of {self.uri} would be renamed to scheme {self.scheme}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratePathsResult(Result):
    """Result of `migrate_manifest_paths`.

    Attributes:
        scheme: The names that all manifests have.
        manifests: Manifests that got other names, of all branches.
    """

    scheme: str
    manifests: int

    @property
    def operation(self) -> str:
        """Its name."""
        return "migrate_manifest_paths"

    def summary(self) -> str:
        """See `Result.summary`."""
        return f"{count_text(self.manifests, 'manifest')} renamed to scheme {self.scheme}"

    def __str__(self) -> str:
        return f"{self.operation}: {self.summary()} ({self.seconds:.2f} s)"


@overload
def migrate_manifest_paths(
    uri_or_dataset: Target,
    scheme: SchemeName = "v2",
    *,
    dry_run: Literal[False] = False,
    storage_options: Mapping[str, str] | None = None,
) -> MigratePathsResult: ...
@overload
def migrate_manifest_paths(
    uri_or_dataset: Target,
    scheme: SchemeName = "v2",
    *,
    dry_run: Literal[True],
    storage_options: Mapping[str, str] | None = None,
) -> MigratePathsPlan: ...
@overload
def migrate_manifest_paths(
    uri_or_dataset: Target,
    scheme: SchemeName = "v2",
    *,
    dry_run: bool,
    storage_options: Mapping[str, str] | None = None,
) -> MigratePathsResult | MigratePathsPlan: ...
@public(target="uri_or_dataset")
def migrate_manifest_paths(
    uri_or_dataset: Target,
    scheme: SchemeName = "v2",
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> MigratePathsResult | MigratePathsPlan:
    """Rename all manifests to the other scheme: "v2" lists the newest version first, "v1" is the old one.

    May be interrupted and run again. Until it has ended, the dataset can neither be read nor written. Commits
    of lance_ops in progress with "v1" names are renamed, or planned again. Stop writers of pylance, and
    before a migration to "v1" all writers; a version stored under an old name afterwards is never skipped:
    the dataset cannot be opened until this is run again.

    Args:
        uri_or_dataset: URI or path of the dataset, with all its branches, or of one branch; or a `Dataset`.
        scheme: Of the new names; releases of pylance before 0.17 know "v1" alone.
        dry_run: Return the plan.
        storage_options: Options of the store.

    Raises:
        DatasetNotFoundError: There is no manifest.
        CorruptManifestError: Two manifests claim one version and differ; names them. Neither is touched.
        CommitConflictError: Others keep storing versions under old names; run it again.

    Examples:
        >>> lo.migrate_manifest_paths("events.lance", "v1").manifests
        2
    """
    started = time.monotonic()
    if scheme not in _SCHEMES:
        raise InvalidArgumentError(f"there is no naming scheme {scheme!r}", field="scheme", hint="v1 or v2")
    store = store_of(uri_or_dataset, storage_options)
    wanted = _SCHEMES[scheme]
    roots = [store, *(branch_store(store, name) for name in list_branches(store))]
    names = [_names(root) for root in roots]
    version = max((number for by_scheme in names[0].values() for number in by_scheme), default=None)
    if version is None:
        raise no_dataset(store)
    if dry_run:
        count = sum(len(found[_other(wanted)]) for found in names)
        return MigratePathsPlan(store.uri, scheme, version, count)
    moved = sum(_migrate(root, wanted) for root in roots)
    return MigratePathsResult(
        uri=store.uri,
        version=version,
        seconds=time.monotonic() - started,
        scheme=scheme,
        manifests=moved,
    )


def _other(scheme: NamingScheme) -> NamingScheme:
    return NamingScheme.V1 if scheme is NamingScheme.V2 else NamingScheme.V2


def _names(store: Store) -> dict[NamingScheme, set[int]]:
    """Versions that have a name, by its scheme."""
    found: dict[NamingScheme, set[int]] = {scheme: set() for scheme in NamingScheme}
    for info in store.list(VERSIONS_DIRECTORY):
        parsed = parse_manifest_name(info.path.removeprefix(f"{VERSIONS_DIRECTORY}/"))
        if parsed is not None and parsed[1] is not None:
            found[parsed[1]].add(parsed[0])
    return found


def _migrate(store: Store, wanted: NamingScheme) -> int:
    moved: set[int] = set()
    for _ in range(_ROUNDS):
        forget_naming(store.uri)
        found = _names(store)
        old = found[_other(wanted)]
        if not old:
            return len(moved)
        for version in sorted(old, reverse=True):
            _copy(store, version, wanted)
        # What came meanwhile gets its new name before any old one goes.
        if _names(store)[_other(wanted)] - old:
            continue
        for version in sorted(old):
            _copy(store, version, wanted)
            store.delete(manifest_path(version, _other(wanted)))
            moved.add(version)
    raise CommitConflictError(
        "other writers keep committing versions under old names",
        ours="migration of manifest names",
        theirs="commits under old names",
        version=max(moved, default=0),
        path=store.uri,
        hint="stop them, and run it again",
    )


def _copy(store: Store, version: int, wanted: NamingScheme) -> None:
    """Check that a version has its new name, with the same bytes."""
    source, target = manifest_path(version, _other(wanted)), manifest_path(version, wanted)
    found = unless_gone(store, source, lambda: store.read(source))
    if found is None:
        # Another run of the migration, or its writer, was faster; or a cleanup.
        return
    data = bytes(found)
    try:
        store.put(target, data, if_absent=True)
    except AlreadyExistsError:
        there = unless_gone(store, target, lambda: store.read(target))
        if there is None:
            _copy(store, version, wanted)
        elif bytes(there) != data:
            raise CorruptManifestError(
                f"two different manifests claim version {version}: {source} and {target}",
                path=f"{store.uri}/{source}",
                hint="check which of the two later versions are based on; move the other one away",
            ) from None
