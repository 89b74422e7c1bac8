"""Segments of pylance in other layouts are used: of distributed builds, not transposed, first generation."""

import struct
import warnings
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.indices import IndicesBuilder
from lance.lance import indices as peer_indices

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning
from lance_ops.index.vector.quantizer.pq import ProductQuantizer
from lance_ops.maintenance.fsck.findings import Severity
from lance_ops.pb import index_pb2

pytestmark = pytest.mark.peer

DIMENSION = 32
VECTORS = np.random.default_rng(1).normal(size=(800, DIMENSION)).astype("float32")
MERGED = ["IVF_FLAT", "IVF_SQ", "IVF_PQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ"]
CASES = [*((kind, True) for kind in MERGED), ("IVF_PQ", False), ("IVF_RQ", False)]


def rows(first: int, stop: int) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS[first:stop].ravel()), DIMENSION)
    return pa.table({"id": range(first, stop), "v": vectors})


def build(uri: str, kind: str, *, merged: bool) -> None:
    """Build an index a fragment at a time, and merge its segments."""
    dataset = lance.write_dataset(rows(0, 600), uri, max_rows_per_file=300)
    builder = IndicesBuilder(dataset, "v")
    ivf = builder.train_ivf(num_partitions=2, distance_type="l2", sample_rate=64)
    options: dict[str, Any] = {"column": "v", "index_type": kind, "num_partitions": 2, "name": "v_idx"}
    options["ivf_centroids"] = ivf.centroids
    if "PQ" in kind:
        codebook = builder.train_pq(ivf, num_subvectors=8, sample_rate=2).codebook
        options |= {"num_sub_vectors": 8, "pq_codebook": codebook}
    if "RQ" in kind:
        model = peer_indices.build_rq_model(dimension=DIMENSION, num_bits=1)
        options |= {"num_bits": 1, "rabitq_model": model}
    segments = [
        dataset.create_index_uncommitted(**options, fragment_ids=[fragment.fragment_id])
        for fragment in dataset.get_fragments()
    ]
    if merged:
        segments = [dataset.merge_existing_index_segments(segments)]
    dataset.commit_existing_index_segments("v_idx", "v", segments)


def check(uri: str, *, codes: bool = True) -> None:
    """Both find the same rows, no query scans for want of an index, and nothing is damage."""
    for number in (7, 123, 456):
        query = {"column": "v", "q": VECTORS[number] + np.float32(0.01), "k": 5, "nprobes": 2}
        for more in ({}, {"refine_factor": 10}) if codes else ({"refine_factor": 40},):
            with warnings.catch_warnings():
                warnings.simplefilter("error", UnreadableIndexWarning)
                found = lo.dataset(uri).to_table(["id"], nearest={**query, **more})
            expected = lance.dataset(uri).to_table(columns=["id", "_distance"], nearest={**query, **more})
            assert found["id"].to_pylist() == expected["id"].to_pylist(), more
            np.testing.assert_allclose(found["_distance"], expected["_distance"], rtol=1e-4, atol=1e-4)
    assert "index v_idx" in lo.dataset(uri).explain(["id"], nearest=query)
    assert lo.fsck(uri, deep=True).ok


def check_history(uri: str, *, codes: bool) -> None:
    check(uri, codes=codes)
    lo.append(uri, rows(600, 800))
    done = lo.optimize_indices(uri, merge_segments=9)
    assert not done.skipped
    # What is read again and assigned anew may lie in another partition of ours: codes are compared no more.
    check(uri, codes=False)
    lo.delete(uri, "id % 5 = 1")
    lo.compact(uri, materialize_deletions_threshold=0.0)
    (item,) = lo.describe_indices(lo.dataset(uri))
    assert item.num_rows_unindexed == 0
    check(uri, codes=False)
    lance.dataset(uri).optimize.optimize_indices()
    check(uri, codes=False)


@pytest.mark.parametrize(("kind", "merged"), CASES)
def test_segments_of_a_distributed_build_are_used_and_kept_up(
    tmp_path: Path, kind: str, merged: bool
) -> None:
    uri = str(tmp_path / "t.lance")
    build(uri, kind, merged=merged)
    # The peer estimates by bytes, or looks through a graph.
    check_history(uri, codes="RQ" not in kind and "HNSW" not in kind)


@pytest.mark.parametrize("options", [{"num_bits": 1}, {"num_bits": 4}, {}], ids=str)
def test_codes_that_are_not_transposed_are_used_and_kept_up(tmp_path: Path, options: dict[str, int]) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 600), uri)
    untransposed = {"num_partitions": 2, "name": "v_idx", "skip_transpose": True}
    lance.dataset(uri).create_index("v", "IVF_RQ", **untransposed, **options)
    check_history(uri, codes=False)


@pytest.mark.parametrize(("metric", "stable"), [("l2", False), ("cosine", True), ("dot", False)])
def test_a_segment_of_the_first_generation_is_used_and_kept_up(
    tmp_path: Path, metric: str, *, stable: bool
) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 600), uri, max_rows_per_file=300, enable_stable_row_ids=stable)
    options = {"num_partitions": 2, "num_sub_vectors": 8, "metric": metric}
    lance.dataset(uri).create_index("v", "IVF_PQ", name="v_idx", index_file_version="Legacy", **options)
    assert not any(Path(uri, "_indices").glob("*/auxiliary.idx"))
    check_history(uri, codes=True)


@pytest.mark.parametrize("transposed", [True, False])
def test_codes_in_either_order_lie_in_one_segment(*, transposed: bool) -> None:
    codebook = np.random.default_rng(1).normal(size=(8, 256, 4)).astype("float32")
    one = ProductQuantizer("l2", codebook, transposed=transposed)
    assert one.equals(ProductQuantizer("l2", codebook, transposed=not transposed))
    assert not one.equals(ProductQuantizer("l2", codebook[:4], transposed=transposed))
    assert not one.equals(ProductQuantizer("l2", codebook + 1, transposed=transposed))


def test_what_is_not_supported_of_the_first_generation_is_no_damage(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 600), uri)
    options = {"num_partitions": 2, "num_sub_vectors": 8, "index_file_version": "Legacy"}
    lance.dataset(uri).create_index("v", "IVF_PQ", name="v_idx", **options)
    path = next(Path(uri, "_indices").glob("*/index.idx"))
    data = path.read_bytes()
    (position,) = struct.unpack("<q", data[-16:-8])
    message = index_pb2.Index.FromString(data[position + 4 : -16])
    message.vector_index.stages[0].transform.type = index_pb2.OPQ
    body = message.SerializeToString()
    path.write_bytes(data[:position] + struct.pack("<I", len(body)) + body + data[-16:])
    query = {"column": "v", "q": VECTORS[7], "k": 5}
    with pytest.warns(UnreadableIndexWarning, match="not supported"):
        found = lo.dataset(uri).to_table(["id"], nearest=query)["id"].to_pylist()
    assert found == lo.dataset(uri).to_table(["id"], nearest={**query, "use_index": False})["id"].to_pylist()
    findings = lo.fsck(uri, deep=True).findings
    (finding,) = (item for item in findings if item.check == "indices_readable")
    assert finding.severity is Severity.WARNING
    assert "not supported" in finding.message
    # Cut off, it is damage.
    path.write_bytes(data[position:-16] + data[-16:])
    assert not lo.fsck(uri).ok
