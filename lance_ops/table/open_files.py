"""Open files: data files that stay open, so that the next read needs no file metadata."""

from collections.abc import Hashable
from dataclasses import dataclass

from lance_ops.cache import Cache
from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.data_file import TOMBSTONE, DataFile

_MAX_FILES = 128
_TAIL_BYTES, _COLUMN_BYTES = 64 << 10, 1 << 10
"""About what an open file keeps in memory: its end, and what describes a column."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """An open data file.

    Attributes:
        reader: The file.
        columns: Physical columns by field id; None when only the file's own schema has them.
    """

    reader: FileReader
    columns: dict[int, int] | None


class OpenFiles:
    """Cache of the most recently used data files.

    Files of a dataset are immutable, so an open one stays valid.

    Args:
        max_files: Maximum number of open files.
    """

    def __init__(self, max_files: int = _MAX_FILES) -> None:
        self._files: Cache[Hashable, OpenFile] = Cache("open files", max_files)

    def open(self, bases: Bases, file: DataFile, physical_rows: int) -> OpenFile:
        """Open a file, or return it from the cache.

        Args:
            bases: Locations of files.
            file: The file, as its fragment lists it.
            physical_rows: Of the fragment.

        Raises:
            CorruptFileError: The file is damaged or does not have these rows.
        """
        key = (file.base_id, file.path, file.fields, file.column_indices)
        found = self._files.get(key)
        if found is None:
            store, path = bases.data_path(file)
            size = file.size_bytes or None
            reader = FileReader.open(
                store,
                path,
                size=size,
                base_uris=bases.uris,
                open_base=bases.store_for,
            )
            found = OpenFile(reader, _columns_of(file))
            self._files.put(
                key, found, min(reader.size_bytes, _TAIL_BYTES) + _COLUMN_BYTES * reader.num_columns
            )
        check_rows(found.reader, bases, file, physical_rows)
        return found


def check_rows(reader: FileReader, bases: Bases, file: DataFile, physical_rows: int) -> None:
    """Check that a file has the rows of its fragment.

    Raises:
        CorruptFileError: It has not.
    """
    if reader.num_rows != physical_rows:
        store, path = bases.data_path(file)
        raise CorruptFileError(
            f"row count does not match the manifest (expected {physical_rows}, got {reader.num_rows})",
            path=f"{store.uri}/{path}",
        )


def _columns_of(file: DataFile) -> dict[int, int] | None:
    if not file.column_indices and file.fields[:1] == (TOMBSTONE,):
        # Columns of 0.1 are counted from the file's first field id, which is not known here any more.
        return None
    return file.live_columns
