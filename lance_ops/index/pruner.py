"""Narrowing scans with the indices of a dataset."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.errors import LanceOpsError
from lance_ops.file.schema.field_path import format_field_path
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.filter.expression import Expression, conjuncts
from lance_ops.index.coverage import IndexCoverage, coverage, effective_fragments
from lance_ops.index.kind import IndexKind
from lance_ops.index.reading import check_addresses, current_addresses, reading, warn_unreadable
from lance_ops.index.registry import kind_of
from lance_ops.index.row_ids import locate_row_ids
from lance_ops.index.sargable import Sargable, sargables
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.scan.pruner import Pruning
from lance_ops.table.scan.row_columns import ROW_COLUMNS
from lance_ops.table.snapshot import Snapshot

Addresses = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class IndexPruner:
    """Answers the part of a filter that is on indexed columns. A `table.pruner.Pruner`.

    A segment that cannot be read is not used, whatever is wrong with it: a warning says so, and the rows of
    its fragments are scanned. That is slower, never wrong.
    """

    def prune(self, dataset: Snapshot, expression: Expression) -> Pruning | None:
        """See `Pruner.prune`."""
        indices = coverage(dataset)
        if not indices:
            return None
        result: Pruning | None = None
        served = 0
        for wanted in sargables(expression):
            found = _search_indices(dataset, indices, wanted)
            if found is not None:
                served += wanted.conjuncts
                result = found if result is None else _intersect(result, found)
        if result is None:
            return None
        exact = served == len(conjuncts(expression))
        return Pruning(result.covered_fragment_ids, result.addresses, exact)


def _search_indices(dataset: Snapshot, indices: Sequence[IndexCoverage], wanted: Sargable) -> Pruning | None:
    """The answer of the index on a column that covers most fragments; None when there is none that helps."""
    if wanted.path[0] in ROW_COLUMNS:
        # No file holds these, and no index is on them.
        return None
    field = dataset.lance_schema.field(format_field_path(wanted.path))
    if field.logical_type == JSON_TYPE:
        # An index has the bytes of documents, which neither compare nor sort like their text.
        return None
    fitting = [index for index in indices if index.fields == (field.id,)]
    for index in sorted(fitting, key=lambda item: -len(item.covered)):
        pruning = _search(dataset, index, wanted)
        if pruning is not None:
            return pruning
    return None


def _search(dataset: Snapshot, index: IndexCoverage, wanted: Sargable) -> Pruning | None:
    found: list[Addresses] = []
    covered: set[int] = set()
    for segment in index.segments:
        kind = kind_of(segment)
        fragments = effective_fragments(dataset.manifest, segment)
        if kind is None or not fragments:
            continue
        try:
            with reading(segment):
                addresses = kind.search(dataset, segment, wanted)
                if addresses is not None:
                    addresses = _current(dataset, segment, kind, fragments, addresses)
        except LanceOpsError as error:
            warn_unreadable(error)
            continue
        if addresses is None:
            continue
        # Rows of fragments that left the segment's coverage are dead, or another segment's business.
        live = np.array(sorted(fragments), dtype=np.uint64)
        found.append(addresses[np.isin(addresses >> np.uint64(32), live)])
        covered |= fragments
    if not covered:
        return None
    return Pruning(frozenset(covered), np.unique(np.concatenate(found)))


def _current(
    dataset: Snapshot, segment: IndexMetadata, kind: IndexKind, fragments: frozenset[int], found: Addresses
) -> Addresses:
    """Where the rows lie now that a segment names, as far as they are still there."""
    if not kind.holds_addresses(segment, stable_row_ids=dataset.manifest.uses_stable_row_ids):
        addresses, kept = locate_row_ids(dataset, fragments, found)
        return addresses[kept]
    check_addresses(dataset.manifest, found, segment.directory)
    addresses, kept = current_addresses(dataset, segment, found)
    return addresses[kept]


def _intersect(one: Pruning, other: Pruning) -> Pruning:
    """Rows that both allow, in the fragments that both cover."""
    covered = one.covered_fragment_ids & other.covered_fragment_ids
    addresses = np.intersect1d(one.addresses, other.addresses, assume_unique=True)
    live = np.array(sorted(covered), dtype=np.uint64)
    return Pruning(covered, addresses[np.isin(addresses >> np.uint64(32), live)])
