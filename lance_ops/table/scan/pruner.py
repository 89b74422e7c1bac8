"""Pruner: how an index, or anything else that knows where rows are, narrows a scan."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lance_ops.filter import Expression
from lance_ops.table.snapshot import Snapshot

OFFSET_BITS = 32
"""A row address has the fragment id above this many bits, and the row offset below."""

_MAX_OFFSET = (1 << OFFSET_BITS) - 1


@dataclass(frozen=True, slots=True)
class Pruning:
    """The rows of some fragments that can match a filter.

    Attributes:
        covered_fragment_ids: Fragments that this speaks about; all others have to be scanned.
        addresses: Row addresses (uint64, ascending, none twice) of the rows in covered fragments that can
            match. They may name deleted rows, which the scan drops.
        exact: Whether all of them match, so that the filter need not be evaluated on them.
    """

    covered_fragment_ids: frozenset[int]
    addresses: npt.NDArray[np.uint64]
    exact: bool = False

    def offsets_in(self, fragment_id: int) -> npt.NDArray[np.uint32]:
        """Row offsets of the candidates in one fragment, ascending."""
        first = np.searchsorted(self.addresses, np.uint64(fragment_id << OFFSET_BITS))
        highest = np.uint64((fragment_id << OFFSET_BITS) + _MAX_OFFSET)
        last = np.searchsorted(self.addresses, highest, side="right")
        return (self.addresses[first:last] & np.uint64(_MAX_OFFSET)).astype(np.uint32)


class Pruner(Protocol):
    """Something that can narrow a scan. Pruners must be picklable and safe to call from several threads."""

    def prune(self, dataset: Snapshot, expression: Expression) -> Pruning | None:
        """Say which rows can match a filter; None when it knows nothing that helps."""
