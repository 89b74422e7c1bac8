"""Vector indices as kinds: built from assigned shares, merged by partitions, remapped, searched by score.

All share one type URL; the details of an entry distinguish them. Entries of some writers have none: these are
of the kind `VECTOR`, and their files decide.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from lance_ops.encoding.arrays import number_dtype
from lance_ops.errors import InvalidArgumentError, LanceOpsError, UnsupportedError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Field
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import (
    BuildTask,
    BuiltSegment,
    IndexKind,
    Match,
    ModelFit,
    Parameters,
    SegmentBuild,
    SegmentMove,
    Share,
)
from lance_ops.index.reading import check_addresses, reading
from lance_ops.index.sampling import sample_of_file
from lance_ops.index.vector.fit import model_fit, training_of
from lance_ops.index.vector.graph.model import check_graphs
from lance_ops.index.vector.ivf import read_partitions
from lance_ops.index.vector.merge import ShareTask, merge, run_share
from lance_ops.index.vector.metric import metric_numbered
from lance_ops.index.vector.model import HINT, Model, Training
from lance_ops.index.vector.parameters import INDEX_TYPES, check_parameters, partition_count
from lance_ops.index.vector.remap import remap
from lance_ops.index.vector.segment.read import STORAGE_FILE, VectorSegment
from lance_ops.index.vector.train import SEED, sample_rows, train
from lance_ops.index.vector.vectors import holds_several, sample_vectors, vector_type
from lance_ops.pb import index_pb2
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragments.totals import rows_of, total_rows
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import Addresses
from lance_ops.table.snapshot import Snapshot

ANY_VECTOR = "VECTOR"
_RABIT = "IVF_RQ"
_RABIT_VERSION = 2
_GROWTH = 4
"""Factor of the ideal to the actual number of partitions above which an index is trained again."""
# A name of a parameter by that of the hint in the details.
_HINTS = {"ivf.sample_rate": "sample_rate", "ivf.max_iters": "max_iters"}


class VectorKind(IndexKind):
    """One kind of vector index.

    Index versions up to 2 hold row ids, which are addresses unless the table has stable row ids.

    Args:
        index_type: Name in pylance, or `VECTOR` for entries without details.
    """

    type_url = "/lance.index.pb.VectorIndexDetails"
    names_every_row = False
    keeps_gone_rows = True
    counts_gone_row_ids = True
    file_of_layout = STORAGE_FILE
    name = ANY_VECTOR

    def __init__(self, index_type: str) -> None:
        self.name = index_type  # type: ignore[misc]

    def parameters(self, field: Field, given: Parameters) -> Parameters:
        """See `IndexKind.parameters`."""
        index_type = given.get("index_type", self.name)
        if index_type not in INDEX_TYPES:
            raise InvalidArgumentError(
                f"{index_type} can be searched and remapped, not built",
                field="kind",
                hint=f"kinds that can be built: {', '.join(INDEX_TYPES)}",
            )
        return check_parameters(index_type, vector_type(field), given, several=holds_several(field))

    def parameters_of(self, dataset: Snapshot, segment: IndexMetadata) -> Parameters:
        """See `IndexKind.parameters_of`."""
        details = _details(segment) or index_pb2.VectorIndexDetails()
        hints = {name.removeprefix(HINT): value for name, value in details.runtime_hints.items()}
        given: dict[str, Any] = {}
        for hint, name in _HINTS.items():
            if hints.get(hint, "").isdigit():
                given[name] = int(hints[hint])
        if details.target_partition_size:
            given["target_partition_size"] = details.target_partition_size
        with reading(segment):
            opened = VectorSegment.open(*dataset.bases.index_directory(segment))
            given["index_type"], given["metric"] = opened.index_type, opened.metric
            partitions = len(opened.partitions)
            if opened.quantizer_name == "PQ":
                given["num_sub_vectors"] = int(opened.info["num_sub_vectors"])
                given["num_bits"] = int(opened.info["nbits"])
            if opened.quantizer_name == "RQ":
                if opened.info.get("rotate_mat_position") is not None:
                    raise UnsupportedError("its rotation is a matrix, which nothing here makes")
                given["num_bits"] = int(opened.info["num_bits"])
            if opened.graph is not None:
                given["m"], given["max_level"] = opened.graph.m, opened.graph.max_level
                given["ef_construction"] = opened.graph.ef_construction
            if given["index_type"] not in INDEX_TYPES:
                raise UnsupportedError(f"an index of type {given['index_type']} cannot be built")
            field = dataset.lance_schema.by_id(segment.fields[0])
            assert field is not None
            # Impossible parameters are damage, not an error of the caller.
            parameters = dict(self.parameters(field, given))
            # An index that has grown may have more partitions than it was made with, never fewer.
            rows = total_rows(dataset.fragments)
            parameters["num_partitions"] = max(partitions, partition_count(parameters, rows))
            return parameters

    def recorded_parameters(self, segment: IndexMetadata) -> Parameters:
        """See `IndexKind.recorded_parameters`."""
        details = _details(segment)
        if details is None:
            return {}
        said: dict[str, Any] = {
            "num_partitions": details.target_num_partitions,
            "target_partition_size": details.target_partition_size,
            "num_sub_vectors": details.pq.num_sub_vectors,
            "num_bits": details.pq.num_bits or details.rq.num_bits,
            "m": details.hnsw_index_config.max_connections,
            "ef_construction": details.hnsw_index_config.construction_ef,
            "max_level": details.hnsw_index_config.max_level,
        }
        recorded = {name: value for name, value in said.items() if value}
        return {"metric": metric_numbered(details.metric_type), **recorded}

    def check_field(self, field: Field) -> None:
        """See `IndexKind.check_field`."""
        vector_type(field)

    def can_read(self, segment: IndexMetadata) -> bool:
        """Return whether the details of an entry are of this kind; see `IndexKind.can_read`."""
        if segment.index_version == _RABIT_VERSION and self.name not in (_RABIT, ANY_VECTOR):
            return False
        return super().can_read(segment) and _index_type(segment) == self.name

    def prepare(self, build: SegmentBuild) -> bytes:
        """See `IndexKind.prepare`: the model of the index as far as it has one, else a new one."""
        model = _existing_model(build)
        if model is None:
            fragments = {*build.fragment_ids}.union(
                *(effective_fragments(build.dataset.manifest, segment) for segment in build.segments)
            )
            rows = rows_of(build.dataset.fragments, fragments)
            partitions = partition_count(build.parameters, rows)
            column = vector_type(build.field)
            wanted = sample_rows(build.parameters, partitions, column.list_size)
            sample = sample_vectors(build.dataset, build.column, sorted(fragments), wanted, SEED)
            model = train(sample, build.parameters, partitions, column.value_type)
            model = replace(model, training=training_of(model, sample, rows))
        return model.to_bytes()

    def build_share(self, task: BuildTask, path: str) -> Share:
        """See `IndexKind.build_share`."""
        runs = run_share(ShareTask(task, f"{path}.lance"))
        return Share((runs.path,), runs)

    def merge(self, build: SegmentBuild) -> BuiltSegment:
        """See `IndexKind.merge`."""
        if build.parameters["index_type"] not in INDEX_TYPES:
            raise UnsupportedError(f"{build.parameters['index_type']} cannot be built")
        model = Model.from_bytes(build.prepared)
        files = merge(build, model, addresses=not build.row_ids)
        hints = {hint: str(build.parameters[name]) for hint, name in _HINTS.items()}
        details = model.details(hints, build.parameters["target_partition_size"] or 0)
        return BuiltSegment(files, details, _RABIT_VERSION if model.index_type == _RABIT else None)

    def remap(self, move: SegmentMove) -> BuiltSegment:
        """See `IndexKind.remap`."""
        return remap(move)

    def may_wait(self, dataset: Snapshot, segment: IndexMetadata) -> bool:
        """See `IndexKind.may_wait`: graphs cannot: pylance takes rows out of their storage."""
        with reading(segment):
            return VectorSegment.open(*dataset.bases.index_directory(segment)).graph is None

    def addresses(self, dataset: Snapshot, segment: IndexMetadata) -> Iterator[Addresses]:
        """See `IndexKind.addresses`."""
        if segment.fragment_ids:
            with reading(segment):
                yield from VectorSegment.open(*dataset.bases.index_directory(segment)).addresses()

    def sample(self, dataset: Snapshot, segment: IndexMetadata, limit: int) -> tuple[Addresses, int]:
        """See `IndexKind.sample`."""
        if not segment.fragment_ids:
            return np.zeros(0, np.uint64), 0
        with reading(segment):
            opened = VectorSegment.open(*dataset.bases.index_directory(segment))
            return sample_of_file(opened.names, opened.storage.num_rows, limit)

    def search(self, dataset: Snapshot, segment: IndexMetadata, query: ColumnQuery) -> Match | None:
        """See `IndexKind.search`: no filter is about nearness."""
        del dataset, segment, query
        return None

    def verify(self, dataset: Snapshot, segment: IndexMetadata, *, deep: bool) -> None:
        """See `IndexKind.verify`."""
        if not segment.fragment_ids:
            # An index that was named before there was anything to learn from has no files.
            return
        with reading(segment):
            opened = VectorSegment.open(*dataset.bases.index_directory(segment))
            _check_column(dataset, segment, opened.model())
            if opened.graph is not None and isinstance(opened.index, FileReader):
                check_graphs(
                    opened.index, read_partitions(opened.index), opened.partitions.lengths, deep=deep
                )
            stable = dataset.manifest.uses_stable_row_ids
            for names in opened.addresses():
                if self.holds_addresses(segment, stable_row_ids=stable):
                    check_addresses(dataset.manifest, names, opened.storage.path)
                if not deep:
                    break
            if deep:
                for batch in opened.storage.iter_batches():
                    del batch

    def fit(self, dataset: Dataset, segments: Sequence[IndexMetadata]) -> ModelFit | None:
        """See `IndexKind.fit`."""
        column = dataset.lance_schema.path(segments[0].fields[0])
        return model_fit(
            dataset, column, [(segment, Training.read(_details(segment))) for segment in segments]
        )

    def statistics(self, dataset: Snapshot, segment: IndexMetadata) -> Mapping[str, Any]:
        """See `IndexKind.statistics`; centroids are left out."""
        with reading(segment):
            opened = VectorSegment.open(*dataset.bases.index_directory(segment))
            sub_index = {name: value for name, value in opened.info.items() if "codebook" not in name}
            return {
                "index_type": opened.index_type,
                "uuid": str(segment.uuid),
                "metric_type": opened.metric,
                "num_partitions": len(opened.partitions),
                "sub_index": {
                    **sub_index,
                    "index_type": "HNSW" if opened.graph else opened.quantizer_name,
                    "metric_type": opened.metric,
                },
                "partitions": [{"size": int(length)} for length in opened.partitions.lengths],
                "loss": opened.loss,
            }


def _existing_model(build: SegmentBuild) -> Model | None:
    """Return the model of the largest segment of the index that matches its parameters; None to train one.

    Segments with one model can be merged without reading vectors, and have comparable distances. A model that
    is far too small for its index is dropped if no other segment uses it.
    """
    found: Model | None = None
    rows = -1
    for segment in (*build.beside, *build.segments):
        if not segment.fragment_ids:
            continue
        try:
            with reading(segment):
                opened = VectorSegment.open(*build.dataset.bases.index_directory(segment))
                if (
                    opened.storage.num_rows <= max(rows, 0)
                    or opened.index_type != build.parameters["index_type"]
                ):
                    continue
                model = replace(opened.model(), training=Training.read(_details(segment)))
                if not model.quantizer.can_encode:
                    continue
                _check_column(build.dataset, segment, model)
                found, rows = model, opened.storage.num_rows
        except LanceOpsError:
            # Its damage only matters for a merge of this segment.
            continue
    wanted = int(build.parameters["num_partitions"] or 1)
    if found is not None and not build.beside and _GROWTH * len(found.centroids) < min(wanted, rows):
        return None
    return found


def _check_column(dataset: Snapshot, segment: IndexMetadata, model: Model) -> None:
    field = dataset.lance_schema.by_id(segment.fields[0]) if len(segment.fields) == 1 else None
    column = None if field is None else vector_type(field)
    if column is None or column.list_size != model.quantizer.dimension:
        raise InvalidArgumentError(
            f"it is of {model.quantizer.dimension} dimensions, and the column is {column}"
        )
    if model.centroids.dtype != number_dtype(column.value_type):
        raise InvalidArgumentError(f"its centroids are {model.centroids.dtype}, and the column is {column}")


def _details(segment: IndexMetadata) -> index_pb2.VectorIndexDetails | None:
    message = index_pb2.VectorIndexDetails()
    try:
        message.ParseFromString(segment.details)
    except DecodeError:
        return None
    return message


def _index_type(segment: IndexMetadata) -> str:
    details = _details(segment)
    compression = details.WhichOneof("compression") if details is not None else None
    if details is None or compression is None:
        return ANY_VECTOR
    return f"IVF_{'HNSW_' if details.HasField('hnsw_index_config') else ''}{compression.upper()}"


VECTOR_KINDS = tuple(VectorKind(name) for name in (*INDEX_TYPES, ANY_VECTOR))
