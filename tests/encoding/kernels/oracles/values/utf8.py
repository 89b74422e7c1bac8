"""UTF-8: whether bytes are text, and no string begins within a character."""

import numpy as np
import pyarrow as pa

from lance_ops.encoding.arrays import Bytes, Offsets

MALFORMED = -1
BEGINS_WITHIN = -2

_FIRST_NON_ASCII = 0x80
_CONTINUATION, _CONTINUATION_MASK = 0x80, 0xC0


def check(*, data: Bytes, offsets: Offsets) -> int:
    """Look at the bytes of strings; 0, or what is wrong."""
    if not len(data) or int(data.max()) < _FIRST_NON_ASCII:
        return 0
    whole = pa.py_buffer(np.array([0, len(data)], dtype=np.int64))
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, whole, pa.py_buffer(data)], null_count=0)
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return MALFORMED
    starts = offsets[:-1].astype(np.int64) - int(offsets[0])
    begun = data[starts[starts < len(data)]]
    return BEGINS_WITHIN if bool((begun & _CONTINUATION_MASK == _CONTINUATION).any()) else 0
