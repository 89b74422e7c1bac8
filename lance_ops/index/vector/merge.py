"""Merging shares and existing segments into one segment, a range of partitions at a time.

The rows stream through the driver, which holds one range; graphs are made by tasks, each for a range of the
partitions that were written.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.file_version import SHARE_FILE_VERSION, index_file_version
from lance_ops.index.kind import BuildTask, SegmentBuild
from lance_ops.index.reading import check_addresses, current_addresses, reading
from lance_ops.index.row_ids import locate_row_ids
from lance_ops.index.vector.graph.build import build_graph
from lance_ops.index.vector.graph.model import GRAPH_SCHEMA, Graph
from lance_ops.index.vector.ivf import Partitions
from lance_ops.index.vector.model import Model
from lance_ops.index.vector.quantizer.base import Quantizer
from lance_ops.index.vector.segment.read import ROW_ID, STORAGE_FILE, VectorSegment, row_ids
from lance_ops.index.vector.segment.share import (
    Runs,
    rows_of_partitions,
    storage_schema,
    write_share,
)
from lance_ops.index.vector.segment.write import write_index, write_storage
from lance_ops.index.vector.vectors import live_vectors
from lance_ops.storage import Store
from lance_ops.table.manifest.index_metadata import IndexFile, IndexMetadata
from lance_ops.table.manifest.row_set import Addresses
from lance_ops.table.snapshot import Snapshot

_RANGE_BYTES = 64 << 20
_GRAPH_ROWS_LEAST, _GRAPH_ROWS_MOST, _GRAPH_TASKS = 1 << 13, 1 << 17, 32
"""Rows of one graph task, or one partition if it has more; fewer for small indices, to balance tasks."""


@dataclass(frozen=True, slots=True)
class ShareTask:
    """Fragments to assign and encode, and the file that takes them."""

    task: BuildTask
    path: str


@dataclass(frozen=True, slots=True, eq=False)
class GraphTask:
    """A range of partitions to make graphs of.

    Attributes:
        store: Of the dataset.
        directory: Of the segment, which has the rows already.
        model: Of the index, see `Model.to_bytes`.
        first: The first partition.
        offsets: Where the rows of each begin.
        lengths: Rows of each.
        path: The file that takes the nodes.
    """

    store: Store
    directory: str
    model: bytes
    first: int
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    path: str


def run_share(task: ShareTask) -> Runs:
    """Assign and encode the vectors of some fragments."""
    build = task.task
    batches = live_vectors(build.dataset, build.column, build.fragment_ids, row_ids=build.row_ids)
    return write_share(build.dataset.store, task.path, Model.from_bytes(build.prepared), batches)


def merge(build: SegmentBuild, model: Model, *, addresses: bool) -> tuple[IndexFile, ...]:
    """Write the files of a segment.

    Args:
        build: The segment.
        model: Of the index.
        addresses: True if existing segments hold row addresses and not stable row ids.

    Raises:
        UnreadableIndexError: an existing segment cannot be read.
    """
    store = build.dataset.store
    alike: list[_Alike] = []
    others: list[IndexMetadata] = []
    for segment in build.segments:
        if not segment.fragment_ids:
            continue
        with reading(segment):
            opened = VectorSegment.open(*build.dataset.bases.index_directory(segment))
            own = opened.model()
            if own.equals(model):
                alike.append(_Alike(build.dataset, segment, opened, own.quantizer, addresses))
            else:
                others.append(segment)
    shares: list[Runs] = [share.detail for share in build.shares]
    anew = _encode_anew(build, others)
    version = index_file_version(build.dataset)
    file, lengths = write_storage(
        store, build.directory, model, _partitions(store, [*shares, *anew], alike, model), version
    )
    store.delete_many([share.path for share in anew])
    graphs: Iterator[Graph] = iter(())
    tasks: list[GraphTask] = []
    if model.graph is not None:
        tasks = _graph_tasks(build, model, lengths)
        # The longest begin first.
        order = sorted(range(len(tasks)), key=lambda number: -int(tasks[number].lengths.sum()))
        made = build.run(run_graphs, [tasks[number] for number in order], "build graphs")
        abouts = [about for _, about in sorted(zip(order, made, strict=True), key=lambda pair: pair[0])]
        graphs = _read_graphs(store, tasks, abouts)
    index = write_index(store, build.directory, model, graphs, version)
    store.delete_many([task.path for task in tasks])
    return file, index


def _encode_anew(build: SegmentBuild, segments: Sequence[IndexMetadata]) -> list[Runs]:
    """Encode the rows of segments with another model from the table: their codes are incompatible."""
    tasks = []
    for segment in segments:
        covered = sorted(effective_fragments(build.dataset.manifest, segment))
        if covered:
            task = BuildTask(
                build.dataset,
                build.column,
                tuple(covered),
                build.row_ids,
                build.directory,
                build.parameters,
                build.prepared,
            )
            tasks.append(ShareTask(task, f"{build.directory}/.tmp_anew_{uuid.uuid4().hex}.lance"))
    return build.run(run_share, tasks, "encode vectors again") if tasks else []


@dataclass(frozen=True, slots=True, eq=False)
class _Alike:
    """An existing segment whose codes can be taken over."""

    dataset: Snapshot
    segment: IndexMetadata
    opened: VectorSegment
    quantizer: Quantizer
    addresses: bool

    def rows(self, model: Model, number: int) -> pa.Table:
        """Return rows of a partition that belong to fragments it still covers, at their places of today."""
        with reading(self.segment):
            stored = self.opened.read_partition(number)
            if any(column.null_count for column in stored.columns[1:]):
                # Graphs are created again, so that null vectors have no number to keep under them either.
                stored = stored.drop_null()
            names = row_ids(stored, self.opened.storage.path)
            rows = self.quantizer.unpack(stored.drop_columns([ROW_ID]))
            names, kept = self._current(names)
        moved = rows.add_column(0, storage_schema(model).field(0), pa.array(names, pa.uint64()))
        return moved if kept.all() else moved.filter(pa.array(kept))

    def _current(self, names: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
        covered = effective_fragments(self.dataset.manifest, self.segment)
        if not self.addresses:
            _, kept = locate_row_ids(self.dataset, self.segment, covered, names)
            return names, kept
        check_addresses(self.dataset.manifest, names, self.opened.storage.path)
        moved, kept = current_addresses(self.dataset, self.segment, names)
        live = np.array(sorted(covered), np.uint64)
        return moved, kept & np.isin(moved >> np.uint64(32), live)


def _partitions(
    store: Store, shares: Sequence[Runs], alike: Sequence[_Alike], model: Model
) -> Iterator[pa.Table]:
    schema = storage_schema(model)
    rows = np.zeros(len(model.centroids), np.int64)
    for share in shares:
        rows += share.lengths.sum(axis=0)
    width = 8 + sum(_bytes_of(field.type) for field in model.quantizer.columns)
    for first, last in cut(rows, max(1, _RANGE_BYTES // width)):
        found = rows_of_partitions(store, shares, first, last)
        for number in range(first, last):
            parts = [*found[number - first], *(segment.rows(model, number) for segment in alike)]
            whole = [part.cast(schema) for part in parts if part.num_rows]
            yield pa.concat_tables(whole).combine_chunks() if whole else schema.empty_table()


def _bytes_of(stored: pa.DataType) -> int:
    """Return the bytes of a row of a quantizer column."""
    if pa.types.is_fixed_size_list(stored):
        return int(stored.list_size) * _bytes_of(stored.value_type)
    return int(stored.bit_width) // 8


def cut(rows: npt.NDArray[np.int64], limit: int) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, behind the last) of partitions with at most `limit` rows, or of one partition."""
    first, held = 0, 0
    for number, count in enumerate(rows.tolist()):
        if number > first and held + count > limit:
            yield first, number
            first, held = number, 0
        held += count
    if len(rows):
        yield first, len(rows)


def _graph_tasks(build: SegmentBuild, model: Model, lengths: npt.NDArray[np.int64]) -> list[GraphTask]:
    partitions = Partitions.of_lengths(lengths)
    packed = model.to_bytes()
    limit = min(max(int(lengths.sum()) // _GRAPH_TASKS, _GRAPH_ROWS_LEAST), _GRAPH_ROWS_MOST)
    return [
        GraphTask(
            build.dataset.store,
            build.directory,
            packed,
            first,
            partitions.offsets[first:last],
            lengths[first:last],
            f"{build.directory}/.tmp_graph_{uuid.uuid4().hex}.lance",
        )
        for first, last in cut(lengths, limit)
    ]


def run_graphs(task: GraphTask) -> list[tuple[int, str]]:
    """Build the graphs of a range of partitions; nodes and description of each."""
    model = Model.from_bytes(task.model)
    assert model.graph is not None
    storage = FileReader.open(task.store, f"{task.directory}/{STORAGE_FILE}")
    columns = Schema(storage.schema.fields[1:])
    abouts = []
    with FileWriter(
        task.store, task.path, Schema.from_arrow(GRAPH_SCHEMA), version=SHARE_FILE_VERSION
    ) as writer:
        for number, (start, length) in enumerate(
            zip(task.offsets.tolist(), task.lengths.tolist(), strict=True)
        ):
            rows = model.quantizer.unpack(storage.read_table(columns, start=start, stop=start + length))
            vectors, alike = model.decode(rows, task.first + number), model.quantizer.comparable_bytes(rows)
            graph = build_graph(vectors, model.graph, model.metric, alike)
            if graph.nodes.num_rows:
                writer.write(graph.nodes)
            abouts.append((graph.nodes.num_rows, graph.about))
        writer.finish()
    return abouts


def _read_graphs(
    store: Store, tasks: Sequence[GraphTask], abouts: Sequence[list[tuple[int, str]]]
) -> Iterator[Graph]:
    for task, found in zip(tasks, abouts, strict=True):
        reader = FileReader.open(store, task.path)
        start = 0
        for nodes, about in found:
            yield Graph(reader.read_table(start=start, stop=start + nodes), about)
            start += nodes
