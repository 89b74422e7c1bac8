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
* Pages of strings that have a table of symbols of their own (`recoded_bytes`): runs of them get one table, by
  replacing codes (`merge_strings`), at a third of what it takes to take strings apart and compress them anew.
  It costs more than to copy the bytes, some 2 ns a code, but as they were such pages read at half the speed
  of large ones. Where their tables have too little in common, they are written anew if they are small
  (`small_text_bytes`), and stay as they are otherwise.
* The same in lists, or of 2.0 (`small_text_bytes`), where codes are not replaced: only the smallest are
  written anew, which takes ten times the work of a number.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MergeRule:
    """Which pages are put together.

    Attributes:
        join_bytes: Pages of plain rows follow each other in one page up to this size.
        small_bytes: Pages of other kinds below this size are decoded and written anew, if a neighbour is.
        recoded_bytes: Pages below this whose strings have tables of symbols get one, if a neighbour does.
        small_text_bytes: As `small_bytes` for strings with tables of symbols whose codes cannot be replaced.
        small_rows: Pages of more rows are not small, however few bytes they have: a run of equal values takes
            none, until it is decoded.
        run_bytes: So many bytes of small pages become pages that are written at once.
        wave_bytes: So many bytes of small pages are in memory at a time, over all columns.
    """

    join_bytes: int = 4 << 20
    small_bytes: int = 128 << 10
    recoded_bytes: int = 512 << 10
    small_text_bytes: int = 64 << 10
    small_rows: int = 1 << 17
    run_bytes: int = 8 << 20
    wave_bytes: int = 64 << 20


DEFAULT_RULE = MergeRule()

KEEP_ALL = MergeRule(join_bytes=0, small_bytes=0, recoded_bytes=0, small_text_bytes=0)
"""Every page stays a page of its own."""
