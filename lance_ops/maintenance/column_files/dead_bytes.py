"""Dead bytes: bytes of dropped and replaced columns that data files still hold.

The manifest records the size of a file, not of its columns. So the descriptions of some files of each kind
are read, and the others are taken to have the same share of dead bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lance_ops.encoding.distinct import distinct
from lance_ops.errors import LanceOpsError, StorageError
from lance_ops.file.schema.model import Schema
from lance_ops.maintenance.column_files.joins import dead_columns
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import fragments_at, kinds_of

FILES_OF_A_KIND = 4
"""Files that are read of each kind: those with the same fields in the same columns."""
MOST_FILES = 64
"""Files that are read at most, for all kinds."""


@dataclass(slots=True)
class DeadBytes:
    """Share of dead bytes of data files, by kind.

    Attributes:
        bases: Where the files are.
        schema: Of the table.
    """

    bases: Bases
    schema: Schema
    _columns: dict[object, tuple[int, ...]] = field(default_factory=dict)
    _shares: dict[object, list[float]] = field(default_factory=dict)
    _read: int = 0

    def of_file(self, file: DataFile) -> int:
        """Return the dead bytes of a file; 0 where the bytes of its columns are unknown.

        Raises:
            StorageError: The store fails.
        """
        kind = (file.fields, file.column_indices)
        if kind not in self._columns:
            self._columns[kind] = dead_columns(file, self.schema)
        dead = self._columns[kind]
        if not dead:
            return 0
        if len(dead) == sum(column >= 0 for column in file.column_indices):
            return file.size_bytes
        known = self._shares.setdefault(kind, [])
        if len(known) < FILES_OF_A_KIND and self._read < MOST_FILES:
            self._read += 1
            known.append(self._share(file, dead))
        return int(file.size_bytes * sum(known) / len(known)) if known else 0

    def of(self, fragments: Sequence[Fragment]) -> int:
        """Return the dead bytes of all files of fragments; see `of_file`."""
        kinds = kinds_of(fragments)
        suspects = [kind for kind in distinct(kinds).tolist() if self._has_dead(fragments[kind])]
        if not suspects:
            return 0
        chosen = fragments_at(fragments, np.flatnonzero(np.isin(kinds, suspects)).tolist())
        return sum(self.of_file(file) for fragment in chosen for file in fragment.files)

    def _has_dead(self, fragment: Fragment) -> bool:
        return any(dead_columns(file, self.schema) for file in fragment.files)

    def _share(self, file: DataFile, dead: tuple[int, ...]) -> float:
        # Most tables have no dropped columns, and looking at these needs no copies of pages.
        from lance_ops.file.page_copy import column_sizes

        store, path = self.bases.data_path(file)
        try:
            sizes = column_sizes(store, path, file.size_bytes or None)
            total = sum(sizes)
            return sum(sizes[column] for column in dead) / total if total else 0.0
        except StorageError:
            raise
        except (LanceOpsError, IndexError):
            # Damaged, missing, or of a version whose pages are not moved: `fsck` reports the first two.
            return 0.0
