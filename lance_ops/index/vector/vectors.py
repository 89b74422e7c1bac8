"""The vectors of a column: which columns have some, and those of its live rows that an index can find."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.distinct import distinct
from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.field_path import parse_field_path
from lance_ops.file.schema.model import Field
from lance_ops.index.column import column_values, value_type
from lance_ops.index.vector.metric import Vectors, finite_rows, only
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragments.totals import live_rows_by_id, numbers_of, rows_of
from lance_ops.table.manifest.row_set import Addresses

_SAMPLE_WHOLE = 0.3
"""Share of the rows above which a sample is read from all of them instead of one by one."""
_TAKEN_ROWS = 1 << 16
_ITEM_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}
_PILOT_ROWS, _PILOT_SEED = 256, 7
"""Number of rows from which the average vectors per row are estimated."""


def holds_several(field: Field) -> bool:
    """Return whether each row of a column holds a list of vectors and not a single one."""
    found = value_type(field)
    return bool(pa.types.is_list(found)) and bool(pa.types.is_fixed_size_list(found.value_type))


def fixed_size_hint(column: str, kind: pa.DataType) -> str:
    """Return how lists of any length, as pandas and Parquet have them, become vectors."""
    item = _ITEM_NAMES.get(str(kind.value_type), str(kind.value_type))
    return (
        f"where all lists have N numbers, alter_columns(uri, {{'path': {column!r}, 'data_type': "
        f"pyarrow.list_(pyarrow.{item}(), N)}}) makes vectors of them"
    )


def vector_type(field: Field) -> pa.FixedSizeListType:
    """Arrow type of the vectors of a column that vector indices can be on, as these see them.

    Of several vectors a row it is that of one of them. Numbers of 8 bits with a sign are floats of 32 bits to
    indices, as in pylance.

    Raises:
        InvalidArgumentError: they cannot be on it; names its type and what they take.
    """
    found = value_type(field)
    if holds_several(field) and pa.types.is_floating(found.value_type.value_type):
        return found.value_type
    if pa.types.is_list(found) or pa.types.is_large_list(found):
        raise InvalidArgumentError(
            f"column {field.name!r} is {found}, which no vector index can be on",
            field="column",
            hint="it takes one vector a row, a list of a fixed number of floats (or bytes for hamming), "
            f"or lists of vectors of floats; {fixed_size_hint(field.name, found)}",
        )
    if not pa.types.is_fixed_size_list(found) or not (
        pa.types.is_floating(found.value_type) or found.value_type in (pa.int8(), pa.uint8())
    ):
        raise InvalidArgumentError(
            f"column {field.name!r} has type {found}, which is not a vector type",
            field="column",
            hint="it takes lists of a fixed number of floats (16, 32 or 64 bits), int8, or bytes for hamming",
        )
    return pa.list_(pa.float32(), found.list_size) if found.value_type == pa.int8() else found


def live_vectors(
    dataset: Dataset, column: str, fragment_ids: Sequence[int], *, row_ids: bool
) -> Iterator[tuple[Addresses, Vectors]]:
    """Yield names and vectors of live rows, a batch at a time, without nulls and what is not finite.

    A row that holds several vectors is named once for each of them.

    Args:
        dataset: The version to read.
        column: Path of the column.
        fragment_ids: Which fragments.
        row_ids: Name rows by stable row id and not by address.
    """
    for rows in column_values(dataset, column, fragment_ids, row_ids=row_ids):
        vectors, owners = finite_vectors(rows["values"])
        yield rows["ids"].to_numpy()[owners], vectors


def finite_vectors(column: pa.ChunkedArray) -> tuple[Vectors, npt.NDArray[np.int64]]:
    """Return the vectors of a column that are there and all finite, and the row of each, ascending."""
    # Joining copies, even what is in one piece.
    lists = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    lists = stored_lists(lists)
    if pa.types.is_list(lists.type):
        parents = pc.list_parent_indices(lists).to_numpy()
        vectors, kept = _finite(pc.list_flatten(lists))
        return vectors, parents[kept].astype(np.int64, copy=False)
    vectors, kept = _finite(lists)
    return vectors, np.flatnonzero(kept)


def _finite(lists: pa.FixedSizeListArray) -> tuple[Vectors, npt.NDArray[np.bool_]]:
    """Return the vectors that are there and all finite, and which these are."""
    kept = np.asarray(lists.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    present = lists if kept.all() else lists.filter(pa.array(kept))
    values = present.flatten()
    width = lists.type.list_size
    whole = np.ones(len(present), np.bool_)
    if values.null_count:
        there = values.is_valid().to_numpy(zero_copy_only=False)
        whole &= there.reshape(-1, width).all(axis=1)
        values = values.fill_null(pa.scalar(0, values.type))
    vectors: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(-1, width)
    if vectors.dtype == np.int8:
        vectors = vectors.astype(np.float32)
    elif vectors.dtype != np.uint8:
        whole &= finite_rows(vectors)
    kept[np.flatnonzero(kept)[~whole]] = False
    return only(vectors, whole), kept


def stored_lists(column: pa.Array) -> pa.Array:
    """The lists of a fixed number of values in a column, be it of tensors or of another extension type."""
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def sample_vectors(
    dataset: Dataset, column: str, fragment_ids: Sequence[int], rows: int, seed: int, *, run: int = 1
) -> Vectors:
    """About `rows` vectors of random live rows of some fragments, or all when there are fewer.

    Args:
        dataset: The version to read.
        column: Path of the column.
        fragment_ids: Which fragments.
        rows: About how many.
        seed: Of the random choice.
        run: Rows that are taken in sequence: longer runs take fewer reads.
    """
    counts = live_rows_by_id(dataset.fragments)
    total = sum(counts[number] for number in fragment_ids)
    random = np.random.default_rng(seed)
    parts: list[Vectors] = []
    if holds_several(dataset.lance_schema.field(column)):
        rows = rows_with(dataset, column, rows, fragment_ids)
    if rows < total * _SAMPLE_WHOLE:
        chosen = _positions(dataset, fragment_ids, _ranks(random, total, rows, run))
        for start in range(0, len(chosen), _TAKEN_ROWS):
            taken = dataset.take(chosen[start : start + _TAKEN_ROWS], [column]).column(0)
            parts.append(finite_vectors(leaf_of(taken, column))[0])
    else:
        share = min(1.0, rows / max(total, 1))
        for _, vectors in live_vectors(dataset, column, fragment_ids, row_ids=False):
            parts.append(vectors if share == 1 else vectors[random.random(len(vectors)) < share])
    width = vector_type(dataset.lance_schema.field(column)).list_size
    return np.concatenate(parts) if parts else np.zeros((0, width), np.float32)


def rows_with(dataset: Dataset, column: str, vectors: int, fragment_ids: Sequence[int] | None = None) -> int:
    """Estimate from a sample how many rows have about so many vectors together.

    Args:
        dataset: The version to read.
        column: Path of a column with several vectors a row.
        vectors: Number of vectors.
        fragment_ids: Fragments; all when None.
    """
    ids = numbers_of(dataset.fragments).ids.tolist() if fragment_ids is None else fragment_ids
    total = rows_of(dataset.fragments, ids)
    if not total:
        return 0
    pilot = _positions(dataset, ids, _ranks(np.random.default_rng(_PILOT_SEED), total, _PILOT_ROWS, 1))
    held = len(finite_vectors(leaf_of(dataset.take(pilot, [column]).column(0), column))[0])
    return max(1, vectors * len(pilot) // held) if held else total


def leaf_of(values: pa.ChunkedArray, column: str) -> pa.ChunkedArray:
    """Return the column from the read data, which is a struct for nested columns."""
    for name in parse_field_path(column)[1:]:
        values = pc.struct_field(values, name)
    return values


def random_positions(total: int, rows: int, seed: int, *, run: int = 1) -> npt.NDArray[np.int64]:
    """Return about `rows` random positions, ascending, in short consecutive runs."""
    return _ranks(np.random.default_rng(seed), total, rows, run)


def _ranks(random: np.random.Generator, total: int, rows: int, run: int) -> npt.NDArray[np.int64]:
    run = min(run, total)
    starts = random.integers(0, max(1, total - run + 1), -(-rows // run))
    return distinct(starts[:, None] + np.arange(run))


def _positions(
    dataset: Dataset, fragment_ids: Sequence[int], ranks: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Places among all live rows of those that have some ranks among the live rows of some fragments."""
    counts = np.array([fragment.num_rows for fragment in dataset.fragments], np.int64)
    chosen = np.isin(numbers_of(dataset.fragments).ids.tolist(), list(fragment_ids))
    before = (np.cumsum(counts) - counts)[chosen]
    starts = np.cumsum(counts[chosen]) - counts[chosen]
    owner = np.searchsorted(starts, ranks, side="right") - 1
    return np.asarray(before[owner] + ranks - starts[owner], np.int64)
