"""Page copy: combine data files by copying encoded pages instead of decoding values.

Pages without deleted rows are copied unchanged; rows are dropped from others without decompressing where the
layout allows it, and runs of small pages are merged.
"""

from lance_ops.file.page_copy.copying import copy_pages
from lance_ops.file.page_copy.obstacles import find_obstacles
from lance_ops.file.page_copy.rules import DEFAULT_RULE, KEEP_ALL, MergeRule
from lance_ops.file.page_copy.side_by_side import ColumnSource, column_sizes, join_columns
from lance_ops.file.page_copy.source import CopySource, Wanted

__all__ = [
    "DEFAULT_RULE",
    "KEEP_ALL",
    "ColumnSource",
    "CopySource",
    "MergeRule",
    "Wanted",
    "column_sizes",
    "copy_pages",
    "find_obstacles",
    "join_columns",
]
