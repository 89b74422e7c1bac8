"""Tables of vectors, and searches for the nearest through every segment of an index, without a planner."""

from pathlib import Path

import numpy as np
import pyarrow as pa

import lance_ops as lo
from lance_ops.encoding.arrays import number_dtype
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.reading import current_addresses
from lance_ops.index.registry import kind_of
from lance_ops.index.row_ids import locate_row_ids
from lance_ops.index.scored import Locate, NearestQuery
from lance_ops.index.vector.metric import flat_distances
from lance_ops.index.vector.search import search_segment
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata

DIMENSION = 32


def vector_table(
    rows: int,
    *,
    start: int = 0,
    value_type: pa.DataType | None = None,
    dimension: int = DIMENSION,
    seed: int = 3,
) -> pa.Table:
    """Rows `id`, `v`: clouds of vectors, one in a hundred of them null, NaN or infinite."""
    value_type = value_type or pa.float32()
    rng = np.random.default_rng(seed + start)
    if value_type == pa.uint8():
        vectors = rng.integers(0, 256, (rows, dimension), dtype=np.uint8)
        flat = pa.array(vectors.ravel())
    else:
        centers = np.random.default_rng(1).normal(size=(20, dimension))
        vectors = centers[rng.integers(0, 20, rows)] + rng.normal(size=(rows, dimension)) * 0.7
        broken = rng.random(rows)
        vectors[broken < 0.003] = np.nan
        vectors[(broken > 0.003) & (broken < 0.006), 2] = np.inf
        flat = pa.array(vectors.astype(number_dtype(value_type)).ravel(), value_type)
    lists = pa.FixedSizeListArray.from_arrays(
        flat, dimension, mask=pa.array(rng.random(rows) < 0.005, pa.bool_())
    )
    return pa.table({"id": pa.array(range(start, start + rows), pa.int64()), "v": lists})


def queries(table: pa.Table, count: int, seed: int = 9) -> list[np.ndarray]:
    """Vectors near to some of the table."""
    rng = np.random.default_rng(seed)
    rows = [row for row in table["v"].to_pylist() if row is not None and np.isfinite(row).all()]
    chosen = [np.array(rows[number]) for number in rng.integers(0, len(rows), count)]
    if table["v"].type.value_type == pa.uint8():
        return [row.astype(np.uint8) for row in chosen]
    return [(row + rng.normal(size=len(row)) * 0.3).astype(np.float32) for row in chosen]


def locate(dataset: Dataset, segment: IndexMetadata) -> Locate:
    """Where rows of a segment are, and which are alive and covered."""
    covered = effective_fragments(dataset.manifest, segment)
    kind = kind_of(segment)
    assert kind is not None

    def found(names):
        if not kind.holds_addresses(segment, stable_row_ids=dataset.manifest.uses_stable_row_ids):
            return locate_row_ids(dataset, segment, covered, names)
        addresses, kept = current_addresses(dataset, segment, names)
        owners = addresses >> np.uint64(32)
        kept = kept & np.isin(owners, np.array(sorted(covered), np.uint64))
        for fragment in dataset.fragments:
            deleted = dataset.deletion_vector(fragment)
            if deleted is not None:
                gone = np.isin(addresses & np.uint64(0xFFFFFFFF), deleted.offsets())
                kept &= ~(gone & (owners == np.uint64(fragment.id)))
        return addresses, kept

    return found


def search(uri: str | Path, query: NearestQuery) -> list[tuple[int, float]]:
    """(id, distance) of the nearest rows by the index on the column, all its segments together."""
    dataset = lo.dataset(str(uri))
    found: list[tuple[float, int]] = []
    for segment in dataset.indices:
        if not segment.is_system and dataset.lance_schema.path(segment.fields[0]) == query.column:
            best = search_segment(dataset, segment, query, locate(dataset, segment))
            found += zip(best.scores.tolist(), best.addresses.tolist(), strict=True)
    found.sort()
    rows = found[: query.k]
    ids = dataset.take([address for _, address in rows], ["id"], by="address")["id"].to_pylist()
    return [(number, score) for (score, _), number in zip(rows, ids, strict=True)]


def nearest(table: pa.Table, metric: str, query: np.ndarray, k: int) -> list[tuple[int, float]]:
    """(id, distance) of the nearest rows of a table, by looking at all of them."""
    present = table.filter(table["v"].is_valid())
    vectors = present["v"].combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(len(present), -1)
    distances = flat_distances(metric, query, vectors)
    order = [number for number in np.argsort(distances, kind="stable") if np.isfinite(distances[number])]
    return [(present["id"][int(number)].as_py(), float(distances[number])) for number in order[:k]]
