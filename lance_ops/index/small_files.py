"""Small file: all rows of an index file of a few kilobytes, decoded once however often it is opened.

Its bytes are read each time, and what is kept is found by them and nothing else: a file that was replaced or
damaged since has others. To compare them takes microseconds, to decode seven short columns milliseconds.
"""

import pyarrow as pa

from lance_ops.cache import Cache
from lance_ops.file.reader import FileReader

_LARGEST = 4 << 20
"""Bytes of a file with its rows."""

_kept: Cache[bytes, pa.Table] = Cache("small index files", largest=_LARGEST)


def read_small(reader: FileReader) -> pa.Table:
    """Return all rows of a file; those of small files are cached by their bytes.

    Raises:
        CorruptFileError: It is damaged; nothing is cached then.
    """
    whole = reader.whole
    if whole is None:
        return reader.read_table()
    key = whole.to_pybytes()
    return _kept.load(key, reader.read_table, lambda rows: len(key) + rows.nbytes)
