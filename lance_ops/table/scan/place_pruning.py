"""Place pruning: fragments that a filter on row addresses or row ids can select.

A fragment is a page of the column `_rowaddr`, with known bounds: its id is in the upper 32 bits, and its rows
in the lower ones. The same holds for `_rowid`, unless row ids are stable.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.file.container.page_bounds import PageBounds
from lance_ops.filter.expression import Expression
from lance_ops.table.manifest.fragments.totals import FragmentNumbers
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.scan.page_pruning import can_match, column_paths
from lance_ops.table.scan.pruner import OFFSET_BITS
from lance_ops.table.scan.row_columns import ROW_ADDRESS, ROW_ID


def may_hold_rows(
    expression: Expression, numbers: FragmentNumbers, manifest: Manifest
) -> npt.NDArray[np.bool_]:
    """Return a mask of fragments that may have a matching row, as far as the filter names places.

    Args:
        expression: The filter.
        numbers: Numbers of the fragments.
        manifest: Their version.
    """
    own = manifest.schema.names
    names = [ROW_ADDRESS] if manifest.uses_stable_row_ids else [ROW_ADDRESS, ROW_ID]
    paths = {(name,) for name in names if name not in own} & column_paths(expression)
    found = can_match(expression, dict.fromkeys(paths, _bounds(numbers))) if paths else None
    return np.ones(len(numbers.ids), np.bool_) if found is None else found


def _bounds(numbers: FragmentNumbers) -> PageBounds:
    low = numbers.ids.astype(np.uint64) << np.uint64(OFFSET_BITS)
    high = low + np.maximum(numbers.rows, 1).astype(np.uint64) - np.uint64(1)
    # Pages of one row each: positions of fragments stand for rows.
    return PageBounds(np.arange(len(low) + 1), pa.array(low), pa.array(high))
