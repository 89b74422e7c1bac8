"""Where an encoder finds symbols: three tables, by the hash of their first bytes.

A symbol of three or more bytes lies in the first table whose keys are not longer than the symbol, or in one
of those behind it, if its place is free. A table has one place for a hash, so that looking up takes no
branches; symbols that find no place cannot be used.
"""

import numpy as np

from lance_ops.encoding.kernels.loops import inner

TABLES = 3
PLACES = 1 << 10
SHIFT = np.uint64(54)
FACTOR = np.uint64(0x9E3779B97F4A7C15)

# Lengths of the keys of the first and the second table; those of the third have three bytes. Symbols that
# share their first bytes need long keys, many of middling length need other ones.
KEYS = np.array([[8, 5], [7, 5], [6, 4], [7, 4], [8, 6], [6, 5]], dtype=np.int64)
LAST_KEY = 3

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@inner
def mask(length):
    """Ones over so many bytes."""
    return _ALL >> np.uint64(8 * (8 - length))


@inner
def find_place(word, length, first_key, second_key, taken):
    """The place of a symbol among all tables, or -1."""
    for table in range(TABLES):
        key = first_key if table == 0 else second_key if table == 1 else LAST_KEY
        if key > length:
            continue
        place = table * PLACES + np.intp(((word & mask(key)) * FACTOR) >> SHIFT)
        if not taken[place]:
            return place
    return -1
