"""What the functions of the public API take for a dataset."""

from collections.abc import Mapping
from pathlib import Path

from lance_ops.errors import DatasetNotFoundError
from lance_ops.table.dataset import Dataset

Target = str | Path | Dataset
"""A URI, a path, or a `Dataset`, which stands for the head of its branch: operations act on the head."""


def open_latest(target: Target, storage_options: Mapping[str, str] | None = None) -> Dataset:
    """The newest version of a dataset.

    Raises:
        DatasetNotFoundError: there is none.
    """
    if isinstance(target, Dataset):
        return target.latest()
    return Dataset.open(str(target), storage_options=storage_options)


def open_latest_if_any(target: Target, storage_options: Mapping[str, str] | None = None) -> Dataset | None:
    """The newest version of a dataset; None when there is none."""
    try:
        return open_latest(target, storage_options)
    except DatasetNotFoundError:
        return None
