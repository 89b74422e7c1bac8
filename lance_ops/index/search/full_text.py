"""Full-text search: by the inverted indices of the columns of a query, and by reading what none covers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from lance_ops.errors import UnreadableIndexError, UnsupportedError
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.index.column import value_type
from lance_ops.index.coverage import effective_fragments, listed_coverage
from lance_ops.index.inverted.column_search import UNINDEXED
from lance_ops.index.inverted.layout import read_text_parameters
from lance_ops.index.inverted.query import TextQuery, columns_of, parse_text_query
from lance_ops.index.inverted.search import TextSource, search_text
from lance_ops.index.inverted.tokenizers.lists import holds_texts, tokenizer_of, type_words
from lance_ops.index.inverted.tokenizers.parameters import TextParameters
from lance_ops.index.kind import IndexKind
from lance_ops.index.reading import reading, warn_unreadable
from lance_ops.index.registry import kind_of
from lance_ops.index.scored import Scored
from lance_ops.index.search.locate import RowLocator
from lance_ops.index.search.scanned import fragments_text, scanned_rows
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragments.totals import ids_of
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan.search import SCORE

TEXT_KIND = "invertedindexdetails"


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Sources of the strings of a column.

    Attributes:
        segments: Segments of its index, with their kinds.
        scanned: Fragments whose strings are read.
        parameters: Tokenizer parameters if no segment has them.
    """

    segments: tuple[tuple[IndexMetadata, IndexKind], ...]
    scanned: frozenset[int]
    parameters: TextParameters = UNINDEXED

    def without(self, dataset: Dataset, unreadable: Sequence[IndexMetadata]) -> "TextColumn":
        """Return the same with the strings of some segments read instead.

        Raises:
            UnreadableIndexError: Nothing is left that tells how the strings were cut into words.
        """
        lost = [segment for segment, _ in self.segments if segment in unreadable]
        kept = tuple(item for item in self.segments if item[0] not in unreadable)
        parameters = _parameters(dataset, lost) if lost and not kept else self.parameters
        fragments = (effective_fragments(dataset.manifest, segment) for segment in lost)
        return TextColumn(kept, self.scanned.union(*fragments), parameters)


@dataclass(frozen=True, slots=True)
class FullTextPlan:
    """A `table.scan.search.SearchPlan` for strings.

    Attributes:
        dataset: The version that is searched.
        query: What is searched for.
        columns: The columns that it names.
    """

    dataset: Dataset
    query: TextQuery
    columns: Mapping[str, TextColumn]
    column: str = SCORE
    numbers_queries: bool = False

    def __str__(self) -> str:
        lines = [f"find the rows whose text fits {self.query}"]
        for path, texts in self.columns.items():
            lines.append(f"  column {path}")
            for segment, kind in texts.segments:
                fragments = len(effective_fragments(self.dataset.manifest, segment))
                lines.append(
                    f"    index {segment.name} ({kind.name}), segment {segment.uuid}: {fragments} fragments"
                )
            lines.append(f"    fragments to scan: {fragments_text(texts.scanned)}")
        return "\n".join(lines)

    def run(self, wanted: RowSet | None, limit: int | None) -> Sequence[Scored]:
        """See `SearchPlan.run`."""
        columns = dict(self.columns)
        while True:
            sources = {path: self._source(path, texts, wanted) for path, texts in columns.items()}
            try:
                return [search_text(self.dataset, sources, self.query, limit)]
            except UnreadableIndexError as error:
                known = [segment for texts in columns.values() for segment, _ in texts.segments]
                damaged = [segment for segment in known if str(segment.uuid) in (error.path or "")] or known
                if not damaged:
                    raise
                warn_unreadable(error)
                columns = {path: texts.without(self.dataset, damaged) for path, texts in columns.items()}

    def _source(self, path: str, texts: TextColumn, wanted: RowSet | None) -> TextSource:
        return TextSource(
            tuple(
                (segment, RowLocator(self.dataset, segment, kind, wanted)) for segment, kind in texts.segments
            ),
            partial(_texts, self.dataset, path, texts.scanned, wanted),
            texts.parameters,
        )


def plan_full_text(dataset: Dataset, given: Any, *, fast: bool) -> FullTextPlan:
    """See `table.scan.search.Search.plan_full_text`."""
    indexed = _indexed_columns(dataset)
    query = parse_text_query(given, tuple(indexed))
    every = frozenset(ids_of(dataset.fragments))
    columns = {}
    for path in columns_of(query):
        _check_texts(dataset, path)
        segments = _readable(indexed.get(path, ()))
        covered = frozenset[int]().union(
            *(effective_fragments(dataset.manifest, segment) for segment, _ in segments)
        )
        columns[path] = TextColumn(segments, frozenset() if fast else every - covered)
    return FullTextPlan(dataset, query, columns)


def _indexed_columns(dataset: Dataset) -> dict[str, tuple[IndexMetadata, ...]]:
    """Segments of the full-text index on each column that has one: of several, the first of the manifest."""
    found: dict[str, tuple[IndexMetadata, ...]] = {}
    for index in listed_coverage(dataset):
        if index.kind == TEXT_KIND and len(index.fields) == 1:
            found.setdefault(dataset.lance_schema.path(index.fields[0]), index.segments)
    return found


def _readable(segments: Sequence[IndexMetadata]) -> tuple[tuple[IndexMetadata, IndexKind], ...]:
    known = []
    for segment in segments:
        kind = kind_of(segment)
        if kind is None:
            # Another tokenizer would give another answer in a scan.
            raise UnsupportedError(
                f"index {segment.name!r} is of version {segment.index_version}, which is not known here",
                path=segment.directory,
                hint="a newer release of lance_ops may support it",
            )
        known.append((segment, kind))
    return tuple(known)


def _check_texts(dataset: Dataset, column: str) -> None:
    field = dataset.lance_schema.field(column)
    if not holds_texts(field):
        raise UnsupportedError(
            f"column {column!r} is {type_words(field)}, and no text",
            field="full_text_query",
            hint="search a column of strings, of lists of strings or of JSON documents",
        )


def _parameters(dataset: Dataset, segments: Sequence[IndexMetadata]) -> TextParameters:
    """Return the tokenizer parameters of an index: from its remaining files, or from its entries.

    Raises:
        UnreadableIndexError: Neither has them.
    """
    first: UnreadableIndexError | None = None
    for segment in segments:
        try:
            with reading(segment):
                return read_text_parameters(*dataset.bases.index_directory(segment))
        except UnreadableIndexError as error:
            first = first or error
    for segment in segments:
        said = TextParameters.from_details(segment.details)
        if said is not None:
            # Entries do not record the type of the column.
            field = dataset.lance_schema.field(dataset.lance_schema.path(segment.fields[0]))
            return replace(said, lance_tokenizer=tokenizer_of(field))
    assert first is not None
    raise first


def _texts(
    dataset: Dataset, column: str, fragments: frozenset[int], wanted: RowSet | None
) -> Iterator[pa.Table]:
    field = dataset.lance_schema.field(column)
    wanted_type = pa.string() if field.logical_type == JSON_TYPE else value_type(field)
    for batch in scanned_rows(dataset, column, fragments, wanted):
        yield pa.table({"values": batch.column(0).cast(wanted_type), "ids": batch.column(2)})
