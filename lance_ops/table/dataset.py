"""Dataset: one version of a table, and the entry point to all operations."""

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, NotFoundError, check_type
from lance_ops.file.schema.blob_fields import has_blob_v2
from lance_ops.storage import Store, is_store, open_store
from lance_ops.storage.fork_safe import cached_property
from lance_ops.table.changed_rows import read_changes
from lance_ops.table.changes import Changes, find_changes
from lance_ops.table.history.data_version import data_version
from lance_ops.table.history.history import (
    HistoryEntry,
    VersionInfo,
    read_detached,
    read_history,
    read_versions,
)
from lance_ops.table.history.refs import Branch, Tag, list_branches, list_tags
from lance_ops.table.history.resolve_version import (
    VersionSpec,
    find_version,
    find_version_as_of,
    main_root,
    root_of_branch,
)
from lance_ops.table.manifest.feature_flags import check_readable
from lance_ops.table.manifest.file.read import read_latest, read_manifest
from lance_ops.table.manifest.file.summary import ManifestSummary, read_summary
from lance_ops.table.manifest.fragments.fragment_list import FragmentTuple
from lance_ops.table.manifest.listing import ManifestLocation, latest, locate
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.readable import Readable
from lance_ops.table.scan.pruner import Pruner
from lance_ops.table.side_sizes import with_side_sizes
from lance_ops.table.transaction.transaction import Transaction, read_transaction

if TYPE_CHECKING:
    from lance_ops.table.arrow_dataset import ArrowDataset


class Dataset(Readable):
    """An immutable snapshot of a dataset. It may be pickled; the copy reads the manifest again.

    Args:
        store: Root of the dataset, or of one of its branches.
        location: Where the manifest lies.
        manifest: The manifest.
        storage_options: For opening other stores that the dataset refers to.
        root: Main root of the dataset, when `store` is a branch and the root is known.
        pruners: Prune filtered scans unless a call passes others; the indices of the dataset when None.

    Raises:
        UnsupportedFeatureError: The manifest needs a feature that is not implemented.
        CorruptManifestError: Its feature flags are inconsistent.
    """

    def __init__(
        self,
        store: Store,
        location: ManifestLocation,
        manifest: Manifest,
        *,
        storage_options: Mapping[str, str] | None = None,
        root: Store | None = None,
        pruners: Sequence[Pruner] | None = None,
    ) -> None:
        check_readable(manifest, path=f"{store.uri}/{location.path}")
        super().__init__(store, manifest, storage_options, pruners)
        self.location = location
        self._root = root

    @classmethod
    def open(
        cls,
        uri_or_store: str | os.PathLike[str] | Store,
        version: VersionSpec | None = None,
        storage_options: Mapping[str, str] | None = None,
        *,
        asof: datetime | str | None = None,
        pruners: Sequence[Pruner] | None = None,
    ) -> "Dataset":
        """Open a dataset.

        Args:
            uri_or_store: Path, URI, or a store bound to the root.
            version: A version number, a tag, or (branch, version); the newest when None.
            storage_options: For the store.
            asof: The newest version made by then, in place of `version`; a timestamp without a time zone is
                local time, a string is ISO 8601.
            pruners: Prune filtered scans unless a call passes others; the indices of the dataset when None.

        Raises:
            DatasetNotFoundError: There is no dataset.
            VersionNotFoundError: There is no such version, tag or branch, or none that old.
            InvalidArgumentError: Both `version` and `asof`, or an invalid timestamp.
            CorruptManifestError: The manifest is damaged.
            UnsupportedFeatureError: The dataset needs a feature that is not implemented.
        """
        if is_store(uri_or_store):
            store = uri_or_store
        else:
            store = open_store(cast("str | os.PathLike[str]", uri_or_store), storage_options)
        root = main_root(store, storage_options) if isinstance(version, str | tuple) else None
        if asof is not None:
            if version is not None:
                raise InvalidArgumentError("give either version or asof, not both", field="asof")
            location = find_version_as_of(store, asof)
            manifest = read_manifest(store, location)
        elif version is None:
            location, manifest = read_latest(store)
        else:
            store, location = find_version(store, root or store, version)
            manifest = read_manifest(store, location)
        return cls(store, location, manifest, storage_options=storage_options, root=root, pruners=pruners)

    def __reduce__(self) -> tuple[object, ...]:
        return (_reopen, (self.store, self.location, self.storage_options, self._root, self._pruners))

    def __repr__(self) -> str:
        return f"Dataset({self.uri!r}, version={self.version})"

    # What it is

    @cached_property
    def root(self) -> Store:
        """Main root of the dataset: the store itself, except on a branch."""
        return self._root or root_of_branch(self.store, self.branch, self.storage_options)

    @property
    def tags(self) -> dict[str, Tag]:
        """Return the tags of the dataset by name, read on each access."""
        return list_tags(self.root)

    @property
    def branches(self) -> dict[str, Branch]:
        """Return the branches of the dataset by name, read on each access."""
        return list_branches(self.root)

    @cached_property
    def data_version(self) -> str:
        """Return 32 hexadecimal digits that change when rows or columns change, but not with the layout."""
        return data_version(self.store, self.manifest)

    def with_side_sizes(self) -> "Dataset":
        """Return this version with the sizes of blob side files in its fragments; itself when there are none.

        Manifests do not record these sizes: the folders of the data files are listed, once for this object.
        """
        return self._with_side_sizes

    @cached_property
    def _with_side_sizes(self) -> "Dataset":
        fragments = with_side_sizes(self.bases, self.lance_schema, self.fragments)
        if fragments is self.fragments:
            return self
        return Dataset(
            self.store,
            self.location,
            self.counted_manifest.replace(fragments=FragmentTuple(fragments)),
            storage_options=self.storage_options,
            root=self._root,
            pruners=self._pruners,
        )

    # Versions

    def checkout_version(self, version: VersionSpec) -> "Dataset":
        """Return the dataset at another version: a number on this branch, a tag, or (branch, version).

        Raises:
            VersionNotFoundError: There is no such version, tag or branch.
        """
        root = self.root if isinstance(version, str | tuple) else self._root
        return self._at(*find_version(self.store, root or self.store, version), root)

    def latest(self) -> "Dataset":
        """Return the newest version of this branch; itself if it is the newest."""
        location, manifest = read_latest(self.store, self.manifest)
        if manifest is self.manifest:
            self.location = location
            return self
        return Dataset(
            self.store,
            location,
            manifest,
            storage_options=self.storage_options,
            root=self._root,
            pruners=self._pruners,
        )

    def is_stale(self) -> bool:
        """Return whether there is a newer version."""
        return latest(self.store).version != self.version

    def versions(self) -> list[VersionInfo]:
        """List all versions of this branch, oldest first; damaged ones have a reason in `damage`."""
        return read_versions(self.store)

    def to_pyarrow_dataset(self) -> "ArrowDataset":
        """Return this version as a pyarrow dataset, for DuckDB, Polars and others with pushdown."""
        # Loading pyarrow.dataset is slow: callers that only read need not wait for it.
        from lance_ops.table.arrow_dataset import ArrowDataset

        return ArrowDataset(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows of this version by the Arrow C stream interface, one batch at a time."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Return the newest commits, newest first; damaged versions have a reason in `damage`.

        Args:
            limit: Maximum number; all when None.
        """
        return read_history(self.store, limit, has_blobs=has_blob_v2(self.lance_schema))

    def detached_versions(self) -> list[VersionInfo]:
        """List versions outside of the history, oldest first; `commit` with `detached` makes them."""
        return read_detached(self.store)

    def changes(
        self,
        since: VersionSpec,
        until: VersionSpec | None = None,
        columns: Sequence[str] | None = None,
        *,
        with_row_id: bool = False,
        change_types: Collection[str] | None = None,
    ) -> pa.RecordBatchReader:
        """Read the rows that were inserted, updated and deleted between two versions of this branch.

        Args:
            since: The older version: a number, a tag, or (branch, version).
            until: The newer one; this one when None.
            columns: Top-level columns of the newer version; all when None.
            with_row_id: Add the column `_rowid`.
            change_types: Values of `_change_type` to return; all when None. Other kinds are not read:
                "insert" and "update_postimage" alone need no old values.

        Returns:
            The columns with `_change_type` ("delete", "update_preimage", "update_postimage" or "insert") and
            `_commit_version`, see `read_changes`. The difference of the two versions, not of each commit: a
            row inserted and deleted between them is not in it. Without stable row ids an update is a deletion
            and an insertion.

        Raises:
            VersionNotFoundError: There is no such version, or it was removed.
            InvalidArgumentError: `since` is the newer one, or of another branch; or a column or change type
                does not exist.
            UnsupportedError: A compaction moved rows without stable ids, or values were replaced in place.
        """
        old, new, found = self.find_changes(since, until)
        return read_changes(old, new, found, columns, with_row_id=with_row_id, change_types=change_types)

    def find_changes(
        self, since: VersionSpec, until: VersionSpec | None = None
    ) -> tuple["Dataset", "Dataset", Changes]:
        """Find the rows of `changes`: the older version, the newer one, and addresses of rows in both.

        Reads manifests and deletion files, no values.
        """
        old = self.checkout_version(since)
        new = self if until is None else self.checkout_version(until)
        if (old.uri, old.branch) != (new.uri, new.branch) or old.version > new.version:
            raise InvalidArgumentError(
                f"version {old.version} of {old.branch or 'main'} is not before version {new.version} "
                f"of {new.branch or 'main'}",
                path=self.uri,
                field="since",
                hint="give the older version first",
            )
        return old, new, find_changes(old, new, lambda version: new.read_transaction(version).operation)

    def read_transaction(self, version: int | None = None) -> Transaction:
        """Return the transaction that made a version.

        Args:
            version: A version of this branch; this one when None.

        Raises:
            VersionNotFoundError: There is no such version.
            NotFoundError: Its transaction was not recorded, or its file was removed.
            CorruptManifestError: The transaction is damaged.
        """
        manifest: Manifest | ManifestSummary = self.manifest
        if version is not None and version != self.version:
            manifest = read_summary(self.store, locate(self.store, version))
        transaction = read_transaction(self.store, manifest)
        if transaction is None:
            raise NotFoundError(f"version {manifest.version} records no transaction", path=self.uri)
        return transaction

    def _at(self, store: Store, location: ManifestLocation, root: Store | None) -> "Dataset":
        return _reopen(store, location, self.storage_options, root, self._pruners)


class DatasetHandle(ABC):
    """An object that stands for a version of a dataset, and may move to a newer one: `lance_ops.Dataset`."""

    __slots__ = ()

    @abstractmethod
    def snapshot(self) -> Dataset:
        """Return the version that it stands for now."""


Target = str | os.PathLike[str] | Store | Dataset | DatasetHandle
"""What public functions take as `uri_or_dataset`: a URI or path, a store bound to it, or a `Dataset`.

Functions that change rows or files act on the newest version, which a `Dataset` stands for. Those that read,
tags, and changes of metadata alone take a `Dataset` as the version that the caller looked at.
"""


def snapshot_of(value: object) -> Dataset | None:
    """Return the version that a dataset argument stands for; None for a URI, path or store."""
    return (
        value.snapshot()
        if isinstance(value, DatasetHandle)
        else value
        if isinstance(value, Dataset)
        else None
    )


def open_dataset(uri_or_dataset: Target, storage_options: Mapping[str, str] | None = None) -> Dataset:
    """Return the dataset itself, or the newest version at a URI, path or store.

    Raises:
        DatasetNotFoundError: There is none.
        InvalidArgumentError: It is none of these.
    """
    given = snapshot_of(uri_or_dataset)
    if given is not None:
        return given
    if not is_store(uri_or_dataset):
        check_type(uri_or_dataset, (str, os.PathLike), "a URI, path or dataset", field="uri_or_dataset")
    return Dataset.open(
        cast("str | os.PathLike[str] | Store", uri_or_dataset), storage_options=storage_options
    )


def _reopen(
    store: Store,
    location: ManifestLocation,
    storage_options: Mapping[str, str],
    root: Store | None,
    pruners: Sequence[Pruner] | None,
) -> Dataset:
    return Dataset(
        store,
        location,
        read_manifest(store, location),
        storage_options=storage_options,
        root=root,
        pruners=pruners,
    )
