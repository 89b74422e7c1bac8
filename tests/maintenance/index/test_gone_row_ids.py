"""Row ids that a compaction removes stay in some indices: it is told, and a refresh by the policy helps."""

import tracemalloc

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.index.row_ids import absent_row_ids, present_row_ids
from lance_ops.maintenance.health.verdicts import judge_dataset

ROWS, FRAGMENT, K = 600, 100, 10
POLICY = lo.MaintenancePolicy(max_deleted_ratio=0.0, max_small_fragments=1)
COLUMNS = {"v": "IVF_FLAT", "t": "INVERTED", "i": "BTREE"}


def table() -> pa.Table:
    numbers = np.arange(ROWS)
    vectors = np.stack([numbers, np.zeros(ROWS)], axis=1).astype(np.float32)
    # The rarer a word among others, the higher it scores: those that are deleted come first.
    texts = [" ".join(["storm"] + ["other"] * (abs(number - 200) // 10)) for number in range(ROWS)]
    return pa.table({"i": numbers, "t": texts, "v": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 2)})


def create(path, *, stable: bool, by_peer: bool) -> str:
    uri = str(path / "t.lance")
    lo.write_dataset(table(), uri, max_rows_per_file=FRAGMENT, enable_stable_row_ids=stable)
    if by_peer:
        dataset = lance.dataset(uri)
        dataset.create_index("v", "IVF_FLAT", metric="l2", num_partitions=1)
        dataset.create_scalar_index("t", "INVERTED", with_position=False)
        dataset.create_scalar_index("i", "BTREE")
    else:
        for column, kind in COLUMNS.items():
            lo.create_index(uri, column, kind, parameters={"num_partitions": 1} if column == "v" else {})
    return uri


def found_by_peer(uri: str) -> tuple[int, int]:
    """Rows that the peer returns of `K` that are asked for: by vector, by text."""
    dataset = lance.dataset(uri)
    nearest = {"column": "v", "q": np.array([200, 0], np.float32), "k": K, "nprobes": 1}
    text = {"query": "storm", "columns": ["t"]}
    return (
        dataset.to_table(columns=["i", "_distance"], nearest=nearest).num_rows,
        dataset.to_table(columns=["i", "_score"], full_text_query=text, limit=K).num_rows,
    )


def index_verdict(uri: str):
    return next(item for item in judge_dataset(lo.dataset(uri), POLICY) if item.operation == "index")


@pytest.mark.peer
@pytest.mark.parametrize("by_peer", [False, True])
def test_a_compaction_says_which_indices_are_short_and_the_policy_has_them_refreshed(tmp_path, by_peer):
    uri = create(tmp_path, stable=True, by_peer=by_peer)
    lo.delete(uri, "i BETWEEN 197 AND 203")
    assert found_by_peer(uri) == (K, K)
    assert index_verdict(uri).state == "healthy"

    done = lo.compact(uri)

    assert (done.rows_purged, sorted(done.indices_short)) == (7, ["t_idx", "v_idx"])
    assert sum("too few rows" in line for line in done.remarks()) == 2
    assert min(found_by_peer(uri)) < K
    assert lo.measure_health(lo.dataset(uri), limits=POLICY.wear_limits).short_indices == 2
    verdict = index_verdict(uri)
    assert verdict.state == "due"
    assert verdict.reason.startswith("2 indices with row ids of rows that a compaction removed")

    refreshed = lo.optimize_indices(uri)

    assert refreshed.segments_added == 2
    assert found_by_peer(uri) == (K, K)
    assert index_verdict(uri).state == "healthy"
    assert not lo.optimize_indices(uri).changed


@pytest.mark.parametrize("stable", [False, True])
def test_indices_that_name_no_row_that_is_gone_are_not_short(tmp_path, stable):
    """Addresses are moved, and what was deleted before an index was built is not in it."""
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(table(), uri, max_rows_per_file=FRAGMENT, enable_stable_row_ids=stable)
    if stable:
        lo.delete(uri, "i < 7")
    for column, kind in COLUMNS.items():
        lo.create_index(uri, column, kind, parameters={"num_partitions": 1} if column == "v" else {})
    if not stable:
        lo.delete(uri, "i < 7")
    done = lo.compact(uri)
    assert (done.rows_purged, done.indices_short) == (7, ())
    assert lo.measure_health(lo.dataset(uri), limits=POLICY.wear_limits).short_indices == 0
    assert index_verdict(uri).state == "healthy"


def test_absent_row_ids_are_those_that_no_fragment_has(tmp_path):
    uri = create(tmp_path, stable=True, by_peer=False)
    lo.delete(uri, "i % 3 = 0")
    lo.compact(uri)
    lo.delete(uri, "i % 5 = 0")
    dataset = lo.dataset(uri)
    ids = np.random.default_rng(1).permutation(ROWS).astype(np.uint64)
    expected = ~np.isin(ids, present_row_ids(dataset).addresses())
    assert expected.sum() == ROWS // 3
    assert (absent_row_ids(dataset, ids) == expected).all()


def test_present_row_ids_are_held_as_bitmaps_and_one_fragment_at_a_time(tmp_path):
    """A version of billions of rows is planned for in one process."""
    uri, rows, fragments = str(tmp_path / "t.lance"), 50_000, 20
    values = pa.table({"i": pa.array(np.zeros(rows * fragments, np.int8))})
    lo.write_dataset(values, uri, max_rows_per_file=rows, enable_stable_row_ids=True)
    dataset = lo.dataset(uri)
    tracemalloc.start()
    try:
        present = present_row_ids(dataset)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(present) == rows * fragments
    assert len(present.serialize()) < 1024
    # Of all ids at once: 8 bytes each.
    assert peak < 4 * 8 * rows
