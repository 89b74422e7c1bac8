"""Model fit: balance of the partitions of an index, and distances of rows from their centroids.

A model is trained once, and rows are added later. Rows unlike the training data are far from all centroids,
so their codes are inaccurate, and concentrate in a few partitions, so a search of these reads more. Both are
estimated from the partition sizes and a bounded sample.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import ModelFit
from lance_ops.index.reading import reading
from lance_ops.index.vector.metric import Vectors, finite_rows, flat_distances, normalized, only
from lance_ops.index.vector.model import Model, Training
from lance_ops.index.vector.segment.read import VectorSegment
from lance_ops.index.vector.train import SEED
from lance_ops.index.vector.vectors import sample_vectors
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata

SAMPLE_ROWS = 4096
"""Rows that a mean distance is measured on: it is known to a few percent then."""
_RUN_ROWS = 64
"""Rows of the sample that follow each other, so that it takes few reads."""
_TRAINING_ROWS = 1 << 16


def training_of(model: Model, sample: Vectors, rows: int) -> Training:
    """Return the training statistics to record, for later comparison.

    Args:
        model: The trained model.
        sample: The training vectors.
        rows: Live rows that they represent.
    """
    step = max(1, len(sample) // _TRAINING_ROWS)
    lengths = np.bincount(
        model.assign(_comparable(model, sample[::step])), minlength=len(model.centroids)
    ).astype(np.int64)
    step = max(1, len(sample) // (2 * SAMPLE_ROWS))
    distances, _ = _nearest(model, sample[::step])
    return Training(rows, float(distances.mean()) if len(distances) else 0.0, imbalance_of(lengths))


def imbalance_of(lengths: npt.NDArray[np.int64]) -> float:
    """Return the mean rows read per partition searched, relative to even partitions; at least 1.

    Queries are distributed like rows, so a partition is searched in proportion to its rows.
    """
    rows = lengths.astype(np.float64)
    total = float(rows.sum())
    return float(len(rows) * (rows @ rows) / total**2) if total else 1.0


def model_fit(
    dataset: Dataset,
    column: str,
    segments: Sequence[tuple[IndexMetadata, Training | None]],
) -> ModelFit | None:
    """See `IndexKind.fit`; None for an index without any rows.

    Args:
        dataset: The version.
        column: Path of the indexed column.
        segments: Of one index, with what is known of the training of each.

    Raises:
        UnreadableIndexError: A segment cannot be read.
    """
    found: tuple[VectorSegment, Training | None, IndexMetadata] | None = None
    for segment, training in segments:
        if segment.fragment_ids:
            with reading(segment):
                opened = VectorSegment.open(*dataset.bases.index_directory(segment))
            if opened.storage.num_rows > (found[0].storage.num_rows if found else 0):
                found = opened, training, segment
    if found is None:
        return None
    opened, training, segment = found
    covered = effective_fragments(dataset.manifest, segment)
    trained, newer = _by_age(dataset.fragments, covered, training)
    rows = sum(fragment.num_rows for fragment in newer)
    drift: float | None = None
    with reading(segment):
        model = opened.model()
        before = training.distance if training is not None else _distance(dataset, column, model, trained)
        now = _distance(dataset, column, model, newer)
        if before and now is not None:
            drift = now / before
    return ModelFit(
        rows=rows + sum(fragment.num_rows for fragment in trained),
        newer_rows=rows,
        imbalance=imbalance_of(opened.partitions.lengths),
        imbalance_trained=None if training is None else training.imbalance,
        drift=drift,
    )


def _by_age(
    fragments: Sequence[Fragment], covered: frozenset[int], training: Training | None
) -> tuple[list[Fragment], list[Fragment]]:
    """Return the fragments that a model was trained on, and those added since.

    Rows were merged into the segment since where it has more of them than it was learned from: these are
    about the last ones.
    """
    since = sum(fragment.num_rows for fragment in fragments if fragment.id in covered)
    since -= since if training is None else training.rows
    trained: list[Fragment] = []
    newer: list[Fragment] = []
    for fragment in reversed(fragments):
        if fragment.id not in covered:
            newer.append(fragment)
        elif fragment.num_rows <= since:
            newer.append(fragment)
            since -= fragment.num_rows
        else:
            since = 0
            trained.append(fragment)
    return trained, newer


def _distance(dataset: Dataset, column: str, model: Model, fragments: Sequence[Fragment]) -> float | None:
    """Mean distance of some rows of some fragments from their centroids; None without any."""
    ids = sorted(fragment.id for fragment in fragments if fragment.num_rows)
    if not ids:
        return None
    distances, _ = _nearest(model, sample_vectors(dataset, column, ids, SAMPLE_ROWS, SEED, run=_RUN_ROWS))
    return float(distances.mean()) if len(distances) else None


def _nearest(model: Model, vectors: Vectors) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the distances of vectors from their centroids, and the centroids.

    The distance of l2 and cosine is squared, as the error of a code is; that of dot is one of directions,
    since products have no zero to compare with.
    """
    with np.errstate(all="ignore"):
        prepared = _comparable(model, vectors)
        partitions = model.assign(prepared)
        if model.metric == "hamming":
            far = np.array(
                [
                    flat_distances("hamming", model.centroids[number], row[None])[0]
                    for number, row in zip(partitions.tolist(), prepared, strict=True)
                ],
                np.float64,
            )
            return far, partitions
        nearest = model.centroids[partitions].astype(np.float32)
        if model.metric == "dot":
            prepared, nearest = normalized(prepared), normalized(nearest)
        apart = (prepared - nearest).astype(np.float64)
        distances = np.einsum("ij,ij->i", apart, apart)
    known = np.isfinite(distances)
    return distances[known], partitions[known]


def _comparable(model: Model, vectors: Vectors) -> Vectors:
    """Return vectors prepared for comparison, without invalid ones."""
    prepared = model.prepare(vectors)
    return prepared if model.metric == "hamming" else only(prepared, finite_rows(prepared))
