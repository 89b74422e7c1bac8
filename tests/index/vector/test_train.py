"""Training: where centroids begin decides which groups of vectors share one."""

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.index.vector import train

GROUPS, OF_EACH, DIMENSION = 48, 40, 16


def grouped(seed: int) -> np.ndarray:
    """Vectors in groups that lie far from each other, in any order."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(GROUPS, DIMENSION)) * 10
    vectors = np.repeat(centers, OF_EACH, axis=0) + rng.normal(size=(GROUPS * OF_EACH, DIMENSION)) * 0.1
    return rng.permutation(vectors).astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_each_group_of_vectors_gets_a_partition_of_its_own(tmp_path, seed):
    uri = str(tmp_path / "t.lance")
    values = pa.FixedSizeListArray.from_arrays(grouped(seed).ravel(), DIMENSION)
    lo.write_dataset(pa.table({"v": values}), uri)
    lo.create_index(uri, "v", "IVF_FLAT", parameters={"num_partitions": GROUPS})
    (wear,) = lo.measure_wear(lo.dataset(uri))
    assert wear.fit is not None
    # As even as partitions can be: each has the rows of one group.
    assert wear.fit.imbalance == pytest.approx(1.0)


def test_first_centroids_are_vectors_and_no_two_of_one_group(monkeypatch):
    vectors = grouped(4)
    for least, most in ((4, 1 << 14), (2, 1)):
        monkeypatch.setattr(train, "_SPREAD_LEAST", least)
        monkeypatch.setattr(train, "_SPREAD_MOST", most)
        chosen = train._spread_out(vectors, 12, seed=1)
        assert (np.abs(vectors[:, None] - chosen).sum(axis=2) == 0).any(axis=0).all()
        apart = np.linalg.norm(chosen[:, None] - chosen, axis=2) + np.eye(12) * 100
        assert apart.min() > 1


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_vectors_that_are_all_alike_but_a_few_are_trained_from(tmp_path, metric):
    """Fewer distinct ones than there are to be centroids: the distance of all others is zero."""
    uri = str(tmp_path / "t.lance")
    vectors = np.ones((600, 4), np.float32)
    vectors[:3] = [[1, 2, 3, 4], [4, 3, 2, 1], [0, 1, 0, 1]]
    values = pa.FixedSizeListArray.from_arrays(vectors.ravel(), 4)
    lo.write_dataset(pa.table({"v": values, "i": range(600)}), uri)
    lo.create_index(
        uri, "v", "IVF_PQ", parameters={"num_partitions": 8, "num_sub_vectors": 2, "metric": metric}
    )
    nearest = {"column": "v", "q": vectors[1], "k": 5, "nprobes": 8, "refine_factor": 200}
    found = lo.dataset(uri).to_table(columns=["i", "_distance"], nearest=nearest)
    assert found.num_rows == 5
    assert lo.fsck(uri, deep=True).ok
