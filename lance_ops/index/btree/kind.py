"""BTREE as an index kind: build from sorted shares, merge, move addresses, search."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrow_arrays import from_numpy, to_numpy
from lance_ops.errors import CorruptFileError, InvalidArgumentError, UnreadableIndexError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.btree.pages import PAGE_LOOKUP, PAGE_ROWS, PAGE_SIZE, PageWriter, page_data_schema
from lance_ops.index.btree.segment import BTreeSegment
from lance_ops.index.column import check_values, column_values, value_type
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.file_version import SHARE_FILE_VERSION, index_file_version
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
from lance_ops.index.opened import opened
from lance_ops.index.order import sort_order
from lance_ops.index.reading import check_addresses, current_addresses, reading
from lance_ops.index.row_ids import locate_row_ids
from lance_ops.index.sampling import sample_of_file
from lance_ops.index.sorted_runs import merge_runs
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_address_map import AddressMap
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.snapshot import Snapshot

_RUN_ROWS = 1 << 22
"""Maximum rows sorted at once; larger shares are written as several runs in one file and merged."""

_CARRIED_BYTES = 2 << 20
"""Smaller shares are passed to the merge in memory: a file would be put, read twice and deleted."""

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

_ZONE = "zone_size"
"""Parameter: rows of a page, by its name in pylance."""

_MOST_ZONE = 1 << 22
"""Maximum rows of a page that is written: a page is held in memory as a whole."""

_SCAN_IS_BETTER = 0.5
"""Share of pages above which a scan is cheaper than a search."""


class BTreeKind(IndexKind):
    """BTREE: exact for comparisons, IN, BETWEEN, IS NULL and prefixes.

    Index version 0 holds row ids, which are addresses unless the table has stable row ids; version 1 holds
    addresses in any table. Only the newest releases of pylance know version 1: those from 0.38 to 10 leave
    such an index aside, and earlier ones take its addresses for row ids and lose rows.
    """

    name = "BTREE"
    type_url = "/lance.table.BTreeIndexDetails"
    one_segment_after_updates = True

    def parameters(self, field: Field, given: Parameters) -> Parameters:
        """See `IndexKind.parameters`: `zone_size`, 4096 if it is left open."""
        del field
        for name in given:
            if name != _ZONE:
                raise InvalidArgumentError(
                    f"{self.name} has no parameter {name!r}", field="parameters", hint=f"it has {_ZONE!r}"
                )
        rows = given.get(_ZONE)
        rows = PAGE_ROWS if rows is None else rows
        if isinstance(rows, bool) or not isinstance(rows, int) or not 0 < rows <= _MOST_ZONE:
            raise InvalidArgumentError(
                f"{rows!r} is not a valid number of rows of a page",
                field=_ZONE,
                hint=f"give a whole number from 1 to {_MOST_ZONE:,}",
            )
        return {_ZONE: rows}

    def parameters_of(self, dataset: Snapshot, segment: IndexMetadata) -> Parameters:
        """See `IndexKind.parameters_of`: the default where the lookup is damaged, as it changes no result."""
        store, directory = dataset.bases.index_directory(segment)
        try:
            with reading(segment):
                metadata = FileReader.open(store, f"{directory}/{PAGE_LOOKUP}").schema.metadata
                rows = int(metadata.get(PAGE_SIZE, str(PAGE_ROWS)))
        except UnreadableIndexError:
            rows = 0
        return {_ZONE: min(rows, _MOST_ZONE) if rows > 0 else PAGE_ROWS}

    def check_field(self, field: Field) -> None:
        """See `IndexKind.check_field`."""
        # A dictionary column could be searched by us, but pylance fails every filter on an index of one.
        if field.children or not any(is_kind(field.storage_type) for is_kind in _INDEXED_TYPES):
            raise InvalidArgumentError(
                f"column {field.name!r} is {field.storage_type}, which a BTREE cannot index",
                field="column",
                hint="BTREE supports numbers, booleans, strings, binary, dates and times; index a leaf "
                "of a struct",
            )

    def build_share(self, task: BuildTask, path: str) -> Share:
        """See `IndexKind.build_share`: sorted runs in sequence; the detail is the rows of each.

        Of a small share it is the rows themselves, and there is no file.
        """
        field = task.dataset.lance_schema.field(task.column)
        schema = page_data_schema(value_type(field))
        runs: list[int] = []
        values = column_values(task.dataset, task.column, task.fragment_ids, row_ids=task.row_ids)
        pending = _runs_of(values, schema)
        first = next(pending, pa.Table.from_batches([], schema))
        if first.num_rows < _RUN_ROWS and first.nbytes <= _CARRIED_BYTES:
            return Share((), _sorted(first))
        file = f"{path}.lance"
        with FileWriter(
            task.dataset.store, file, Schema.from_arrow(schema), version=SHARE_FILE_VERSION
        ) as writer:
            for run in chain([first], pending):
                writer.write(_sorted(run))
                runs.append(run.num_rows)
            writer.finish()
        return Share((file,), tuple(runs))

    def merge(self, build: SegmentBuild) -> BuiltSegment:
        """See `IndexKind.merge`."""
        dataset = build.dataset
        schema = page_data_schema(value_type(build.field))
        runs: list[Iterable[pa.Table]] = [
            _segment_rows(dataset, segment, schema) for segment in build.segments if segment.fragment_ids
        ]
        for share in build.shares:
            if isinstance(share.detail, pa.Table):
                runs.append([share.detail])
                continue
            reader = FileReader.open(dataset.store, share.temporary[0])
            start = 0
            for length in share.detail:
                runs.append(_slices(reader, start, start + length))
                start += length
        values = schema.field("values").type
        version, page = index_file_version(dataset), int(build.parameters.get(_ZONE, PAGE_ROWS))
        with PageWriter(dataset.store, build.directory, values, version, page) as writer:
            if runs:
                for table in merge_runs(runs, schema):
                    writer.write(table)
            return BuiltSegment(writer.finish())

    def remap(self, move: SegmentMove) -> BuiltSegment:
        """Remap a segment: the order of values does not change, so pages are rewritten in sequence."""
        dataset, segment = move.dataset, move.segment
        with reading(segment):
            btree = BTreeSegment.open(*dataset.bases.index_directory(segment))
        version, page = index_file_version(dataset), min(btree.page_rows, _MOST_ZONE)
        with PageWriter(dataset.store, move.directory, btree.value_type, version, page) as writer:
            for rows in _rows(dataset, segment, btree):
                writer.write(_moved(rows, move.moves))
            return BuiltSegment(writer.finish(), segment.details)

    def addresses(self, dataset: Snapshot, segment: IndexMetadata) -> Iterator[Addresses]:
        """See `IndexKind.addresses`."""
        with reading(segment):
            yield from BTreeSegment.open(*dataset.bases.index_directory(segment)).addresses()

    def sample(self, dataset: Snapshot, segment: IndexMetadata, limit: int) -> tuple[Addresses, int]:
        """See `IndexKind.sample`."""
        with reading(segment):
            btree = BTreeSegment.open(*dataset.bases.index_directory(segment))
            return sample_of_file(btree.names, btree.num_rows, limit)

    def search(self, dataset: Snapshot, segment: IndexMetadata, query: ColumnQuery) -> Match | None:
        """See `IndexKind.search`."""
        if query.ranges is None:
            return None
        btree = opened(dataset, segment, lambda: BTreeSegment.open(*dataset.bases.index_directory(segment)))
        check_values(dataset, segment, btree.value_type, btree.data.path)
        pages = btree.candidate_pages(query)
        if len(pages) > 1 and np.count_nonzero(pages) > _SCAN_IS_BETTER * len(pages):
            return None
        return Match(RowSet.of(btree.search(query, pages)), exact=True)

    def stale(self, dataset: Snapshot, segment: IndexMetadata) -> str | None:
        """See `IndexKind.stale`: pylance before 4 took rows out of pages and kept the lookup."""
        if segment.files:
            # These did not record which files a segment has.
            return None
        with reading(segment):
            try:
                problem = BTreeSegment.open(*dataset.bases.index_directory(segment)).stale_bounds()
            except CorruptFileError as error:
                # With the rows went whole pages.
                if error.field not in ("batch_size", "null_count"):
                    raise
                problem = "rows"
        if problem is None:
            return None
        return f"pages and lookup have different {problem}, an error of pylance before release 4"

    def statistics(self, dataset: Snapshot, segment: IndexMetadata) -> Mapping[str, Any]:
        """See `IndexKind.statistics`."""
        with reading(segment):
            btree = BTreeSegment.open(*dataset.bases.index_directory(segment))
            low, high = _bound_texts(btree.lookup)
            return {"min": low, "max": high, "num_pages": btree.lookup.num_rows}

    def verify(self, dataset: Snapshot, segment: IndexMetadata, *, deep: bool) -> None:
        """See `IndexKind.verify`."""
        with reading(segment):
            btree = BTreeSegment.open(*dataset.bases.index_directory(segment))
            check_values(dataset, segment, btree.value_type, btree.data.path)
        reuse = dataset.fragment_reuse
        # Unknown row locations are not damage of the segment.
        known = reuse is None or reuse.problem is None
        for rows in _rows(dataset, segment, btree, follow=known):
            del rows
            if not deep:
                return


def _bound_texts(lookup: pa.Table) -> tuple[str, str]:
    """Return the bounds of all pages as pylance writes them; the first page may start with nulls."""
    if not lookup.num_rows or not lookup["max"][-1].is_valid:
        return "N/A", "N/A"
    return _bound_text(lookup["min"][0]), _bound_text(lookup["max"][-1])


def _bound_text(bound: pa.Scalar) -> str:
    if not bound.is_valid:
        return "NULL"
    if pa.types.is_timestamp(bound.type) or pa.types.is_duration(bound.type) or pa.types.is_time(bound.type):
        wide = pa.int32() if bound.type.bit_width == 32 else pa.int64()
        return str(bound.cast(wide).as_py())
    value = bound.as_py()
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, bool):
        return str(value).lower()
    return "NaN" if value != value else str(value)


def _runs_of(batches: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    rows = 0
    for batch in batches:
        held.append(batch.cast(schema))
        rows += batch.num_rows
        if rows >= _RUN_ROWS:
            yield pa.concat_tables(held).combine_chunks()
            held, rows = [], 0
    if rows:
        yield pa.concat_tables(held).combine_chunks()


def _sorted(run: pa.Table) -> pa.Table:
    return run.take(from_numpy(sort_order(run["values"].combine_chunks())))


def _segment_rows(dataset: Snapshot, segment: IndexMetadata, schema: pa.Schema) -> Iterator[pa.Table]:
    """Rows of a segment that belong to fragments it still covers: others are dead, or another segment's."""
    covered = effective_fragments(dataset.manifest, segment)
    live = np.array(sorted(covered), dtype=np.uint64)
    has_addresses = _has_addresses(dataset, segment)
    with reading(segment):
        btree = BTreeSegment.open(*dataset.bases.index_directory(segment))
        check_values(dataset, segment, btree.value_type, btree.data.path)
    for rows in _rows(dataset, segment, btree):
        ids = to_numpy(rows["ids"])
        if has_addresses:
            kept = _is_one_of(ids >> np.uint64(32), live)
        else:
            _, kept = locate_row_ids(dataset, segment, covered, ids)
        yield (rows if kept.all() else rows.filter(from_numpy(kept))).cast(schema)


def _is_one_of(owners: Addresses, wanted: Addresses) -> npt.NDArray[np.bool_]:
    """Return which of some fragment ids are among others, which ascend."""
    if len(wanted) and int(wanted[-1]) - int(wanted[0]) == len(wanted) - 1:
        # None is left out between them.
        return np.asarray((owners >= wanted[0]) & (owners <= wanted[-1]), np.bool_)
    return np.isin(owners, wanted)


def _rows(
    dataset: Snapshot, segment: IndexMetadata, btree: BTreeSegment, *, follow: bool = True
) -> Iterator[pa.Table]:
    """Yield all rows of a segment in index order, at current addresses if `follow`, else as stored.

    Rows are validated against garbage of damaged files.
    """
    has_addresses = _has_addresses(dataset, segment)
    with reading(segment):
        for rows in btree.rows():
            if has_addresses:
                check_addresses(dataset.manifest, to_numpy(rows["ids"]), btree.data.path)
                if follow:
                    rows = _at(rows, *current_addresses(dataset, segment, to_numpy(rows["ids"])))
            yield rows


def _has_addresses(dataset: Snapshot, segment: IndexMetadata) -> bool:
    return BTreeKind().holds_addresses(segment, stable_row_ids=dataset.manifest.uses_stable_row_ids)


def _slices(reader: FileReader, start: int, stop: int) -> Iterator[pa.Table]:
    step = 1 << 18
    for first in range(start, stop, step):
        yield reader.read_table(start=first, stop=min(first + step, stop))


def _moved(rows: pa.Table, moves: AddressMap) -> pa.Table:
    return _at(rows, *moves.map(to_numpy(rows["ids"])))


def _at(rows: pa.Table, addresses: Addresses, kept: npt.NDArray[np.bool_]) -> pa.Table:
    """Return rows with other addresses, without those that are not kept."""
    moved = rows.set_column(1, rows.schema.field("ids"), from_numpy(addresses, pa.uint64()))
    return moved if kept.all() else moved.filter(from_numpy(kept))
