"""IVF_RQ of the peer: its layout, and searches that find as many of the nearest as the peer does."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import CorruptFileError
from lance_ops.index.scored import NearestQuery
from lance_ops.index.vector.quantizer.base import lists_of
from lance_ops.index.vector.quantizer.rq import CODE_COLUMN, RabitQuantizer, rotate
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
    one, other = random.normal(size=(2, dimension)).astype(np.float32)
    # An odd dimension has one value that sums and differences pass over.
    if dimension % 2 == 0 or dimension & (dimension - 1) == 0:
        np.testing.assert_allclose(rotate(one, signs) @ rotate(other, signs), one @ other, atol=1e-3)


def test_a_rotation_by_a_matrix_is_refused() -> None:
    with pytest.raises(CorruptFileError):
        RabitQuantizer.read("l2", {**INFO, "rotate_mat_position": 2}, COLUMNS, "x")


@pytest.mark.peer
@pytest.mark.parametrize(
    ("bits", "dimension", "metric"),
    [(bits, 32 if bits % 2 else 72, "l2") for bits in range(1, 10)]
    + [(5, 40, "cosine"), (5, 40, "dot"), (1, 32, "dot")],
)
def test_as_many_of_the_nearest_are_found_as_by_the_peer(
    tmp_path: Path, bits: int, dimension: int, metric: str
) -> None:
    uri = str(tmp_path / "t")
    table = vector_table(800, dimension=dimension)
    lance.write_dataset(table, uri, max_rows_per_file=500)
    dataset = lance.dataset(uri)
    dataset.create_index("v", "IVF_RQ", metric=metric, num_partitions=2, num_bits=bits)
    ours = theirs = compared = far = 0
    for query in queries(table, 60):
        wanted = {number for number, _ in nearest(table, metric, query, 10)}
        options = {"column": "v", "q": query, "k": 10, "nprobes": 2}
        found = dataset.to_table(columns=["id", "_distance"], nearest=options)
        mine = dict(search(uri, NearestQuery("v", query, k=10, minimum_nprobes=2)))
        ours += len(wanted & mine.keys())
        theirs += len(wanted & set(found["id"].to_pylist()))
        told = dict(zip(found["id"].to_pylist(), found["_distance"].to_pylist(), strict=True))
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
