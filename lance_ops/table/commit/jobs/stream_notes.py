"""Stream notes: the last epoch of each streaming query of a dataset.

One empty file per query, whose name holds all values. It is written before the epoch is committed, and the
note of the previous epoch is removed afterwards. The record of job keys has the last epoch of each query.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b

from lance_ops.storage import Store

DIRECTORY = "_lance_ops/streams"

_KEY = "lance_ops.stream:"
_NOTE = re.compile(
    r"([0-9a-f]{32})\.([0-9]{1,20})\.([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-)\.([0-9a-f]{16})\.([0-9]{1,20})"
)


@dataclass(frozen=True, slots=True)
class EpochNote:
    """An epoch that was about to be committed, or was.

    Attributes:
        query: Digest of the query's id.
        epoch: Number of the epoch.
        job: Beginning of the UUIDs of its transactions.
        checkpoint: Digest of the checkpoint that the query ran from.
        version: Newest version of the dataset then.
    """

    query: str
    epoch: int
    job: str
    checkpoint: str
    version: int

    @property
    def path(self) -> str:
        """Path of the note, relative to the root of the dataset."""
        return f"{DIRECTORY}/{self.query}.{self.epoch}.{self.job}.{self.checkpoint}.{self.version}"


def stream_key(query_id: str, epoch: int) -> str:
    """Return the job key of an epoch."""
    return f"{_KEY}{query_id}:{epoch}"


def stream_of(job_key: str) -> str:
    """Return the digest of the query of a job's epoch; empty for other jobs."""
    query, _, _ = job_key.removeprefix(_KEY).rpartition(":")
    return blake2b(query.encode(), digest_size=8).hexdigest() if job_key.startswith(_KEY) else ""


def query_digest(query_id: str) -> str:
    """Return the digest of a query id, as used in names of notes."""
    return blake2b(query_id.encode(), digest_size=16).hexdigest()


def checkpoint_digest(checkpoint_id: str) -> str:
    """Return the digest of a checkpoint id, as used in names of notes."""
    return blake2b(checkpoint_id.encode(), digest_size=8).hexdigest()


def list_epoch_notes(store: Store, query: str = "") -> list[EpochNote]:
    """List notes of a query, newest epoch first; of all queries if None.

    Args:
        store: Root of the dataset.
        query: See `query_digest`.
    """
    matches = (_NOTE.fullmatch(info.path.rpartition("/")[2]) for info in store.list(DIRECTORY))
    notes = [
        EpochNote(match[1], int(match[2]), match[3], match[4], int(match[5]))
        for match in matches
        if match is not None and match[1].startswith(query)
    ]
    return sorted(notes, key=lambda note: (note.epoch, note.version), reverse=True)


def put_epoch_note(store: Store, note: EpochNote) -> None:
    """Write a note."""
    # Durable immediately: an epoch without rows commits no manifest that could flush it later.
    store.put(note.path, b"", durable="now")
