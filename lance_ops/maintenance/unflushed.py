"""Unflushed: a dataset as tasks in this process see it, whose files the commit that names them flushes."""

from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.storage.flushed_later import flushed_later
from lance_ops.table.commit.committer import Committer
from lance_ops.table.dataset import Dataset
from lance_ops.table.snapshot import Snapshot


def unflushed(dataset: Dataset, runner: Runner, committer: Committer | None) -> Dataset:
    """The dataset, whose files may wait for the commit where it is made through the same store.

    Args:
        dataset: The version that files are written beside.
        runner: Who writes them.
        committer: Who commits them, if that is not the store.
    """
    here = committer is None and isinstance(runner, LocalRunner)
    return UnflushedDataset(dataset) if here else dataset


class UnflushedDataset(Dataset):
    """A dataset whose store does not wait for the disk. Pickled, it is the dataset itself.

    Args:
        dataset: The dataset.
    """

    def __init__(self, dataset: Dataset) -> None:
        # Everything else is that of the dataset, what it has read already included.
        self.__dict__.update(dataset.__dict__)
        self.__dict__["store"] = flushed_later(dataset.store)
        self._dataset = dataset

    def __reduce__(self) -> tuple[object, ...]:
        return self._dataset.__reduce__()

    @property
    def origin(self) -> Snapshot:
        """See `Snapshot.origin`: the dataset, which knows what was opened."""
        return self._dataset.origin
