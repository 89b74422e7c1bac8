"""RTREE as an index kind: geometries by the boxes around them."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.writer import FileWriter
from lance_ops.filter.evaluate.evaluate import constant
from lance_ops.filter.expression import Column, Expression, Function
from lance_ops.filter.functions.geo import RELATIONS, shapely
from lance_ops.index.column import column_values
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.coverage import effective_fragments
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
from lance_ops.index.reading import check_addresses, current_addresses, reading
from lance_ops.index.row_ids import locate_row_ids
from lance_ops.index.rtree.boxes import Boxes, around, geometry_boxes, hilbert_keys, is_geometry
from lance_ops.index.rtree.tree import (
    DEFAULT_PAGE,
    FILE_VERSION,
    PAGE_DATA,
    TreeFile,
    TreeWriter,
    read_nulls,
    write_nulls,
)
from lance_ops.index.sorted_runs import merge_runs
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.snapshot import Snapshot

# These hold between geometries far from each other, and the last one between empty ones.
_SERVED = frozenset(RELATIONS) - {"st_disjoint", "st_equals"}

_PAGE = "page_size"
_MOST_PAGE = 1 << 20
_SORTED_ROWS = 1 << 22
"""Geometries of an existing segment that one task puts into their new order."""
_SCAN_IS_BETTER = 0.5
"""Share of rows above which a scan is cheaper than a search."""
_READ_ROWS = 1 << 18
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_RUN = pa.schema(
    [("values", pa.uint64()), ("ids", pa.uint64()), *((name, pa.float64()) for name in _CORNERS)]
)
"""Geometries on their way: their places along the curve, their rows, their boxes."""


class RTreeKind(IndexKind):
    """RTREE: narrows relations of geometries that need them to touch; exact for IS NULL.

    Index version 0 holds row ids, which are addresses unless the table has stable row ids; version 1 holds
    addresses in any table.
    """

    name = "RTREE"
    type_url = "/lance.index.pb.RTreeIndexDetails"
    names_every_row = False

    def parameters(self, field: Field, given: Parameters) -> Parameters:
        """See `IndexKind.parameters`: `page_size`, 4096 if it is left open."""
        del field
        for name in given:
            if name != _PAGE:
                raise InvalidArgumentError(
                    f"RTREE has no parameter {name!r}", field="parameters", hint=f"it has {_PAGE!r}"
                )
        page = given.get(_PAGE, DEFAULT_PAGE)
        if isinstance(page, bool) or not isinstance(page, int) or not 2 <= page <= _MOST_PAGE:
            raise InvalidArgumentError(
                f"{page!r} is not a valid page size",
                field=_PAGE,
                hint=f"give a number from 2 to {_MOST_PAGE:,}",
            )
        return {_PAGE: page}

    def parameters_of(self, dataset: Snapshot, segment: IndexMetadata) -> Parameters:
        """See `IndexKind.parameters_of`."""
        return {_PAGE: min(_opened(dataset, segment).page, _MOST_PAGE)}

    def check_field(self, field: Field) -> None:
        """See `IndexKind.check_field`."""
        extension = field.metadata.get("ARROW:extension:name", b"").decode() or field.extension_name or ""
        if not extension.startswith("geoarrow.") or not is_geometry(field.storage_type):
            raise InvalidArgumentError(
                f"column {field.name!r} is {extension or field.storage_type}, which an RTREE cannot index",
                field="column",
                hint="it takes GeoArrow's points, boxes, lines and polygons of two separate coordinates",
            )

    def build_share(self, task: BuildTask, path: str) -> Share:
        """See `IndexKind.build_share`: boxes in the order of the rows, their bounds and the null rows."""
        whole = np.full((1, 4), np.nan)
        nulls: list[RowSet] = []
        file = f"{path}.lance"
        with _run_writer(task.dataset.store, file) as writer:
            for table in column_values(task.dataset, task.column, task.fragment_ids, row_ids=task.row_ids):
                values = table["values"].combine_chunks()
                for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
                    ids = np.asarray(table["ids"].to_numpy(), np.uint64)
                    boxes = geometry_boxes(chunk)
                    nulls.append(RowSet.of(ids[chunk.is_null().to_numpy(zero_copy_only=False)]))
                    known = ~np.isnan(boxes[:, 0])
                    writer.write(_run(np.zeros(known.sum(), np.uint64), ids[known], boxes[known]))
                    whole = around(np.vstack([whole, boxes]))[None, :]
            writer.finish()
        return Share((file,), (whole[0].tolist(), reduce(or_, nulls, RowSet()).serialize()))

    def merge(self, build: SegmentBuild) -> BuiltSegment:
        """See `IndexKind.merge`: all sources are put in order along one curve by tasks, then merged."""
        dataset = build.dataset
        path = f"{build.directory}/{PAGE_DATA}"
        bounds = [np.array(share.detail[0]) for share in build.shares]
        nulls = [
            RowSet.deserialize(share.detail[1], path=path, rows_of=lambda _: 0) for share in build.shares
        ]
        sources: list[tuple[str | IndexMetadata, int, int]] = [
            (share.temporary[0], 0, 0) for share in build.shares
        ]
        for segment in build.segments:
            opened = _opened(dataset, segment)
            with reading(segment):
                bounds.append(opened.bounds())
            sources += [
                (segment, start, start + _SORTED_ROWS) for start in range(0, opened.items, _SORTED_ROWS)
            ]
            nulls.append(_kept_nulls(dataset, segment))
        whole = tuple(around(np.array(bounds).reshape(-1, 4)).tolist())
        tasks = [_Sort(dataset, build.directory, whole, *source) for source in sources]
        sorted_runs = build.run(_sort, tasks, f"order of {build.column}")
        runs = [_read_run(dataset.store, run) for run in sorted_runs]
        with TreeWriter(dataset.store, build.directory, int(build.parameters[_PAGE])) as writer:
            for table in merge_runs(runs, _RUN) if runs else ():
                writer.write(_boxes_of(table), np.asarray(table["ids"].to_numpy(), np.uint64))
            written = writer.finish()
        dataset.store.delete_many(sorted_runs)
        found = reduce(or_, nulls, RowSet()).serialize()
        return BuiltSegment((written, write_nulls(dataset.store, build.directory, found)))

    def remap(self, move: SegmentMove) -> BuiltSegment:
        """Remap a segment: the order of geometries is unchanged, and pages are rebuilt."""
        dataset, segment = move.dataset, move.segment

        def follow(rows: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
            current, kept = _current(dataset, segment, rows)
            current, survived = move.moves.map(np.where(kept, current, np.uint64(0)))
            return current, kept & survived

        opened = _opened(dataset, segment)
        with TreeWriter(dataset.store, move.directory, opened.page) as writer:
            for boxes, rows in _leaves(segment, opened):
                current, kept = follow(rows)
                writer.write(boxes[kept], current[kept])
            written = writer.finish()
        current, kept = follow(_nulls(dataset, segment).addresses())
        nulls = write_nulls(dataset.store, move.directory, RowSet.of(current[kept]).serialize())
        return BuiltSegment((written, nulls), segment.details)

    def addresses(self, dataset: Snapshot, segment: IndexMetadata) -> Iterator[Addresses]:
        """See `IndexKind.addresses`: those of geometries, then those of nulls."""
        for _, rows in _leaves(segment, _opened(dataset, segment)):
            yield rows
        yield _nulls(dataset, segment).addresses()

    def search(self, dataset: Snapshot, segment: IndexMetadata, query: ColumnQuery) -> Match | None:
        """See `IndexKind.search`."""
        if query.ranges is not None:
            if all(values.nulls and not values.intervals for values in query.ranges):
                return Match(_nulls(dataset, segment), exact=True)
            return None
        box = asked_box(query.condition)
        if box is None:
            return None
        tree = opened(dataset, segment, lambda: _opened(dataset, segment))
        rows = tree.search(box)
        if tree.items > tree.page and len(rows) > _SCAN_IS_BETTER * tree.items:
            return None
        return Match(RowSet.of(rows), exact=False)

    def verify(self, dataset: Snapshot, segment: IndexMetadata, *, deep: bool) -> None:
        """See `IndexKind.verify`."""
        has_addresses = self.holds_addresses(segment, stable_row_ids=dataset.manifest.uses_stable_row_ids)
        with reading(segment):
            opened = _opened(dataset, segment)
            opened.bounds()
            if deep:
                opened.check()
            for rows in self.addresses(dataset, segment):
                if has_addresses:
                    check_addresses(dataset.manifest, rows, opened.reader.path)
                if not deep:
                    return

    def statistics(self, dataset: Snapshot, segment: IndexMetadata) -> Mapping[str, Any]:
        """See `IndexKind.statistics`."""
        with reading(segment):
            return _opened(dataset, segment).statistics()


@dataclass(frozen=True, slots=True)
class _Sort:
    """A task: put geometries in order along the curve.

    Attributes:
        dataset: The version that is read.
        directory: Directory of the new segment.
        whole: The box that the curve fills.
        source: A file of a share, or a segment.
        start: First geometry of the segment.
        stop: Behind the last one.
    """

    dataset: Dataset
    directory: str
    whole: tuple[float, ...]
    source: str | IndexMetadata
    start: int
    stop: int


def _sort(task: _Sort) -> str:
    """Run a task; returns the file that it wrote."""
    path = f"{task.directory}/.tmp_run_{uuid.uuid4().hex}.lance"
    if isinstance(task.source, str):
        table = FileReader.open(task.dataset.store, task.source).read_table()
        boxes, rows = _boxes_of(table), np.asarray(table["ids"].to_numpy(), np.uint64)
    else:
        boxes, rows = _kept_geometries(task.dataset, task.source, task.start, task.stop)
    keys = hilbert_keys(boxes, np.array(task.whole))
    order = np.argsort(keys, kind="stable")
    with _run_writer(task.dataset.store, path) as writer:
        for start in range(0, len(order), _READ_ROWS):
            part = order[start : start + _READ_ROWS]
            writer.write(_run(keys[part], rows[part], boxes[part]))
        writer.finish()
    return path


def _kept_geometries(
    dataset: Snapshot, segment: IndexMetadata, start: int, stop: int
) -> tuple[Boxes, Addresses]:
    """Geometries of a segment in fragments that it still covers, where they are now."""
    found = [(np.zeros((0, 4)), np.zeros(0, np.uint64))]
    for boxes, rows in _leaves(segment, _opened(dataset, segment), start, stop):
        current, kept = _covered(dataset, segment, rows)
        found.append((boxes[kept], current[kept]))
    return np.concatenate([boxes for boxes, _ in found]), np.concatenate([rows for _, rows in found])


def _kept_nulls(dataset: Snapshot, segment: IndexMetadata) -> RowSet:
    current, kept = _covered(dataset, segment, _nulls(dataset, segment).addresses())
    return RowSet.of(current[kept])


def _covered(
    dataset: Snapshot, segment: IndexMetadata, rows: Addresses
) -> tuple[Addresses, npt.NDArray[np.bool_]]:
    """Return current addresses, and a mask of rows in fragments that the segment still covers."""
    covered = effective_fragments(dataset.manifest, segment)
    if not RTreeKind().holds_addresses(segment, stable_row_ids=dataset.manifest.uses_stable_row_ids):
        return rows, locate_row_ids(dataset, segment, covered, rows)[1]
    current, kept = _current(dataset, segment, rows)
    return current, kept & np.isin(current >> np.uint64(32), np.array(sorted(covered), np.uint64))


def _current(
    dataset: Snapshot, segment: IndexMetadata, rows: Addresses
) -> tuple[Addresses, npt.NDArray[np.bool_]]:
    with reading(segment):
        check_addresses(dataset.manifest, rows, segment.directory)
        return current_addresses(dataset, segment, rows)


def _opened(dataset: Snapshot, segment: IndexMetadata) -> TreeFile:
    with reading(segment):
        store, directory = dataset.bases.index_directory(segment)
        return TreeFile.open(store, f"{directory}/{PAGE_DATA}")


def _leaves(
    segment: IndexMetadata, opened: TreeFile, start: int = 0, stop: int | None = None
) -> Iterator[tuple[Boxes, Addresses]]:
    with reading(segment):
        yield from opened.leaves(start, stop)


def _nulls(dataset: Snapshot, segment: IndexMetadata) -> RowSet:
    def rows_of(owner: int) -> int:
        fragment = dataset.fragments_by_id.get(owner)
        return 0 if fragment is None else fragment.physical_rows

    with reading(segment):
        store, directory = dataset.bases.index_directory(segment)
        return RowSet.deserialize(read_nulls(store, directory), path=directory, rows_of=rows_of)


def _run_writer(store: Store, path: str) -> FileWriter:
    return FileWriter(store, path, Schema.from_arrow(_RUN), version=FILE_VERSION)


def _read_run(store: Store, path: str) -> Iterable[pa.Table]:
    reader = FileReader.open(store, path)
    for start in range(0, reader.num_rows, _READ_ROWS):
        yield reader.read_table(start=start, stop=min(start + _READ_ROWS, reader.num_rows))


def _run(keys: npt.NDArray[np.uint64], rows: Addresses, boxes: Boxes) -> pa.Table:
    corners = [np.ascontiguousarray(boxes[:, number]) for number in range(4)]
    return pa.table([pa.array(array) for array in (keys, rows, *corners)], schema=_RUN)


def _boxes_of(table: pa.Table) -> Boxes:
    return np.column_stack([table[name].to_numpy() for name in _CORNERS])


def asked_box(condition: Expression) -> Boxes | None:
    """Return the box, of the shape (4,); None if the condition is not an intersection."""
    match condition:
        case Function(name, (Column(), shape) | (shape, Column())) if name in _SERVED:
            if any(isinstance(node, Column) for node in shape.walk()):
                return None
            value = constant(shape).value
            if value is None:
                return None
            box = np.asarray(shapely().from_wkb(value).bounds, np.float64)
            return None if np.isnan(box).any() else box
    return None
