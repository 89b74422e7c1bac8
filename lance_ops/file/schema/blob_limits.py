"""Blob limits: sizes in the metadata of a blob field that decide where its values are stored.

A dataset keeps them in its schema; the files of a column have the same limits, as in pylance.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from lance_ops.file.schema.blob_fields import DEDICATED_KEY, INLINE_KEY, PACK_KEY

BLOB_LIMITS: Mapping[str, int] = {INLINE_KEY: 64 << 10, DEDICATED_KEY: 4 << 20, PACK_KEY: 1 << 30}
"""Default limits of a field in bytes.

Larger values than the first are stored beside the data file, larger ones than the second in a separate file
each, and no shared file grows beyond the third.
"""


def blob_limit(metadata: Mapping[str, bytes], key: str) -> int:
    """Return a limit of a field in bytes.

    Args:
        metadata: Of the field.
        key: One of `BLOB_LIMITS`.
    """
    text = metadata.get(key, b"").decode("ascii", "replace")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else BLOB_LIMITS[key]


def differing_limits(given: pa.Field, stored: pa.Field) -> Iterator[str]:
    """Describe limits of the data that differ from those of the column.

    Args:
        given: The field of the data; unset limits are those of the column.
        stored: The field of the dataset.
    """
    if not given.metadata:
        return
    asked, own = _text_keys(given), _text_keys(stored)
    for key in BLOB_LIMITS:
        if key in asked and blob_limit(asked, key) != blob_limit(own, key):
            yield f"{key} is {blob_limit(asked, key)} in the data, {blob_limit(own, key)} in the dataset"


def _text_keys(field: pa.Field) -> dict[str, bytes]:
    return {key.decode(errors="replace"): value for key, value in (field.metadata or {}).items()}
