"""Row bounds: limits of the rows of a segment, so that a damaged bitmap cannot exhaust the memory."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.errors import CorruptFileError
from lance_ops.storage.fork_safe import cached_property
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.snapshot import Snapshot

_OWNER_ROWS = 1 << 32
_OWNER_BITS, _OFFSETS = np.uint64(32), np.uint64(0xFFFF_FFFF)


@dataclass(frozen=True)
class RowBounds:
    """Valid rows of a segment.

    A few bytes of a bitmap can stand for billions of rows, so they are checked before they are expanded.

    Attributes:
        dataset: The version that the segment belongs to.
        has_addresses: True if it names rows by address and not by stable row id.
        path: Its file, for errors.
    """

    dataset: Snapshot
    has_addresses: bool
    path: str

    def rows_of(self, owner: int) -> int:
        """Return rows of a fragment by its id (of a block of 2**32 row ids); 0 if it was removed.

        Raises:
            CorruptFileError: It never existed.
        """
        if self.has_addresses:
            if owner > self._highest:
                raise CorruptFileError(
                    f"it names rows of fragment {owner:,}, which never was", path=self.path
                )
            return self._fragment_rows.get(owner, 0)
        rows = self.dataset.manifest.next_row_id - (owner << 32)
        if rows <= 0:
            raise CorruptFileError(
                f"it names rows from id {owner << 32:,} on, which was never given", path=self.path
            )
        return min(rows, _OWNER_ROWS)

    def read(self, data: bytes) -> RowSet:
        """Read a row address tree map without rows of removed fragments; see `RowSet.deserialize`.

        Raises:
            CorruptFileError: It cannot be read, or has impossible rows.
        """
        found = RowSet.deserialize(data, path=self.path, rows_of=self.rows_of)
        known = self._fragment_rows if self.has_addresses else {}
        gone = False
        for owner, offsets in found.items():
            rows = known.get(owner) or self.rows_of(owner)
            if rows == 0:
                gone = True
            elif offsets.max() >= rows:
                raise _behind(owner, self.path)
        return found.restrict(self._fragment_rows) if gone else found

    def there(self, rows: Addresses) -> npt.NDArray[np.bool_]:
        """Return a mask of rows that are not of removed fragments.

        Args:
            rows: Of several sets, those of each in turn, ascending.

        Raises:
            CorruptFileError: They have impossible rows.
        """
        owners = rows >> _OWNER_BITS
        # Where rows ascend within a fragment, the last one is behind all others.
        lasts = np.flatnonzero(
            np.append((owners[1:] != owners[:-1]) | (rows[1:] <= rows[:-1]), len(rows) > 0)
        )
        known, place = np.unique(owners[lasts], return_inverse=True)
        limits = np.array([self.rows_of(int(owner)) for owner in known], np.uint64)
        gone = limits == 0
        behind = ((rows[lasts] & _OFFSETS) >= limits[place]) & ~gone[place]
        if behind.any():
            raise _behind(int(owners[lasts[np.argmax(behind)]]), self.path)
        return ~np.isin(owners, known[gone]) if gone.any() else np.ones(len(rows), np.bool_)

    @cached_property
    def _highest(self) -> int:
        manifest = self.dataset.manifest
        known = max(self._fragment_rows, default=0)
        return max(manifest.max_fragment_id or 0, known)

    @cached_property
    def _fragment_rows(self) -> dict[int, int]:
        """Return rows of existing fragments, and of those mapped by a fragment reuse index."""
        reuse = self.dataset.fragment_reuse
        rows = {
            fragment.id: fragment.physical_rows
            for generation in (() if reuse is None else reuse.generations)
            for group in generation.groups
            for fragment in (*group.old_fragments, *group.new_fragments)
        }
        rows.update((fragment.id, fragment.physical_rows) for fragment in self.dataset.fragments)
        return rows


def _behind(owner: int, path: str) -> CorruptFileError:
    return CorruptFileError(f"it names rows behind the last one of fragment {owner}", path=path)
