"""IVF_RQ: its layout, and indices of either side in which both find as many of the nearest."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.index.scored import NearestQuery
from lance_ops.index.vector.quantizer.base import lists_of, matrix_of
from lance_ops.index.vector.quantizer.rq import CODE_COLUMN, RabitQuantizer, best_levels, rotate
from lance_ops.index.vector.quantizer.rq_bits import pack_bits, unpack_bits, unpack_numbers
from lance_ops.index.vector.segment.read import VectorSegment
from tests.support.vectors import nearest, queries, search, vector_table

INFO = {"code_dim": 32, "num_bits": 1, "packed": True, "rotate_mat_position": None}
CODES = pa.list_(pa.uint8(), 4)
COLUMNS = pa.schema([pa.field(CODE_COLUMN, CODES)])


@given(st.integers(0, 130))
def test_packed_signs_are_those_that_went_in(rows: int) -> None:
    quantizer = RabitQuantizer.read("l2", INFO, COLUMNS, "x")
    codes = np.random.default_rng(rows).integers(0, 256, (rows, 4), dtype=np.uint8)
    table = pa.table([lists_of(codes, CODES)], schema=COLUMNS)
    packed = quantizer.pack(table)
    assert quantizer.unpack(packed).equals(table)
    assert packed.num_rows == rows


@given(st.integers(1, 200), st.integers(0, 1000))
def test_a_rotation_keeps_lengths_and_angles(dimension: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    signs = random.integers(0, 256, 4 * -(-dimension // 8)).tolist()
    vectors = random.normal(size=(2, dimension)).astype(np.float32)
    # An odd dimension has one value that sums and differences pass over.
    if dimension % 2 == 0 or dimension & (dimension - 1) == 0:
        rotated = rotate(vectors, signs)
        np.testing.assert_allclose(rotated @ rotated.T, vectors @ vectors.T, atol=1e-3)


def test_a_rotation_by_a_matrix_is_refused() -> None:
    with pytest.raises(UnsupportedError):
        RabitQuantizer.read("l2", {**INFO, "rotate_mat_position": 2}, COLUMNS, "x")


PEERS = [(bits, 32 if bits % 2 else 72, "l2") for bits in range(1, 10)] + [
    (5, 40, "cosine"),
    (5, 40, "dot"),
    (1, 32, "dot"),
]


@pytest.mark.peer
@pytest.mark.parametrize("builder", ["ours", "theirs"])
@pytest.mark.parametrize(("bits", "dimension", "metric"), PEERS)
def test_as_many_of_the_nearest_are_found_as_by_the_peer(
    tmp_path: Path, bits: int, dimension: int, metric: str, builder: str
) -> None:
    uri = str(tmp_path / "t")
    table = vector_table(800, dimension=dimension)
    lance.write_dataset(table, uri, max_rows_per_file=500)
    build(uri, builder, metric, bits)
    dataset = lance.dataset(uri)
    ours = theirs = compared = far = 0
    for query in queries(table, 60):
        wanted = {number for number, _ in nearest(table, metric, query, 10)}
        told = peer_search(dataset, query)
        mine = dict(search(uri, NearestQuery("v", query, k=10, minimum_nprobes=2)))
        ours += len(wanted & mine.keys())
        theirs += len(wanted & told.keys())
        # The peer rounds its query to bytes for the signs: its error is a share of the distances around.
        scale = 1 + max(map(abs, told.values()))
        for number in told.keys() & mine.keys():
            error = abs(mine[number] - told[number])
            assert error <= 0.35 * scale
            compared += 1
            far += error > 0.3 * (1 + abs(told[number]))
    # Its rotation is a random one: of 600 rows to find, three in a hundred are chance.
    assert far <= 0.02 * compared
    assert ours >= theirs - 18, (ours, theirs)


@pytest.mark.peer
@pytest.mark.parametrize(("bits", "dimension", "metric"), PEERS[::2])
def test_the_peer_finds_as_many_in_an_index_of_ours_as_in_its_own(
    tmp_path: Path, bits: int, dimension: int, metric: str
) -> None:
    table = vector_table(2000, dimension=dimension)
    near = {}
    for builder in ("ours", "theirs"):
        uri = str(tmp_path / builder)
        lance.write_dataset(table, uri)
        build(uri, builder, metric, bits)
        dataset = lance.dataset(uri)
        near[builder] = sum(
            len(
                {number for number, _ in nearest(table, metric, query, 10)}
                & peer_search(dataset, query).keys()
            )
            for query in queries(table, 60)
        )
    # Two rotations are two trainings: of 600 rows chance is within this, see `test_peer`.
    assert near["ours"] >= near["theirs"] - 48, near


@pytest.mark.peer
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("bits", [1, 4])
def test_what_corrects_estimates_is_what_the_peer_would_write(tmp_path: Path, bits: int, metric: str) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(vector_table(600, dimension=72), uri)
    lance.dataset(uri).create_index("v", "IVF_RQ", metric=metric, num_partitions=2, num_bits=bits)
    dataset = lo.dataset(uri)
    (segment,) = dataset.indices
    opened = VectorSegment.open(*dataset.bases.index_directory(segment))
    model = opened.model()
    vectors = np.stack(dataset.to_table(columns=["v"])["v"].to_numpy())
    for number, part in enumerate(map(opened.read_partition, range(2))):
        theirs = model.quantizer.unpack(part.drop_columns(["_rowid"]))
        prepared = model.prepare(vectors[part["_rowid"].to_numpy().astype(int)])
        ours = model.encode(prepared, np.full(len(prepared), number))
        assert ours.schema.equals(theirs.schema)
        signs = [matrix_of(rows[CODE_COLUMN]) for rows in (ours, theirs)]
        # A value that is almost nothing may be on either side of it.
        same = (signs[0] == signs[1]).all(axis=1)
        assert same.mean() > 0.99
        for name in ("add", "scale", "error"):
            column = f"__{name}_factors"
            one, other = (rows[column].to_numpy()[same] for rows in (ours, theirs))
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.peer
def test_rows_at_their_centroid_are_at_no_distance(tmp_path: Path) -> None:
    vectors = np.zeros((40, 32), np.float32)
    vectors[20:] = 3
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 32)
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": range(40), "v": column}), uri)
    build(uri, "ours", "l2", 3)
    assert set(search(uri, NearestQuery("v", vectors[0], k=20, minimum_nprobes=2))) == {
        (number, 0.0) for number in range(20)
    }
    assert set(peer_search(lance.dataset(uri), vectors[30]).values()) == {0.0}


def test_dimensions_come_in_eights(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lo.write_dataset(vector_table(50, dimension=20), uri)
    with pytest.raises(InvalidArgumentError, match="eight"):
        lo.create_index(uri, "v", "IVF_RQ")
    with pytest.raises(InvalidArgumentError, match="num_bits"):
        lo.create_index(uri, "v", "IVF_RQ", parameters={"num_bits": 10})


@given(st.integers(1, 8), st.integers(0, 5), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_bits_are_those_that_went_in(bits: int, rows: int, groups: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 1 << bits, (rows, groups * 64)).astype(np.uint8)
    np.testing.assert_array_equal(unpack_bits(pack_bits(values, bits), bits), values)


@given(st.integers(0, 8), st.integers(1, 20), st.integers(0, 70), st.integers(0, 2**32 - 1))
def test_packed_numbers_are_signs_above_levels(bits: int, width: int, rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    quantizer = RabitQuantizer.create(8 * width, "l2", bits + 1, seed=1)
    signs = random.integers(0, 256, (rows, width), dtype=np.uint8)
    kind = quantizer.columns.field(CODE_COLUMN).type
    packed = matrix_of(quantizer.pack(pa.table({CODE_COLUMN: lists_of(signs, kind)}))[CODE_COLUMN])
    levels = np.zeros((rows, -(-width // 8) * 64), np.uint8)
    levels[:, : 8 * width] = random.integers(0, 1 << bits, (rows, 8 * width))
    numbers = unpack_numbers(packed, pack_bits(levels, bits) if bits else None, bits)
    expected = np.unpackbits(signs, axis=1, bitorder="little").astype(int) << bits
    assert np.array_equal(numbers, expected + levels[:, : 8 * width])


@given(st.integers(1, 8), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_levels_keep_directions_better_with_each_bit(bits: int, dimension: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(8, 8 * dimension)).astype(np.float32)
    signs = np.where(vectors > 0, 1, -1)

    def near(values: np.ndarray) -> np.ndarray:
        lengths = np.linalg.norm(values, axis=1) * np.linalg.norm(vectors, axis=1)
        return (values * vectors).sum(axis=1) / lengths

    plain, levelled = near(signs), near((best_levels(vectors, bits).astype(int) * 2 + 1) * signs)
    assert (levelled >= plain - 1e-6).all()
    # Of normally distributed values each bit leaves about a quarter of what was left before.
    assert (1 - levelled).mean() <= (1 - plain).mean() * 0.5**bits


def build(uri: str, builder: str, metric: str, bits: int) -> None:
    """An index of two partitions."""
    if builder == "ours":
        lo.create_index(
            uri, "v", "IVF_RQ", parameters={"metric": metric, "num_partitions": 2, "num_bits": bits}
        )
        assert lo.fsck(uri, deep=True).ok
    else:
        lance.dataset(uri).create_index("v", "IVF_RQ", metric=metric, num_partitions=2, num_bits=bits)


def peer_search(dataset: lance.LanceDataset, query: np.ndarray) -> dict[int, float]:
    """What the peer finds through the index, with distances."""
    scanner = dataset.scanner(
        columns=["id", "_distance"], nearest={"column": "v", "q": query, "k": 10, "nprobes": 2}
    )
    assert "ANN" in scanner.explain_plan(verbose=True)
    found = scanner.to_table()
    return dict(zip(found["id"].to_pylist(), found["_distance"].to_pylist(), strict=True))
