"""One data file out of many, by copying their encoded pages rather than decoding their values.

Pages that lose no row move as they are, the others lose it without being decompressed where their layout
allows that, and runs of small pages are put together.
"""

from lance_ops.file.page_copy.copying import copy_pages
from lance_ops.file.page_copy.obstacles import find_obstacles
from lance_ops.file.page_copy.rules import DEFAULT_RULE, KEEP_ALL, MergeRule
from lance_ops.file.page_copy.source import CopySource, Wanted

__all__ = [
    "DEFAULT_RULE",
    "KEEP_ALL",
    "CopySource",
    "MergeRule",
    "Wanted",
    "copy_pages",
    "find_obstacles",
]
