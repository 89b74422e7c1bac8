"""Rows that the filters of the searches of a dataset kept, for who searches among the same ones again.

A dataset is one version, whose files never change: which rows meet a condition stays right as long as it is
open.
"""

from collections import OrderedDict
from collections.abc import Callable

from lance_ops.filter import Expression
from lance_ops.storage.fork_safe import new_lock
from lance_ops.table.manifest.row_set import RowSet

_MOST = 16
_MOST_BYTES = 8 << 20
"""Of all rows that are kept; those that were not asked for longest go."""

_ROW_BYTES, _FRAGMENT_BYTES = 2, 256


class KeptRows:
    """The rows of one version that meet the conditions that were asked for last."""

    def __init__(self) -> None:
        self._rows: OrderedDict[int, tuple[Expression, RowSet, int]] = OrderedDict()
        self._size = 0
        self._lock = new_lock()

    def get(self, expression: Expression, find: Callable[[], RowSet]) -> RowSet:
        """The rows that meet a condition.

        Args:
            expression: The condition; only this very object is known again.
            find: Finds them, if they are not kept.
        """
        with self._lock:
            found = self._rows.get(id(expression))
            if found is not None:
                self._rows.move_to_end(id(expression))
                return found[1]
        rows = find()
        size = _ROW_BYTES * len(rows) + _FRAGMENT_BYTES * len(rows.fragment_ids)
        if size <= _MOST_BYTES:
            with self._lock:
                # With the condition: an identity is that of one object only while it lives.
                if id(expression) not in self._rows:
                    self._rows[id(expression)] = expression, rows, size
                    self._size += size
                while len(self._rows) > _MOST or self._size > _MOST_BYTES:
                    _, (_, _, freed) = self._rows.popitem(last=False)
                    self._size -= freed
        return rows
