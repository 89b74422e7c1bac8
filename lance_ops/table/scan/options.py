"""Scan options: what every way to read rows is told besides columns, filter, limit and offset."""

from collections.abc import Sequence
from typing import TypedDict

from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.pruner import Pruner


class ScanOptions(TypedDict, total=False):
    """How rows are read; keyword arguments of `scanner`, `to_table`, `to_batches`, `to_pandas` and `head`.

    Attributes:
        with_row_id: Add the column `_rowid`.
        with_row_address: Add the column `_rowaddr`.
        fragments: Only these, by id or as they are, in this order.
        batch_size: Rows of a batch at most.
        pruners: What narrows the scan; those of the dataset, its indices as a rule, when None.
        batch_rows: The former name of `batch_size`.
    """

    with_row_id: bool
    with_row_address: bool
    fragments: Sequence[int | Fragment] | None
    batch_size: int | None
    pruners: Sequence[Pruner] | None
    batch_rows: int | None
