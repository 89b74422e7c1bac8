"""Merge rule: conditions under which pages are merged.

Each page costs a reader a fixed time, independent of its values: its description is parsed, its bytes are
fetched by separate requests, and the loops over its values start again (about 0.1 ms for us and for pylance).
A copy of many small files would keep all of their pages, and read slower than a file that was written at
once. So adjacent pages are merged:

* Pages of plain rows (`join_bytes`): rows of equal width without gaps are concatenated in the new page. That
  costs nothing, as their bytes are copied anyway. Pages of 3 MB read faster with pylance than those of 16 MB,
  so nothing is gained beyond a few megabytes.
* Small pages (`small_bytes`): runs of them are decoded and encoded again. For a page of numbers of 100 kB
this takes about the fixed time of a page, which pays off after one or two scans.
* Pages of strings that have a table of symbols of their own (`recoded_bytes`): runs of them get one table, by
  replacing codes (`merge_strings`), at a third of the cost of decompressing and compressing strings again. It
  costs more than copying the bytes, about 2 ns a code, but otherwise such pages read at half the speed of
  large ones. If their tables have too little in common, they are encoded again if small (`small_text_bytes`),
  and unchanged otherwise.
* The same in lists, or of 2.0 (`small_text_bytes`), where codes are not replaced: only the smallest are
encoded again, which costs ten times as much as numbers.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MergeRule:
    """Limits for merging pages.

    Attributes:
        join_bytes: Pages of plain rows are concatenated up to this size.
        small_bytes: Pages of other kinds below this size are decoded and encoded again, if an adjacent one
            is.
        recoded_bytes: Pages below this whose strings have tables of symbols get one, if an adjacent one does.
        small_text_bytes: As `small_bytes` for strings with tables of symbols whose codes cannot be replaced.
        small_rows: Pages of more rows are not small, however few bytes they have: a run of equal values takes
            none, until it is decoded.
        run_bytes: Bytes of small pages that are encoded together.
        wave_bytes: Bytes of small pages in memory at a time, over all columns.
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
"""Rule that merges no pages."""
