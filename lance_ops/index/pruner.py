"""Narrowing scans with the indices of a dataset."""

from collections.abc import Sequence
from dataclasses import dataclass

from lance_ops.errors import LanceOpsError
from lance_ops.file.schema.field_path import format_field_path
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.filter.expression import Expression, conjuncts
from lance_ops.index.column_query import ColumnQuery, column_queries
from lance_ops.index.coverage import IndexCoverage, coverage, effective_fragments
from lance_ops.index.kind import IndexKind, Match
from lance_ops.index.reading import check_addresses, current_addresses, reading, warn_unreadable
from lance_ops.index.registry import kind_of
from lance_ops.index.row_ids import locate_row_ids
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan.pruner import Pruning
from lance_ops.table.scan.row_columns import ROW_COLUMNS
from lance_ops.table.snapshot import Snapshot


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
        result: _Found | None = None
        served = 0
        for query in column_queries(expression):
            found = _search_indices(dataset, indices, query)
            if found is not None:
                served += query.conjuncts if found.exact else 0
                result = found if result is None else result.and_(found)
        if result is None:
            return None
        exact = served == len(conjuncts(expression))
        return Pruning(result.covered, result.rows.addresses(), exact)


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows of some fragments that can meet a condition, at the addresses that they have now."""

    covered: frozenset[int]
    rows: RowSet
    exact: bool

    def and_(self, other: "_Found") -> "_Found":
        """Rows that both allow, in the fragments that both cover."""
        covered = self.covered & other.covered
        return _Found(covered, (self.rows & other.rows).restrict(covered), self.exact and other.exact)


def _search_indices(dataset: Snapshot, indices: Sequence[IndexCoverage], query: ColumnQuery) -> _Found | None:
    """The answer of the index on a column that covers most fragments; None when there is none that helps."""
    if query.path[0] in ROW_COLUMNS:
        # No file holds these, and no index is on them.
        return None
    field = dataset.lance_schema.field(format_field_path(query.path))
    if field.logical_type == JSON_TYPE:
        # An index has the bytes of documents, which neither compare nor sort like their text.
        return None
    fitting = [index for index in indices if index.fields == (field.id,)]
    for index in sorted(fitting, key=lambda item: -len(item.covered)):
        found = _search(dataset, index, query)
        if found is not None:
            return found
    return None


def _search(dataset: Snapshot, index: IndexCoverage, query: ColumnQuery) -> _Found | None:
    rows = RowSet()
    covered: set[int] = set()
    exact = True
    for segment in index.segments:
        kind = kind_of(segment)
        fragments = effective_fragments(dataset.manifest, segment)
        if kind is None or not fragments:
            continue
        try:
            with reading(segment):
                match = kind.search(dataset, segment, query)
                if match is not None:
                    match = _current(dataset, segment, kind, fragments, match)
        except LanceOpsError as error:
            warn_unreadable(error)
            continue
        if match is None:
            continue
        # Rows of fragments that left the segment's coverage are dead, or another segment's business.
        rows |= match.rows.restrict(fragments)
        covered |= fragments
        exact = exact and match.exact
    return _Found(frozenset(covered), rows, exact) if covered else None


def _current(
    dataset: Snapshot, segment: IndexMetadata, kind: IndexKind, fragments: frozenset[int], match: Match
) -> Match:
    """Where the rows lie now that a segment names, as far as they are still there."""
    found = match.rows.addresses()
    if not kind.holds_addresses(segment, stable_row_ids=dataset.manifest.uses_stable_row_ids):
        addresses, kept = locate_row_ids(dataset, fragments, found)
    else:
        check_addresses(dataset.manifest, found, segment.directory)
        addresses, kept = current_addresses(dataset, segment, found)
        if addresses is found and kept.all():
            return match
    return Match(RowSet.of(addresses[kept]), match.exact)
