"""BITMAP as an index kind: build from shares of distinct values, merge, move rows, search."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError, InvalidArgumentError
from lance_ops.file.schema.model import Field
from lance_ops.index.bitmap.group import grouped_runs
from lance_ops.index.bitmap.lookup import BitmapLookup, LookupWriter, lookup_path
from lance_ops.index.bitmap.merge import merge_lookups, moved_rows, restricted_rows
from lance_ops.index.bitmap.row_sets import addresses_of_row_sets, check_row_sets, union, union_of_row_sets
from lance_ops.index.bitmap.rows import covered_rows, rewritten_rows
from lance_ops.index.column import check_values, column_values, value_type
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import BuildTask, BuiltSegment, IndexKind, Match, SegmentBuild, SegmentMove, Share
from lance_ops.index.opened import opened
from lance_ops.index.reading import reading
from lance_ops.index.row_bounds import RowBounds
from lance_ops.index.sorted_runs import one_array
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.snapshot import Snapshot

_INDEXED_TYPES = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_decimal,
    pa.types.is_fixed_size_binary,
    pa.types.is_temporal,
)


FIRST_SETS = 64
"""Number of sets read to check whether a segment is readable."""


class BitmapKind(IndexKind):
    """BITMAP: exact for every condition on the column, which is evaluated for each distinct value.

    Index version 0 has row ids, which are addresses unless the table has stable row ids; version 1, which
    newer releases of pylance may write, holds addresses in any table.
    """

    name = "BITMAP"
    type_url = "/lance.table.BitmapIndexDetails"
    one_segment_after_updates = True

    def check_field(self, field: Field) -> None:
        """See `IndexKind.check_field`."""
        if field.children or not any(is_kind(field.storage_type) for is_kind in _INDEXED_TYPES):
            raise InvalidArgumentError(
                f"column {field.name!r} is {field.storage_type}, which a {self.name} cannot index",
                field="column",
                hint="BITMAP supports numbers, booleans, strings, binary, dates and times; index a "
                "leaf of a struct",
            )

    def build_share(self, task: BuildTask, path: str) -> Share:
        """See `IndexKind.build_share`: lookups in sequence; the detail is their lengths."""
        key_type = value_type(task.dataset.lance_schema.field(task.column))
        values = column_values(task.dataset, task.column, task.fragment_ids, row_ids=task.row_ids)
        file = f"{path}.lance"
        with LookupWriter(task.dataset.store, file, key_type) as writer:
            lengths = tuple(writer.write_all(run) for run in grouped_runs(values, key_type))
            writer.finish()
        return Share((file,), lengths)

    def merge(self, build: SegmentBuild) -> BuiltSegment:
        """See `IndexKind.merge`."""
        dataset = build.dataset
        key_type = value_type(build.field)
        runs: list[Iterable[pa.Table]] = [
            self._covered(dataset, segment, key_type) for segment in build.segments if segment.fragment_ids
        ]
        for share in build.shares:
            runs += BitmapLookup.of(dataset.store, share.temporary[0]).runs(share.detail)
        path = lookup_path(build.directory)
        with LookupWriter(dataset.store, path, key_type) as writer:
            writer.write_all(merge_lookups(runs, key_type, path))
            return BuiltSegment(writer.finish())

    def remap(self, move: SegmentMove) -> BuiltSegment:
        """Remap a segment: keys keep their order, so their sets are rewritten in sequence."""
        dataset, segment = move.dataset, move.segment
        with reading(segment):
            lookup = self._open(dataset, segment)
        locate = rewritten_rows(dataset, segment, move.moves)
        with LookupWriter(dataset.store, lookup_path(move.directory), lookup.key_type) as writer:
            with reading(segment):
                writer.write_all(moved_rows(lookup.rows(), self._bounds(dataset, segment, lookup), locate))
            return BuiltSegment(writer.finish(), segment.details)

    def addresses(self, dataset: Snapshot, segment: IndexMetadata) -> Iterator[Addresses]:
        """See `IndexKind.addresses`."""
        with reading(segment):
            lookup = self._open(dataset, segment)
            bounds = self._bounds(dataset, segment, lookup)
            for bitmaps in lookup.bitmaps(np.arange(lookup.file.num_rows)):
                yield from addresses_of_row_sets(bitmaps, bounds)

    def search(self, dataset: Snapshot, segment: IndexMetadata, query: ColumnQuery) -> Match | None:
        """See `IndexKind.search`."""
        lookup = self._for_searches(dataset, segment)

        def matches(keys: pa.Array) -> npt.NDArray[np.bool_]:
            found = query.matches(pa.chunked_array([keys]))
            return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)

        return Match(lookup.search(matches, self._bounds(dataset, segment, lookup)), exact=True)

    def verify(self, dataset: Snapshot, segment: IndexMetadata, *, deep: bool) -> None:
        """See `IndexKind.verify`: a row has one value, so no two sets share one."""
        with reading(segment):
            lookup = self._open(dataset, segment)
            bounds = self._bounds(dataset, segment, lookup)
            rows, found = 0, RowSet()
            for table in lookup.rows(stop=None if deep else min(FIRST_SETS, lookup.file.num_rows)):
                if not deep:
                    check_row_sets(one_array(table["bitmaps"]), bounds)
                    return
                part = union_of_row_sets(one_array(table["bitmaps"]), bounds)
                rows += sum(map(len, addresses_of_row_sets(one_array(table["bitmaps"]), bounds)))
                found = union([found, part])
            if rows != len(found):
                raise CorruptFileError(
                    f"{rows - len(found)} rows are in the bitmaps of two values",
                    path=lookup.path,
                    field="bitmaps",
                )

    def statistics(self, dataset: Snapshot, segment: IndexMetadata) -> Mapping[str, Any]:
        """See `IndexKind.statistics`."""
        with reading(segment):
            return {"num_bitmaps": self._open(dataset, segment).file.num_rows}

    def _covered(
        self, dataset: Snapshot, segment: IndexMetadata, key_type: pa.DataType
    ) -> Iterator[pa.Table]:
        """Yield keys and rows of a segment in index order, as far as it answers for them."""
        with reading(segment):
            lookup = self._open(dataset, segment)
            bounds = self._bounds(dataset, segment, lookup)
            if bounds.has_addresses and dataset.fragment_reuse is None:
                # Each row must be in its own set only.
                fragments = effective_fragments(dataset.manifest, segment)
                tables = restricted_rows(lookup.sorted_rows(), bounds, fragments)
            else:
                locate = covered_rows(dataset, segment, has_addresses=bounds.has_addresses)
                tables = moved_rows(lookup.sorted_rows(), bounds, locate)
            for table in tables:
                yield table.set_column(0, "keys", table["keys"].cast(key_type))

    def _open(self, dataset: Snapshot, segment: IndexMetadata) -> BitmapLookup:
        lookup = BitmapLookup.open(*dataset.bases.index_directory(segment))
        check_values(dataset, segment, lookup.key_type, lookup.path)
        return lookup

    def _for_searches(self, dataset: Snapshot, segment: IndexMetadata) -> BitmapLookup:
        """Return the lookup cached between searches."""
        return opened(dataset, segment, lambda: self._open(dataset, segment).for_searches())

    def _bounds(self, dataset: Snapshot, segment: IndexMetadata, lookup: BitmapLookup) -> RowBounds:
        return RowBounds(dataset, self._has_addresses(dataset, segment), lookup.path)

    def _has_addresses(self, dataset: Snapshot, segment: IndexMetadata) -> bool:
        return self.holds_addresses(segment, stable_row_ids=dataset.manifest.uses_stable_row_ids)
