"""INVERTED as an index kind: partitions built by tasks, merged, remapped, and checked."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, NotFoundError
from lance_ops.file.schema.model import Field
from lance_ops.filter.expression import Column, Function, Literal
from lance_ops.index.column import column_values
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.inverted.build import build_partitions
from lance_ops.index.inverted.layout import (
    METADATA,
    SegmentLayout,
    documents_file,
    postings_file,
    read_text_parameters,
    tokens_file,
)
from lance_ops.index.inverted.merge import merge_partitions, merge_tasks
from lance_ops.index.inverted.parameters import BuildParameters, require_rows
from lance_ops.index.inverted.partition import open_partitions
from lance_ops.index.inverted.partition_writer import WrittenPartition
from lance_ops.index.inverted.remap import remap
from lance_ops.index.inverted.search import rows_with_words
from lance_ops.index.inverted.tokenizers.lists import holds_texts, tokenizer_of, type_words
from lance_ops.index.inverted.tokenizers.parameters import TextParameters
from lance_ops.index.kind import (
    BuildTask,
    BuiltSegment,
    IndexKind,
    Match,
    Parameters,
    SegmentBuild,
    SegmentMove,
    Share,
)
from lance_ops.index.reading import check_addresses, reading
from lance_ops.table.manifest.index_metadata import IndexFile, IndexMetadata
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.snapshot import Snapshot

_SCAN_IS_BETTER = 0.5
"""Share of rows above which a scan is cheaper than a search."""


class InvertedKind(IndexKind):
    """INVERTED: found by full-text queries (`index.inverted.search`); of filters it serves `contains_tokens`.

    Index version 0 has its words in a column, the others as a transducer; 2 has smaller posting lists, 3
    impacts, too. All hold row ids where a table has stable ones.
    """

    name = "INVERTED"
    type_url = "/lance.table.InvertedIndexDetails"
    names_every_row = False
    one_segment_after_updates = True
    keeps_gone_rows = True
    counts_gone_row_ids = True
    file_of_layout = METADATA

    def parameters(self, field: Field, given: Parameters) -> Parameters:
        """See `IndexKind.parameters`."""
        return BuildParameters.of_user(given, tokenizer_of(field)).to_dict()

    def parameters_of(self, dataset: Snapshot, segment: IndexMetadata) -> Parameters:
        """See `IndexKind.parameters_of`."""
        with reading(segment):
            place = dataset.bases.index_directory(segment)
            require_rows(segment)
            try:
                made = BuildParameters.of_layout(SegmentLayout.read(*place))
            except NotFoundError:
                # Early releases record no more; their segments are rebuilt, never merged.
                made = BuildParameters(read_text_parameters(*place))
            made.text.require_known()
            made.text.require_no_others()
            return made.to_dict()

    def recorded_parameters(self, segment: IndexMetadata) -> Parameters:
        """Return recorded parameters; custom stop words are recorded in the files only."""
        require_rows(segment)
        text = TextParameters.from_details(segment.details)
        return {} if text is None else text.to_dict()

    def merges_with_new(self, dataset: Snapshot, segment: IndexMetadata, parameters: Parameters) -> bool:
        """See `IndexKind.merges_with_new`: pylance refuses words that are kept in different forms."""
        with reading(segment):
            try:
                layout = SegmentLayout.read(*dataset.bases.index_directory(segment))
            except NotFoundError:
                return False
        return layout.vocabulary == BuildParameters.of_dict(parameters).words_as

    def check_field(self, field: Field) -> None:
        """See `IndexKind.check_field`."""
        if pa.types.is_dictionary(field.file_type) or not holds_texts(field):
            raise InvalidArgumentError(
                f"column {field.name!r} is {type_words(field)}, which INVERTED cannot index",
                field="column",
                hint="INVERTED supports strings, lists of strings and JSON documents; index a leaf of "
                "a struct",
            )

    def build_share(self, task: BuildTask, path: str) -> Share:
        """Build a share: complete partitions with their own numbers."""
        del path
        values = column_values(
            task.dataset,
            task.column,
            task.fragment_ids,
            row_ids=task.row_ids,
            slowly=True,
            documents_as_text=True,
        )
        parameters = BuildParameters.of_dict(task.parameters)
        return Share((), build_partitions(values, parameters, task.dataset.store, task.directory))

    def merge(self, build: SegmentBuild) -> BuiltSegment:
        """Merge segments: partitions of tasks are kept, older ones are rewritten."""
        parameters = BuildParameters.of_dict(build.parameters)
        fresh: list[WrittenPartition] = [part for share in build.shares for part in share.detail]
        segments = [segment for segment in build.segments if segment.fragment_ids]
        tasks = merge_tasks(build.dataset, segments, build.directory, build.parameters)
        merged = build.run(merge_partitions, tasks, f"merge partitions of {build.column}") if tasks else []
        partitions = [*(part for part in merged if part is not None), *fresh]
        layout = parameters.layout(tuple(part.number for part in partitions))
        if len(set(layout.partitions)) < len(partitions):
            raise InvalidArgumentError("two partitions drew the same number", hint="build the index again")
        metadata = layout.write(build.dataset.store, build.directory)
        files = tuple(file for part in partitions for file in part.files)
        template = build.segments[-1].details if build.segments else b""
        return BuiltSegment(
            (metadata, *files),
            parameters.text.to_details(template, max(parameters.format_version, 1)),
            parameters.index_version,
        )

    def remap(self, move: SegmentMove) -> BuiltSegment:
        """See `IndexKind.remap`: only the rows of documents change, or hardly more."""
        return remap(move, move.segment.files or self._files(move.dataset, move.segment))

    def addresses(self, dataset: Snapshot, segment: IndexMetadata) -> Iterator[Addresses]:
        """See `IndexKind.addresses`."""
        with reading(segment):
            for partition in open_partitions(*dataset.bases.index_directory(segment))[1]:
                yield partition.documents.rows

    def search(self, dataset: Snapshot, segment: IndexMetadata, query: ColumnQuery) -> Match | None:
        """Search for `contains_tokens(column, 'words')`; other filters are not supported.

        Tokens are normalised as in the index, such as lower case, so the result is rechecked.
        """
        match query.condition:
            case Function("contains_tokens", (Column(), Literal(str(text)))):
                rows = rows_with_words(dataset, segment, text)
            case _:
                return None
        covered = effective_fragments(dataset.manifest, segment)
        physical = sum(item.physical_rows for item in dataset.fragments if item.id in covered)
        if rows is None or len(rows) > max(_SCAN_IS_BETTER * physical, 1):
            return None
        return Match(RowSet.of(rows), exact=False)

    def verify(self, dataset: Snapshot, segment: IndexMetadata, *, deep: bool) -> None:
        """See `IndexKind.verify`."""
        with reading(segment):
            _, partitions = open_partitions(*dataset.bases.index_directory(segment))
            for partition in partitions:
                partition.verify(deep=deep)
                if not dataset.manifest.uses_stable_row_ids:
                    check_addresses(dataset.manifest, partition.documents.rows, partition.directory)
                if not deep:
                    return

    def statistics(self, dataset: Snapshot, segment: IndexMetadata) -> Mapping[str, Any]:
        """See `IndexKind.statistics`."""
        with reading(segment):
            layout, partitions = open_partitions(*dataset.bases.index_directory(segment))
            return {
                "params": layout.parameters.to_dict(),
                "num_tokens": sum(len(partition.tokens) for partition in partitions),
                "num_docs": sum(len(partition.documents) for partition in partitions),
            }

    def _files(self, dataset: Snapshot, segment: IndexMetadata) -> tuple[IndexFile, ...]:
        """Return files of a segment whose entry does not list them."""
        with reading(segment):
            layout, _ = open_partitions(*dataset.bases.index_directory(segment))
        parts = (tokens_file, postings_file, documents_file)
        names = [METADATA, *(name(number) for number in layout.partitions for name in parts)]
        return tuple(IndexFile(name, 0) for name in names)
