"""Index pruner: narrow scans by running the index queries of a filter plan."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import pyarrow as pa

from lance_ops.cache import IdentityCache
from lance_ops.errors import LanceOpsError
from lance_ops.file.schema.field_path import format_field_path
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.filter.expression import Expression
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.coverage import IndexCoverage, coverage_by, effective_fragments
from lance_ops.index.kind import IndexKind
from lance_ops.index.reading import reading, warn_unreadable
from lance_ops.index.registry import kind_of, rank_of
from lance_ops.index.search.filter_plan import AllOf, Ask, FilterPlan, Path, plan_filter
from lance_ops.index.search.locate import current_rows
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan.pruner import IndexUse, Pruning
from lance_ops.table.scan.row_columns import ROW_COLUMNS
from lance_ops.table.snapshot import Snapshot

_MOST_PLANS = 64
_MOST_ROWS, _ROW_BYTES = 1 << 18, 2
"""Rows of an answer that is kept, and bytes of one where they are scattered."""
_USABLE = "usable indices"
_MOST_QUESTIONS = 64
"""Maximum index queries of a filter: each opens files, so a filter of very many parts is better evaluated."""


@dataclass(frozen=True, slots=True)
class IndexPruner:
    """Answers the part of a filter that is on indexed columns. A `table.pruner.Pruner`.

    An unreadable segment is not used: there is a warning, and the rows of its fragments are scanned. That is
    slower, never wrong.
    """

    def prune(self, dataset: Snapshot, expression: Expression) -> Pruning | None:
        """See `Pruner.prune`."""
        known = _known_of(dataset)
        if not known.indices:
            return None
        answers = dataset.cache("index answers", 16)
        kept: tuple[Expression, Pruning | None] | None = answers.get(id(expression))
        if kept is not None:
            return kept[1]
        search = _Search(dataset, known)
        plan = known.plan(expression)
        found = None if plan is None else search.answer(plan)
        uses = tuple(search.uses)
        pruning = None if found is None else found.pruning(uses)
        size = 0 if pruning is None else len(pruning.rows)
        # An index that could not be read is asked again.
        if search.all_readable and size <= _MOST_ROWS:
            # With the filter: an id is unique only among objects that live.
            answers.put(id(expression), (expression, pruning), _ROW_BYTES * size)
        return pruning


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows that can match a condition, in the queried fragments, at their current addresses."""

    covered: frozenset[int] = frozenset()
    rows: RowSet = field(default_factory=RowSet)
    exact: frozenset[int] = frozenset()
    indexed: frozenset[int] = frozenset()

    def meet(self, other: "_Found") -> "_Found":
        """Return rows that both allow; fragments known to one only are kept. The result is not exact."""
        alone = (self.covered | other.covered) - (self.covered & other.covered)
        rows = (self.rows & other.rows) | self.rows.restrict(alone) | other.rows.restrict(alone)
        return _Found(self.covered | other.covered, rows, indexed=self.indexed & other.indexed)

    def without(self, fragments: frozenset[int]) -> "_Found":
        """Return the result without some fragments."""
        covered = self.covered - fragments
        return replace(self, covered=covered, rows=self.rows.restrict(covered), exact=self.exact - fragments)

    def join(self, other: "_Found") -> "_Found":
        """Return the union of two results, for fragments known to both."""
        covered = self.covered & other.covered
        rows = (self.rows | other.rows).restrict(covered)
        return _Found(covered, rows, self.exact & other.exact, self.indexed & other.indexed)

    def pruning(self, uses: tuple[IndexUse, ...]) -> Pruning:
        """Convert to the result of a pruner."""
        return Pruning(self.covered, self.rows, self.exact, uses, self.indexed)


@dataclass(frozen=True, slots=True)
class _Segment:
    """A segment that can be queried.

    Attributes:
        metadata: Its manifest entry.
        kind: Its kind.
        fragments: Ids of the existing fragments that it covers.
    """

    metadata: IndexMetadata
    kind: IndexKind
    fragments: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Index:
    """An index that can be queried: its name, and its segments."""

    name: str
    segments: tuple[_Segment, ...]


class _Known:
    """Metadata of the indices of a dataset, for all queries."""

    def __init__(self, manifest: Manifest, indices: Iterable[IndexMetadata]) -> None:
        self.indices = coverage_by(manifest, indices)
        self._manifest = manifest
        self._schema = manifest.schema
        self._on: dict[Path, tuple[_Index, ...]] = {}
        self.plan = IdentityCache("index query plans", self._plan, _MOST_PLANS)
        """What of a filter to ask; see `plan_filter`."""

    def _plan(self, expression: Expression) -> FilterPlan | None:
        return plan_filter(expression, lambda path: bool(self.indices_on(path)))

    def indices_on(self, path: Path) -> tuple[_Index, ...]:
        """Return usable indices on a column, best first: in the order of kinds, then by coverage."""
        if path not in self._on:
            self._on[path] = self._find(path)
        return self._on[path]

    def _find(self, path: Path) -> tuple[_Index, ...]:
        if path[0] in ROW_COLUMNS and path[0] not in self._schema.names:
            # No file holds these, and no index is on them.
            return ()
        column = self._schema.field(format_field_path(path))
        if pa.types.is_null(column.file_type):
            # Zone maps of pylance count no nulls there: IS NULL would find no row.
            return ()
        documents = column.logical_type == JSON_TYPE
        found = []
        for index in self.indices:
            kinds = [kind for kind in map(kind_of, index.segments) if kind is not None]
            # The bytes of documents neither compare nor sort like their text.
            if index.fields == (column.id,) and kinds and kinds[0].reads_documents == documents:
                found.append((rank_of(kinds[0]), -len(index.covered), index.name, self._open(index)))
        return tuple(item[-1] for item in sorted(found, key=lambda item: item[:3]))

    def _open(self, index: IndexCoverage) -> _Index:
        segments = [
            _Segment(segment, kind, effective_fragments(self._manifest, segment))
            for segment in index.segments
            for kind in (kind_of(segment),)
            if kind is not None
        ]
        return _Index(index.name, tuple(segments))


_of_manifests: IdentityCache[[Manifest], _Known] = IdentityCache(
    _USABLE, lambda manifest: _Known(manifest, manifest.indices), 8
)


def _known_of(dataset: Snapshot) -> _Known:
    if dataset.fragment_reuse is None:
        # Derived from the manifest alone, which is shared by all openings of this version.
        return _of_manifests(dataset.manifest)
    found: _Known = dataset.cache(_USABLE).load("", lambda: _Known(dataset.manifest, dataset.indices))
    return found


class _Search:
    """Index queries of one filter."""

    def __init__(self, dataset: Snapshot, known: _Known) -> None:
        self._dataset = dataset
        self._known = known
        self._questions = 0
        self.uses: list[IndexUse] = []
        self.all_readable = True

    def answer(self, plan: FilterPlan) -> _Found | None:
        """Return the answer of the indices to a filter; None if no index helps."""
        if isinstance(plan, Ask):
            found = self._ask(plan.query)
            otherwise = None if found is not None else plan.otherwise
            return found if otherwise is None else self.answer(otherwise)
        if isinstance(plan, AllOf):
            answers = [self.answer(part) for part in plan.parts]
            known = [found for found in answers if found is not None]
            return _all_of(known, complete=plan.complete and len(known) == len(answers))
        joined: _Found | None = None
        for part in plan.parts:
            found = self.answer(part)
            if found is None:
                return None
            joined = found if joined is None else joined.join(found)
            if not joined.covered:
                return None
        return joined

    def _ask(self, query: ColumnQuery) -> _Found | None:
        """Return the answers of all indices on the column: of an inexact one, only where none is exact."""
        result = _Found()
        for index in self._known.indices_on(query.path):
            if self._questions == _MOST_QUESTIONS:
                break
            found = self._ask_index(index, query, result.exact)
            if result.exact:
                found = found.without(result.exact)
            indexed = result.indexed | found.indexed
            if not result.covered:
                result = found
            elif found.covered:
                # Both are for one condition, so an exact answer of one is exact.
                met = result.meet(found)
                result = _Found(met.covered, met.rows, result.exact | found.exact)
            result = replace(result, indexed=indexed)
        return result if result.covered else None

    def _ask_index(self, index: _Index, query: ColumnQuery, answered: frozenset[int]) -> _Found:
        self._questions += 1
        rows, covered, inexact = RowSet(), frozenset[int](), frozenset[int]()
        indexed = frozenset[int]()
        answering: list[IndexKind] = []
        for segment in index.segments:
            kind, fragments = segment.kind, segment.fragments
            if fragments <= answered:
                continue
            try:
                with reading(segment.metadata):
                    match = kind.search(self._dataset, segment.metadata, query)
                    if match is None:
                        continue
                    found = current_rows(self._dataset, segment.metadata, kind, match.rows, fragments)
                    rows = rows | found if answering else found
            except LanceOpsError as error:
                # Each time, because callers expect a warning each.
                self.all_readable = False
                indexed |= fragments
                warn_unreadable(error)
                continue
            answering.append(kind)
            covered |= fragments
            indexed |= fragments
            inexact |= frozenset() if match.exact else fragments
        if covered:
            self.uses.append(
                IndexUse(
                    index=index.name,
                    kind=answering[0].name,
                    condition=query.condition,
                    segments=len(answering),
                    fragments=len(covered),
                    rows=len(rows),
                    exact=not inexact,
                )
            )
        return _Found(covered, rows, covered - inexact, indexed)


def _all_of(answers: Sequence[_Found], *, complete: bool) -> _Found | None:
    if not answers:
        return None
    met = reduce(_Found.meet, answers)
    exact = frozenset[int].intersection(*(found.exact for found in answers)) if complete else frozenset()
    return replace(met, exact=exact)
