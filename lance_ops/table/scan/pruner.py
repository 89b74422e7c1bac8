"""Pruner: narrows a scan by an index or other knowledge about rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lance_ops.filter import Expression
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.snapshot import Snapshot

OFFSET_BITS = 32
"""Bits of the row offset in a row address; the fragment id is above."""


@dataclass(frozen=True, slots=True)
class IndexUse:
    """Use of one index by a scan.

    Attributes:
        index: Name of the index.
        kind: Its kind, as users name it.
        condition: The part of the filter that it answered. It is formatted as SQL on demand, which takes a
            tenth of the time of a query.
        segments: Segments that answered.
        fragments: Fragments that the answer covers.
        rows: Rows that can match the condition, deleted ones included.
        exact: True if all of them do.
    """

    index: str
    kind: str
    condition: Expression
    segments: int
    fragments: int
    rows: int
    exact: bool

    def __str__(self) -> str:
        found = f"{self.rows} rows in {self.fragments} fragments"
        quality = "exact" if self.exact else "to be checked"
        return f"{self.index} ({self.kind}, {self.segments} segments): {self.condition}: {found}, {quality}"


@dataclass(frozen=True, slots=True)
class Pruning:
    """Rows of some fragments that can match a filter.

    Attributes:
        covered_fragment_ids: Fragments that this covers; all others have to be scanned.
        rows: The rows in covered fragments that can match. It may include deleted ones, which the scan drops.
        exact: Covered fragments all of whose rows match, so that the filter need not be evaluated on them.
        uses: The indices used.
        indexed: Fragments indexed for every part of the filter that has an index: the only ones that a fast
            search reads. They include those whose segment could not be read.
    """

    covered_fragment_ids: frozenset[int]
    rows: RowSet
    exact: frozenset[int] = frozenset()
    uses: tuple[IndexUse, ...] = ()
    indexed: frozenset[int] | None = None

    @property
    def addresses(self) -> Addresses:
        """Return addresses of the candidates, ascending."""
        return self.rows.restrict(self.covered_fragment_ids).addresses()

    def offsets_in(self, fragment_id: int) -> npt.NDArray[np.uint32]:
        """Return row offsets of the candidates in one fragment, ascending."""
        return np.frombuffer(self.rows.offsets_in(fragment_id).to_array(), np.uint32)


class Pruner(Protocol):
    """Narrows scans. Pruners must be picklable and safe to call from several threads."""

    def prune(self, dataset: Snapshot, expression: Expression) -> Pruning | None:
        """Return the rows that can match a filter; None if they are unknown."""


def indexed_fragments(fragments: Sequence[Fragment], prunings: Sequence[Pruning]) -> list[Fragment]:
    """Return fragments that a fast search reads: all if no index supports the filter, as in pylance."""
    known = [pruning.indexed for pruning in prunings if pruning.indexed is not None]
    return [fragment for fragment in fragments if all(fragment.id in indexed for indexed in known)]
