"""Job record: where job keys outlive their versions, in notes of single commits and segments of many.

A keyed commit leaves two empty files whose names say everything: that it is about to be tried, before the
manifest is stored, and which version it made, afterwards. Whoever removes versions or has read many of them
gathers notes into a segment, a sorted file of records of one size. Every file is written once; it is removed
only when another one that holds all it said is durable. So writers need not exclude each other, a crash
leaves what it found or a little more, and a copy of the folder of the dataset has the record too. Other
implementations pass these files over.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import takewhile

from lance_ops.storage import ObjectInfo, Store

DIRECTORY = "_lance_ops/job_keys"
NOTES = f"{DIRECTORY}/notes"
SEGMENTS = f"{DIRECTORY}/segments"

_NOTE = re.compile(
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.([0-9]{1,20})\.([0-9a-f]{16})"
    r"(?:\.([0-9]{1,20})\.([0-9]{1,18}))?"
)
# The third group begins with the 8 of a job; for some keys it is the second one, and a 4 follows, which by
# chance is also so for some transactions without job key.
_KEYED_FILE = re.compile(
    r"([0-9]{1,20})-([0-9a-f]{8}-(?:[0-9a-f]{4}-8[0-9a-f]{3}|8[0-9a-f]{3}-4[0-9a-f]{3})-[0-9a-f]{4}-[0-9a-f]{12})\.txn"
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class JobNote:
    """One attempt of a job, or the commit that it ended in.

    Attributes:
        uuid: Of the transaction; it begins with what its job key gives it.
        read_version: Version that the transaction was worked out on.
        evidence: Stands for one of the files that the transaction brought; 0 when it brought none.
        version: Version that it made; 0 while that is not known.
        moment: When; UTC. Of an attempt: when it was noted.
    """

    uuid: str
    read_version: int
    evidence: int = 0
    version: int = 0
    moment: datetime = EPOCH

    @property
    def path(self) -> str:
        """File of the note, relative to the root of the dataset."""
        name = f"{self.uuid}.{self.read_version}.{self.evidence:016x}"
        if self.version:
            name += f".{self.version}.{micros_of(self.moment)}"
        # All in one folder: making and removing others would cost more than to look through this one.
        return f"{NOTES}/{name}"


def evidence_of(files: Iterable[str]) -> int:
    """A number for one of some files, as a note keeps it; 0 for none."""
    # Data files last longer than deletion files.
    first = min(files, key=lambda path: (not path.startswith("data/"), path), default=None)
    return 0 if first is None else file_mark(first)


def file_mark(path: str) -> int:
    """A number for a file of the dataset, never 0."""
    return int.from_bytes(blake2b(path.encode(), digest_size=8).digest(), "big") or 1


def list_record(store: Store) -> list[str]:
    """Paths of all notes and segments."""
    return [info.path for info in store.list(DIRECTORY)]


def put_note(store: Store, note: JobNote) -> None:
    """Write a note, which outlives a power cut as soon as the next manifest does."""
    store.put(note.path, b"", durable="later")


def list_notes(store: Store, prefix: str = "") -> list[JobNote]:
    """Notes that are in no segment yet.

    Args:
        store: Root of the dataset.
        prefix: What the UUIDs begin with; the first two characters narrow what the store has to look at.
    """
    # Earlier releases put those of two characters in a folder of that name, which lies in the same range.
    lead = f"{NOTES}/{prefix[:2]}"
    infos = store.list(NOTES, start_after=lead if len(prefix) >= 2 else None)
    found = map(_parse_note, takewhile(lambda info: info.path.startswith(lead), infos))
    return [note for note in found if note is not None and note.uuid.startswith(prefix)]


def _parse_note(info: ObjectInfo) -> JobNote | None:
    match = _NOTE.fullmatch(info.path.rpartition("/")[2])
    if match is None:
        return None
    name, read_version, evidence, version, micros = match.groups()
    note = JobNote(name, int(read_version), int(evidence, 16), moment=info.modified)
    return note if version is None else replace(note, version=int(version), moment=moment_of(int(micros)))


def note_of_file(name: str, moment: datetime) -> JobNote | None:
    """An attempt as the name of its transaction file tells it; None for one that certainly has no job key."""
    match = _KEYED_FILE.fullmatch(name)
    return None if match is None else JobNote(match[2], int(match[1]), moment=moment)


def is_of_job(uuid: str) -> bool:
    """Whether a transaction has a job key for certain; some that have one do not show it."""
    return uuid[14:15] == "8"


def prune(notes: Iterable[JobNote], keep: timedelta, limit: int, now: datetime) -> list[JobNote]:
    """Notes that are young enough, and not more than the newest so many."""
    young = [note for note in notes if now - note.moment <= keep]
    return sorted(young, key=lambda note: note.moment, reverse=True)[:limit]


def micros_of(moment: datetime) -> int:
    """Microseconds since 1970, as notes and segments keep a moment."""
    return max(0, (moment - EPOCH) // timedelta(microseconds=1))


def moment_of(micros: int) -> datetime:
    """The moment of some microseconds; UTC."""
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
