"""Job segments: sorted files of many notes of the job record, found by where a key should lie."""

import json
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lance_ops.errors import CorruptFileError, FileMissingError
from lance_ops.storage import Durability, Store
from lance_ops.table.commit.jobs.job_record import EPOCH, SEGMENTS, JobNote, micros_of, moment_of

_SEGMENT = re.compile(r"[0-9a-f]{32}-([0-9]{1,9})-([0-9]{1,20})\.keys")
_RECORD = np.dtype(
    [
        ("job", ">u8"),
        ("rest", ">u8"),
        ("read_version", "<u8"),
        ("version", "<u8"),
        ("micros", "<i8"),
        ("evidence", "<u8"),
    ]
)


_MAGIC = b"LOJK"
_FOOTER = 16


# UUIDs are spread evenly, so a record lies within some roots of the number of records of where it should.
_WINDOW = 6
_READ_WHOLE = 4096
_LOOKS = 5
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Lineage:
    """What is known of versions, whether they are still there or not.

    Attributes:
        known: Closed ranges of versions whose restores and keyed commits are all recorded, in order.
        restores: Version that each restore among them brought back, by the version that it made.
        anchor: The newest version that was there when this was written.
        anchor_file: Its transaction file, which says whether the dataset is still the same.
    """

    known: tuple[tuple[int, int], ...] = ()
    restores: Mapping[int, int] = field(default_factory=dict)
    anchor: int = 0
    anchor_file: str = ""

    def knows(self, version: int) -> bool:
        """Whether a version is known."""
        return any(low <= version <= high for low, high in self.known)

    def join(self, other: "Lineage") -> "Lineage":
        """What two know together."""
        newer = self if self.anchor >= other.anchor else other
        return Lineage(
            merge_ranges([*self.known, *other.known]),
            {**self.restores, **other.restores},
            newer.anchor,
            newer.anchor_file,
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of many notes.

    Attributes:
        path: Relative to the root of the dataset.
        size: Bytes.
        count: How many notes it holds.
        anchor: The newest version that was there when it was written.
        modified: When it was written; UTC.
    """

    path: str
    size: int
    count: int
    anchor: int = 0
    modified: datetime = field(default=EPOCH, compare=False)


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Closed ranges of whole numbers, put together where they meet."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def is_segment(path: str) -> bool:
    """Whether a file of the record is a segment."""
    return path.startswith(f"{SEGMENTS}/") and _SEGMENT.fullmatch(path.rpartition("/")[2]) is not None


def list_segments(store: Store) -> list[Segment]:
    """All segments: one as a rule, some more while writers gather at once."""
    found = []
    for info in store.list(SEGMENTS):
        match = _SEGMENT.fullmatch(info.path.rpartition("/")[2])
        if match is not None:
            found.append(Segment(info.path, info.size, int(match[1]), int(match[2]), info.modified))
    return found


def find_in_segments(store: Store, prefix: str) -> tuple[list[JobNote], list[Segment]]:
    """Notes of one job that were gathered.

    Args:
        store: Root of the dataset.
        prefix: Of the UUIDs of its transactions, 18 characters.

    Returns:
        The notes, and all segments.

    Raises:
        CorruptFileError: A segment is damaged.
    """
    job = int(prefix.replace("-", ""), 16)

    def look() -> tuple[list[JobNote], list[Segment]]:
        segments = list_segments(store)
        return [note for segment in segments for note in _find(store, segment, job)], segments

    return _again_when_gathered(look)


def read_segments(store: Store) -> tuple[list[Segment], list[JobNote], Lineage]:
    """Everything that was gathered; damaged segments are left where they are, for look-ups to name."""

    def look() -> tuple[list[Segment], list[JobNote], Lineage]:
        sound: list[Segment] = []
        notes: list[JobNote] = []
        lineage = Lineage()
        for segment in list_segments(store):
            try:
                more, known = _read(store, segment)
            except CorruptFileError:
                continue
            sound.append(segment)
            notes += more
            lineage = lineage.join(known)
        return sound, notes, lineage

    return _again_when_gathered(look)


def read_lineage(store: Store) -> Lineage:
    """What the segments know of versions.

    Raises:
        CorruptFileError: A segment is damaged.
    """

    def look() -> Lineage:
        lineage = Lineage()
        for segment in list_segments(store):
            lineage = lineage.join(_read(store, segment)[1])
        return lineage

    return _again_when_gathered(look)


def begin_segments(store: Store, notes: Iterable[JobNote]) -> Segment:
    """Write the first segment, with what is known from before there was one.

    When it has notes it is durable at once, for it may not be torn. One without is only worth its name, and
    outlives a power cut as soon as the next manifest does.
    """
    kept = list(notes)
    return write_segment(store, kept, Lineage(), durable="now" if kept else "later")


def write_segment(
    store: Store, notes: Iterable[JobNote], lineage: Lineage, *, durable: Durability = "now"
) -> Segment:
    """Write a segment."""
    ordered = sorted(set(notes), key=lambda note: (note.uuid, note.version))
    records = np.zeros(len(ordered), _RECORD)
    for place, note in enumerate(ordered):
        digits = note.uuid.replace("-", "")
        records[place] = (
            int(digits[:16], 16),
            int(digits[16:], 16),
            note.read_version,
            note.version,
            micros_of(note.moment),
            note.evidence,
        )
    body = (
        records.tobytes()
        + json.dumps(
            {
                "known": lineage.known,
                "restores": sorted(lineage.restores.items()),
                "anchor": [lineage.anchor, lineage.anchor_file],
            }
        ).encode()
    )
    path = f"{SEGMENTS}/{uuid.uuid4().hex}-{len(ordered)}-{lineage.anchor}.keys"
    store.put(path, body + _footer(body), durable=durable)
    return Segment(path, len(body) + _FOOTER, len(ordered), lineage.anchor)


def _footer(body: bytes) -> bytes:
    return _MAGIC + (1).to_bytes(4, "little") + zlib.crc32(body).to_bytes(8, "little")


def _again_when_gathered(look: Callable[[], _T]) -> _T:
    for attempt in range(_LOOKS):
        try:
            return look()
        except FileMissingError:
            # Somebody put it into another segment since the listing.
            if attempt == _LOOKS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _find(store: Store, segment: Segment, job: int) -> Iterator[JobNote]:
    size = _RECORD.itemsize
    low, high = 0, segment.count
    if segment.count > _READ_WHOLE:
        place = job * segment.count >> 64
        reach = _WINDOW * int(segment.count**0.5) + 64
        low, high = max(0, place - reach), min(segment.count, place + reach)
    if low == high:
        return
    records = _records(store.read(segment.path, low * size, (high - low) * size))
    jobs = records["job"]
    if (low > 0 and jobs[0] >= job) or (high < segment.count and jobs[-1] <= job):
        # An uneven spread: look at everything.
        records = _records(store.read(segment.path, 0, segment.count * size))
        jobs = records["job"]
    if np.any(jobs[1:] < jobs[:-1]):
        raise _damaged(store, segment)
    yield from map(_note, records[jobs == np.uint64(job)])


def _read(store: Store, segment: Segment) -> tuple[list[JobNote], Lineage]:
    data = bytes(memoryview(store.read(segment.path)))
    body, footer = data[:-_FOOTER], data[-_FOOTER:]
    split = segment.count * _RECORD.itemsize
    if len(body) < split or footer != _footer(body):
        if not segment.count:
            # Torn by a power cut. No key is lost; to know less of versions leads to no wrong answer.
            return [], Lineage()
        raise _damaged(store, segment)
    notes = [_note(record) for record in _records(body[:split])]
    try:
        said = json.loads(body[split:])
        anchor, anchor_file = said["anchor"]
        lineage = Lineage(
            tuple((int(low), int(high)) for low, high in said["known"]),
            {int(version): int(target) for version, target in said["restores"]},
            int(anchor),
            str(anchor_file),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(store, segment) from error
    return notes, lineage


def _records(data: Any) -> npt.NDArray[Any]:
    return np.frombuffer(data, _RECORD)


def _note(record: Any) -> JobNote:
    name = str(uuid.UUID(int=(int(record["job"]) << 64) | int(record["rest"])))
    return JobNote(
        name,
        int(record["read_version"]),
        int(record["evidence"]),
        int(record["version"]),
        moment_of(int(record["micros"])),
    )


def _damaged(store: Store, segment: Segment) -> CorruptFileError:
    return CorruptFileError(
        "the record of job keys is damaged, so nobody knows which jobs of removed versions are done",
        path=f"{store.uri}/{segment.path}",
        hint="restore it from a copy; without it, jobs whose versions were removed would run a second time",
    )
