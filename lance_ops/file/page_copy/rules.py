"""When pages are put together, as data.

Each page costs a reader a fixed time, whatever it holds: its description is parsed, its bytes are fetched by
requests of their own, and the loops over its values start anew (about 0.1 ms for us and for the peer). A
copy of many small files would keep all of their pages, and read slower than a file that was written at once.
So neighbouring pages are put together:

* Pages of plain rows (`join_bytes`): rows of equal width without anything between them follow each other in
  the new page. That costs nothing, as their bytes are copied anyway. Pages of 3 MB read faster with the peer
  than those of 16 MB, so that nothing is gained beyond a few megabytes.
* Small pages (`small_bytes`): runs of them are decoded and written anew, as a writer of all of their rows
  would have. To decode and encode a page of numbers takes about the fixed time of a page when it has 100 kB,
  so that it is earned back by one or two scans.
* Small pages of strings that have a table of symbols of their own (`small_text_bytes`): each string has to be
  taken apart and put together, ten times the work of a number. A copy that did this to pages of 10,000
  strings would be no faster than a compaction, which is why they stay. Reading them takes 1.2 to 2 times as
  long as reading one large page; larger ones come close to it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MergeRule:
    """Which pages are put together.

    Attributes:
        join_bytes: Pages of plain rows follow each other in one page up to this size.
        small_bytes: Pages of other kinds below this size are decoded and written anew, if a neighbour is.
        small_text_bytes: The same for pages whose strings have a table of symbols of their own: each string
            has to be taken apart and put together, which takes ten times as long as a number.
        small_rows: Pages of more rows are not small, however few bytes they have: a run of equal values takes
            none, until it is decoded.
        run_bytes: So many bytes of small pages become pages that are written at once.
        wave_bytes: So many bytes of small pages are in memory at a time, over all columns.
    """

    join_bytes: int = 4 << 20
    small_bytes: int = 128 << 10
    small_text_bytes: int = 64 << 10
    small_rows: int = 1 << 17
    run_bytes: int = 8 << 20
    wave_bytes: int = 64 << 20


DEFAULT_RULE = MergeRule()

KEEP_ALL = MergeRule(join_bytes=0, small_bytes=0, small_text_bytes=0)
"""Every page stays a page of its own."""
