"""Target: dataset argument of the public API."""

import os
from collections.abc import Mapping
from typing import cast

from lance_ops.errors import DatasetNotFoundError, InvalidArgumentError, UnsupportedError, check_type
from lance_ops.file.schema.blob_fields import VERSIONS_WITH_OLD_BLOBS, is_old_blob
from lance_ops.storage import Store, is_store, open_store
from lance_ops.table.commit.head import check_age, check_no_staged
from lance_ops.table.dataset import Dataset, snapshot_of
from lance_ops.table.dataset import Target as Target
from lance_ops.table.manifest.feature_flags import check_writable, uses_tagged_reuse


def open_latest(target: Target, storage_options: Mapping[str, str] | None = None) -> Dataset:
    """Open the newest version of a dataset to change.

    Raises:
        DatasetNotFoundError: there is none.
        LanceOpsError: See `check_changeable`.
    """
    dataset = _open(target, storage_options)
    check_changeable(dataset)
    return dataset


def open_latest_if_any(target: Target, storage_options: Mapping[str, str] | None = None) -> Dataset | None:
    """Open the newest version of a dataset, which may be unchangeable; None without a dataset."""
    try:
        return _open(target, storage_options)
    except DatasetNotFoundError:
        return None


def open_target(
    target: Target, storage_options: Mapping[str, str] | None = None
) -> tuple[Store, Dataset | None]:
    """Return the store of a target, and the newest version; None without a dataset."""
    given = snapshot_of(target)
    if given is not None:
        return given.store, open_latest_if_any(given, storage_options)
    store = store_of(target, storage_options)
    return store, open_latest_if_any(store, storage_options)


def check_changeable(dataset: Dataset) -> None:
    """Check that a version can be changed, before any work is done.

    Raises:
        UnsupportedFeatureError: It uses unsupported features.
        UnsupportedError: It is too old, see `check_age`, or a later version is staged; or its fragment reuse
            index has row moves of a newer kind.
    """
    path = f"{dataset.uri}/{dataset.location.path}"
    check_writable(dataset.manifest, path=path)
    check_age(dataset.manifest, path=path)
    if uses_tagged_reuse(dataset.manifest):
        reuse = dataset.fragment_reuse
        if reuse is not None and isinstance(reuse.problem, UnsupportedError):
            raise reuse.problem
    check_no_staged(dataset.location.staged, dataset.version, dataset.uri)


def _open(target: Target, storage_options: Mapping[str, str] | None) -> Dataset:
    given = snapshot_of(target)
    if given is not None:
        return given.latest()
    return Dataset.open(cast("str | os.PathLike[str] | Store", target), storage_options=storage_options)


def store_of(target: Target, storage_options: Mapping[str, str] | None = None) -> Store:
    """Return the store of a target that may have no dataset yet."""
    given = snapshot_of(target)
    if given is not None:
        return given.store
    if is_store(target):
        return target
    check_type(target, (str, os.PathLike), "a URI, path, dataset or store", field="uri")
    return open_store(os.fspath(cast("str | os.PathLike[str]", target)), storage_options)


def check_side_by_side(dataset: Dataset, version: str) -> None:
    """Check that new data files may have another storage version than the dataset's own.

    Raises:
        InvalidArgumentError: One of them is 0.1, or the dataset has blobs of the old kind and the version
            only those of 2.2.
    """
    own = dataset.data_storage_version
    blobs = version not in VERSIONS_WITH_OLD_BLOBS and any(map(is_old_blob, dataset.lance_schema.walk()))
    if version != own and (blobs or "0.1" in (own, version)):
        why = (
            "its blob columns are of a kind supported up to 2.1"
            if blobs
            else ("0.1 cannot be mixed with other versions")
        )
        raise InvalidArgumentError(
            f"data files of version {version} cannot be added to a dataset of version {own}: {why}",
            path=dataset.uri,
            field="data_storage_version",
            hint="copy the rows into a new dataset",
        )
