"""Pruner: how an index, or anything else that knows where rows are, narrows a scan."""

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
"""A row address has the fragment id above this many bits, and the row offset below."""


@dataclass(frozen=True, slots=True)
class IndexUse:
    """What one index was asked for a scan, and what it said.

    Attributes:
        index: Name of the index.
        kind: Its kind, as users name it.
        condition: The part of the filter that it was asked. As SQL only for people to read: to write it down
            takes a tenth of a question.
        segments: Segments that answered.
        fragments: Fragments that the answer is about.
        rows: Rows that can meet the condition, deleted ones included.
        exact: Whether all of them do.
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
    """The rows of some fragments that can match a filter.

    Attributes:
        covered_fragment_ids: Fragments that this speaks about; all others have to be scanned.
        rows: The rows in covered fragments that can match. Deleted ones may be among them, which the scan
            drops.
        exact: Those of the covered fragments all of whose rows match, so that the filter need not be
            evaluated on them.
        uses: The indices that were asked.
        indexed: Fragments that every part of the filter with an index has indexed: the only ones that a fast
            search reads. Those whose segment could not be read are among them.
    """

    covered_fragment_ids: frozenset[int]
    rows: RowSet
    exact: frozenset[int] = frozenset()
    uses: tuple[IndexUse, ...] = ()
    indexed: frozenset[int] | None = None

    @property
    def addresses(self) -> Addresses:
        """Addresses of the candidates, ascending."""
        return self.rows.restrict(self.covered_fragment_ids).addresses()

    def offsets_in(self, fragment_id: int) -> npt.NDArray[np.uint32]:
        """Row offsets of the candidates in one fragment, ascending."""
        return np.frombuffer(self.rows.offsets_in(fragment_id).to_array(), np.uint32)


class Pruner(Protocol):
    """Something that can narrow a scan. Pruners must be picklable and safe to call from several threads."""

    def prune(self, dataset: Snapshot, expression: Expression) -> Pruning | None:
        """Say which rows can match a filter; None when it knows nothing that helps."""


def indexed_fragments(fragments: Sequence[Fragment], prunings: Sequence[Pruning]) -> list[Fragment]:
    """Fragments that a fast search reads: all of them where no index serves the filter, as in pylance."""
    known = [pruning.indexed for pruning in prunings if pruning.indexed is not None]
    return [fragment for fragment in fragments if all(fragment.id in indexed for indexed in known)]
