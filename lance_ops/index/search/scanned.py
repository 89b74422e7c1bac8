"""Scanned rows of a search: rows that no index covers, or that an index cannot answer."""

from collections.abc import Collection, Iterator

import pyarrow as pa

from lance_ops.filter.expression import Literal
from lance_ops.filter.types.coercion import BOOL
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragments.totals import fragments_of
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan.search import FixedPruner

_ALL = Literal(True, BOOL)


def scanned_rows(
    dataset: Dataset, column: str, fragments: Collection[int], wanted: RowSet | None
) -> Iterator[pa.RecordBatch]:
    """Yield a column of live rows with `_rowid` and `_rowaddr`, a batch at a time.

    Args:
        dataset: The version.
        column: Path of the column.
        fragments: Fragments to read.
        wanted: The only rows; all when None.
    """
    known = frozenset(fragments)
    if not known:
        return
    yield from dataset.to_batches(
        [column],
        # A condition that is always true lets the pruner report which rows are read.
        filter=None if wanted is None else _ALL,
        fragments=fragments_of(dataset.fragments, known),
        with_row_id=True,
        with_row_address=True,
        pruners=[] if wanted is None else [FixedPruner(known, wanted)],
    )


def fragments_text(fragments: Collection[int]) -> str:
    """Format fragment ids for people."""
    return ", ".join(str(number) for number in sorted(fragments)) or "none"
