"""Row cache: rows that match the filters of searches of a dataset, for repeated searches.

A dataset is one immutable version, so the rows that match a condition stay valid while it is open.
"""

from collections import OrderedDict
from collections.abc import Callable

from lance_ops.filter import Expression
from lance_ops.storage.fork_safe import new_lock
from lance_ops.table.manifest.row_set import RowSet

_MOST = 16
_MOST_BYTES = 8 << 20
"""Maximum total rows; the least recently used are evicted."""

_ROW_BYTES, _FRAGMENT_BYTES = 2, 256


class KeptRows:
    """Cache of rows of one version, by the condition that they match."""

    def __init__(self) -> None:
        self._rows: OrderedDict[int, tuple[Expression, RowSet, int]] = OrderedDict()
        self._size = 0
        self._lock = new_lock()

    def get(self, expression: Expression, find: Callable[[], RowSet]) -> RowSet:
        """Return the rows that match a condition.

        Args:
            expression: The condition; cached by identity.
            find: Computes the rows, if they are not cached.
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
                # The condition is cached too, because an identity is unique only while its object lives.
                if id(expression) not in self._rows:
                    self._rows[id(expression)] = expression, rows, size
                    self._size += size
                while len(self._rows) > _MOST or self._size > _MOST_BYTES:
                    _, (_, _, freed) = self._rows.popitem(last=False)
                    self._size -= freed
        return rows
