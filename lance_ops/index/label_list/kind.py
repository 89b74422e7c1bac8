"""LABEL_LIST as an index kind: a BITMAP over the items of lists, with the rows that have no list."""

from collections.abc import Iterable, Iterator
from functools import partial, reduce
from operator import and_

import numpy as np
import pyarrow as pa

from lance_ops.errors import CorruptFileError, InvalidArgumentError
from lance_ops.file.schema.model import Field
from lance_ops.index.bitmap.group import grouped_runs
from lance_ops.index.bitmap.kind import FIRST_SETS, BitmapKind
from lance_ops.index.bitmap.lookup import BitmapLookup, LookupWriter, lookup_path
from lance_ops.index.bitmap.merge import merge_lookups, moved_rows
from lance_ops.index.bitmap.row_sets import addresses_of, move_row_set, union, union_of_row_sets
from lance_ops.index.bitmap.rows import covered_rows, rewritten_rows
from lance_ops.index.column import column_values, item_type, value_type
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import BuildTask, BuiltSegment, Match, SegmentBuild, SegmentMove, Share
from lance_ops.index.label_list.items import ItemRows, list_conditions, matching_items
from lance_ops.index.reading import reading
from lance_ops.index.row_ids import live_row_ids
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragments.totals import fragments_of
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.snapshot import Snapshot

NULLS_KEY = "lance:label_list_nulls"


class LabelListKind(BitmapKind):
    """LABEL_LIST: exact for array_has, array_has_any, array_has_all, their negations, and IS NULL.

    Index versions 0 and 1 hold row ids, which are addresses unless the table has stable row ids; version 2,
    which newer releases of pylance may write, holds addresses in any table. What version 0 lacks is the rows
    without a list: it answers no negation.
    """

    name = "LABEL_LIST"
    type_url = "/lance.table.LabelListIndexDetails"
    # An empty list holds nothing that it could be found by.
    names_every_row = False

    def check_field(self, field: Field) -> None:
        """See `IndexKind.check_field`."""
        arrow_type = field.storage_type
        if not (pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type)):
            raise InvalidArgumentError(
                f"column {field.name!r} is {arrow_type}, which a LABEL_LIST cannot index",
                field="column",
                hint="it takes lists of plain values",
            )
        super().check_field(field.children[0])

    def build_share(self, task: BuildTask, path: str) -> Share:
        """See `IndexKind.build_share`: as that of a BITMAP, with the rows without a list."""
        key_type = item_type(value_type(task.dataset.lance_schema.field(task.column)))
        lists = column_values(task.dataset, task.column, task.fragment_ids, row_ids=task.row_ids)
        items = ItemRows(lists)
        file = f"{path}.lance"
        with LookupWriter(task.dataset.store, file, key_type) as writer:
            lengths = tuple(writer.write_all(run) for run in grouped_runs(items, key_type))
            writer.add_rows(NULLS_KEY, items.nulls)
            writer.finish()
        return Share((file,), lengths)

    def merge(self, build: SegmentBuild) -> BuiltSegment:
        """See `IndexKind.merge`."""
        dataset = build.dataset
        key_type = item_type(value_type(build.field))
        segments = [segment for segment in build.segments if segment.fragment_ids]
        runs: list[Iterable[pa.Table]] = [self._covered(dataset, segment, key_type) for segment in segments]
        nulls = [self._covered_nulls(dataset, segment, build.column) for segment in segments]
        for share in build.shares:
            lookup = BitmapLookup.of(dataset.store, share.temporary[0])
            runs += lookup.runs(share.detail)
            written = lookup.row_set(NULLS_KEY)
            assert written is not None
            nulls.append(RowSet.deserialize(written, path=lookup.path, rows_of=lambda _: 0))
        path = lookup_path(build.directory)
        with LookupWriter(dataset.store, path, key_type) as writer:
            writer.write_all(merge_lookups(runs, key_type, path))
            writer.add_rows(NULLS_KEY, union(nulls))
            return BuiltSegment(writer.finish())

    def remap(self, move: SegmentMove) -> BuiltSegment:
        """See `IndexKind.remap`."""
        dataset, segment = move.dataset, move.segment
        with reading(segment):
            lookup = self._open(dataset, segment)
            nulls = self._nulls(dataset, segment, lookup)
        locate = rewritten_rows(dataset, segment, move.moves)
        with LookupWriter(dataset.store, lookup_path(move.directory), lookup.key_type) as writer:
            with reading(segment):
                writer.write_all(moved_rows(lookup.rows(), self._bounds(dataset, segment, lookup), locate))
                if nulls is not None:
                    writer.add_rows(NULLS_KEY, move_row_set(nulls, locate))
            return BuiltSegment(writer.finish(), segment.details)

    def addresses(self, dataset: Snapshot, segment: IndexMetadata) -> Iterator[Addresses]:
        """See `IndexKind.addresses`."""
        yield from super().addresses(dataset, segment)
        with reading(segment):
            yield from addresses_of(self._nulls(dataset, segment, self._open(dataset, segment)) or RowSet())

    def search(self, dataset: Snapshot, segment: IndexMetadata, query: ColumnQuery) -> Match | None:
        """See `IndexKind.search`."""
        found = list_conditions(query.condition)
        if found is None:
            return None
        functions, others = found
        lookup = self._for_searches(dataset, segment)
        bounds = self._bounds(dataset, segment, lookup)
        if functions:
            sets = [lookup.search(partial(matching_items, function), bounds) for function in functions]
            rows = reduce(and_, sets)
            if not others:
                return Match(rows, exact=True)
        nulls = self._nulls(dataset, segment, lookup)
        if nulls is None:
            return None
        if not functions:
            return Match(nulls if others else self._without(dataset, segment, nulls), exact=True)
        return Match(self._without(dataset, segment, rows | nulls), exact=True)

    def verify(self, dataset: Snapshot, segment: IndexMetadata, *, deep: bool) -> None:
        """See `IndexKind.verify`: a row that has an item has a list."""
        with reading(segment):
            lookup = self._open(dataset, segment)
            bounds = self._bounds(dataset, segment, lookup)
            nulls = self._nulls(dataset, segment, lookup) or RowSet()
            sets = lookup.file.num_rows if deep else min(FIRST_SETS, lookup.file.num_rows)
            for bitmaps in lookup.bitmaps(np.arange(sets)):
                both = union_of_row_sets(bitmaps, bounds) & nulls
                if both:
                    raise CorruptFileError(
                        f"{len(both)} rows have items and no list", path=lookup.path, field=NULLS_KEY
                    )
                if not deep:
                    return

    def _nulls(self, dataset: Snapshot, segment: IndexMetadata, lookup: BitmapLookup) -> RowSet | None:
        """Return rows whose list is null; None if the file does not record them."""
        data = lookup.row_set(NULLS_KEY)
        return None if data is None else self._bounds(dataset, segment, lookup).read(data)

    def _covered_nulls(self, dataset: Dataset, segment: IndexMetadata, column: str) -> RowSet:
        """Return null rows of covered fragments, read from the table if the file does not record them."""
        has_addresses = self._has_addresses(dataset, segment)
        with reading(segment):
            nulls = self._nulls(dataset, segment, self._open(dataset, segment))
            if nulls is not None:
                return move_row_set(nulls, covered_rows(dataset, segment, has_addresses=has_addresses))
        fragments = sorted(effective_fragments(dataset.manifest, segment))
        lists = ItemRows(column_values(dataset, column, fragments, row_ids=not has_addresses))
        for _ in lists:
            pass
        return lists.nulls

    def _without(self, dataset: Snapshot, segment: IndexMetadata, rows: RowSet) -> RowSet:
        """Return the other rows of the fragments that a segment covers, where they are now."""
        covered = effective_fragments(dataset.manifest, segment)
        has_addresses = self._has_addresses(dataset, segment)
        found = move_row_set(rows, covered_rows(dataset, segment, has_addresses=has_addresses))
        if not has_addresses:
            return live_row_ids(dataset, covered) - found
        fragments = fragments_of(dataset.fragments, covered)
        every = RowSet.of_ranges([(fragment.id, 0, fragment.physical_rows) for fragment in fragments])
        return every - found
