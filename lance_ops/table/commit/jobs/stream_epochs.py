"""Stream epochs: a streaming query commits each epoch once, and only to the dataset of its earlier epochs.

An epoch is a job whose key consists of the query and the epoch number, so it is found in the lineage like
every job. The note of the query (`stream_notes`) proves that the dataset has the earlier epochs. Without it
(the dataset was created again, the checkpoint was reset or replaced) an epoch that is not found may be new or
lost, which is an error.
"""

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_ops.errors import FileMissingError, JobUnprovenError, StreamUnprovenError
from lance_ops.storage import Store
from lance_ops.table.commit.jobs.job_keys import find_job
from lance_ops.table.commit.jobs.stream_notes import (
    EpochNote,
    checkpoint_digest,
    list_epoch_notes,
    put_epoch_note,
    query_digest,
    stream_key,
)
from lance_ops.table.transaction.transaction import job_uuid_prefix

if TYPE_CHECKING:
    from lance_ops.table.dataset import Dataset

QUERY_ID = "lance.streaming.queryId"
"""Transaction property: the query that committed it. Other implementations use the same name."""

EPOCH_ID = "lance.streaming.epochId"
"""Transaction property: number of the epoch."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of a streaming query.

    Attributes:
        query_id: Stable across restarts.
        number: Counts from 0.
        checkpoint_id: Id of the query in its checkpoint; it changes with a new checkpoint.
    """

    query_id: str
    number: int
    checkpoint_id: str

    @property
    def job_key(self) -> str:
        """Key of the job that its commit is."""
        return stream_key(self.query_id, self.number)

    @property
    def properties(self) -> dict[str, str]:
        """Properties of its transaction."""
        return {QUERY_ID: self.query_id, EPOCH_ID: str(self.number)}

    def __str__(self) -> str:
        return f"epoch {self.number} of query {self.query_id}"


def is_due(dataset: "Dataset | None", epoch: Epoch, *, first: int = 0) -> bool:
    """Return whether an epoch has to be committed: it is not committed yet, and it belongs to this dataset.

    Args:
        dataset: The newest version; None when there is no dataset.
        epoch: The epoch to commit.
        first: Number of the first epoch for this dataset; earlier ones are skipped.

    Raises:
        StreamUnprovenError: It is unknown whether this epoch, or earlier ones, went into this dataset.
    """
    if epoch.number < first:
        return False
    if dataset is None:
        if epoch.number > first:
            raise _unproven(epoch, "there is no dataset, and its earlier epochs cannot be replayed", None)
        return True
    last = _last_note(dataset.store, epoch)
    if last is not None:
        _check_same(last, epoch, dataset)
    if _is_done(dataset, epoch.number, epoch):
        return False
    if last is not None and last.epoch > epoch.number:
        raise _unproven(
            epoch, f"the dataset already has epoch {last.epoch}: the checkpoint was reset", dataset
        )
    if last is None and epoch.number > first and not _is_done(dataset, epoch.number - 1, epoch):
        raise _unproven(
            epoch,
            "the dataset has no earlier epoch of this query: it was created again, or the query wrote "
            "to another dataset",
            dataset,
        )
    return True


def _is_done(dataset: "Dataset", number: int, epoch: Epoch) -> bool:
    try:
        return find_job(dataset, stream_key(epoch.query_id, number), is_head=True) is not None
    except JobUnprovenError as error:
        raise _unproven(epoch, error.message, dataset) from error


def note_epoch(store: Store, epoch: Epoch, version: int) -> None:
    """Record that an epoch is about to be committed, or had no rows; call it when the epoch `is_due`.

    Args:
        store: Root of the dataset.
        epoch: The epoch.
        version: The newest version; 0 when there is no dataset yet.
    """
    notes = list_epoch_notes(store, query_digest(epoch.query_id))
    if notes and notes[0].epoch == epoch.number:
        return
    note = EpochNote(
        query_digest(epoch.query_id),
        epoch.number,
        job_uuid_prefix(epoch.job_key),
        checkpoint_digest(epoch.checkpoint_id),
        version,
    )
    put_epoch_note(store, note)


def forget_past_epochs(store: Store, epoch: Epoch) -> None:
    """Remove the notes of epochs before one that is committed or had no rows."""
    for note in list_epoch_notes(store, query_digest(epoch.query_id)):
        if note.epoch < epoch.number:
            with contextlib.suppress(FileMissingError):
                store.delete(note.path)


def _last_note(store: Store, epoch: Epoch) -> EpochNote | None:
    return next(iter(list_epoch_notes(store, query_digest(epoch.query_id))), None)


def _check_same(last: EpochNote, epoch: Epoch, dataset: "Dataset") -> None:
    if last.checkpoint != checkpoint_digest(epoch.checkpoint_id):
        raise _unproven(
            epoch, f"epoch {last.epoch} of a query of this id came from another checkpoint", dataset
        )
    if last.version > dataset.version:
        raise _unproven(
            epoch,
            f"epoch {last.epoch} was written at version {last.version}, but the newest version is "
            f"{dataset.version}: the dataset was created again",
            dataset,
        )


def _unproven(epoch: Epoch, why: str, dataset: "Dataset | None") -> StreamUnprovenError:
    return StreamUnprovenError(
        f"it is unknown whether {epoch} is committed: {why}; nothing was written",
        path=None if dataset is None else dataset.uri,
        field="queryId",
        hint="check whether its rows are in the table; then continue with another queryId and "
        f"firstEpoch={epoch.number} to write it or {epoch.number + 1} to skip it; or start with a "
        "new checkpoint",
    )
