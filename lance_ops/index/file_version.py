"""Storage version of index files: that of the table, so that its readers can read the indices."""

from lance_ops.table.snapshot import Snapshot

_OLDEST = "2.0"
"""Older tables get files of this version, which every peer since 0.30 reads."""

SHARE_FILE_VERSION = _OLDEST
"""Version of the files that tasks leave for the merge of a build: it costs the least to write and to read."""


def index_file_version(dataset: Snapshot) -> str:
    """Version of the files of a new segment, such as "2.2"."""
    return max(dataset.data_storage_version, _OLDEST, key=lambda text: tuple(map(int, text.split("."))))
