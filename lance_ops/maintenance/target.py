"""What the functions of the public API take for a dataset."""

import os
from collections.abc import Mapping

from lance_ops.errors import DatasetNotFoundError
from lance_ops.storage import Store, open_store
from lance_ops.table.dataset import Dataset

Target = str | os.PathLike[str] | Store | Dataset
"""A URI or path, a store bound to it, or a `Dataset`, which stands for its head: operations act on heads."""


def open_latest(target: Target, storage_options: Mapping[str, str] | None = None) -> Dataset:
    """The newest version of a dataset.

    Raises:
        DatasetNotFoundError: there is none.
    """
    if isinstance(target, Dataset):
        return target.latest()
    return Dataset.open(target, storage_options=storage_options)


def open_latest_if_any(target: Target, storage_options: Mapping[str, str] | None = None) -> Dataset | None:
    """The newest version of a dataset; None when there is none."""
    try:
        return open_latest(target, storage_options)
    except DatasetNotFoundError:
        return None


def store_of(target: Target, storage_options: Mapping[str, str] | None = None) -> Store:
    """The store at a target that may hold no dataset yet."""
    if isinstance(target, Dataset):
        return target.store
    if isinstance(target, Store):
        return target
    return open_store(os.fspath(target), storage_options)
