"""Small file: all rows of an index file of a few kilobytes, decoded once however often it is opened.

Its bytes are read each time, and what is kept is found by them and nothing else: a file that was replaced or
damaged since has others. To compare them takes microseconds, to decode seven short columns milliseconds.
"""

from collections import OrderedDict

import pyarrow as pa

from lance_ops.file.reader import FileReader
from lance_ops.storage.fork_safe import new_lock

_MOST_BYTES = 4 << 20
"""Maximum bytes of cached files, and of their rows."""

_lock = new_lock()
_kept: OrderedDict[bytes, tuple[pa.Table, int]] = OrderedDict()
_size = 0


def read_small(reader: FileReader) -> pa.Table:
    """Return all rows of a file; those of small files are cached by their bytes.

    Raises:
        CorruptFileError: It is damaged; nothing is cached then.
    """
    global _size
    whole = reader.whole
    if whole is None:
        return reader.read_table()
    key = whole.to_pybytes()
    with _lock:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
            return found[0]
    rows = reader.read_table()
    size = len(key) + rows.nbytes
    with _lock:
        if key not in _kept and size <= _MOST_BYTES:
            _kept[key] = rows, size
            _size += size
            while _size > _MOST_BYTES:
                _size -= _kept.popitem(last=False)[1][1]
    return rows
