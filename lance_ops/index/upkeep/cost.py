"""Cost model: what it takes to move an index segment along, to build it again, or to let it wait. Pure.

A cost is bytes read, bytes written and seconds of computing; costs add up, and seconds follow at a pace of
the store. The constants are measured: 400,000 rows a kind (vectors: 100,000 of 128 dimensions), one core,
local disk. They are there to be compared with each other, where a factor of two decides nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

BYTES_PER_SECOND: Final = 800e6
"""Bytes per second of a store with decoding, one stream."""
_NS: Final = 0.25e-9
"""The paces below are nanoseconds of an earlier release, which took four times as long for all kinds."""
_SEGMENT_SECONDS: Final = 0.00125
"""Fixed seconds for the files of a segment: requests and metadata."""
_VARIABLE_WIDTH: Final = 4.0
"""Slowdown of sorting and comparing variable-width values."""
_REUSE_BYTES: Final = 1 / 8
"""Bytes of the fragment reuse index for a moved row: one bit of a bitmap, less for long runs."""
_READERS: Final = 100
"""Searches that are taken to translate before a deferred remap is caught up with."""
_READER_SECONDS: Final = 0.0025
"""Seconds for each reader to open the fragment reuse index and map rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCost:
    """Cost of an index for a rewrite.

    Attributes:
        read_bytes: Of the segment, or of the indexed column.
        written_bytes: Of the new segment.
        cpu_seconds: Of one core.
    """

    read_bytes: int = 0
    written_bytes: int = 0
    cpu_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Return the seconds of one core that waits for its store."""
        return self.cpu_seconds + (self.read_bytes + self.written_bytes) / BYTES_PER_SECOND

    def __add__(self, other: "IndexCost") -> "IndexCost":
        return IndexCost(
            read_bytes=self.read_bytes + other.read_bytes,
            written_bytes=self.written_bytes + other.written_bytes,
            cpu_seconds=self.cpu_seconds + other.cpu_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLoad:
    """Work for a segment.

    Attributes:
        kind: Name of the kind.
        named_rows: Rows in the segment, deleted ones included.
        live_rows: Those of them that are live.
        moved_rows: Live rows that the rewrite moves.
        noted_rows: Those of them that are observed during the rewrite.
        segment_bytes: Size of its files.
        column_bytes: Size of the indexed column in the fragments that it covers.
        of_one_width: True if all values have the same number of bytes.
    """

    kind: str
    named_rows: int
    live_rows: int
    moved_rows: int
    segment_bytes: int
    column_bytes: int
    of_one_width: bool = True
    noted_rows: int = 0

    @property
    def live_share(self) -> float:
        """Share of the rows in the segment that are live, 0 to 1."""
        return self.live_rows / self.named_rows if self.named_rows else 1.0

    @property
    def moved_share(self) -> float:
        """Share of the live rows that are moved, 0 to 1."""
        return self.moved_rows / self.live_rows if self.live_rows else 0.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Computing of a kind.

    Attributes:
        move_ns: Nanoseconds for each row that a segment names, to move it.
        build_ns: For each live row, to build it; None where a build learns a model, which no compaction does.
        move_byte_ns: For each byte of a segment, on top.
        sorts: True if values of many widths are slower to build from.
    """

    move_ns: float
    build_ns: float | None
    move_byte_ns: float = 0.0
    sorts: bool = False


_PACES: Final[Mapping[str, Pace]] = {
    "BTREE": Pace(110, 115, sorts=True),
    "BITMAP": Pace(105, 275),
    "LABEL_LIST": Pace(80, 350),
    "ZONEMAP": Pace(5, 35),
    "BLOOMFILTER": Pace(5, 125),
    "NGRAM": Pace(30, 62_000, move_byte_ns=5),
    "JSON": Pace(95, 690),
    "RTREE": Pace(100, 700),
    "INVERTED": Pace(25, 6_000, move_byte_ns=3.5),
    "MINHASHLSH": Pace(100, None),
}
_VECTORS: Final = Pace(120, None, move_byte_ns=1.1)
_GRAPHS: Final = Pace(120, None, move_byte_ns=3)


def move_cost(load: SegmentLoad) -> IndexCost:
    """Return the cost of a remap, which reads and writes the whole segment."""
    pace = _pace(load.kind)
    return IndexCost(
        read_bytes=load.segment_bytes,
        written_bytes=load.segment_bytes,
        cpu_seconds=_SEGMENT_SECONDS
        + _NS * (load.named_rows * pace.move_ns + load.segment_bytes * pace.move_byte_ns),
    )


def build_cost(load: SegmentLoad) -> IndexCost | None:
    """Cost of reading the column in all covered fragments; None if it cannot be read."""
    pace = _pace(load.kind)
    if pace.build_ns is None:
        return None
    slower = _VARIABLE_WIDTH if pace.sorts and not load.of_one_width else 1.0
    return IndexCost(
        read_bytes=load.column_bytes,
        written_bytes=round(load.segment_bytes * load.live_share),
        cpu_seconds=_SEGMENT_SECONDS + _NS * load.live_rows * pace.build_ns * slower,
    )


def look_cost(load: SegmentLoad) -> IndexCost:
    """Return the cost of reading the column in the new fragments, unless observed during the rewrite.

    Entries of other fragments are copied.
    """
    pace = _pace(load.kind)
    read_share = (load.moved_rows - load.noted_rows) / load.live_rows if load.live_rows else 0.0
    return IndexCost(
        read_bytes=round(load.column_bytes * read_share) + load.segment_bytes,
        written_bytes=load.segment_bytes,
        cpu_seconds=_SEGMENT_SECONDS
        + _NS * (load.moved_rows * (pace.build_ns or 0) + load.named_rows * pace.move_ns),
    )


def defer_cost(load: SegmentLoad) -> IndexCost:
    """Cost of the reuse index now, of translations until the remap, and of this rewrite's part of it.

    A later remap applies all rewrites at once: each is charged for its share of the rows.
    """
    later = move_cost(load)
    share = load.moved_share
    return IndexCost(
        read_bytes=round(later.read_bytes * share),
        written_bytes=round(later.written_bytes * share + load.moved_rows * _REUSE_BYTES),
        cpu_seconds=later.cpu_seconds * share + _READERS * _READER_SECONDS,
    )


def _pace(kind: str) -> Pace:
    return _PACES.get(kind) or (_GRAPHS if "HNSW" in kind else _VECTORS)
