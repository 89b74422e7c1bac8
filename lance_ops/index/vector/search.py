"""Searching a vector segment for the nearest rows.

The codes of the nearest partitions are read whole and compared with the query, in partitions with graphs,
too: a graph has more bytes than the codes that it saves from being read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.kernels.index.code_distances import greatest_of_least
from lance_ops.errors import InvalidArgumentError
from lance_ops.index.opened import opened as kept
from lance_ops.index.opened import opened_parts
from lance_ops.index.scored import Locate, NearestQuery, Scored
from lance_ops.index.vector.metric import flat_distances
from lance_ops.index.vector.model import Model
from lance_ops.index.vector.probes import first_probes
from lance_ops.index.vector.quantizer.base import Codes
from lance_ops.index.vector.segment.read import ROW_ID, VectorSegment, row_ids
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import Addresses
from lance_ops.table.snapshot import Snapshot

__all__ = ["flat_distances", "search_segment"]

_LOOKED_UP = 256
"""Minimum number of candidates at first: rows that do not count may be among the nearest."""
_MORE = 8
"""Growth factor of candidates if too few of them count."""
_READ_BYTES = 64 << 20


def search_segment(
    dataset: Snapshot,
    segment: IndexMetadata,
    query: NearestQuery,
    locate: Locate,
    *,
    enough: int | None = None,
) -> Scored:
    """Return the nearest rows of a segment, best first; a row with several vectors once for each of these.

    Args:
        dataset: The version to search.
        segment: One of its vector indices.
        query: The query. With a refine factor, more rows are returned, and the caller applies the distance
            range.
        locate: Locates rows, and masks those that count.
        enough: Number of rows after which no more partitions are searched; the requested number when None.

    Returns:
        Rows with distances from the index: exact for FLAT; for PQ and SQ those of the
        codes, which for cosine are twice as large (squared distances of vectors of length one).

    Raises:
        CorruptFileError: the segment is damaged.
        InvalidArgumentError: the vector is not one of the column.
    """
    if not segment.fragment_ids:
        return Scored.nothing()
    opened, model = kept(dataset, segment, lambda: _with_model(dataset, segment))
    vector = np.asarray(query.vector)
    if vector.shape != (model.quantizer.dimension,):
        raise InvalidArgumentError(
            f"a vector of shape {vector.shape} for {model.quantizer.dimension} dimensions", field="q"
        )
    wanted = model.prepare(vector[None])[0]
    count = query.k * (query.refine_factor or 1)
    limits = query.distance_range if query.refine_factor is None else (None, None)
    far = model.centroid_distances(wanted)
    order = np.argsort(far, kind="stable")
    lengths = opened.partitions.lengths
    probes = (int(number) for number in order if lengths[number])
    most = len(order) if query.maximum_nprobes is None else query.maximum_nprobes
    step = first_probes(model.metric, far[order], query.k, query.minimum_nprobes, query.maximum_nprobes)
    best, done = Scored.nothing(), 0
    while step and (chosen := list(islice(probes, step))):
        for group in _groups(opened, chosen):
            parts = opened_parts(
                dataset, segment, group, partial(_read, dataset, segment, opened, model), _Rows.size_bytes
            )
            names = np.concatenate([part.names for part in parts])
            distances = model.distances(wanted, [part.codes for part in parts], group)
            best = _best(best, names, distances, locate, count, limits)
        done += step
        # Doubled each time, until there are enough rows.
        step = 0 if len(best) >= (enough or count) else min(done, most - done)
    return best


def metric_of(dataset: Snapshot, segment: IndexMetadata) -> str:
    """Return the metric that a segment measures distances by.

    Raises:
        CorruptFileError: the segment is damaged.
    """
    return kept(dataset, segment, lambda: _with_model(dataset, segment))[1].metric


def _groups(opened: VectorSegment, partitions: Sequence[int]) -> Iterator[list[int]]:
    """Yield partitions that are read at once: some megabytes, or a single one."""
    row_bytes = max(1, opened.row_bytes)
    group: list[int] = []
    held = 0
    for number in partitions:
        size = int(opened.partitions.lengths[number]) * row_bytes
        if group and held + size > _READ_BYTES:
            yield group
            group, held = [], 0
        group.append(number)
        held += size
    yield group


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The rows of a partition."""

    names: Addresses
    codes: Codes

    def size_bytes(self) -> int:
        return int(self.names.nbytes + sum(codes.nbytes for codes in self.codes))


_NARROW = "narrow columns"
"""Key of the centroids among the cached parts of a segment, which are numbers otherwise."""


def _read(
    dataset: Snapshot,
    segment: IndexMetadata,
    opened: VectorSegment,
    model: Model,
    partitions: Sequence[int],
) -> list[_Rows]:
    columns = [ROW_ID, *model.quantizer.searched]
    # Each query may be the first on some partitions, and would read all of these again.
    (narrow,) = opened_parts(
        dataset, segment, [_NARROW], lambda _: [opened.read_narrow(columns)], lambda table: int(table.nbytes)
    )
    return [
        _Rows(row_ids(rows, opened.storage.path), model.quantizer.codes(rows.drop_columns([ROW_ID])))
        for rows in opened.read_partitions(partitions, columns, narrow)
    ]


def _with_model(dataset: Snapshot, segment: IndexMetadata) -> tuple[VectorSegment, Model]:
    opened = VectorSegment.open(*dataset.bases.index_directory(segment))
    return opened, opened.model()


def _best(
    found: Scored,
    names: Addresses,
    distances: npt.NDArray[np.float32],
    locate: Locate,
    count: int,
    limits: tuple[float | None, float | None],
) -> Scored:
    """Merge previous results with the nearest of some rows that count, best first."""
    low, high = limits
    # NaN is in no range, and not near to anything.
    inside = np.isfinite(distances)
    if low is not None:
        inside &= distances >= low
    if high is not None:
        inside &= distances < high
    if not inside.all():
        names, distances = names[inside], distances[inside]
    addresses: list[Addresses] = [found.addresses]
    scores: list[npt.NDArray[np.float32]] = [found.scores]
    wide, start, counted = max(_LOOKED_UP, 2 * count), 0, 0
    while True:
        order = _nearest_first(distances, names, wide)
        chosen = order[start:]
        places, kept = locate(names[chosen])
        addresses.append(places[kept])
        scores.append(distances[chosen][kept])
        counted += int(kept.sum())
        if counted >= count or len(order) == len(distances):
            break
        # Previous results come first.
        start, wide = len(order), _MORE * len(order)
    together, ranks = np.concatenate(addresses), np.concatenate(scores)
    chosen = _order(ranks, together)[:count]
    return Scored(together[chosen], ranks[chosen])


def _nearest_first(distances: npt.NDArray[np.float32], names: Addresses, count: int) -> npt.NDArray[np.int64]:
    """The nearest rows in order: at least `count`, with all as near as the last of them, or all there are."""
    if count >= len(distances):
        return _order(distances, names)
    near = np.flatnonzero(distances <= greatest_of_least(distances=distances, count=count))
    return near[_order(distances[near], names[near])]


def _order(distances: npt.NDArray[np.float32], names: Addresses) -> npt.NDArray[np.int64]:
    """By distance; where it is equal, by name."""
    return np.lexsort((names, distances))
